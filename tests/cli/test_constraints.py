"""What a schema demands of a value, in words that complete "must be"."""

from typing import Any

import pytest

from trio_mcp.cli.listing import constraints_of
from trio_mcp.cli.schemas import Field, field_of


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, ""),
        (True, ""),
        ({"type": "integer"}, ""),
        ({"minimum": 0, "maximum": 365}, "0 to 365"),
        ({"minimum": 1.5}, "at least 1.5"),
        ({"maximum": 3}, "at most 3"),
        ({"minimum": 3, "maximum": 3}, "3"),
        ({"exclusiveMinimum": 0, "maximum": 5}, "at most 5; more than 0"),
        ({"exclusiveMaximum": 1}, "less than 1"),
        ({"multipleOf": 5}, "a multiple of 5"),
        ({"minLength": 1}, "at least 1 character"),
        ({"minLength": 0, "maxLength": 80}, "0 to 80 characters"),
        ({"maxLength": 1, "pattern": "^[a-z]$"}, "at most 1 character; matching ^[a-z]$"),
        ({"minItems": 2, "maxItems": 2, "uniqueItems": True}, "2 items; all different"),
        ({"minProperties": 1}, "at least 1 entry"),
        ({"maxProperties": 2}, "at most 2 entries"),
        ({"format": "date"}, "a date such as 2024-05-31"),
        ({"format": "of our own"}, "of format of our own"),
        ({"contentEncoding": "base64"}, "encoded as base64"),
        (
            {"type": "array", "items": {"minimum": 1}, "maxItems": 3},
            "at most 3 items; each at least 1",
        ),
        ({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}, "at least 1"),
        ({"allOf": [{"minimum": 1}, {"minimum": 1}]}, "at least 1"),
        ({"$ref": "#/$defs/age"}, "0 to 150"),
        ({"minimum": True, "pattern": 3, "format": None, "uniqueItems": "yes", "items": []}, ""),
    ],
    ids=str,
)
def test_what_is_demanded(schema: Any, words: str) -> None:
    root = {"$defs": {"age": {"minimum": 0, "maximum": 150}}}
    assert constraints_of(Field(schema, root)) == words


def test_a_schema_that_holds_itself_comes_to_an_end() -> None:
    root = {"$defs": {"tree": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/tree"}}}}
    words = constraints_of(Field({"$ref": "#/$defs/tree"}, root))
    assert words.startswith("at least 1 item; each at least 1 item")
    assert len(words) < 200


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"default": 0}, "0"),
        ({"default": False}, "false"),
        ({"default": "x"}, "x"),
        ({"default": ""}, '""'),
        ({"default": ["ä"]}, '["ä"]'),
        ({"default": None}, ""),
        ({}, ""),
        (True, ""),
    ],
    ids=str,
)
def test_defaults(schema: Any, text: str) -> None:
    assert field_of(schema).default == text
    shown = f"a?: any = {text}" if text else "a?: any"
    properties = {"a": {**schema, "type": "any"} if schema is not True else {}}
    assert field_of({"properties": properties}).signature() == shown
