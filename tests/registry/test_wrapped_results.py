"""Results that are not objects, in revisions whose structured content is always one."""

from typing import Any

import attrs
import pytest

from tests.support.client import LEGACY, MODERN, serving
from trio_mcp import CallToolResult, Registry, Remote, TextContent, connect
from trio_mcp.errors import ProtocolError
from trio_mcp.schema.returns import wrapped
from trio_mcp.wire.jsonrpc import Json

pytestmark = pytest.mark.requirement("Q8")

OBJECTS_ONLY = LEGACY[2:]
MARK = {"required": ["result"], "x-fastmcp-wrap-result": True}


@attrs.frozen
class Tree:
    name: str
    below: "list[Tree]" = attrs.field(factory=list)


def registry() -> Registry:
    made = Registry("test")

    @made.tool
    async def three() -> int:
        return 3

    @made.tool
    async def forest() -> list[Tree]:
        return [Tree("oak", [Tree("mistletoe")])]

    @made.tool
    async def maybe(number: int) -> dict[str, int] | None:
        return {"result": number} if number else None

    @made.tool
    async def fail() -> int:
        return CallToolResult([TextContent("no")], is_error=True)  # type: ignore[return-value]

    return made


def value_of(result: dict[str, Json]) -> Json:
    return result["structuredContent"]


@pytest.mark.parametrize("revision", [*OBJECTS_ONLY, *MODERN])
async def test_a_value_stands_in_an_object_where_the_revision_has_no_other(revision: str) -> None:
    async with serving(registry(), revision=revision) as (client, _):
        tools = (await client.request("tools/list"))["result"]["tools"]
        results = [
            (await client.call(name, **arguments))["result"]
            for name, arguments in (
                *(("three", {}), ("forest", {})),
                *(("maybe", {"number": 0}), ("maybe", {"number": 2})),
            )
        ]
        failure = (await client.call("fail"))["result"]
    schema, values = tools[0]["outputSchema"], [value_of(result) for result in results]
    trees = [{"name": "oak", "below": [{"name": "mistletoe", "below": []}]}]
    if revision in MODERN:
        assert schema == {"type": "integer"}
        assert values == [3, trees, None, {"result": 2}]
    else:
        assert schema == {"type": "object", "properties": {"result": {"type": "integer"}}, **MARK}
        assert values == [{"result": value} for value in (3, trees, None, {"result": 2})]
    assert results[0]["content"] == [{"type": "text", "text": "3"}]
    assert "structuredContent" not in failure


@pytest.mark.parametrize("revision", LEGACY[:2])
async def test_revisions_without_structure_get_text(revision: str) -> None:
    async with serving(registry(), revision=revision) as (client, _):
        tools = (await client.request("tools/list"))["result"]["tools"]
        assert (await client.call("three"))["result"] == {
            "content": [{"type": "text", "text": "3"}]
        }
    assert all("outputSchema" not in tool for tool in tools)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"$ref": "#"}},
        {"anyOf": [{"type": "array"}, {"$ref": "#/anyOf/0"}]},
        {"$id": "https://example.com/x", "type": "array"},
        {"type": "array", "items": {"$ref": "#x"}, "$defs": {"X": {"$anchor": "x"}}},
    ],
)
async def test_a_schema_that_names_its_own_places_is_not_moved(schema: dict[str, Any]) -> None:
    assert wrapped(schema) is None
    made = Registry("test")
    made.add_tool(lambda: [*()], name="use", output_schema=schema)
    async with serving(made, revision=OBJECTS_ONLY[-1]) as (client, _):
        assert (await client.call("use"))["result"] == {"content": [{"type": "text", "text": "[]"}]}
        [tool] = (await client.request("tools/list"))["result"]["tools"]
    assert "outputSchema" not in tool


def test_definitions_and_the_dialect_stay_at_the_top() -> None:
    dialect = "http://json-schema.org/draft-07/schema#"
    items = {"type": "array", "items": {"$ref": "#/definitions/X"}}
    top: dict[str, Any] = {"$schema": dialect, "definitions": {"X": {"type": "integer"}}}
    assert wrapped({**items, **top}) == {
        **top,
        "type": "object",
        "properties": {"result": items},
        **MARK,
    }


@pytest.mark.parametrize("revision", [*LEGACY, *MODERN])
async def test_clients_unwrap_it_for_a_type(revision: str) -> None:
    async with connect(registry(), revision=revision) as client:
        assert await client.call_tool("three", returns=float) == 3.0
        assert await client.call_tool("forest", returns=list[Tree]) == [
            Tree("oak", [Tree("mistletoe")])
        ]
        value = await client.call_tool("maybe", {"number": 2}, returns=dict[str, int])
        assert value == {"result": 2}
        assert await client.call_tool("maybe", {"number": 2}, returns=object) == {"result": 2}
        with pytest.raises(ProtocolError, match="is not <class 'int'>"):
            await client.call_tool("forest", returns=int)


async def test_a_server_that_says_so_and_does_not_is_refused_or_taken_as_it_is() -> None:
    made = Registry("liar")
    schema = {"type": "object", "x-fastmcp-wrap-result": True}
    made.add_tool(lambda: {"other": 1}, name="use", output_schema=schema)
    made.add_tool(lambda: {"result": "x", "more": 1}, name="both", output_schema=schema)
    async with connect(made) as client:
        assert await client.call_tool("use", returns=dict[str, int]) == {"other": 1}
        assert await client.call_tool("both", returns=dict[str, object]) == {
            "result": "x",
            "more": 1,
        }


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_results_of_a_server_elsewhere_are_wrapped_for_those_who_need_it(era: Any) -> None:
    outer = Registry("outer")
    outer.mount(Remote(registry(), era=era), "far")
    async with serving(outer, revision=OBJECTS_ONLY[-1]) as (client, _):
        tools = (await client.request("tools/list"))["result"]["tools"]
        schema = next(tool["outputSchema"] for tool in tools if tool["name"] == "far_three")
        three = (await client.call("far_three"))["result"]
        failure = (await client.call("far_fail"))["result"]
    assert schema == {"type": "object", "properties": {"result": {"type": "integer"}}, **MARK}
    assert value_of(three) == {"result": 3}
    assert "structuredContent" not in failure
    async with connect(outer, era="legacy") as client:
        assert await client.call_tool("far_forest", returns=list[Tree])
    async with connect(outer, era="modern") as client:
        assert await client.call_tool("far_three", returns=int) == 3
