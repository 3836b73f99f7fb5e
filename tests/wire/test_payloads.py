import pytest

from tests.support import official
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
from trio_mcp.wire.conversion import Misfit, from_wire, to_wire
from trio_mcp.wire.payloads import (
    Icon,
    Implementation,
    ToolAnnotations,
    ToolDescription,
)
from trio_mcp.wire.revisions import ALL, BY_NAME, NEWEST

ANNOTATIONS = Annotations(audience=["user"], priority=0.5, last_modified="2026-01-01T00:00:00Z")

EVERY_BLOCK = CallToolResult(
    [
        TextContent("hi", annotations=ANNOTATIONS, meta={"x/y": 1}),
        ImageContent("aGk=", "image/png", annotations=ANNOTATIONS),
        AudioContent("aGk=", "audio/wav"),
        ResourceLink("file:///x", "x", title="X", size=3, icons=[Icon("https://x/i.png")]),
        EmbeddedResource(TextResourceContents("a:b", "text", mime_type="text/plain")),
        EmbeddedResource(BlobResourceContents("a:b", "aGk=", meta={"x/y": 1})),
    ],
    structured_content={"a": 1},
    is_error=False,
    meta={"x/y": 2},
)

TOOL = ToolDescription(
    "t",
    {"type": "object"},
    title="T",
    description="d",
    output_schema={"type": "object"},
    annotations=ToolAnnotations(title="T", read_only_hint=True, open_world_hint=False),
    icons=[Icon("https://x/i.png", mime_type="image/png", sizes=["any"], theme="dark")],
    meta={"x/y": 1},
)


@pytest.mark.parametrize("revision", ALL, ids=lambda each: each.name)
def test_every_revision_gets_what_its_schema_allows(revision):
    judged = {"jsonrpc": "2.0", "id": 1}
    modern = {"resultType": "complete"} if revision.modern else {}
    hints = {"ttlMs": 0, "cacheScope": "public"} if revision.modern else {}
    called = {**to_wire(EVERY_BLOCK, revision), **modern}
    official.judge({**judged, "result": called}, revision.name, "tools/call")
    listed = {"tools": [to_wire(TOOL, revision)], **modern, **hints}
    official.judge({**judged, "result": listed}, revision.name, "tools/list")


@pytest.mark.parametrize(
    ("field", "since"),
    [
        ("annotations", "2025-03-26"),
        ("title", "2025-06-18"),
        ("outputSchema", "2025-06-18"),
        ("_meta", "2025-06-18"),
        ("icons", "2025-11-25"),
    ],
)
def test_a_tools_fields_are_sent_from_the_revision_that_introduced_them(field, since):
    for revision in ALL:
        assert (field in to_wire(TOOL, revision)) == (revision.name >= since)


def test_structured_content_is_sent_from_2025_06_18():
    for revision in ALL:
        sent = "structuredContent" in to_wire(EVERY_BLOCK, revision)
        assert sent == (revision.name >= "2025-06-18")


def test_blocks_that_a_revision_does_not_know_become_ones_that_it_knows():
    blocks = to_wire(EVERY_BLOCK, BY_NAME["2024-11-05"])["content"]
    assert [block["type"] for block in blocks] == [
        "text",
        "image",
        "resource",
        "text",
        "resource",
        "resource",
    ]
    assert blocks[2]["resource"]["blob"] == "aGk="
    assert blocks[3]["text"] == "X: file:///x"


def test_what_is_none_is_left_out():
    assert to_wire(Implementation("n", "1")) == {"name": "n", "version": "1"}


@pytest.mark.parametrize("payload", [EVERY_BLOCK, TOOL, Implementation("n", "1", title="N")])
def test_the_newest_revision_round_trips(payload):
    assert from_wire(to_wire(payload, NEWEST), type(payload)) == payload


def test_unknown_fields_are_ignored():
    assert from_wire({"name": "n", "version": "1", "new": 1}, Implementation) == Implementation(
        "n", "1"
    )


TEXT = {"type": "text", "text": "x"}
BLOCK = "a content block of type text or image or audio or resource_link or resource"


@pytest.mark.parametrize(
    ("wire", "path", "expected", "got"),
    [
        (None, "", "an object", "null"),
        ([], "", "an object", "an array"),
        ({}, "content", "an array", "nothing"),
        ({"content": 5}, "content", "an array", "a number"),
        ({"content": [{"type": "text"}]}, "content[0].text", "a string", "nothing"),
        (
            {"content": [TEXT, {"type": "text", "text": 3}]},
            "content[1].text",
            "a string",
            "a number",
        ),
        ({"content": [{"type": "video"}]}, "content[0]", BLOCK, "'video'"),
        ({"content": ["text"]}, "content[0]", BLOCK, "a string"),
        ({"content": [], "_meta": 5}, "_meta", "an object", "a number"),
        (
            {"content": [{**TEXT, "annotations": {"audience": ["robot"]}}]},
            "content[0].annotations.audience[0]",
            "'user' or 'assistant'",
            "'robot'",
        ),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(wire, path, expected, got):
    with pytest.raises(Misfit) as caught:
        from_wire(wire, CallToolResult)
    assert (caught.value.path, caught.value.expected, caught.value.got) == (path, expected, got)


def test_what_a_payload_makes_of_its_members_may_be_wrong():
    annotated = {"content": [{**TEXT, "annotations": {"priority": 2}}]}
    with pytest.raises(Misfit, match=r'^"content\[0\].annotations": .*priority'):
        from_wire(annotated, CallToolResult)


def test_the_first_misfit_is_all_that_is_looked_for():
    """All of them would be half a gigabyte, and a sentence of fifty megabytes."""
    with pytest.raises(Misfit, match=r'^"content\[1\]" must be .*, not a number$'):
        from_wire({"content": [TEXT, *range(500_000)]}, CallToolResult)
