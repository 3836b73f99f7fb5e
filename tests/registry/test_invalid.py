"""What the log says of a result that cannot be sent: where, and what is wrong; never the value."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from tests.support.client import serving
from tests.support.tools import each_revision, error_of, returning, some_revisions
from trio_mcp import Registry
from trio_mcp.registry.invalid import invalid_result
from trio_mcp.wire.content import (
    CallToolResult,
    EmbeddedResource,
    ResourceLink,
    TextContent,
)
from trio_mcp.wire.nested_arrays import MOST_ARRAYS

pytestmark = pytest.mark.requirement("B6", "B11")

SECRET = "s3cret"


@attrs.frozen
class Box:
    content: Any


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


def nested(kind: Any, levels: int) -> Any:
    value: Any = kind()
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


TOO_DEEP = "it is nested too deeply, or it holds itself"
MANY_ARRAYS = (
    f"it has more than {MOST_ARRAYS} nested arrays, each the last item of the one around it"
)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (ENDLESS, TOO_DEEP),
        ([ENDLESS] * 2, TOO_DEEP),
        (nested(dict, 300), TOO_DEEP),
        (nested(list, 2 * MOST_ARRAYS), MANY_ARRAYS),
        ({"rows": [SECRET, nested(list, 2 * MOST_ARRAYS)]}, MANY_ARRAYS),
        (CallToolResult([], structured_content={"a": nested(list, 2 * MOST_ARRAYS)}), MANY_ARRAYS),
    ],
)
@some_revisions
async def test_the_caller_learns_of_nesting_too(revision, value, reason, caplog):
    async with serving(returning(value), revision=revision) as (client, _):
        answer = await client.call("give")
    kind = type(value).__name__
    assert error_of(answer)[1] == f"Invalid handler result type: {kind} (tool give): {reason}"
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage() == f"Tool give: its result cannot be sent: {reason}"
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (
            [0] * 20_000 + [object()],
            "it is of type list, and too large to say what in it cannot be sent",
        ),
        (object(), "a value of type object cannot be turned into JSON"),
        (
            {"a": [SECRET, Box({"b": object()})]},
            "at 'a[1].content.b': a value of type object cannot be turned into JSON",
        ),
        ([1, {"x": float("nan")}], "at '[1].x': NaN and infinity are not JSON"),
        ({"a": {1: SECRET}}, "at 'a': a key of type int, where JSON has text only"),
        ([f"{SECRET}\ud800"], "at '[0]': a text with half a surrogate pair is not Unicode"),
        ({"\udfff": SECRET}, "a key is not Unicode"),
        (TextContent(5), "content[0].text of the TextContent must be a string"),
        (
            CallToolResult([TextContent("a"), ResourceLink("x:y", "x", size=SECRET)]),
            "content[1].size of the CallToolResult must be an integer",
        ),
        (
            CallToolResult([], structured_content={"a": float("inf")}),
            "at 'structured_content.a': NaN and infinity are not JSON",
        ),
        (EmbeddedResource(5), "content[0].resource of the EmbeddedResource must be an object"),
        (
            SECRET.encode(),
            "bytes alone do not say what they are; return ImageContent(data, 'image/png'), "
            "AudioContent(data, 'audio/wav'), EmbeddedResource(BlobResourceContents(uri, data)), "
            "or text",
        ),
    ],
)
@some_revisions
async def test_the_author_finds_the_place(revision, value, reason, caplog):
    async with serving(returning(value), revision=revision) as (client, _):
        answer = await client.call("give")
    code, message = error_of(answer)
    assert code == -32603
    assert message == f"Invalid handler result type: {type(value).__name__} (tool give)"
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage() == f"Tool give: its result cannot be sent: {reason}"
    assert record.name == "trio_mcp.calls"
    assert (record.tool, record.request_id) == ("give", answer["id"])
    assert SECRET not in caplog.text


@each_revision
async def test_what_does_not_fit_the_output_schema(revision, caplog):
    registry = Registry("test")

    @registry.tool
    async def give() -> Mapping[str, int]:
        return {"a": 1, "b": SECRET}

    async with serving(registry, revision=revision) as (client, _):
        code, message = error_of(await client.call("give"))
    problem = "Result 'b' must be an integer, but a string came."
    assert (code, message) == (-32603, f"Invalid handler result of tool give: {problem}")
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage() == f"Tool give: its result cannot be sent: {problem}"
    assert SECRET not in caplog.text


async def test_other_handlers_are_told_of_too(caplog):
    registry = Registry("test")
    registry.add_resource("a:b", lambda: {"x": [object()]}, name="b")
    registry.add_prompt(lambda: [5], name="ask")
    registry.add_prompt(lambda topic: "x", name="topical")
    registry.completion(prompt="topical", argument="topic")(lambda value: 5)
    complete = {
        "ref": {"type": "ref/prompt", "name": "topical"},
        "argument": {"name": "topic", "value": ""},
    }
    async with serving(registry) as (client, _):
        assert "error" in await client.request("resources/read", {"uri": "a:b"})
        assert "error" in await client.request("prompts/get", {"name": "ask"})
        assert "error" in await client.request("completion/complete", complete)
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said == [
        "Resource a:b: its result cannot be sent: "
        "at 'x[0]': a value of type object cannot be turned into JSON",
        "Prompt ask: its result cannot be sent: it is of type int, and that, or what is in it, "
        "cannot be sent; a prompt returns texts, content blocks or PromptMessages, one or a list",
        "Completion of topic of topical: its result cannot be sent: "
        "it is of type int, and that, or what is in it, cannot be sent",
    ]


async def test_a_forgotten_await_is_told(caplog):
    async def later() -> str:
        return "x"

    forgotten = later()
    async with serving(returning(forgotten)) as (client, _):
        _, message = error_of(await client.call("give"))
    forgotten.close()
    assert message == "Invalid handler result type: coroutine (tool give)"
    assert "it is a coroutine, which was not awaited: write await before the call" in caplog.text


def test_it_never_takes_for_ever():
    wide: Any = {}
    for _ in range(60):
        wide = {"a": wide, "b": wide}
    assert invalid_result(wide, "tool x").reason.endswith(
        "too large to say what in it cannot be sent"
    )
