"""`tools/list`: order, pages, and what each revision shows."""

import base64

import pytest
import trio

from tests.support.client import serving
from tests.support.tools import each_revision, echo, error_of
from tests.support.turns import turns_of_another_task
from trio_mcp import Registry
from trio_mcp.middleware import McpRequest
from trio_mcp.wire.payloads import Icon, ToolAnnotations

NAMES = ["zebra", "ant", "mole", "bee", "yak", "cat", "owl"]


def registry_with(names: list[str], **options) -> Registry:
    registry = Registry("zoo", **options)
    for name in names:
        registry.add_tool(echo, name=name)
    return registry


async def pages(client) -> list[list[str]]:
    """Follow the cursors to the end."""
    found, params = [], {}
    while True:
        result = (await client.request("tools/list", params))["result"]
        found.append([each["name"] for each in result["tools"]])
        if "nextCursor" not in result:
            return found
        params = {"cursor": result["nextCursor"]}


@pytest.mark.requirement("C4")
@each_revision
async def test_tools_come_in_the_order_of_registration(revision):
    async with serving(registry_with(NAMES), revision=revision) as (client, _):
        assert await pages(client) == [NAMES]


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 8, 1000])
async def test_pages(size):
    async with serving(registry_with(NAMES, page_size=size)) as (client, _):
        expected = [NAMES[start : start + size] for start in range(0, len(NAMES), size)]
        assert await pages(client) == expected
        assert await pages(client) == expected


@pytest.mark.requirement("C4")
async def test_changes_between_pages():
    """What is added later comes last, and what is taken out elsewhere moves nothing."""
    registry = registry_with(NAMES, page_size=3)
    async with serving(registry) as (client, _):
        first = (await client.request("tools/list"))["result"]
        registry.remove_tool(NAMES[0])
        registry.remove_tool(NAMES[4])
        registry.add_tool(echo, name="eel")
        second = (await client.request("tools/list", {"cursor": first["nextCursor"]}))["result"]
        assert [each["name"] for each in second["tools"]] == ["bee", "cat", "owl"]
        third = (await client.request("tools/list", {"cursor": second["nextCursor"]}))["result"]
        assert [each["name"] for each in third["tools"]] == ["eel"]
        assert "nextCursor" not in third


@pytest.mark.requirement("C4")
async def test_a_cursor_whose_tool_is_gone_is_refused():
    registry = registry_with(NAMES, page_size=3)
    async with serving(registry) as (client, _):
        first = (await client.request("tools/list"))["result"]
        registry.remove_tool(NAMES[2])
        answer = await client.request("tools/list", {"cursor": first["nextCursor"]})
        assert error_of(answer)[0] == -32602
        assert await pages(client) == [["zebra", "ant", "bee"], ["yak", "cat", "owl"]]


@pytest.mark.requirement("C4", "A12")
@pytest.mark.parametrize(
    "cursor",
    ["", "0", "3", "zebra", "after:zebra", "é", "=", 5, True, [], {}, "YWZ0ZXI6", "x" * 10_000]
    + [base64.b64encode(each).decode() for each in (b"after:lion", b"zebra", b"\xff", b"")],
)
async def test_a_cursor_that_is_not_ours(cursor):
    async with serving(registry_with(NAMES, page_size=3)) as (client, _):
        answer = await client.request("tools/list", {"cursor": cursor})
        assert error_of(answer)[0] == -32602
        assert "cursor" in answer["error"]["message"].lower()


async def test_a_cursor_of_null_is_none():
    async with serving(registry_with(NAMES, page_size=3)) as (client, _):
        result = (await client.request("tools/list", {"cursor": None}))["result"]
        assert [each["name"] for each in result["tools"]] == NAMES[:3]


