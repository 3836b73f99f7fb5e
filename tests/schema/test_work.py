"""What a value costs is known before it is checked, and too much is refused."""

from typing import Any

import pytest

from trio_mcp.schema import compile_validator, schema_of

pytestmark = pytest.mark.requirement("B4")

TOO_MUCH = "The arguments are too much work to check against the schema; send less, or nest it less deeply."
TOO_DEEP = "The arguments are nested too deeply to be checked."
RECURSIVE = {
    "$ref": "#/$defs/n",
    "$defs": {
        "n": {
            "anyOf": [
                {"type": "array", "items": {"$ref": "#/$defs/n"}, "minItems": 0},
                {"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 9},
            ]
        }
    },
}
KINDS = [
    {"type": "object", "properties": {"kind": {"const": str(n)}}, "required": ["kind"]}
    for n in range(50)
]


def _nested(levels: int, value: Any = "x") -> Any:
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [2, 20, 60, 199])
def test_alternatives_that_recur(levels: int) -> None:
    """Each level doubles the ways to be wrong; nobody may go them all."""
    sentence = compile_validator(RECURSIVE)(_nested(levels))
    assert sentence == "The arguments fit none of its alternatives ([[...]])."


@pytest.mark.parametrize("levels", [201, 1000, 100_000])
@pytest.mark.parametrize(
    "schema",
    [
        RECURSIVE,
        {"items": {"$ref": "#"}},
        {"properties": {"a": {}}},
        {"enum": [[[]], "x"]},
        {"const": [[]]},
        {"uniqueItems": True},
        {"unevaluatedItems": {"type": "array"}},
    ],
)
def test_values_that_are_nested_too_deeply(schema: dict[str, Any], levels: int) -> None:
    validate = compile_validator(schema)
    assert validate(_nested(levels)) == TOO_DEEP
    assert validate({"a": _nested(levels)}) == TOO_DEEP
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    assert validate(value) == TOO_DEEP


def test_a_value_that_holds_itself() -> None:
    value: list[Any] = []
    value.append(value)
    assert compile_validator({"items": {"$ref": "#"}})(value) == TOO_DEEP


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"type": "integer"}}, [1] * 1_000_000),
        ({"items": schema_of(dict[str, int])}, [{"a": 1}] * 200_000),
        ({"items": {"multipleOf": 0.01}}, [19.99] * 10_000),
        ({"uniqueItems": True}, [{"a": n} for n in range(50_000)]),
        ({"uniqueItems": True}, [10**30 + n for n in range(200)]),
        ({"patternProperties": {"^k": {}}, "unevaluatedProperties": False}, {"k": 1}),
        (
            {"patternProperties": {"^k": {}}, "unevaluatedProperties": False},
            {f"k{n}": 1 for n in range(100_000)},
        ),
        ({"contains": {"const": 3}, "unevaluatedItems": {"type": "integer"}}, [*range(100_000)]),
        ({"items": {"anyOf": KINDS}}, [{"kind": "49"}] * 20_000),
        ({"items": {"enum": [0.5, 1.5]}}, [1.5] * 10_000),
    ],
)
def test_much_that_is_valid(schema: dict[str, Any], value: Any) -> None:
    assert compile_validator(schema)(value) is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"anyOf": KINDS}}, [{}] * 1_000_000),
        ({"items": {"allOf": [{"type": "integer"}] * 1000}}, [1] * 100_000),
        ({"allOf": [{"items": {"minimum": n}} for n in range(900)]}, [5000] * 100_000),
        ({"items": {"multipleOf": 0.01}}, [19.99] * 1_000_000),
        ({"items": {"multipleOf": 0.01}}, [1e22] * 5_000),
        ({"items": {"minimum": 3}}, [10**300] * 50_000),
        ({"uniqueItems": True}, [10**30 + n for n in range(3000)]),
        ({"items": {"uniqueItems": True}}, [[[10**30 + n] for n in range(3000)]]),
        ({"items": {"enum": [n + 0.5 for n in range(1500)]}}, [1499.5] * 1000),
        ({"items": {"enum": [{"a": n} for n in range(1500)]}}, [{"a": 1499}] * 1000),
        ({"items": {"dependentRequired": {str(n): [] for n in range(1000)}}}, [{"x": 1}] * 100_000),
        (
            {"items": {"patternProperties": {f"^{n}$": {} for n in range(1000)}}},
            [{"x": 1}] * 100_000,
        ),
    ],
)
def test_what_would_hold_up_others(schema: dict[str, Any], value: Any) -> None:
    assert compile_validator(schema)(value) == TOO_MUCH


@pytest.mark.parametrize(
    ("schema", "small", "large"),
    [
        ({"items": {"type": "integer"}}, [1] * 100, [1] * 100_000),
        ({"items": {"type": "integer"}}, ["x"] * 100, ["x"] * 100_000),
        ({}, [{}] * 100, [{}] * 100_000),
        ({"properties": {"a": {}}}, {"a": 1}, {str(n): n for n in range(100_000)}),
        ({"items": {"anyOf": KINDS}}, [{}] * 10, [{}] * 3000),
        ({"pattern": "^a+$"}, "a" * 1000, "a" * 1_000_000),
        ({"pattern": "[ab]*a[ab]{20}c"}, "a" * 100, "a" * 10_000),
        ({"items": {"type": "array"}}, _nested(100), [[]] * 100_000),
    ],
)
def test_what_takes_long_is_known_at_once(schema: dict[str, Any], small: Any, large: Any) -> None:
    validate = compile_validator(schema)
    assert not validate.takes_long(small)
    assert validate.takes_long(large)


def test_only_the_way_to_the_reason_is_walked() -> None:
    rows: list[Any] = [{"a": n} for n in range(100_000)]
    rows[-1] = {"a": "x"}
    validate = compile_validator({"items": schema_of(dict[str, int])})
    assert validate(rows) == ("Argument '[99999].a' must be an integer, but a string came ('x').")
    names = {str(n): 1 for n in range(100_000)}
    for known in ({"properties": {"a": {}}}, {"patternProperties": {"^a": {}}}):
        sentence = compile_validator({**known, "additionalProperties": False})(names)
        assert (sentence or "").startswith("Unexpected arguments '0', '1', '2', '3', '4', '5', '6'")
        assert "99993 more" in (sentence or "")
    unevaluated = compile_validator({"properties": {"a": {}}, "unevaluatedProperties": False})
    assert unevaluated(names) == "The arguments hold more than is allowed (100000 properties)."
