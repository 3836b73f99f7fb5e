"""What a check may cost is bounded: by the size of the value, and by a budget of time."""

import weakref
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


@pytest.mark.parametrize(
    ("schema", "item"),
    [
        ({"uniqueItems": True}, _nested(201)),
        ({"items": {"minimum": 3}}, 10**400),
        ({"items": {"uniqueItems": True}}, [10**30 + n for n in range(300)]),
    ],
    ids=["too deep", "out of range", "too much"],
)
def test_a_value_that_is_refused_is_not_kept(schema: dict[str, Any], item: Any) -> None:
    class Rows(list[Any]):
        """A list to which there can be weak references."""

    rows = Rows([item])
    kept = weakref.ref(rows)
    assert "The arguments are " in (compile_validator(schema)(rows) or "")
    del rows
    assert kept() is None


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
        ({"items": {"multipleOf": 0.01}}, [1e22] * 5_000),
        ({"items": {"minimum": 3}}, [10**300] * 50_000),
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
        ({"items": {"anyOf": KINDS}}, [{"kind": "49"}] * 200_000),
        ({"items": {"allOf": [{"type": "integer"}] * 1000}}, [1] * 100_000),
        ({"allOf": [{"items": {"minimum": n}} for n in range(900)]}, [5000] * 100_000),
        ({"uniqueItems": True}, [10**30 + n for n in range(3000)]),
        ({"items": {"uniqueItems": True}}, [[[10**30 + n] for n in range(3000)]]),
        ({"items": {"enum": [{"a": n} for n in range(1500)]}}, [{"a": 1499}] * 1000),
        ({"items": {"enum": [n + 0.5 for n in range(1500)]}}, [1499.5] * 1000),
        (
            {"items": {"patternProperties": {f"^{n}$": {} for n in range(1000)}}},
            [{"x": 1}] * 100_000,
        ),
    ],
)
def test_what_would_hold_up_others(
    schema: dict[str, Any], value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trio_mcp.schema.engine._SECONDS", (0.05, 0.1))
    assert compile_validator(schema)(value) == TOO_MUCH


@pytest.mark.long
def test_only_the_way_to_the_reason_is_walked() -> None:
    rows: list[Any] = [{"a": n} for n in range(100_000)]
    rows[-1] = {"a": "x"}
    validate = compile_validator({"items": schema_of(dict[str, int])})
    assert validate(rows) == ("Argument '[99999].a' must be an integer, but a string came ('x').")
    names = {str(n): 1 for n in range(100_000)}
    closed = compile_validator({"properties": {"a": {}}, "additionalProperties": False})
    sentence = closed(names) or ""
    assert sentence == "Unexpected argument '0'; it takes 'a'."
    unevaluated = compile_validator({"properties": {"a": {}}, "unevaluatedProperties": False})
    assert unevaluated(names) == "The arguments hold more than is allowed (100000 properties)."


ROW = {
    "anyOf": [
        {"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}},
        {"type": "object", "properties": {"kind": {"const": "b"}, "n": {"type": "string"}}},
    ]
}
ROWS = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/row"}}, {"type": "null"}]}


@pytest.mark.parametrize("count", [0, 1, 5000, pytest.param(80_000, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"kind": "a", "n": "x"}, "[{}].n' must be an integer, but a string came ('x')."),
        ({"kind": "c", "n": 1}, "[{}].kind' must be one of 'a' or 'b', but a string came ('c')."),
        (1, "[{}]' must be an object, but a number came (1)."),
    ],
)
def test_the_reason_is_found_whatever_stands_before_it(count: int, row: Any, sentence: str) -> None:
    schema = {"properties": {"rows": ROWS}, "$defs": {"row": ROW}}
    rows = [{"kind": "b", "n": "x"}] * count
    told = compile_validator(schema)({"rows": [*rows, row]})
    assert told == f"Argument 'rows{sentence.format(count)}"


def test_of_very_much_only_the_argument_is_named() -> None:
    validate = compile_validator({"properties": {"a": {"items": {"type": "integer"}}}})
    told = "Argument 'a' does not fit the schema (1000001 items)."
    assert validate({"a": [*[1] * 1_000_000, "x"], "b": 1}) == told
    assert validate({"a": ["x"], "b": [1] * 1_000_000}) == (
        "Argument 'a[0]' must be an integer, but a string came ('x')."
    )


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        ({"maxItems": 3}, [[1]] * 300_000, "must have at most 3 items, but an array came (300000"),
        ({"type": "string"}, [[1]] * 300_000, "must be a string, but an array came (300000 items)"),
        (
            {"required": ["b"]},
            {str(n): [1] for n in range(99_999)},
            "Missing required argument 'b'",
        ),
        ({"oneOf": [{"maxItems": 3}, {"minItems": 10**6}]}, [[1]] * 300_000, "fit none of its"),
        ({"allOf": [{"items": {"type": "array"}}]}, [1] * 10_000, "'[0]' must be an array, but a"),
        ({"not": {"type": "array"}}, [1] * 10_000, "must not be an array"),
        ({"prefixItems": [{"maxItems": 3}]}, [[1] * 10_000], "'[0]' must have at most 3 items"),
        ({"propertyNames": {"maxLength": 3}}, {"x" * 10**6: 1}, "A property name in the arguments"),
    ],
)
@pytest.mark.long
def test_large_values_have_reasons_too(schema: dict[str, Any], value: Any, words: str) -> None:
    assert words in (compile_validator(schema)(value) or "")


def test_schemas_with_names_of_their_own_have_reasons_too() -> None:
    schema = {
        "properties": {"a": {"$ref": "https://a.test/n"}, "b": {"type": "string"}},
        "$defs": {
            "n": {"$id": "https://a.test/n", "anyOf": [{"type": "integer"}, {"minLength": 3}]}
        },
    }
    validate = compile_validator(schema)
    assert validate({"a": 1, "b": "x"}) is None
    assert validate({"a": 1, "b": 1}) == "Argument 'b' must be a string, but a number came (1)."
    assert "Argument 'a'" in (validate({"a": "x"}) or "")


@pytest.mark.parametrize(
    ("pattern", "most"),
    [("^(ab|cd){4}$", 170_000), ("^(ab|cd){13}$", 42_000), (r"^\p{L}{13}$", 330)],
    ids=["2 KiB", "8 KiB", "1 MiB"],
)
def test_a_text_for_a_large_pattern_is_as_long_as_the_limits_say(pattern: str, most: int) -> None:
    check = compile_validator({"properties": {"a": {"pattern": pattern}}}, noun="argument")
    assert "must match the pattern" in str(check({"a": "!" * most}))
    assert "too much work" in str(check({"a": "!" * int(most * 1.02)}))
