"""What a tool returns, as its caller gets it."""

import dataclasses
import datetime
import enum
from typing import Any, TypedDict

import attrs
import orjson
import pytest

from tests.support.client import serving
from tests.support.errors import own_data
from tests.support.tools import (
    each_revision,
    error_of,
    registry_of,
    returning,
    some_revisions,
    text_of,
)
from trio_mcp import Registry
from trio_mcp.wire.content import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)


@attrs.define
class Point:
    x: int
    y: float


@dataclasses.dataclass
class Person:
    name: str
    born: datetime.date


class Pair(TypedDict):
    left: str
    right: str


class Colour(enum.Enum):
    RED = "red"


async def body(value: Any, revision: str = "2025-11-25") -> dict[str, Any]:
    """The result of a tool without annotations that returns the value; extras of `_meta` aside."""
    async with serving(returning(value), revision=revision) as (client, _):
        result = (await client.call("give"))["result"]
        for name in ("resultType", "_meta"):
            if revision == "2026-07-28":
                result.pop(name)
        return result


@pytest.mark.requirement("B5")
@some_revisions
@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", ["text"]),
        ("", [""]),
        ("é\n\0\U0001f600", ["é\n\0\U0001f600"]),
        (5, ["5"]),
        (0.5, ["0.5"]),
        (True, ["true"]),
        (None, []),
        ([], ["[]"]),
        ([1, "a", None], ['[1,"a",null]']),
        ((1, 2), ["[1,2]"]),
        (datetime.date(2024, 5, 1), ["2024-05-01"]),
        (Colour.RED, ["red"]),
        ([TextContent("a"), "b", 3, {"c": 1}], ["a", "b", "3", '{"c":1}']),
    ],
)
async def test_a_plain_value_is_text(revision, value, content):
    expected = [{"type": "text", "text": each} for each in content]
    assert await body(value, revision) == {"content": expected}


@pytest.mark.requirement("B5")
@each_revision
@pytest.mark.parametrize(
    ("value", "structured"),
    [
        ({}, {}),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        (Point(1, 2.5), {"x": 1, "y": 2.5}),
        (Person("Ada", datetime.date(1815, 12, 10)), {"name": "Ada", "born": "1815-12-10"}),
        (Pair(left="a", right="b"), {"left": "a", "right": "b"}),
    ],
)
async def test_an_object_is_structured_and_text(revision, value, structured):
    result = await body(value, revision)
    [block] = result["content"]
    assert orjson.loads(block["text"]) == structured
    assert result.get("structuredContent") == (structured if revision >= "2025-06-18" else None)


@pytest.mark.requirement("B5")
@each_revision
@pytest.mark.parametrize("kind", [Point, Person, Pair])
async def test_an_object_type_publishes_an_output_schema(revision, kind):
    values = {
        Point: Point(1, 2.5),
        Person: Person("Ada", datetime.date(1815, 12, 10)),
        Pair: Pair(left="a", right="b"),
    }

    async def give():
        return values[kind]

    give.__annotations__["return"] = kind
    async with serving(registry_of(give), revision=revision) as (client, _):
        [tool] = (await client.request("tools/list"))["result"]["tools"]
        result = (await client.call("give"))["result"]
        if revision >= "2025-06-18":
            assert tool["outputSchema"]["type"] == "object"
            assert set(tool["outputSchema"]["properties"]) == set(result["structuredContent"])
        else:
            assert "outputSchema" not in tool
            assert "structuredContent" not in result
        assert len(result["content"]) == 1


BLOCKS = [
    TextContent(
        "x", annotations=Annotations(audience=["user"], priority=0.5), meta={"a.test/b": 1}
    ),
    ImageContent("AAAA", "image/png"),
    AudioContent("AAAA", "audio/wav"),
    ResourceLink("file:///x", "x", title="X", mime_type="text/plain", size=3),
    EmbeddedResource(TextResourceContents("file:///x", "text")),
    EmbeddedResource(BlobResourceContents("file:///x", "AAAA", mime_type="image/png")),
]


@pytest.mark.requirement("B5")
@each_revision
async def test_content_blocks_of_every_kind(revision):
    """The official schema of each revision judges what each block becomes."""
    kinds = [each["type"] for each in (await body(BLOCKS, revision))["content"]]
    audio = "audio" if revision >= "2025-03-26" else "resource"
    link = "resource_link" if revision >= "2025-06-18" else "text"
    assert kinds == ["text", "image", audio, link, "resource", "resource"]
    for block, kind in zip(BLOCKS, kinds, strict=True):
        [alone] = (await body(block, revision))["content"]
        assert alone["type"] == kind


@pytest.mark.requirement("B5")
@some_revisions
async def test_blocks_take_bytes(revision):
    """Their base64 is what travels, whichever way they were given."""
    blocks = [
        ImageContent(b"\x89PNG\r\n", "image/png"),
        ImageContent("iVBORw0K", "image/png"),
        EmbeddedResource(BlobResourceContents("file:///x", memoryview(b"\x89PNG\r\n"))),
        AudioContent(bytearray(b"\x89PNG\r\n"), "audio/wav"),
    ]
    *images, resource, audio = (await body(blocks, revision))["content"]
    assert [each["data"] for each in images] == ["iVBORw0K"] * 2
    assert resource["resource"]["blob"] == "iVBORw0K"
    assert audio.get("data", audio.get("resource", {}).get("blob")) == "iVBORw0K"


