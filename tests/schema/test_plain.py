"""What is checked without a validator, and what such a check makes of schemas that are none."""

from typing import Any

import pytest

from trio_mcp.schema import SchemaError, compile_validator
from trio_mcp.schema.validate import classes_of, plain_test

pytestmark = pytest.mark.requirement("B4")


def nested(levels: int) -> Any:
    """A schema of a text, with so many members one in the other around it."""
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"anyOf": [schema]}
    return schema


@pytest.mark.parametrize(
    ("schema", "classes"),
    [
        ({"type": "string"}, {str}),
        ({"type": ["integer", "null"]}, {int, type(None)}),
        ({"anyOf": [{"type": "number"}, {"anyOf": [{"type": "null"}]}]}, {int, float, type(None)}),
        ({"title": "anything"}, {str, int, float, bool, type(None)}),
        ({"anyOf": []}, set()),
        ({"anyOf": [{"type": "string"}, {"enum": [1]}]}, None),
        ({"type": ["string", "array"]}, None),
        ({"type": "string", "minLength": 1}, None),
        (True, None),
        (nested(10_000), {str}),
    ],
    ids=range(10),
)
def test_the_classes_that_fit_a_schema_of_plain_types(schema: Any, classes: Any) -> None:
    assert classes_of(schema) == classes


@pytest.mark.parametrize(
    "schema",
    [
        {"type": [{}]},
        {"type": {}},
        {"anyOf": 5},
        {"anyOf": None},
        {"type": "object", "properties": [1]},
        {"type": "object", "properties": None},
        {"type": "object", "properties": {"a": 5}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": [[]]}}, "required": ["a"]},
        {"type": "object", "required": 5},
        {"type": "object", "required": "ab"},
        {"type": "object", "required": [{}]},
        {"type": "object", "properties": {"a": {}}, "required": {"a": 1}},
        {"type": "object", "properties": {"a": nested(300)}, "additionalProperties": 5},
    ],
)
def test_a_malformed_schema_is_refused_in_words(schema: Any) -> None:
    with pytest.raises(SchemaError, match=r"the schema is (invalid at #/|nested more than)"):
        compile_validator(schema)


def test_nothing_is_plain_by_a_malformed_schema() -> None:
    assert plain_test({"type": "object", "properties": []}) is None
    assert plain_test({"type": "object", "required": [[]]}) is None
