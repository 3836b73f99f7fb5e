"""`trio-mcp doctor`: how it judges what a server offers, item by item."""

from typing import Any

import pytest

from trio_mcp.cli.doctor.descriptions import check_descriptions
from trio_mcp.cli.doctor.report import Report, shorten
from trio_mcp.registry.kinds import LISTED

_KINDS = {kind.items: kind for kind in LISTED.values()}
TOOL: dict[str, Any] = {"name": "a", "description": "A.", "inputSchema": {"type": "object"}}


def judged(kind: str, *items: Any) -> list[tuple[str, str]]:
    report = Report("test")
    check_descriptions(report, _KINDS[kind], list(items))
    return [(each.code, each.message) for each in report.findings]


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        ("tools", TOOL),
        ("tools", {**TOOL, "outputSchema": {"type": "array", "items": {"type": "string"}}}),
        ("tools", {**TOOL, "inputSchema": {"type": "object", "required": ["x"], "$ref": "#/$defs/a",
                                           "$defs": {"a": {"properties": {"x": {}}}}}}),
        ("tools", {**TOOL, "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#",
                                           "type": "object", "definitions": {}}}),
        ("tools", {**TOOL, "annotations": {"readOnlyHint": True, "destructiveHint": False}}),
        ("resources", {"uri": "a:b", "name": "a"}),
        ("resourceTemplates", {"uriTemplate": "a:{b}", "name": "a"}),
        ("prompts", {"name": "a", "description": "A.", "arguments": [{"name": "b"}]}),
    ],
)  # fmt: skip
def test_what_is_good(kind: str, item: Any) -> None:
    assert judged(kind, item) == []


@pytest.mark.parametrize(
    ("kind", "item", "code", "told"),
    [
        ("tools", 3, "bad-description", "a tool is not as the schema says (it must be an object"),
        ("tools", {**TOOL, "name": ""}, "bad-description", "a tool has an empty name"),
        ("tools", {**TOOL, "title": 3}, "bad-description", "title"),
        ("tools", {**TOOL, "annotations": {"readOnlyHint": "yes"}}, "bad-description", "readOnlyHint"),
        ("tools", {**TOOL, "name": "a b"}, "tool-name", "'a b'"),
        ("tools", {**TOOL, "description": " "}, "no-description", "a"),
        ("tools", {**TOOL, "inputSchema": None}, "bad-description", "inputSchema"),
        ("tools", {**TOOL, "inputSchema": {}}, "invalid-schema", "the type 'object'"),
        ("tools", {**TOOL, "outputSchema": {"type": 3}}, "invalid-schema", "its outputSchema"),
        ("tools", {**TOOL, "description": "x" * 70_000}, "heavy", "70 kB"),
        ("resources", {"name": "a"}, "bad-description", '"uri" must be a string, it is missing'),
        ("resources", {"uri": "a:b"}, "bad-description", '"name" must be a string, it is missing'),
        ("resourceTemplates", {"name": "a"}, "bad-description", '"uriTemplate" must be a string, it is missing'),
        ("prompts", {"name": "a"}, "no-description", "prompts without a description: a"),
        ("prompts", {"name": "a", "description": "A.", "arguments": [{}]}, "bad-description", "arguments[0].name"),
        ("prompts", {"name": "a", "description": "A.", "arguments": 3}, "bad-description", "arguments"),
    ],
)  # fmt: skip
def test_what_is_not(kind: str, item: Any, code: str, told: str) -> None:
    ((found, message),) = judged(kind, item)
    assert found == code
    assert told in message


def test_many_names_are_cut_short() -> None:
    bare = [{"name": f"prompt{number}"} for number in range(11)]
    ((_, message),) = judged("prompts", *bare)
    assert message.endswith("prompt7 and 3 more")
    assert [code for code, _ in judged("resources", *[{"uri": "a:b", "name": "a"}] * 3)] == [
        "duplicate"
    ]


def test_what_a_server_says_is_harmless_in_messages() -> None:
    assert shorten(b"\x1b[31m\xff two\nlines") == "␛[31m\ufffd two lines"
    assert shorten("x" * 200) == "x" * 100 + "…"