@pytest.mark.requirement("B5")
@pytest.mark.parametrize("make", [ImageContent, AudioContent])
def test_what_is_no_data_is_refused_where_it_is_written(make):
    with pytest.raises(TypeError, match="the data must be bytes, or base64 as text, not int"):
        make(5, "image/png")


@pytest.mark.requirement("B5")
@some_revisions
@pytest.mark.parametrize(
    ("annotation", "value", "texts"),
    [
        (list[TextContent], [], []),
        (list[TextContent | ImageContent], (), []),
        (list[TextContent] | None, [], []),
        (list[TextContent | str], ["a"], ['["a"]']),
        (list[str], [], ["[]"]),
        (None, [], ["[]"]),
    ],
)
async def test_no_blocks_are_no_content(revision, annotation, value, texts):
    async def give():
        return value

    give.__annotations__["return"] = annotation
    async with serving(registry_of(give), revision=revision) as (client, _):
        result = (await client.call("give"))["result"]
    assert [each["text"] for each in result["content"]] == texts


@pytest.mark.requirement("B5")
@each_revision
async def test_a_full_result_is_sent_as_it_is(revision):
    full = CallToolResult(
        [TextContent("no")], structured_content={"a": 1}, is_error=True, meta={"x.test/a": 1}
    )
    async with serving(returning(full), revision=revision) as (client, _):
        result = (await client.call("give"))["result"]
    assert result["content"] == [{"type": "text", "text": "no"}]
    assert result["isError"] is True
    assert result["_meta"]["x.test/a"] == 1
    assert ("structuredContent" in result) is (revision >= "2025-06-18")
    assert ("io.modelcontextprotocol/serverInfo" in result["_meta"]) is (revision == "2026-07-28")


# -- results that are wrong -------------------------------------------------------------------


@pytest.mark.requirement("B6")
@some_revisions
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (object(), "object"),
        ((each for each in "abc"), "generator"),
        (int, "type"),
        (print, "builtin_function_or_method"),
        ({1: 2}, "dict"),
        ({"a": object()}, "dict"),
        ([object()], "list"),
        ("\ud800", "str"),
        ({"a": "\udfff"}, "dict"),
        ({"\ud800": 1}, "dict"),
        (float("nan"), "float"),
        ([1, float("inf")], "list"),
        ({"a": float("-inf")}, "dict"),
        (CallToolResult(None), "CallToolResult"),
        (CallToolResult("text"), "CallToolResult"),
        (CallToolResult(["text"]), "CallToolResult"),
        (CallToolResult([], is_error="yes"), "CallToolResult"),
        (CallToolResult([], meta=5), "CallToolResult"),
        (CallToolResult([], structured_content={"a": float("nan")}), "CallToolResult"),
        (CallToolResult([TextContent(5)]), "CallToolResult"),
        (TextContent(5), "TextContent"),
        (TextContent(None), "TextContent"),
        (TextContent("\ud800"), "TextContent"),
        (b"bytes", "bytes"),
        ([TextContent("x"), b"bytes"], "bytes"),
        (EmbeddedResource(5), "EmbeddedResource"),
        (ResourceLink("x:y", "x", size="large"), "ResourceLink"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else None,
)
async def test_a_result_that_does_not_fit_the_protocol(revision, value, kind):
    async with serving(returning(value), revision=revision) as (client, _):
        answer = await client.call("give")
        message = f"Invalid handler result type: {kind} (tool give)"
        assert error_of(answer) == (-32603, message)
        assert own_data(answer) == {"type": kind, "handler": "tool give"}
        assert "result" in await client.request("tools/list")


@pytest.mark.requirement("B5")
async def test_an_integer_of_any_size_survives():
    """They are accepted as arguments, so they can be results too."""

    async def double(number: int) -> int:
        return number * 2

    async with serving(registry_of(double)) as (client, _):
        assert text_of(await client.call("double", number=2**70)) == str(2**71)
    assert (await body({"n": 2**70}))["structuredContent"] == {"n": 2**70}


@pytest.mark.requirement("B5", "B6")
@pytest.mark.parametrize(
    "value", [{}, {"sum": "3"}, {"sum": 3, "more": 1}, [3], 3, None, "3", CallToolResult([])]
)
async def test_the_result_is_checked_against_the_output_schema(value):
    registry = Registry("test")
    schema = {
        "type": "object",
        "properties": {"sum": {"type": "integer"}},
        "required": ["sum"],
        "additionalProperties": False,
    }

    @registry.tool(output_schema=schema)
    async def give():
        return value

    async with serving(registry) as (client, _):
        code, message = error_of(await client.call("give"))
        assert code == -32603
        assert message.startswith("Invalid handler result of tool give")
        value = {"sum": 3}
        assert (await client.call("give"))["result"]["structuredContent"] == value
        value = CallToolResult([TextContent("no")], is_error=True)
        assert (await client.call("give"))["result"]["isError"] is True


@pytest.mark.requirement("B5", "B6")
@pytest.mark.parametrize("value", [Point("a", 1.0), {"x": 1}, None, "text", Person("x", None)])
async def test_the_result_is_checked_against_the_return_type(value):
    async def give() -> Point:
        return value

    async with serving(registry_of(give)) as (client, _):
        code, message = error_of(await client.call("give"))
        assert code == -32603
        assert message.startswith("Invalid handler result")
