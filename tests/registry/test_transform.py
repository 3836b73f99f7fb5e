"""What is mounted can have other names, texts and arguments, or not appear (L4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Annotated, Any, Literal

import pytest

from tests.registry.elsewhere import Elsewhere
from tests.support.client import MODERN
from trio_mcp import (
    ArgumentTransform,
    Context,
    McpError,
    Registry,
    SchemaError,
    ToolDescription,
    Transform,
    connect,
)
from trio_mcp.compose import forwarded_entry
from trio_mcp.registry import catalogue_of

pytestmark = pytest.mark.requirement("L4")


def part_with(*functions: Any, **options: Any) -> Registry:
    part = Registry("part", **options)
    for function in functions:
        part.add_tool(function)
    return part


async def book(
    where: str, day: date, seats: list[int], units: Literal["km", "miles"] = "km"
) -> dict[str, Any]:
    """Book a trip.

    Args:
        where: The place.
        day: The day.
    """
    seats.append(0)  # its own, whatever the next call gets
    return {"where": where, "day": day.isoformat(), "seats": seats, "units": units}


class Name(str):
    """Text that no JSON object can have as a key, where orjson writes it."""


CHANGED = Transform(
    name="trip",
    title="Trip",
    description="Go somewhere.",
    annotations={"readOnlyHint": True},
    meta={"com.example/rank": 1},
    arguments={
        "where": ArgumentTransform(name="place", description="A town."),
        "day": ArgumentTransform(name="when"),
        "seats": ArgumentTransform(default=[7]),
        "units": ArgumentTransform(value="miles"),
    },
)


@pytest.mark.parametrize("levels", [1, 2])
async def test_a_tool_with_other_names_texts_and_arguments(levels: int) -> None:
    registry = Registry("house")
    registry.mount(part_with(book, tool_timeout=3.0), "p", tools={"book": CHANGED})
    name = "p_trip"
    if levels == 2:
        outer = Registry("outer")
        again = {"where": "place", "day": "when"}
        back = {new: ArgumentTransform(name=old) for old, new in again.items()}
        back |= {"seats": ArgumentTransform(value=[7])}
        outer.mount(registry, tools={"p_trip": Transform(name="book", arguments=back)})
        registry, name = outer, "book"
    shown = registry.tools[name].description
    assert (shown.title, shown.description) == ("Trip", "Go somewhere.")
    assert shown.meta == {"com.example/rank": 1, "trio-mcp/timeout": 3.0}
    names = ("place", "when") if levels == 1 else ("where", "day")
    assert [*shown.input_schema["properties"]][:2] == [*names]
    assert shown.input_schema["required"] == [*names]
    assert shown.input_schema["properties"][names[0]]["description"] == "A town."
    arguments = dict(zip(names, ("Rome", "2030-01-02"), strict=True))
    expected = {"where": "Rome", "day": "2030-01-02", "seats": [7, 0], "units": "miles"}
    async with connect(registry) as client:
        for _ in range(2):
            assert (await client.call_tool(name, arguments, returns=dict)) == expected
            assert await registry.call(name, arguments) == expected
        late = {**arguments, names[1]: "2030-13-13"}
        failed = (await client.call_tool(name, late)).error or ""
        assert f"'{names[1]}'" in failed
        for hidden in ("units", "nowhere"):
            params = {"name": name, "arguments": {**arguments, hidden: "km"}}
            result = await client.request("tools/call", params)
            assert result["isError"], hidden


async def test_arguments_that_change_places() -> None:
    async def subtract(a: int, b: int) -> int:
        return a - b

    registry = Registry("house")
    arguments = {"a": ArgumentTransform(name="b"), "b": ArgumentTransform(name="a")}
    registry.mount(part_with(subtract), tools={"subtract": Transform(arguments=arguments)})
    assert await registry.call("subtract", {"a": 1, "b": 10}) == 9


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        ({"arguments": {"were": ArgumentTransform()}}, "no argument 'were'; did you mean 'where'?"),
        ({"arguments": {"where": ArgumentTransform(value=7)}}, "Argument 'where' must be a string"),
        ({"arguments": {"seats": ArgumentTransform(default="x")}}, "'seats' must be an array"),
        ({"arguments": {"where": ArgumentTransform(name="day")}}, "two arguments 'day'"),
        ({"arguments": {"where": ArgumentTransform(name="")}}, "'where' needs a name"),
        ({"arguments": {"where": ArgumentTransform(value="x", name="y")}}, "'where' is fixed"),
        ({"arguments": {"where": "place"}}, "'where' needs an ArgumentTransform, not 'place'"),
        ({"arguments": ["where"]}, "arguments must be a dict"),
        ({"name": "a b"}, "Tool name 'a b' is not valid"),
        ({"description": 7}, "description"),
        ({"annotations": {"readOnly": True}}, "annotations"),
        ({"meta": {"x": object()}}, "meta cannot be sent as JSON"),
    ],
)
def test_mistakes_are_told_when_it_is_mounted(transform: Any, said: str) -> None:
    registry, part = Registry("house"), part_with(book)
    with pytest.raises(SchemaError) as refused:
        registry.mount(part, tools={"book": Transform(**transform)})
    assert said in str(refused.value)
    assert "book" in str(refused.value)
    assert not registry.tools
    assert not catalogue_of(part).followers


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tools": {"bok": None}}, "'part' has no tool 'bok'; did you mean 'book'?"),
        ({"prompts": {"book": None}}, "'part' has no prompt 'book'"),
        ({"resources": {"x:y": Transform()}}, "'part' has no resource 'x:y'"),
        ({"only": ["book", "boat"]}, "'part' has no tool, resource or prompt 'boat'"),
        ({"only": "book"}, "put it in brackets"),
        ({"tools": ["book"]}, "tools must be a dict"),
        ({"tools": {"book": "trip"}}, "needs a Transform, or None to hide it, not 'trip'"),
    ],
)
def test_what_is_not_there_cannot_be_shown_otherwise(options: Any, said: str) -> None:
    with pytest.raises(SchemaError) as refused:
        Registry("house").mount(part_with(book), **options)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"dependentRequired": {"a": ["b"]}},
        {"properties": {"a": {"type": "string"}, "b": {"$ref": "#/properties/a"}}},
    ],
)
def test_schemas_that_speak_of_arguments_elsewhere(schema: Any) -> None:
    async def both(a: str = "", b: str = "") -> None: ...

    part = Registry("part")
    whole = {"type": "object", "properties": {"a": {}, "b": {}}, **schema}
    part.add_tool(both, input_schema=whole)
    arguments = {"a": ArgumentTransform(name="c")}
    with pytest.raises(SchemaError, match="can be neither renamed nor fixed"):
        Registry("house").mount(part, tools={"both": Transform(arguments=arguments)})
    texts = {"a": ArgumentTransform(description="The first.")}
    Registry("house").mount(part, tools={"both": Transform(arguments=texts)})


async def test_choosing_and_hiding() -> None:
    part = part_with(book)
    part.add_tool(both_ways)

    async def text() -> str:
        return "x"

    part.add_resource("x:one", text)
    part.add_resource("x:{id}", by_id)
    part.add_prompt(text, name="book")
    few, rest = Registry("few"), Registry("rest")
    few.mount(part, only=["book", "x:one"])
    assert [*few.tools, *few.prompts, *few.resources] == ["book", "book", "x:one"]
    assert not few.resource_templates
    rest.mount(
        part,
        "r",
        tools={"book": None},
        prompts={"book": Transform(name="read", title="Read")},
        resources={"x:one": None, "x:{id}": Transform(name="each", description="One of them.")},
    )
    assert [*rest.tools, *rest.prompts] == ["r_both_ways", "r_read"]
    assert rest.prompts["r_read"].description.title == "Read"
    assert not rest.resources
    assert rest.resource_templates["x:r/{id}"].description.name == "each"
    part.add_tool(text, name="later")
    assert "later" not in few.tools
    assert "r_later" in rest.tools
    with pytest.raises(McpError):
        await rest.call("r_book")


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (ArgumentTransform(name=""), "argument 'where' needs a name, not ''"),
        (ArgumentTransform(name="\ud800"), "argument 'where' needs a name"),
        (ArgumentTransform(name=Name("place")), "argument 'where' needs a name"),
        (ArgumentTransform(description=5), "description of argument 'where' must be a text, not 5"),  # type: ignore[arg-type]
    ],
)
def test_how_arguments_appear_can_be_sent(argument: ArgumentTransform, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Registry("house").mount(
            part_with(book), tools={"book": Transform(arguments={"where": argument})}
        )


def test_only_is_a_list() -> None:
    with pytest.raises(SchemaError, match="only must be a list"):
        Registry("house").mount(part_with(book), only=5)  # type: ignore[arg-type]


async def both_ways(x: Annotated[int, "A number."] = 1) -> int:
    return x


async def by_id(id: str, context: Context) -> str:
    return f"{id} {context.tool}"


async def test_what_appears_later_is_transformed_then() -> None:
    part, registry = Elsewhere(), Registry("house")
    arguments = {
        "text": ArgumentTransform(name="words"),
        "loud": ArgumentTransform(value=True),
    }
    registry.mount(
        part,
        "far",
        tools={
            "echo": Transform(arguments={"text": arguments["text"]}),
            "shout": Transform(arguments=arguments),
            "never": None,
        },
    )
    async with connect(registry, revision=MODERN[-1]) as client:
        result = await client.request(
            "tools/call", {"name": "far_echo", "arguments": {"words": "hi", "more": 1}}
        )
        assert result["content"][0]["text"] == "hi"
        assert part.sent[-1][1]["arguments"] == {"text": "hi", "more": 1}
        old = {"name": "far_echo", "arguments": {"text": "hi"}}
        refusal = await client.request("tools/call", old)
        assert refusal["isError"]
        assert "There is no argument 'text'" in refusal["content"][0]["text"]
        shout = forwarded_entry(ToolDescription("shout", {"type": "object"}), part.echo)
        (refused,) = await part.replace("tools", [part.tool("echo"), shout])
        assert "Tool 'shout': it has no argument 'text'" in str(refused)
        assert list(registry.tools) == ["far_echo"]


async def test_who_sees_what_is_for_the_part_to_say() -> None:
    asked: list[Any] = []

    def visible(shown: Any, context: Context) -> bool:
        asked.append((shown.name, context.lifespan))
        return bool(shown.name != "book")

    @asynccontextmanager
    async def lifespan(registry: Registry) -> AsyncIterator[str]:
        yield "its own"

    part = part_with(book, both_ways, visible=visible, lifespan=lifespan)
    registry = Registry("house")
    registry.mount(part, "p")
    async with connect(registry) as client:
        assert list(client.tools) == ["p_both_ways"]
        with pytest.raises(McpError, match="Unknown tool: p_book"):
            await client.request("tools/call", {"name": "p_book", "arguments": {}})
    assert set(asked) == {("book", "its own"), ("both_ways", "its own")}