@pytest.mark.requirement("C1", "C4")
@each_revision
async def test_each_revision_shows_the_fields_that_it_has(revision):
    registry = Registry("test", cache_ttl=60)

    @registry.tool(
        title="Sum up",
        annotations=ToolAnnotations(
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
        icons=[Icon("https://x.test/i.png", mime_type="image/png", sizes=["48x48"])],
        meta={"x.test/level": 3},
    )
    async def total(numbers: list[int], *, start: int = 0) -> dict[str, int]:
        """Add numbers.

        Args:
            numbers: What to add.
            start: Where to begin.
        """
        return {"sum": sum(numbers, start)}

    async with serving(registry, revision=revision) as (client, _):
        result = (await client.request("tools/list"))["result"]
        [tool] = result["tools"]
        schema = tool.pop("inputSchema")
        expected = {"name": "total", "description": "Add numbers."}
        if revision >= "2025-03-26":
            expected["annotations"] = {
                "readOnlyHint": True,
                "destructiveHint": False,
                "idempotentHint": True,
                "openWorldHint": False,
            }
        if revision >= "2025-06-18":
            output = tool.pop("outputSchema")
            assert output["type"] == "object"
            assert output["additionalProperties"] == {"type": "integer"}
            expected |= {"title": "Sum up", "_meta": {"x.test/level": 3}}
        if revision >= "2025-11-25":
            icon = {"src": "https://x.test/i.png", "mimeType": "image/png", "sizes": ["48x48"]}
            expected["icons"] = [icon]
        assert tool == expected
        assert schema["required"] == ["numbers"]
        assert schema["properties"]["numbers"] == {
            "type": "array",
            "items": {"type": "integer"},
            "description": "What to add.",
        }
        assert schema["properties"]["start"]["default"] == 0
        assert ("ttlMs" in result) is (revision == "2026-07-28")


async def test_lists_are_not_mixed_up_between_revisions():
    registry = Registry("test")
    registry.add_tool(echo, title="Echo")
    async with serving(registry) as (client, _):
        for revision in ("2026-07-28", "2024-11-05", "2025-11-25", "2026-07-28"):
            client.revision = revision
            await client.initialize()
            [tool] = (await client.request("tools/list"))["result"]["tools"]
            assert ("title" in tool) is (revision >= "2025-06-18")


@pytest.mark.requirement("C4")
@each_revision
async def test_one_item_that_cannot_be_sent_does_not_take_the_list_with_it(revision, caplog):
    """It was checked when it was registered; somebody has got at it since."""
    registry = registry_with(["ant", "bee", "cat"])
    registry.tools["bee"].description.input_schema["broken"] = {1, 2}
    async with serving(registry, revision=revision) as (client, _):
        assert await pages(client) == [["ant", "cat"]]
    assert "tools bee cannot be listed, and is left out" in caplog.messages


MANY = [f"tool{number}" for number in range(100)]
short_slices = pytest.mark.usefixtures("twenty_at_once")


@pytest.fixture
def twenty_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write so many items of a list at once, so that a hundred are a long list."""
    monkeypatch.setattr("trio_mcp.server.lists._AT_ONCE", 20)


@pytest.mark.requirement("C4", "E9")
@short_slices
@each_revision
async def test_a_long_list_leaves_others_their_turns_when_it_is_first_written(revision):
    async with serving(registry_with(MANY), revision=revision) as (client, _):
        turns = []
        for _ in range(2):
            async with turns_of_another_task() as others:
                assert await pages(client) == [MANY]
                turns.append(others.count)
        assert turns[0] >= turns[1] + 4


@pytest.mark.requirement("C4")
@short_slices
async def test_a_list_that_changes_while_it_is_written_is_the_newer_one():
    registry = registry_with(MANY)
    async with serving(registry) as (client, _), turns_of_another_task() as others:
        await client.send(client.request_of("tools/list"))
        while others.count < 3:
            await trio.lowlevel.checkpoint()
        registry.remove_tool(MANY[0])
        registry.add_tool(echo, name="new")
        while "result" not in (answer := await client.receive()):
            assert answer["method"] == "notifications/tools/list_changed"
        found = [each["name"] for each in answer["result"]["tools"]]
        assert found in (MANY, [*MANY[1:], "new"])
        assert await pages(client) == [[*MANY[1:], "new"]]


@pytest.mark.requirement("C4")
@short_slices
async def test_a_tool_that_takes_the_place_of_another_while_a_list_is_written_is_shown():
    registry, last = registry_with(MANY), MANY[-1]
    async with serving(registry) as (client, _), turns_of_another_task() as others:
        await client.send(client.request_of("tools/list"))
        while others.count < 3:
            await trio.lowlevel.checkpoint()
        registry.remove_tool(last)
        registry.add_tool(echo, name=last, description="The newer one.")
        while "result" not in await client.receive():
            pass
        tools = (await client.request("tools/list"))["result"]["tools"]
        assert [each["description"] for each in tools if each["name"] == last] == ["The newer one."]


@pytest.mark.requirement("C4")
@short_slices
async def test_a_cursor_that_is_not_ours_is_refused_for_a_long_list_in_the_same_words():
    async with serving(registry_with(MANY)) as (client, _):
        first = await client.request("tools/list", {"cursor": "?"})
        await pages(client)
        again = await client.request("tools/list", {"cursor": "?"})
        assert error_of(first) == error_of(again)


@pytest.mark.requirement("C4")
@short_slices
async def test_middleware_may_take_something_out_of_a_long_list():
    async def fewer(request: McpRequest, call_next):
        result = await call_next(request)
        if request.method == "tools/list":
            del result["tools"][1:]
            result["tools"][0]["description"] = "changed"
        return result

    registry = registry_with(MANY, middleware=[fewer])
    async with serving(registry) as (client, _):
        for _ in range(2):
            assert await pages(client) == [MANY[:1]]
