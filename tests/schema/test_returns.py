"""Return annotations: what could never be told in JSON is refused (B5, C3)."""

from __future__ import annotations

import abc
import collections
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, TypeVar

import attrs
import pytest
import trio
from pydantic import BaseModel

from trio_mcp import CallToolResult, Registry, TextContent, connect
from trio_mcp.schema import SchemaError, describe_function

if typing.TYPE_CHECKING:
    from somewhere import Elsewhere


class Model(BaseModel):
    a: int


@attrs.frozen
class Holder:
    lock: trio.Lock


@attrs.frozen
class Deep:
    holder: Holder


@attrs.frozen
class Node:
    next: list[Node]


@attrs.frozen
class Unresolved:
    where: Elsewhere


class Shape:
    """A class whose subclasses have a form."""


@attrs.frozen
class Circle(Shape):
    radius: float


@attrs.frozen
class Failure(Exception):
    """Gives what is an `Exception` a form, whatever else has been imported."""

    code: int


class Abstract(abc.ABC):
    @abc.abstractmethod
    def area(self) -> float: ...


class Sized(Protocol):
    size: int


T = TypeVar("T")


def giving(annotation: Any) -> Any:
    def give() -> None: ...

    give.__annotations__["return"] = annotation
    return give


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    ("annotation", "named"),
    [
        (complex, "complex"),
        (list[complex], "complex"),
        (int | complex, "complex"),
        (list[list[Annotated[complex, "x"]]], "complex"),
        (tuple[int, complex], "complex"),
        (list[trio.Lock], "Lock"),
        (list[Deep], "Lock"),
        (trio.Lock, "Lock"),
    ],
)
def test_what_has_no_json_form(annotation: Any, named: str) -> None:
    words = f"Tool 'give': function 'give', return annotation: {named} has no JSON form; a tool ret"
    with pytest.raises(SchemaError, match=words):
        Registry("test").add_tool(giving(annotation))


@pytest.mark.requirement("B5")
@pytest.mark.parametrize("annotation", [bytes, bytearray, bytes | None, Annotated[bytes, "x"]])
def test_bytes_alone_do_not_say_what_they_are(annotation: Any) -> None:
    words = r"function 'give', return annotation: bytes alone .*; return ImageContent\(data, "
    with pytest.raises(SchemaError, match=words):
        Registry("test").add_tool(giving(annotation))


@pytest.mark.requirement("B5")
@pytest.mark.parametrize(
    "annotation",
    [
        None,
        Any,
        object,
        typing.NoReturn,
        T,
        str,
        list[Any],
        list[Node],
        list[Unresolved],
        Shape,
        Abstract,
        Sized,
        Sequence[int],
        Mapping,
        typing.Mapping,
        Iterator[int],
        collections.OrderedDict,
        collections.deque[int],
        list[bytes],
        range,
        Literal["a", 1],
        Node | None,
        list[TextContent],
        CallToolResult,
        Exception,
    ],
)
def test_what_may_have_one(annotation: Any) -> None:
    assert Registry("test").add_tool(giving(annotation)).name == "give"


@pytest.mark.requirement("B5")
@pytest.mark.parametrize("annotation", [list[Any], list, list[Any] | None, list[Any] | str])
async def test_a_list_of_anything_may_be_one_of_content_blocks(annotation: Any) -> None:
    registry = Registry("test")

    def give() -> Any:
        return [TextContent("hi"), TextContent("ho")]

    give.__annotations__["return"] = annotation
    registry.add_tool(give)
    async with connect(registry) as client:
        assert client.tools["give"].output_schema is None
        assert [each.text for each in (await client.call_tool("give")).content] == ["hi", "ho"]


@pytest.mark.requirement("B5")
@pytest.mark.parametrize(
    ("annotation", "lists"),
    [
        (list[TextContent], True),
        (list[TextContent | str], True),
        (Sequence[TextContent], True),
        (tuple[TextContent, ...], True),
        (Annotated[list[TextContent], "x"], True),
        (list[TextContent] | None, True),
        (TextContent, False),
        (dict[str, TextContent], False),
        (list[str], False),
        (list, False),
    ],
)
def test_lists_of_results_are_known(annotation: Any, lists: bool) -> None:
    described = describe_function(giving(annotation), result_types={TextContent})
    assert described.lists_results is lists


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (trio.Lock, "parameter 'x': the class Lock has no JSON Schema; use str"),
        (trio.Event, "parameter 'x': the class Event has no JSON Schema"),
        (list[Deep], "parameter 'x': field 'holder' of Deep: field 'lock' of Holder: the class L"),
        (trio.CancelScope, "of class CancelScope cannot be resolved .* may be no data"),
    ],
)
def test_live_objects_are_no_arguments(annotation: Any, words: str) -> None:
    def use(x: Any) -> None: ...

    use.__annotations__["x"] = annotation
    with pytest.raises(SchemaError, match=f"Tool 'use': function 'use', .*{words}"):
        Registry("test").add_tool(use)
