"""jsonschema-rs and jsonschema say the same of the schemas that annotations make, and of more."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from trio_mcp.schema import compile_validator
from trio_mcp.schema.validate import fits_at_sight, plain_test

pytestmark = pytest.mark.requirement("B4")

TEXTS = st.sampled_from(["", "a", "ab", "abc", "é", "1", "2024-05-31"])
NAMES = st.sampled_from(["a", "b", "c", "7", ""])
NUMBERS = (
    st.integers(-3, 5)
    | st.sampled_from([1.0, 0.5, -0.0, 2.5, 2**53, 2**53 + 1, 2**70, 1e20, 1e300])
    | st.integers(-(2**80), 2**80)
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
SIZES = st.integers(0, 3)
BOUNDS = st.integers(-2, 4) | st.sampled_from([0.5, 1.0, 2.5, 1e20])
WORDS = st.fixed_dictionaries(
    {}, optional={"title": TEXTS, "default": VALUES, "format": st.just("date"), "x-note": VALUES}
)

STRINGS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "minLength": SIZES,
        "maxLength": SIZES,
        "pattern": st.sampled_from(["a", "^a", "b$", "^[a-z]*$", "[0-9]", "^(a+)+$"]),
    },
)
NUMERIC = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={
        "minimum": BOUNDS,
        "maximum": BOUNDS,
        "exclusiveMinimum": BOUNDS,
        "exclusiveMaximum": BOUNDS,
        # Fractions of two are exact in both libraries; 0.01 is another matter, told below.
        "multipleOf": st.sampled_from([1, 2, 3, 0.5, 2.0]),
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
        {"minimum": 1, "minLength": 2},
        {"minItems": 1, "minProperties": 1},
        {"required": ["a"]},
        {"dependentRequired": {"a": ["b"]}},
        {"$ref": "#/$defs/d"},
        {"type": "array", "items": {"$ref": "#"}},
    ]
)
CHOICES = st.builds(lambda values: {"enum": values}, st.lists(VALUES, min_size=1, max_size=4)) | (
    st.builds(lambda value: {"const": value}, VALUES)
)


def _holders(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.just("array"),
                "items": inner,
                "prefixItems": st.lists(inner, min_size=1, max_size=3),
                "minItems": SIZES,
                "maxItems": SIZES,
                "uniqueItems": st.booleans(),
                "contains": inner,
                "minContains": SIZES,
                "maxContains": SIZES,
                "unevaluatedItems": inner,
            },
        ),
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["object", ["object", "null"]]),
                "properties": st.dictionaries(NAMES, inner, max_size=3),
                "patternProperties": st.dictionaries(st.sampled_from(["a", "^b"]), inner),
                "required": st.lists(NAMES, max_size=2, unique=True),
                "additionalProperties": inner,
                "propertyNames": STRINGS,
                "minProperties": SIZES,
                "maxProperties": SIZES,
                "dependentSchemas": st.dictionaries(NAMES, inner, max_size=1),
                "unevaluatedProperties": inner,
            },
        ),
        st.sampled_from(["anyOf", "oneOf", "allOf"]).flatmap(
            lambda keyword: st.lists(inner, min_size=1, max_size=3).map(
                lambda each: {keyword: each}
            )
        ),
        st.builds(lambda each: {"not": each}, inner),
        st.builds(lambda a, b, c: {"if": a, "then": b, "else": c}, inner, inner, inner),
    )


SCHEMAS = st.builds(
    lambda schema, definition, words: {**words, "allOf": [schema], "$defs": {"d": definition}},
    st.recursive(STRINGS | NUMERIC | PLAIN | CHOICES, _holders, max_leaves=6),
    STRINGS | NUMERIC | CHOICES,
    WORDS,
)

RUN = settings(
    database=None,
    suppress_health_check=list(HealthCheck),
)


@RUN
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=8))
def test_both_say_the_same(schema: dict[str, Any], values: list[Any]) -> None:
    validate = compile_validator(schema)
    other = Draft202012Validator(schema)
    for value in values:
        try:
            valid = other.is_valid(value)
        except OverflowError:  # it divides by way of floats
            continue
        problem = validate(value)
        assert (problem is None) == valid, (schema, value)
        assert problem is None or problem.endswith(".")


@RUN
@given(
    st.dictionaries(NAMES, STRINGS | NUMERIC | PLAIN | CHOICES, max_size=3),
    st.lists(NAMES, max_size=2, unique=True),
    st.dictionaries(NAMES, SCALARS, max_size=3),
)
def test_what_is_plain_is_valid(
    properties: dict[str, Any], required: list[str], value: dict[str, Any]
) -> None:
    schema = {"type": "object", "properties": properties, "required": required}
    defined = {**schema, "$defs": {"d": {"type": "string"}}}
    fits = plain_test(schema)
    if fits is not None and fits(value):
        assert Draft202012Validator(defined).is_valid(value)


@RUN
@given(STRINGS | NUMERIC | PLAIN | CHOICES | _holders(STRINGS | NUMERIC | PLAIN | CHOICES), VALUES)
def test_what_fits_at_sight_is_valid(schema: Any, value: Any) -> None:
    if fits_at_sight(schema, value):
        assert Draft202012Validator(schema).is_valid(value)


# Where they differ, it is decided ---------------------------------------------------------------


@pytest.mark.parametrize("step", [0.01, 0.1])
def test_numbers_are_taken_as_they_are_written(step: float) -> None:
    validate = compile_validator({"multipleOf": step})
    assert validate(19.9) is None
    assert validate(19.99) == (None if step == 0.01 else validate(19.99))
    assert validate(19.999) is not None


def test_patterns_are_those_of_ecma_262() -> None:
    digits = compile_validator({"pattern": r"^\d$"})
    assert digits("7") is None
    assert digits("٣") is not None
    end = compile_validator({"pattern": "a$"})
    assert end("a") is None
    assert end("a\n") is not None


def test_numbers_that_nothing_can_be_said_of() -> None:
    validate = compile_validator({"items": {"minimum": 0}})
    assert validate([2**1024 - 1]) is None
    assert validate([2**1024]) == "The arguments are not valid: a number is out of range."
    assert compile_validator({"items": {"type": "integer"}})([10**5000]) is None


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), "\ud800", object(), b"a"])
def test_what_is_no_json_is_refused_where_it_matters(value: Any) -> None:
    validate = compile_validator({"properties": {"a": {"type": "number", "minimum": 0}}})
    assert validate({"a": value}) is not None
