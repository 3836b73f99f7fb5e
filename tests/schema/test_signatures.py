"""What can be registered at all, and what is said where something cannot (C3)."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import attrs
import pytest

from trio_mcp import Context, Registry
from trio_mcp.schema import SchemaError

pytestmark = pytest.mark.requirement("C3")


@attrs.frozen
class Trip:
    to: str = "Graz"

    def book(self, seats: int = 1) -> int:
        return seats

    def named(self: Any) -> str:
        return "named"

    @classmethod
    def none(cls) -> str:
        return "none"


class Yielding:
    def __call__(self) -> Iterator[int]:
        yield 1


def count() -> Iterator[int]:
    yield 1


async def stream() -> AsyncIterator[int]:
    yield 1


def self_as_argument(self, other: int = 1):  # type: ignore[no-untyped-def]  # in no class
    return other


REFUSED: list[tuple[Any, str]] = [
    (5, "5 cannot be called; register a function"),
    (None, "None cannot be called"),
    ("add", "'add' is a text, not a function; if it is meant as a name, write name='add'"),
    (Trip, "the class Trip is not a function; register a function that makes and returns one"),
    (count, "function 'count' yields, but a request has one answer; .*return a list"),
    (stream, "function 'stream' yields"),
    (functools.partial(stream), "function 'stream' yields"),
    (Yielding(), "function 'Yielding' yields"),
]


@pytest.mark.parametrize(("function", "words"), REFUSED)
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "completion"])
def test_what_is_no_function_that_answers(kind: str, function: Any, words: str) -> None:
    registry = Registry("test")
    registry.add_prompt(lambda topic: "x", name="known")
    add: dict[str, Callable[[], Any]] = {
        "tool": lambda: registry.add_tool(function, name="it"),
        "prompt": lambda: registry.add_prompt(function, name="it"),
        "resource": lambda: registry.add_resource("a:b", function),
        "completion": lambda: registry.completion(prompt="known", argument="topic")(function),
    }
    with pytest.raises(SchemaError, match=words):
        add[kind]()
    assert not registry.tools
    assert not registry.resources
    assert list(registry.prompts) == ["known"]


def test_decorators_without_what_they_need() -> None:
    registry = Registry("test")
    with pytest.raises(SchemaError, match="write name='add'"):
        registry.tool("add")  # type: ignore[type-var]
    with pytest.raises(SchemaError, match="a resource needs a URI: write @registry"):
        registry.resource(lambda: "x")  # type: ignore[arg-type]


async def test_methods_are_bound() -> None:
    registry = Registry("test")
    with pytest.raises(SchemaError, match=r"method of Trip .* register .* Trip\(\.\.\.\)\.book"):
        registry.add_tool(Trip.book)
    with pytest.raises(SchemaError, match="function 'book': it is a method of Trip"):
        registry.add_tool(Trip.book, input_schema={"type": "object"})
    registry.add_tool(Trip().book)
    registry.add_tool(functools.partial(Trip.book, Trip()), name="partial")
    registry.add_tool(Trip.none)
    registry.add_tool(Trip.named)
    registry.add_tool(self_as_argument)
    assert await registry.call("book", {"seats": 2}) == 2
    assert await registry.call("partial", {"seats": 3}) == 3
    assert await registry.call("self_as_argument", {"self": 1}) == 1


def test_there_is_one_context() -> None:
    async def use(one: Context, two: Context | None) -> None: ...

    with pytest.raises(SchemaError, match=r"Tool 'use': .*the parameters 'one' and 'two' are both"):
        Registry("test").add_tool(use)
