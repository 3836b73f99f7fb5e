"""What the quick ways accept, jsonschema accepts: shown for schemas and values at random."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from trio_mcp.schema import check_schema, compile_validator, schema_of
from trio_mcp.schema.accept import compile_acceptor
from trio_mcp.schema.validate import _accelerator

pytestmark = pytest.mark.requirement("B4")

# Few names and values, so that schemas and values meet.
NAMES = st.sampled_from(["a", "b", "é", "x\ny", "'", "{0}", "__class__"])
TEXTS = st.sampled_from(["", "a", "ab", "abc", "é", "👍👍", "\x00", "1"])
NUMBERS = st.sampled_from(
    [
        *[0, 1, -1, 2, 3, 7, 2**53, 2**53 + 1, 2**64, -(2**70), 10**400],
        *[0.0, -0.0, 1.0, 1.5, -1.0, 2.0, 1e300, -1e300, 0.1, 0.3, 1e16, 9007199254740992.0],
    ]
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
BOUNDS = st.sampled_from([0, 1, 2, 3, 1.0, -1, 1.5, 2**53, 10**30])
SIZES = st.integers(0, 3)

ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={"description": TEXTS, "default": SCALARS, "format": st.just("date"), "title": TEXTS},
)
STRINGS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "minLength": SIZES,
        "maxLength": SIZES,
        "pattern": st.sampled_from(["^a", "b$", "^[a-z]*$", "1"]),
    },
)
NUMERIC = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={
        "minimum": BOUNDS,
        "maximum": BOUNDS,
        "exclusiveMinimum": BOUNDS,
        "exclusiveMaximum": BOUNDS,
        "multipleOf": st.sampled_from([1, 2, 3, 0.5, 0.1, 2.0]),
    },
)
PLAIN = st.sampled_from(
    [
        True,
        False,
        {},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["integer", "null"]},
        {"type": ["string", "number"]},
        {"type": "string", "x-note": 1},
        {"minimum": 1, "minLength": 2},
        {"minItems": 1, "minProperties": 1},
    ]
)
CHOICES = st.one_of(
    st.builds(lambda values: {"enum": values}, st.lists(VALUES, min_size=1, max_size=4)),
    st.builds(lambda value: {"const": value}, VALUES),
    st.builds(
        lambda values: {"type": "string", "enum": values}, st.lists(TEXTS, min_size=1, max_size=3)
    ),
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arrays = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=3),
            "minItems": SIZES,
            "maxItems": SIZES,
            "uniqueItems": st.booleans(),
        },
    )
    objects = st.fixed_dictionaries(
        {"type": st.sampled_from(["object", ["object", "null"]])},
        optional={
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": inner,
            "propertyNames": STRINGS,
            "minProperties": SIZES,
            "maxProperties": SIZES,
        },
    )
    unions = st.sampled_from(["anyOf", "oneOf", "allOf"]).flatmap(
        lambda keyword: st.lists(inner, min_size=1, max_size=3).map(lambda each: {keyword: each})
    )
    return (
        arrays
        | objects
        | unions
        | st.builds(
            lambda one: {**one, "$ref": "#/$defs/d"},
            PLAIN.filter(lambda one: isinstance(one, dict)),
        )
    )


SCHEMAS = st.recursive(STRINGS | NUMERIC | PLAIN | CHOICES, _containers, max_leaves=6)
DEFINED = st.builds(
    lambda schema, definition, notes: {
        **notes,
        "allOf": [schema],
        "$defs": {"d": definition},
    },
    SCHEMAS,
    STRINGS | NUMERIC | PLAIN,
    ANNOTATIONS,
)

RUN = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@RUN
@given(DEFINED, st.lists(VALUES, min_size=1, max_size=8))
def test_what_is_accepted_is_valid(schema: dict[str, Any], values: list[Any]) -> None:
    accept = compile_acceptor(schema)
    if accept is None:
        return
    for value in values:
        if accept(value):
            assert Draft202012Validator(schema).is_valid(value), (schema, value)


@RUN
@given(DEFINED, st.lists(VALUES, min_size=1, max_size=8))
def test_the_verdict_is_that_of_jsonschema(schema: dict[str, Any], values: list[Any]) -> None:
    validate = compile_validator(schema, inferred=True)
    for value in values:
        try:
            valid = Draft202012Validator(schema).is_valid(value)
        except OverflowError:
            assert validate(value) is not None
            continue
        assert (validate(value) is None) == valid, (schema, value)


@RUN
@given(
    st.recursive(
        st.sampled_from(
            [
                True,
                {},
                {"type": "integer"},
                {"type": "number"},
                {"type": "string", "minLength": 2},
                {"type": ["boolean", "null"]},
                {"const": "a"},
                {"enum": ["a", None, True]},
                {"minProperties": 1, "maxItems": 1},
                {"required": ["a"]},
                {"dependentRequired": {"a": ["b"]}},
            ]
        ),
        lambda inner: st.one_of(
            st.builds(lambda a: {"not": a}, inner),
            st.builds(lambda a, b, c: {"if": a, "then": b, "else": c}, inner, inner, inner),
            st.builds(lambda a, b: {"oneOf": [a, b]}, inner, inner),
            st.builds(lambda a, b: {"contains": a, "maxContains": 1, "items": b}, inner, inner),
            st.builds(
                lambda a, b: {"properties": {"a": a}, "additionalProperties": b}, inner, inner
            ),
            st.builds(lambda a: {"dependentSchemas": {"a": a}, "propertyNames": a}, inner),
            st.builds(
                lambda a, b: {"prefixItems": [a], "items": b, "minContains": 1}, inner, inner
            ),
        ),
        max_leaves=5,
    ),
    st.lists(VALUES, min_size=1, max_size=8),
)
def test_what_the_accelerator_accepts_is_valid(schema: Any, values: list[Any]) -> None:
    accept = _accelerator(schema) if isinstance(schema, dict) else None
    if accept is None:
        return
    for value in values:
        try:
            accepted = accept(value)
        except (ValueError, OverflowError):
            continue
        if accepted:
            assert Draft202012Validator(schema).is_valid(value), (schema, value)


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {}},
        {"contains": {}},
        {"patternProperties": {"^a": {}}},
        {"$schema": "http://json-schema.org/draft-04/schema#"},
        {"$schema": 3},
        {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        {"oneOf": [{"type": "integer"}, {}]},
        {"oneOf": [True, {"type": "integer"}]},
        {"$ref": "other.json"},
        {"$ref": "#/$defs/none"},
        {"$ref": "#/items/3", "items": [{}]},
        {"$ref": "#/title/x", "title": "a"},
        {"properties": {"a": 1}},
        {"type": "int"},
        {"type": []},
        {"minimum": "1"},
        {"pattern": "(a+)+$"},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$ref": "#/definitions/a",
            "definitions": {"a": {}},
            "x-y": 1,
        },
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "array",
            "prefixItems": [{}],
        },
    ],
)
def test_what_is_beyond_the_subset_is_left_alone(schema: dict[str, Any]) -> None:
    assert compile_acceptor(schema) is None


def test_a_chain_of_references_without_end() -> None:
    schema = {"oneOf": [{"$ref": "#/$defs/a"}, {}], "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert compile_acceptor(schema) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"type": "string"}, {"type": "integer"}),
        ({"const": "a"}, {"enum": ["b", "c"]}),
        (
            {"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]},
            {"type": "object", "properties": {"k": {"enum": ["b"]}}, "required": ["k"]},
        ),
    ],
)
def test_alternatives_that_exclude_each_other(one: Any, other: Any) -> None:
    schema = {"oneOf": [{"$ref": "#/$defs/one"}, other], "$defs": {"one": one}}
    assert compile_acceptor(schema) is not None


def test_older_dialects_share_the_subset() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/x"}},
        "required": ["a"],
        "definitions": {"x": {"type": "array", "items": {"type": "integer"}}},
    }
    check_schema(schema)
    accept = compile_acceptor(schema)
    assert accept is not None
    for value in ({"a": [1, 2.0]}, {"a": ["x"]}, {}, {"a": []}):
        assert accept(value) == Draft7Validator(schema).is_valid(value)


# What must not take for ever ------------------------------------------------------------------


def test_schemas_that_expand_without_bound_are_left_alone() -> None:
    definitions: dict[str, Any] = {
        f"d{number}": {"allOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(20)
    }
    definitions["d20"] = {"type": "string"}
    assert compile_acceptor({"$ref": "#/$defs/d0", "$defs": definitions}) is None


def test_alternatives_that_recur_in_each_other_are_left_alone() -> None:
    def member(name: str) -> dict[str, Any]:
        children = {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}
        return {
            "type": "object",
            "properties": {"child": children, name: {"type": "null"}},
            "required": ["child"],
        }

    schema = {"$ref": "#/$defs/a", "$defs": {"a": member("a"), "b": member("b")}}
    assert compile_acceptor(schema) is None


def test_what_recurs_one_way_at_a_time_is_compiled() -> None:
    schema = {
        "$ref": "#/$defs/json",
        "$defs": {
            "json": {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"$ref": "#/$defs/json"}},
                    {"type": "array", "items": {"$ref": "#/$defs/json"}},
                    {"type": ["string", "null"]},
                ]
            }
        },
    }
    accept = compile_acceptor(schema)
    assert accept is not None
    assert accept({"a": [None, {"b": "c"}]})
    assert not accept({"a": [None, {"b": 1}]})
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RecursionError):
        accept(deep)


def test_a_long_chain_of_references_is_left_alone() -> None:
    definitions: dict[str, Any] = {
        f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(1500)
    }
    definitions["d1500"] = True
    assert compile_acceptor({"$ref": "#/$defs/d0", "$defs": definitions}) is None


@pytest.mark.parametrize(
    ("annotation", "valid"),
    [
        (list[int], [[], [1, 2.0], [2**70]]),
        (dict[str, list[str | None]], [{}, {"a": ["x", None]}]),
        (tuple[int, str], [[1, "x"]]),
        (set[str], [["a", "b"]]),
        (float | None, [1, 1.5, None]),
    ],
)
def test_inferred_schemas_need_no_second_look(annotation: Any, valid: list[Any]) -> None:
    accept = compile_acceptor(schema_of(annotation))
    assert accept is not None
    assert all(map(accept, valid))


def test_text_in_a_schema_is_never_run() -> None:
    name = "'] or __import__('os').abort() or value['"
    schema = {
        "type": "object",
        "properties": {name: {"enum": [name], "pattern": "^'", "minLength": 1}},
        "required": [name],
        "additionalProperties": False,
    }
    accept = compile_acceptor(schema)
    assert accept is not None
    assert accept({name: name})
    assert not accept({name: "x"})


def test_deeply_nested_alternatives_compile() -> None:
    schema: Any = {"type": "string"}
    for _ in range(60):
        schema = {"anyOf": [{"type": "null"}, schema]}
    accept = compile_acceptor(schema)
    assert accept is None or accept("x")
    assert compile_validator(schema)("x") is None
