"""Tags: where they travel, and what is chosen by them, for all callers or for one."""

import logging
from typing import Any

import pytest

from trio_mcp import (
    Context,
    McpError,
    Registry,
    Remote,
    SchemaError,
    ToolDescription,
    Transform,
    connect,
)
from trio_mcp.compose import Provider, forwarded_entry
from trio_mcp.compose.openapi import openapi
from trio_mcp.wire.jsonrpc import Json

pytestmark = pytest.mark.requirement("Q6")

NOUN = "tool, resource or prompt"


def part() -> Registry:
    registry = Registry("part")
    for name, tags in {
        "read": {"public"},
        "write": {"admin", "public"},
        "ping": set[str](),
    }.items():
        registry.add_tool(lambda: "done", name=name, tags=tags)
    registry.add_prompt(lambda: "hello", name="greet", tags=["public"])
    registry.add_resource("x:one", lambda: "1", tags=["admin"])
    registry.add_resource("x:{two}", lambda two: two, tags=["public"])
    return registry


def names(registry: Registry) -> list[str]:
    tables = (registry.tools, registry.prompts, registry.resources, registry.resource_templates)
    return [name for table in tables for name in table]


def mounted(**options: Any) -> Registry:
    outer = Registry("outer")
    outer.mount(part(), **options)
    return outer


# -- where they are -------------------------------------------------------------------------


async def test_they_travel_in_meta_beside_what_else_is_there() -> None:
    registry = Registry("test")
    meta = {"example.com/team": "tools", "fastmcp": {"version": "1"}}
    registry.add_tool(lambda: "x", name="use", tags=["b", "a", "b"], meta=meta, timeout=3)
    async with connect(registry) as client:
        tool = client.tools["use"]
    assert tool.details["_meta"] == {
        "trio-mcp/timeout": 3,
        "example.com/team": "tools",
        "fastmcp": {"version": "1", "tags": ["a", "b"]},
    }
    assert tool.tags == {"a", "b"}


@pytest.mark.parametrize(
    ("meta", "tags"),
    [
        ({"fastmcp": {"tags": ["a"]}}, {"a"}),
        ({"_fastmcp": {"tags": ["a", 1, None]}}, {"a"}),
        ({"fastmcp": {"tags": "a"}}, set()),
        ({"fastmcp": 1}, set()),
        ({}, set()),
        (None, set()),
    ],
)
def test_those_of_other_servers_are_read_as_far_as_they_are_tags(
    meta: dict[str, Json] | None, tags: set[str]
) -> None:
    assert ToolDescription("use", {"type": "object"}, meta=meta).tags == tags


@pytest.mark.parametrize("tags", ["admin", [""], [1], 5, ["\ud800"]])
def test_what_is_no_set_of_texts_is_refused(tags: Any) -> None:
    with pytest.raises(SchemaError, match=r"Tool 'use': .*tags? must be a"):
        Registry("test").add_tool(lambda: "x", name="use", tags=tags)


def test_those_of_a_document_become_tags() -> None:
    operation = {"operationId": "list_notes", "tags": ["notes", "", 1]}
    registry = openapi(
        {
            "openapi": "3.1.0",
            "info": {"title": "Notes", "version": "1"},
            "servers": [{"url": "https://notes.example"}],
            "paths": {"/notes": {"get": operation}, "/tags": {"get": {"operationId": "tags"}}},
        }
    )
    assert registry.tools["list_notes"].description.tags == {"notes"}
    assert registry.tools["tags"].description.tags == set()


# -- choosing by them -----------------------------------------------------------------------


def test_a_mount_shows_or_hides_by_them() -> None:
    assert names(mounted(only=["tag:public"])) == ["read", "write", "greet", "x:{two}"]
    assert names(mounted(only=["tag:admin", "ping"])) == ["write", "ping", "x:one"]
    assert names(mounted(tools={"tag:admin": None}, resources={"tag:public": None})) == [
        *("read", "ping", "greet", "x:one")
    ]


