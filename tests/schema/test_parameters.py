from typing import Any

import pytest

from trio_mcp.schema import SchemaError, describe_function
from trio_mcp.schema.parameters import (
    AnyValue,
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    OneOf,
    Parameter,
    String,
)

pytestmark = pytest.mark.requirement("C2")


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (String(), {"type": "string"}),
        (Integer(), {"type": "integer"}),
        (Number(), {"type": "number"}),
        (Boolean(), {"type": "boolean"}),
        (AnyValue(), {}),
        (Array(String()), {"type": "array", "items": {"type": "string"}}),
        (Array(), {"type": "array", "items": {}}),
        (OneOf("a", "b"), {"type": "string", "enum": ["a", "b"]}),
        (
            Object({"a": Integer(), "b": Array(Array(Boolean()))}, required=["a"]),
            {
                "type": "object",
                "properties": {
                    "a": {"type": "integer"},
                    "b": {
                        "type": "array",
                        "items": {"type": "array", "items": {"type": "boolean"}},
                    },
                },
                "required": ["a"],
            },
        ),
    ],
)
def test_each_type_knows_its_schema(kind: Any, schema: dict[str, Any]) -> None:
    assert kind.to_schema() == schema


def test_all_properties_are_required_unless_said_otherwise() -> None:
    assert Object({"a": Integer(), "b": String()}).to_schema()["required"] == ["a", "b"]


def test_a_required_property_must_be_declared() -> None:
    with pytest.raises(SchemaError, match="property 'b' is required, but it is not declared"):
        Object({"a": Integer()}, required=["b"])


@pytest.mark.parametrize("values", [(), ("a", "a")])
def test_one_of_needs_different_values(values: tuple[str, ...]) -> None:
    with pytest.raises(SchemaError, match="OneOf takes at least one string"):
        OneOf(*values)


def test_a_tool_with_declared_parameters() -> None:
    def search(query, limit=10, order="asc"):  # type: ignore[no-untyped-def]
        """Search."""

    described = describe_function(
        search,
        parameters=[
            Parameter("query", String(), "What to look for."),
            Parameter("limit", Integer(), default=10),
            Parameter("order", OneOf("asc", "desc"), required=False),
        ],
    )
    assert described.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "limit": {"type": "integer", "default": 10},
            "order": {"type": "string", "enum": ["asc", "desc"]},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    arguments = {"query": "x"}
    assert described.structure(arguments) is arguments


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (["a", "a"], "function 'tool': parameter 'a' is declared twice"),
        (["a", "c"], "parameter 'c' is declared, but the function does not take it"),
        (["b"], "parameter 'a' is needed, but it is not declared"),
    ],
)
def test_declarations_must_fit_the_function(declared: list[str], words: str) -> None:
    def tool(a: str, b: str = "") -> None: ...

    with pytest.raises(SchemaError, match=words):
        describe_function(tool, parameters=[Parameter(name, String()) for name in declared])


@pytest.mark.requirement("C3")
def test_annotations_must_be_mappable_all_the_same() -> None:
    def tool(a: complex) -> None: ...

    with pytest.raises(SchemaError, match="function 'tool', parameter 'a': the class complex"):
        describe_function(tool, parameters=[Parameter("a", Number())])


def test_a_function_that_takes_the_rest_takes_what_is_declared() -> None:
    def tool(**rest: Any) -> None: ...

    described = describe_function(tool, parameters=[Parameter("a", String())])
    assert list(described.input_schema["properties"]) == ["a"]


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: Parameter("a", str), r"type must be a type such as String\(\), not <class 'str'>"),
        (lambda: Parameter("a", String), "type must be a type such as"),
        (lambda: Parameter(["a"], String()), r"name must be a text, not \['a'\]"),
        (lambda: Parameter("a", String(), 5), "description must be a text, not 5"),
        (lambda: Array("string"), "items must be a type such as .*, not 'string'"),
        (lambda: Object(["a"]), r"properties must be a dict, by name, not \['a'\]"),
        (lambda: Object({1: String()}), "properties have names that are texts, not 1"),
        (lambda: Object({"a": 1}), "property 'a' must be a type such as .*, not 1"),
        (
            lambda: Object({"a": String()}, required="a"),
            "required must be a list of names, not 'a'",
        ),
        (lambda: Object({"a": String()}, required=5), "required must be a list of names, not 5"),
        (lambda: OneOf("a", 10**400), "OneOf takes strings, not"),
    ],
)
def test_what_is_declared_wrongly_is_refused_by_name(declare: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        declare()
