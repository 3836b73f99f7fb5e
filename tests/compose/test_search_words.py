"""How words are compared, and how little is said of what is found."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import ToolDescription
from trio_mcp.compose.search.lines import fields_of, line_of, signature
from trio_mcp.compose.search.words import Index, words_of
from trio_mcp.wire.content import ResourceDescription
from trio_mcp.wire.offers import PromptArgument, PromptDescription, ResourceTemplateDescription

pytestmark = pytest.mark.requirement("Q1")


def index_of(**texts: str) -> Index:
    """An index of texts by name."""
    index = Index()
    index.add((name, [(text, 1.0)]) for name, text in texts.items())
    return index


@pytest.mark.parametrize(
    "forms",
    [
        ["issue", "issues", "Issue"],
        ["repository", "repositories"],
        ["create", "creates", "created", "creating"],
        ["file", "files"],
        ["process", "processes", "processing", "processed"],
        ["run", "running"],
        ["query", "queries", "querying"],
        ["search", "searches", "searching"],
    ],
)
def test_forms_of_a_word_are_one_word(forms: list[str]) -> None:
    assert len({word for form in forms for word in words_of(form)}) == 1


def test_names_are_made_of_words() -> None:
    for name in ("get_open_page", "getOpenPage", "get-open.page", "GET open/page!"):
        assert words_of(name) == words_of("get open page")
    assert words_of("创建页面") == ["创", "建", "页", "面"]
    assert index_of(make="创建一个页面").find("页面") == ["make"]
    assert words_of("Größe ändern") == words_of("größe ÄNDERN")


def test_rare_words_count_more_and_long_texts_less() -> None:
    index = index_of(
        page="open a page", tab="open a tab", book="open a book " + "and so on " * 30, none="close"
    )
    assert index.find("open the tab")[0] == "tab"
    assert index.find("open") == ["page", "tab", "book"]
    assert index.find("page page book") == ["page", "book"]
    assert index.find("nothing of it") == []
    assert Index().find("anything") == []


def test_names_count_more_than_descriptions_and_parameters() -> None:
    tools = [
        ToolDescription("other", {"properties": {"invoice": {"type": "string"}}}, description="x"),
        ToolDescription("another", {}, description="Send an invoice."),
        ToolDescription("invoice", {}, description="Send it."),
        ToolDescription("titled", {}, title="Invoice", description="Send it."),
    ]
    index = Index()
    index.add((tool.name, fields_of(tool)) for tool in tools)
    found = index.find("invoices")
    assert found[:2] == ["invoice", "titled"]
    assert sorted(found[2:]) == ["another", "other"]


def test_much_in_one_text_or_one_query_counts_only_so_far() -> None:
    index = index_of(long="early " + "more " * 5000 + "late", short="late")
    assert index.find("early") == ["long"]
    assert index.find("late") == ["short"]
    many = index_of(**{f"text{number}": f"word{number} all" for number in range(100)})
    query = "all " + " ".join(f"word{number}" for number in range(100))
    assert len(many.find(query)) == 32


def test_the_first_characters_of_a_long_word_count() -> None:
    assert words_of("x" * 10_000) == words_of("x" * 60)


NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {}}},
    "required": ["id"],
}


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"enum": ["a", "b", 3, None]}, '"a" | "b" | 3 | null'),
        ({"const": True}, "true"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer | null"),
        ({"type": "array", "items": {"type": "string"}}, "string[]"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
        ({"type": "array"}, "any[]"),
        (NESTED, "{id: integer, tags?: any[]}"),
        ({"$ref": "#/$defs/Nested"}, "{id: integer, tags?: any[]}"),
        ({"$ref": "#/$defs/Nowhere"}, "any"),
        ({"$ref": "https://example.com/schema"}, "any"),
        ({"type": "object"}, "object"),
        ({}, "any"),
        (True, "any"),
        ({"type": 3, "enum": "x", "anyOf": {}}, "any"),
        ({"properties": []}, "object"),
        ({"enum": list(range(20))}, " | ".join([*map(str, range(12)), "…"])),
        ({"enum": [[1], {"a": 1}]}, "any"),
    ],
)
def test_schemas_are_written_as_types(schema: Any, written: str) -> None:
    whole = {"properties": {"it": schema}, "$defs": {"Nested": NESTED}, "required": ["it", 3]}
    assert signature("f", whole) == f"f(it: {written})"


def test_signatures_of_hostile_schemas_are_short() -> None:
    wide = {"properties": {f"p{number}": {"type": "string"} for number in range(10_000)}}
    assert signature("f", wide).endswith("p39?: string, …)")
    knot: dict[str, Any] = {"$ref": "#/$defs/knot"}
    many = {"properties": {f"p{number}": knot for number in range(40)}}
    knots = {**many, "$defs": {"knot": {"anyOf": [many, {**many, "type": "object"}]}}}
    huge = {"properties": {"x" * 1_000_000: {"enum": ["y" * 1_000_000] * 100_000}}}
    assert all(len(signature("f", schema)) < 10_000 for schema in (wide, knots, huge))


def test_a_description_is_one_sentence_on_one_line() -> None:
    assert line_of("Lend a book.\n\nIt has\nto come back. Soon.") == "Lend a book."
    assert line_of("Lend\n  a book") == "Lend a book"
    assert line_of("x" * 1_000_000) == "x" * 199 + "…"
    assert line_of(None) == ""


def test_resources_and_prompts_are_found_by_all_that_is_said_of_them() -> None:
    argument = PromptArgument("tone", description="kind or harsh")
    index = Index()
    for described in (
        ResourceDescription("file:///readme", "manual"),
        ResourceTemplateDescription("user://{id}", "person"),
        PromptDescription("review", arguments=[argument]),
    ):
        index.add([(described.name, fields_of(described))])
    for query, name in {
        "readme": "manual",
        "user": "person",
        "harsh tone": "review",
    }.items():
        assert index.find(query) == [name]