def test_a_transform_changes_what_has_one_and_a_name_counts_more() -> None:
    changes = {
        "tag:admin": Transform(title="Careful", tags=["danger"]),
        "tag:public": Transform(description="For all."),
        "read": Transform(title="Look"),
    }
    shown = {name: tool.description for name, tool in mounted(tools=changes).tools.items()}
    assert (shown["write"].title, shown["write"].description) == ("Careful", "For all.")
    assert (shown["read"].title, shown["read"].description) == ("Look", None)
    assert (shown["write"].tags, shown["read"].tags) == ({"danger"}, {"public"})
    assert names(mounted(tools={"tag:public": None, "read": Transform()}))[:2] == ["read", "ping"]


async def test_a_registry_shows_or_hides_by_them_whatever_is_added_or_mounted_later() -> None:
    registry = Registry("test", only=["tag:public", "late"], leave_out=["tag:admin"])
    registry.mount(part())
    registry.add_tool(lambda: "x", name="late")
    async with connect(registry) as client:
        assert list(client.tools) == ["late", "read"]
        assert [prompt.name for prompt in await client.list_prompts()] == ["greet"]
        assert await client.list_resources() == []
    assert await registry.call("write") == "done"


async def test_a_registry_or_a_transform_shows_by_them_for_one_caller() -> None:
    def by_client(shown: Any, caller: Context) -> bool:
        assert caller.client is not None
        return "admin" not in shown.tags or caller.client.name == "root"

    everywhere = Registry("test", visible=by_client)
    everywhere.mount(part())
    here = mounted(tools={"tag:admin": Transform(visible=by_client)})
    for registry in (everywhere, here):
        async with connect(registry) as client:
            assert list(client.tools) == ["read", "ping"]
            with pytest.raises(McpError, match="Unknown tool: write"):
                await client.request("tools/call", {"name": "write", "arguments": {}})


async def test_what_gets_other_tags_appears_or_disappears() -> None:
    class Rows(Provider):
        async def have(self, **tags: list[str]) -> None:
            shown = [
                ToolDescription(name, {"type": "object"}, meta={"fastmcp": {"tags": found}})
                for name, found in tags.items()
            ]
            await self.replace("tools", [forwarded_entry(each, self.answer) for each in shown])

        async def answer(self, params: dict[str, Json], context: Context) -> dict[str, Json]:
            raise AssertionError

    rows, outer, outermost = Rows("rows"), Registry("outer"), Registry("outermost")
    outer.mount(rows, only=["tag:on"])
    outermost.mount(outer, "far")
    await rows.have(a=["on"], b=["off"])
    assert list(outermost.tools) == ["far_a"]
    await rows.have(a=["off"], b=["off", "on"])
    assert list(outermost.tools) == ["far_b"]
    assert list(rows.tools) == ["a", "b"]


# -- what is not there ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"only": ["tag:publik"]}, f"no {NOUN} with the tag 'publik'; did you mean 'public'?"),
        ({"tools": {"tag:x": None}}, "no tool with the tag 'x'"),
        ({"prompts": {"tag:admin": None}}, "no prompt with the tag 'admin'"),
        ({"tools": {"tag:admin": Transform(name="x")}}, "several, which cannot have one name"),
        ({"tools": {"read": Transform(tags="x")}}, "tool 'read': tags must be a set of texts"),
    ],
)
def test_a_mount_refuses_a_selection_of_what_is_not_there(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(SchemaError) as refused:
        mounted(**options)
    assert said in str(refused.value)


@pytest.mark.parametrize("options", [{"only": "tag:x"}, {"leave_out": "x"}, {"leave_out": 5}])
def test_a_selection_is_a_list(options: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="must be a list, even of one name"):
        Registry("test", **options)


def test_a_rule_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(TypeError, match="visible must be a plain function"):
        mounted(tools={"read": Transform(visible=5)})  # type: ignore[arg-type]


async def test_what_is_known_later_is_logged_when_serving_begins(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = Registry("test", only=["tag:public", "raed"], leave_out=["tag:nothing"])
    far = Remote(part())
    registry.mount(far, tools={"wriet": None}, only=["tag:public", "tag:none", "read"])
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            async with connect(registry) as client:
                assert list(client.tools) == ["read", "write"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{far.name!r} has no tool 'wriet'; did you mean 'write'?",
        f"{far.name!r} has no {NOUN} with the tag 'none'",
        f"'test' has no {NOUN} 'raed'; did you mean 'read'?",
        f"'test' has no {NOUN} with the tag 'nothing'",
    ]
