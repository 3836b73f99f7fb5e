"""Defaults are what callers could have sent."""

import dataclasses
import datetime
import enum
import pathlib
from typing import Annotated, Any, Literal

import attrs
import pytest
from annotated_types import Ge

from trio_mcp import Registry
from trio_mcp.schema import SchemaError
from trio_mcp.schema.parameters import Array, Integer, Parameter

pytestmark = pytest.mark.requirement("C3")


class Colour(enum.Enum):
    RED = "red"


@attrs.frozen
class Node:
    """Refers to itself, so that its schema is a definition."""

    size: int = 1
    next: "Node | None" = None


def registered(annotation: Any, default: Any) -> Any:
    """The schema of a parameter of that annotation and default."""

    def use(x: Any = default) -> None: ...

    use.__annotations__["x"] = annotation
    return Registry("test").add_tool(use).description.input_schema["properties"]["x"]


MISSING = object()


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (int, 7),
        (float, 7),
        (float, float("inf")),
        (int, MISSING),
        (Any, None),
        (int | None, None),
        (Node | None, None),
        (Literal["a", 1, None], None),
        (Literal["a", "b"], "b"),
        (Colour, Colour.RED),
        (Node, Node(2, Node())),
        (list[Node], (Node(),)),
        (set[int], frozenset({1})),
        (tuple[int, ...], ()),
        (dict[str, int], {}),
        (datetime.date, datetime.date(2030, 1, 31)),
        (pathlib.Path, pathlib.Path("a")),
        (bytes, b"a"),
        (Annotated[int, Ge(1)], 1),
    ],
)
def test_defaults_that_fit(annotation: Any, default: Any) -> None:
    assert isinstance(registered(annotation, default), dict)


@pytest.mark.parametrize(
    ("annotation", "default", "words"),
    [
        (int, "seven", r"the default must be an integer, but a string came \('seven'\)"),
        (int, True, "the default must be an integer, but a boolean came"),
        (Literal["a", "b"], "c", "the default must be one of 'a' or 'b'"),
        (Annotated[int, Ge(1)], 0, "the default must be at least 1"),
        (list[int], ["x"], r"default '\[0\]' must be an integer"),
        (Node, Node("x"), "default 'size' must be an integer"),  # type: ignore[arg-type]
        (int, None, "its default is None, .* annotate it `int | None`"),
        (list[int], None, r"annotate it `list\[int\] | None`"),
        (Annotated[int, Ge(1)], None, "annotate it `int | None`"),
        (Node, None, "annotate it `Node | None`"),
        (int, dataclasses.field(default=1), "a Field would be its default"),
    ],
)
def test_defaults_that_do_not_fit(annotation: Any, default: Any, words: str) -> None:
    with pytest.raises(SchemaError, match="Tool 'use': function 'use', parameter 'x': ") as refused:
        registered(annotation, default)
    refused.match(words.replace("` | ", "` \\| ").replace(" | None`", " \\| None`"))


def test_defaults_of_declared_parameters() -> None:
    def use(x: Any = None) -> None: ...

    registry = Registry("test")
    for default in (7, None):
        registry.add_tool(use, parameters=[Parameter("x", Integer(), default=default)])
        registry.remove_tool("use")
    for kind, default in ((Integer(), "seven"), (Array(Integer()), [None])):
        with pytest.raises(SchemaError, match=r"parameter 'x': .*default.* must be an integer"):
            registry.add_tool(use, parameters=[Parameter("x", kind, default=default)])


def test_prompts_and_templates_have_defaults_too() -> None:
    def use(x: int = "seven") -> str:  # type: ignore[assignment]
        return ""

    registry = Registry("test")
    with pytest.raises(SchemaError, match=r"Prompt 'use': .*the default must be an integer"):
        registry.add_prompt(use)
    with pytest.raises(SchemaError, match=r"Resource 'a:\{x\}': .*the default must be an integer"):
        registry.add_resource("a:{x}", use)
