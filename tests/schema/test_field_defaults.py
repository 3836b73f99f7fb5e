"""Pydantic's `Field(…)` as a default: what it says of the parameter, and the value in each call."""

# ruff: noqa: B008  # that is what this is about

import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import pytest
from pydantic import Field

from tests.aio.support import in_asyncio
from trio_mcp import Depends, McpError, Registry, TextContent, aio, connect
from trio_mcp.schema import SchemaError
from trio_mcp.schema.parameters import Integer, Parameter

pytestmark = pytest.mark.requirement("C2")


MISSING: Any = object()
"""A default that JSON does not have."""


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    return Registry("test").add_tool(function).description.input_schema


def test_it_is_read_as_if_it_stood_in_the_annotation() -> None:
    def written(
        title: str = Field(description="Its title.", examples=["Emma"]),
        copies: Annotated[int, Field(ge=1, description="Copies.")] = Field(2, le=9),
        words: list[str] = Field(default_factory=list, max_length=3),
        place: str | None = Field(None, description="Where."),
        kind: Annotated[str, Field("new", description="Its kind.")] = "old",
        year: Annotated[int, Field(1815)] = Field(description="When."),
    ) -> None: ...

    def meant(
        title: Annotated[str, {"description": "Its title.", "examples": ["Emma"]}],
        copies: Annotated[int, {"minimum": 1, "maximum": 9}, "Copies."] = 2,
        words: Annotated[list[str], {"maxItems": 3}] = MISSING,
        place: Annotated[str | None, "Where."] = None,
        kind: Annotated[str, "Its kind."] = "old",
        year: Annotated[int, "When."] = 1815,
    ) -> None: ...

    assert schema_of(written) == schema_of(meant)
    assert schema_of(written)["required"] == ["title"]


def plain(
    name: str = Field(), copies: int = Field(1, ge=1), words: list[str] = Field(["a"])
) -> list[Any]:
    words.append("b")
    return [name, copies, words]


async def later(
    name: str = Field(), copies: int = Field(1, ge=1), words: list[str] = Field(["a"])
) -> list[Any]:
    return plain(name, copies, words)


@pytest.mark.parametrize("function", [plain, later])
async def test_each_call_has_values_of_its_own(function: Callable[..., Any]) -> None:
    registry = Registry("test")
    registry.add_tool(function, name="call")
    for _ in range(2):
        assert await registry.call("call", {"name": "x"}) == ["x", 1, ["a", "b"]]
    called = await registry.call("call", {"name": "x", "copies": 2, "words": []})
    assert called == ["x", 2, ["b"]]
    for wrong in ({}, {"name": "x", "copies": 0}):
        with pytest.raises(McpError, match=r"name|copies"):
            await registry.call("call", wrong)


@in_asyncio
async def test_in_the_registry_for_asyncio() -> None:
    registry = aio.Registry("test")
    registry.add_tool(later)
    for _ in range(2):
        assert await registry.call("later", {"name": "x"}) == ["x", 1, ["a", "b"]]


async def test_whatever_is_registered_has_them() -> None:
    registry = Registry("test")
    made = iter("abc")

    async def connection(size: int = Field(3)) -> AsyncIterator[int]:
        yield size

    def letter(which: str = Field(default_factory=lambda: next(made))) -> str:
        return which

    @registry.tool
    async def used(
        size: int = Depends(connection), which: str = Depends(letter), more: int = Field(4)
    ) -> str:
        return f"{size} {which} {more}"

    @registry.resource("shop://one")
    def one(copies: int = Field(1)) -> str:
        return f"one {copies}"

    @registry.resource("shop://one/{copies}")
    async def some(copies: int = Field(1), words: str = Field("of them")) -> str:
        return f"{copies} {words}"

    @registry.prompt
    def review(book: str = Field(description="Which."), sentences: int = Field(3)) -> str:
        return f"{sentences} about {book}"

    async with connect(registry) as client:
        assert (await client.call_tool("used")).text == "3 a 4"
        assert (await client.call_tool("used")).text == "3 b 4"
        assert (await client.read_resource("shop://one")).text == "one 1"
        assert (await client.read_resource("shop://one/2")).text == "2 of them"
        prompt = await client.get_prompt("review", {"book": "Emma"})
        assert prompt.messages[0].content == TextContent("3 about Emma")
        argument = (await client.list_prompts())[0].arguments[0]
        assert (argument.description, argument.required) == ("Which.", True)


async def test_with_a_schema_of_ones_own() -> None:
    registry = Registry("test")
    declared = [Parameter("name", Integer())]
    schema = {"type": "object", "properties": {"name": {}}, "required": ["name"]}
    registry.add_tool(plain, name="declared", parameters=declared)
    registry.add_tool(plain, name="given", input_schema=schema)
    for name in ("declared", "given"):
        assert await registry.call(name, {"name": 1}) == [1, 1, ["a", "b"]]


@pytest.mark.parametrize(
    ("annotation", "field", "words"),
    [
        (int, Field(0, ge=1), "the default must be at least 1"),
        (int, Field("x"), "the default must be an integer"),
        (int, Field(None), "its default is None, .* annotate it `int . None`"),
        (int, Field(1, alias="X"), "the alias 'X' would be lost; rename the parameter"),
        (int, Field(default_factory=lambda others: 1), "takes the other arguments"),
        (Annotated[int, Field(alias="X")], 1, "the alias 'X' would be lost"),
    ],
)
def test_what_cannot_be(annotation: Any, field: Any, words: str) -> None:
    def use(x: Any = field) -> None: ...

    use.__annotations__["x"] = annotation
    with pytest.raises(SchemaError, match=f"function 'use', parameter 'x': .*{words}"):
        schema_of(use)


def test_pydantic_is_not_imported_for_others() -> None:
    source = "import sys, trio_mcp\ndef use(x: int = 1) -> int: ...\n"
    source += "trio_mcp.Registry('x').add_tool(use)\nsys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == 0
