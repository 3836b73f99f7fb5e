from typing import Any

import pytest

from trio_mcp.schema import SchemaError, compile_validator
from trio_mcp.schema.bounds import check_schema

pytestmark = pytest.mark.requirement("C3")


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


def _refuse(schema: Any) -> str:
    with pytest.raises(SchemaError) as caught:
        check_schema(schema)
    return str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema"},
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            "items": {"$recursiveRef": "#"},
        },
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "items": [{}],
            "dependencies": {"a": ["b"]},
        },
        {"$schema": "http://json-schema.org/draft-06/schema#"},
        {"$schema": "http://json-schema.org/draft-04/schema#", "id": "x"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
        {"$defs": {"a": {"$anchor": "here"}}, "items": {"$ref": "#here"}},
        {
            "$id": "https://x.org/root",
            "items": {"$ref": "https://x.org/root#/$defs/a"},
            "$defs": {"a": True},
        },
        {
            "$defs": {"a": {"$id": "https://x.org/inner", "items": {"$ref": "#"}}},
            "items": {"$ref": "https://x.org/inner"},
        },
        {"x-parts": {"a": {"type": "string"}}, "items": {"$ref": "#/x-parts/a"}},
        {"$dynamicAnchor": "node", "items": {"$dynamicRef": "#node"}},
        {"enum": [{"$ref": "nowhere"}], "properties": {"$ref": {"type": "string"}}},
        {"items": {"$ref": "#"}},
        {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {}}},
        _nested(64),
    ],
)
def test_good_schemas_pass(schema: dict[str, Any]) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([], "a schema is a JSON object, not a list"),
        (None, "a schema is a JSON object, not a NoneType"),
        ({"type": "strin"}, "the schema is invalid at #/type: 'strin'"),
        (
            {"properties": {"a": {"minLength": -1}}},
            "the schema is invalid at #/properties/a/minLength: -1",
        ),
        ({"properties": []}, "the schema is invalid at #/properties: []"),
        ({"allOf": [3]}, "the schema is invalid at #/allOf/0: 3"),
        ({"default": {1, 2}}, "the schema holds a set ({1, 2}), which JSON has not"),
        ({"properties": {1: {}}}, "the schema has the key 1, which is not a string"),
        (
            {"$schema": "http://example.org/mine"},
            "the dialect 'http://example.org/mine' is not supported",
        ),
        (
            {"$schema": "http://json-schema.org/draft-03/schema#"},
            "is not supported; leave $schema out",
        ),
        ({"$schema": 7}, "the dialect 7 is not supported"),
        (
            {"items": {"$schema": "http://json-schema.org/draft-07/schema#"}},
            "the schema at #/items changes the dialect",
        ),
        (
            {"items": {"$ref": "https://example.org/a.json"}},
            "the schema at #/items refers to 'https://example.org/a.json', which leads out of it",
        ),
        (
            {"$ref": "file:///etc/passwd"},
            "and nothing is ever fetched; copy what it names to $defs",
        ),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, "leads out of it"),
        ({"$ref": "#/$defs/a"}, "refers to '#/$defs/a', which does not lead to anything in it"),
        ({"$ref": "#/allOf/9", "allOf": [{}]}, "does not lead to anything"),
        ({"$ref": "#/allOf/x", "allOf": [{}]}, "does not lead to anything"),
        ({"$ref": "#nowhere"}, "does not lead to anything"),
        ({"$ref": "#/title", "title": "x"}, "which is not a schema"),
        ({"$ref": "#"}, "the schema at # refers to itself in a circle"),
        (
            {
                "items": {"$ref": "#/$defs/a"},
                "$defs": {
                    "a": {"anyOf": [{}, {"$ref": "#/$defs/b"}]},
                    "b": {"not": {"$ref": "#/$defs/a"}},
                },
            },
            "refers to itself in a circle that never gets to another value",
        ),
        (
            {"properties": {"a": {"pattern": "("}}},
            "the schema at #/properties/a: the pattern '(' is no regular expression",
        ),
        (
            {"patternProperties": {"^(?!_)": {}}},
            "the schema at #: the pattern '^(?!_)' is not accepted",
        ),
        (_nested(65), "the schema is nested more than 64 levels deep"),
        ({"anyOf": [{} for _ in range(2000)]}, "the schema holds more than 2000 subschemas"),
    ],
)
def test_bad_schemas_are_refused(schema: Any, words: str) -> None:
    assert words in _refuse(schema)


def test_schemas_that_are_just_within_the_bounds() -> None:
    check_schema(_nested(64))
    check_schema({"anyOf": [{} for _ in range(1999)]})


def test_values_in_a_schema_are_bounded_too() -> None:
    assert "more than 100000 values" in _refuse({"enum": list(range(100_001))})
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    assert "nested more than" in _refuse({"default": deep})
    endless: list[Any] = []
    endless.append(endless)
    assert "nested more than" in _refuse({"default": endless})


def test_a_schema_that_is_not_from_here_is_checked_when_it_is_compiled() -> None:
    with pytest.raises(SchemaError):
        compile_validator({"type": "strin"})


def test_a_long_chain_of_references() -> None:
    definitions: dict[str, Any] = {
        f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(600)
    }
    definitions["d600"] = {"type": "string"}
    schema = {"$ref": "#/$defs/d0", "$defs": definitions}
    validate = compile_validator(schema)
    assert validate("x") is None
    assert validate(1) == "The arguments must be a string, but a number came (1)."


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("beside", [{}, {"unevaluatedProperties": False}])
def test_references_that_double_the_looks_at_a_value(keyword: str, beside: dict[str, Any]) -> None:
    """Thirty definitions of two references each would be a thousand million looks."""
    definitions: dict[str, Any] = {
        f"d{number}": {keyword: [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(30)
    }
    definitions["d30"] = {"type": "string"}
    schema = {"$ref": "#/$defs/d0", "$defs": definitions, **beside}
    assert "looks at one value more than 2000 times" in _refuse(schema)


def test_patterns_are_bounded_together() -> None:
    letters = {f"p{number}": {"pattern": rf"^\p{{L}}{{1,20}}{number}$"} for number in range(20)}
    assert "the patterns of the schema are too large together" in _refuse({"properties": letters})
