import threading
import timeit
from time import thread_time
from typing import Any, Literal

import jsonschema_rs
import pytest

from trio_mcp.schema import compile_validator, schema_of

pytestmark = pytest.mark.requirement("B4")

TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}

TOOL = {
    "type": "object",
    "properties": {
        "a": {"type": "number"},
        "b": {"type": "string", "minLength": 2, "maxLength": 20, "pattern": "^[a-z]+$"},
        "user": {
            "type": "object",
            "properties": {
                "address": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"zip": {"type": "string"}},
                        "required": ["zip"],
                        "additionalProperties": False,
                    },
                }
            },
        },
        "choice": {"enum": ["x", "y", 1]},
        "fixed": {"const": "z"},
        "either": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "kind": {"const": "circle"},
                        "r": {"type": "number", "minimum": 0},
                    },
                    "required": ["kind", "r"],
                },
                {
                    "type": "object",
                    "properties": {
                        "kind": {"enum": ["square", "cube"]},
                        "side": {"type": "number"},
                    },
                    "required": ["kind"],
                },
                {"type": "null"},
            ]
        },
        "loose": {
            "anyOf": [
                {"type": "object", "required": ["p"]},
                {"type": "object", "required": ["q"]},
            ]
        },
        "tags": {
            "anyOf": [
                {"type": "object", "properties": {"x": {"const": "a"}}},
                {"type": "object", "properties": {"y": {"const": "b"}}},
            ]
        },
        "one": {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]},
        "count": {"type": ["integer", "null"], "exclusiveMinimum": 0, "exclusiveMaximum": 10},
        "step": {"type": "integer", "multipleOf": 5, "maximum": 50},
        "list": {
            "type": "array",
            "uniqueItems": True,
            "minItems": 1,
            "maxItems": 3,
        },
        "pair": {"type": "array", "prefixItems": [{}, {}], "items": False},
        "with": {"contains": {"type": "string"}},
        "some": {"contains": {"type": "string"}, "minContains": 2},
        "day": {"type": "string", "format": "date"},
        "raw": {"type": "string", "contentEncoding": "base64"},
        "map": {
            "type": "object",
            "propertyNames": {"maxLength": 3},
            "minProperties": 1,
            "maxProperties": 2,
        },
        "not": {"not": {"type": "string"}},
        "never": False,
        "deps": {"dependentRequired": {"p": ["q"]}},
        "rest": {"properties": {"p": {}}, "unevaluatedProperties": False},
        "items": {"prefixItems": [{}], "unevaluatedItems": False},
        "patterned": {"patternProperties": {"^a": {}}, "additionalProperties": False},
        "odd": {"if": {"type": "string"}, "then": {"minLength": 3}},
        "words": {"enum": [*"abcdefghijkl"]},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"a": "x"}, "Argument 'a' must be a number, but a string came ('x')."),
        ({"a": True}, "Argument 'a' must be a number, but a boolean came (true)."),
        ({"a": None}, "Argument 'a' must be a number, but null came (null)."),
        ({"b": "b"}, "Argument 'b' must have at least 2 characters, but a string came ('b')."),
        (
            {"b": "b" * 100},
            f"Argument 'b' must have at most 20 characters, but a string came ('{'b' * 56}...).",
        ),
        ({"b": "BB"}, "Argument 'b' must match the pattern '^[a-z]+$', but a string came ('BB')."),
        (
            {"user": {"address": [{"zip": "1"}, {}]}},
            "Missing required argument 'user.address[1].zip' (string).",
        ),
        (
            {"user": {"address": [{"zip": 1}]}},
            "Argument 'user.address[0].zip' must be a string, but a number came (1).",
        ),
        (
            {"user": {"address": [{"zip": "1", "zop": 1}]}},
            "Unexpected argument 'user.address[0].zop'; 'user.address[0]' takes 'zip'.",
        ),
        (
            {"choice": True},
            "Argument 'choice' must be one of 'x', 'y' or 1, but a boolean came (true).",
        ),
        ({"fixed": 1}, "Argument 'fixed' must be 'z', but a number came (1)."),
        (
            {"either": {"kind": "circle", "r": -1}},
            "Argument 'either.r' must be at least 0, but a number came (-1).",
        ),
        (
            {"either": {"kind": "ring"}},
            "Argument 'either.kind' must be one of 'circle', 'square' or 'cube', but a string came "
            "('ring').",
        ),
        ({"either": []}, "Argument 'either' must be an object or null, but an array came ([])."),
        (
            {"tags": {"x": 1, "y": 1}},
            "Argument 'tags' fits none of its alternatives ({'x': 1, 'y': 1}).",
        ),
        ({"loose": {"r": 1}}, "Argument 'loose' fits none of its alternatives ({'r': 1})."),
        ({"one": 7}, "Argument 'one' fits more than one of its alternatives."),
        ({"count": 0}, "Argument 'count' must be more than 0, but a number came (0)."),
        ({"count": 10}, "Argument 'count' must be less than 10, but a number came (10)."),
        ({"count": "1"}, "Argument 'count' must be an integer or null, but a string came ('1')."),
        ({"step": 7}, "Argument 'step' must be a multiple of 5, but a number came (7)."),
        ({"step": 55}, "Argument 'step' must be at most 50, but a number came (55)."),
        ({"list": []}, "Argument 'list' must have at least 1 item, but an array came ([])."),
        (
            {"list": [1, 2, 3, 4]},
            "Argument 'list' must have at most 3 items, but an array came ([1, 2, 3, 4]).",
        ),
        (
            {"list": [{"a": [1]}, {"a": [1.0]}]},
            "Argument 'list' must hold no item twice, but an array came ([{...}, {...}]).",
        ),
        ({"pair": [1, 2, 3]}, "Argument 'pair[2]' is not allowed."),
        ({"with": [1]}, "Argument 'with' must contain a string, but an array came ([1])."),
        (
            {"some": ["x"]},
            "Argument 'some' must have at least 2 fitting items, but an array came (['x']).",
        ),
        ({"day": 1}, "Argument 'day' must be a date such as 2024-05-31, but a number came (1)."),
        ({"raw": 1}, "Argument 'raw' must be base64 text, but a number came (1)."),
        (
            {"map": {"long": 1}},
            "A property name in argument 'map' must have at most 3 characters, but a string came "
            "('long').",
        ),
        ({"map": {}}, "Argument 'map' must have at least 1 property, but an object came ({})."),
        (
            {"map": {"a": 1, "b": {"c": []}, "d": {}}},
            "Argument 'map' must have at most 2 properties, but an object came "
            "({'a': 1, 'b': {...}, 'd': {}}).",
        ),
        ({"not": "x"}, "Argument 'not' must not be a string, but a string came ('x')."),
        ({"never": 1}, "Argument 'never' is not allowed."),
        ({"deps": {"p": 1}}, "Argument 'deps': 'p' needs 'q'."),
        ({"rest": {"q": 1}}, "Argument 'rest' holds more than is allowed ({'q': 1})."),
        ({"items": [1, 2]}, "Argument 'items' holds more than is allowed ([1, 2])."),
        (
            {"patterned": {"ab": 1, "b": 1}},
            "Unexpected argument 'patterned.b'; 'patterned' takes no arguments.",
        ),
        ({"odd": "x"}, "Argument 'odd' must have at least 3 characters, but a string came ('x')."),
        (
            {"words": "z"},
            "Argument 'words' must be one of 'a', 'b', 'c', 'd', 'e', 'f', 'g' or 5 more, but a "
            "string came ('z').",
        ),
        ([], "The arguments must be an object, but an array came ([])."),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(arguments: Any, sentence: str) -> None:
    assert compile_validator(TOOL)(arguments) == sentence


def test_missing_and_unexpected_arguments() -> None:
    validate = compile_validator(
        {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "string"}},
            "required": ["a", "b", "c"],
            "additionalProperties": False,
        }
    )
    assert validate({"a": 1, "b": ""}) == "Missing required argument 'c'."
    assert validate({}) == "Missing required arguments 'a' (number), 'b' (string) and 'c'."
    assert validate({"c": 1}) == (
        "Missing required arguments 'a' (number) and 'b' (string). "
        "Unexpected argument 'c'; it takes 'a', 'b'."
    )
    assert validate({"a": 1, "b": "", "x": 1, "y" * 99: 2}) == (
        "Missing required argument 'c'. Unexpected arguments 'x' and "
        f"'{'y' * 57}...'; it takes 'a', 'b'."
    )
    assert compile_validator({"additionalProperties": False})({"x": 1}) == (
        "Unexpected argument 'x'; it takes no arguments."
    )


@pytest.mark.parametrize(("count", "told"), [(2, 2), (100, 3), (1000, 1), (100_000, 1)])
def test_few_errors_are_told_of_much_one(count: int, told: int) -> None:
    schema = {"items": {"type": "string"}}
    sentence = compile_validator(schema)([1] * count)
    assert sentence is not None
    assert sentence.count("must be a string") == told


def test_results_are_called_results() -> None:
    validate = compile_validator(TEXT, noun="result")
    assert validate({"text": 1}) == "Result 'text' must be a string, but a number came (1)."
    assert validate({}) == "Missing required result 'text' (string)."
    assert validate({"text": "", "x": 1}) == "Unexpected result 'x'; the result takes 'text'."
    assert validate(1) == "The result must be an object, but a number came (1)."


def test_results_are_not_quoted_where_they_may_be_anybodys() -> None:
    schema = {
        "properties": {"text": {"type": "string"}, "either": {"oneOf": [{"minLength": 1}, {}]}},
        "unevaluatedProperties": False,
    }
    validate = compile_validator(schema, noun="result", shows_values=False)
    assert validate({"text": 4711}) == "Result 'text' must be a string, but a number came."
    for value in ({"either": "4711"}, {"x": "4711"}, "4711"):
        assert "4711" not in (validate(value) or "")
    narrow = {"properties": {"n": {"anyOf": [{"minimum": 1}, {"multipleOf": 10}]}}}
    validate = compile_validator(narrow, noun="result", shows_values=False)
    assert validate({"n": -4711}) == "Result 'n' fits none of its alternatives."


@pytest.mark.parametrize(
    ("choices", "value", "sentence"),
    [
        (Literal["a", "b"], 1, "must be one of 'a' or 'b', but a number came (1)."),
        (Literal["a", 2], None, "must be one of 'a' or 2, but null came (null)."),
        (Literal["a"] | None, 1, "must be one of 'a' or null, but a number came (1)."),
        (Literal[True, None], 1, "must be one of true or null, but a number came (1)."),
    ],
)
def test_choices_are_told_in_one_sentence(choices: Any, value: Any, sentence: str) -> None:
    validate = compile_validator({"properties": {"x": schema_of(choices)}}, inferred=True)
    assert validate({"x": value}) == f"Argument 'x' {sentence}"
    nested = {
        "anyOf": [{"type": "object", "properties": {"x": schema_of(choices)}}, {"type": "null"}]
    }
    assert compile_validator({"properties": {"y": nested}})({"y": {"x": value}}) == (
        f"Argument 'y.x' {sentence}"
    )


def test_valid_arguments_have_no_sentence() -> None:
    validate = compile_validator(TOOL)
    assert validate({}) is None
    assert validate({"a": 1, "b": "bb", "either": None, "list": [1, True, 1.5]}) is None
    assert validate({"list": [[1], [True], {"a": 1}]}) is None


def test_older_dialects_are_honoured() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"type": "string"}],
        "additionalItems": False,
        "dependencies": {"a": ["b"]},
    }
    validate = compile_validator(schema)
    assert validate(["x"]) is None
    assert validate(["x", 1]) is not None
    assert validate({"a": 1}) == "The arguments: 'a' needs 'b'."
    oldest = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 3}
    exclusive = compile_validator({**oldest, "exclusiveMinimum": True})
    assert exclusive(3) == "The arguments must be more than 3, but a number came (3)."
    older = compile_validator(
        {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}
    )
    assert older(1) is None
    assert older(1.0) is not None


DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
AN_INTEGER = {"properties": {"q": {"$ref": "#/$defs/i"}}, "$defs": {"i": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "value", "sentence"),
    [
        (
            {"properties": {"a": {"$id": "https://a.test/n", **AN_INTEGER}}},
            {"a": {"q": "x"}},
            "Argument 'a.q' must be an integer, but a string came ('x').",
        ),
        (
            {"items": {"$ref": "#here"}, "$defs": {"a": {"$anchor": "here", "type": "string"}}},
            [1],
            "Argument '[0]' must be a string, but a number came (1).",
        ),
        (
            {"$dynamicAnchor": "node", "type": "array", "items": {"$dynamicRef": "#node"}},
            [[1]],
            "Argument '[0][0]' must be an array, but a number came (1).",
        ),
        (
            {
                **DRAFT_7,
                "$ref": "#/definitions/a",
                "type": "array",
                "definitions": {"a": {"minimum": 3}},
            },
            1,
            "The arguments must be at least 3, but a number came (1).",
        ),
        (
            {**DRAFT_7, "dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            {"a": 1, "c": 1},
            "The arguments: 'a' needs 'b'. Missing required argument 'd'.",
        ),
        (
            {"dependentSchemas": {"c": {"required": ["d"]}}},
            {"c": 1},
            "Missing required argument 'd'.",
        ),
        (
            {"if": {"required": ["a"]}, "then": {"maxProperties": 1}, "else": {"required": ["b"]}},
            {},
            "Missing required argument 'b'.",
        ),
        (
            {"contains": {"type": "string"}, "minContains": 0, "maxContains": 1},
            ["a", "b"],
            "The arguments must have at most 1 fitting item, but an array came (['a', 'b']).",
        ),
        (
            {"patternProperties": {"^a": {"type": "string"}, "b$": {"type": "integer"}}},
            {"ab": "x"},
            "Argument 'ab' must be an integer, but a string came ('x').",
        ),
        (
            {"properties": {"a": {"type": "string"}}, "unevaluatedProperties": False},
            {"a": 1},
            "Argument 'a' must be a string, but a number came (1).",
        ),
        (
            {"propertyNames": False},
            {"a": 1},
            "A property name in the arguments is not allowed.",
        ),
        (
            {"prefixItems": [{}, {"type": "string"}], "items": {"type": "integer"}},
            ["x", 1, "x"],
            "Argument '[1]' must be a string, but a number came (1). "
            "Argument '[2]' must be an integer, but a string came ('x').",
        ),
    ],
)
def test_the_way_to_the_reason(schema: dict[str, Any], value: Any, sentence: str) -> None:
    assert compile_validator(schema)(value) == sentence


@pytest.mark.parametrize("keyword", ["dependentRequired", "dependentSchemas", "maxContains"])
def test_what_another_dialect_calls_a_keyword_says_nothing(keyword: str) -> None:
    validate = compile_validator({**DRAFT_7, "contains": {"type": "string"}, keyword: "x"})
    assert validate(["a"]) is None
    assert validate([1]) == "The arguments must contain a string, but an array came ([1])."


def test_a_large_schema_is_not_compiled_anew_for_each_property() -> None:
    many = {f"q{n}": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/many"}]} for n in range(400)}
    names = [f"p{n}" for n in range(300)]
    schema = {
        "properties": {name: {"$ref": "#/$defs/many"} for name in names},
        "$defs": {"many": {"type": "object", "properties": many}},
    }
    validate = compile_validator(schema)
    compiled, compile = 0, jsonschema_rs.Draft202012Validator

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal compiled
        compiled += 1
        return compile(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonschema_rs, "Draft202012Validator", counted)
        told = validate({**{name: {} for name in names}, "p299": 1})
    assert told == "Argument 'p299' must be an object, but a number came (1)."
    assert 0 < compiled < 10


def test_a_schema_with_a_dialect_and_a_way_to_its_root() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "not": {"type": "string"},
        "items": {"$ref": "#"},
    }
    validate = compile_validator(schema)
    assert validate([[1]]) is None
    assert validate([["x"]]) is not None


# What must come to an end ---------------------------------------------------------------------


def test_values_that_are_nested_too_deeply() -> None:
    schema = {"items": {"$ref": "#"}, "type": "array"}
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    assert compile_validator(schema)(value) == "The arguments are nested too deeply to be checked."
    assert compile_validator(schema, noun="result")(value) == (
        "The result is nested too deeply to be checked."
    )


def test_numbers_that_are_out_of_range() -> None:
    schema = {"multipleOf": 0.5}
    assert compile_validator(schema)(10**400) == (
        "The arguments are not valid: a number is out of range."
    )
    assert compile_validator({"type": "string"})(10**5000) is not None


def test_long_lists_of_objects_are_compared_in_linear_time() -> None:
    validate = compile_validator({"uniqueItems": True, "contains": {}})
    items = [{"a": number} for number in range(20_000)]
    started = timeit.default_timer()
    assert validate(items) is None
    assert timeit.default_timer() - started < 5


def test_validators_may_be_shared_by_threads() -> None:
    validate = compile_validator({"not": {"type": "string"}, "items": {"not": {"type": "string"}}})
    outcomes: list[str | None] = []

    def work() -> None:
        outcomes.extend(validate([number, "x"]) for number in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 80
    assert all(outcomes)


# The layers -----------------------------------------------------------------------------------


def test_acceptance_is_quick() -> None:
    """A bound with much room, for a machine that does other things too."""
    validate = compile_validator(TEXT, inferred=True)
    arguments = {"text": "hello"}
    assert validate(arguments) is None
    timed = timeit.repeat(lambda: validate(arguments), timer=thread_time, number=2000, repeat=5)
    seconds = min(timed)
    assert seconds / 2000 < 10e-6


NAMES = ["0", "7", "007", "+1", "", "a/b~c%20", "é", "²", " 1", "1" * 30, "0" * 30]


@pytest.mark.parametrize("name", NAMES)
def test_properties_may_have_any_name(name: str) -> None:
    text = {"type": "string"}
    place = f"Argument {f'a.{name}'!r}" if name else "Argument 'a.'"
    for inner in (text, {"$ref": "#/$defs/text"}, {"anyOf": [text, {"$ref": "#/$defs/few"}]}):
        few = {"type": "array", "maxItems": 1}
        definitions = {"text": text, "few": few, name: text}
        for properties in ({"properties": {name: inner}}, {"additionalProperties": inner}):
            schema = {"properties": {"a": properties}, "$defs": definitions}
            told = compile_validator(schema)({"a": {name: 1}})
            assert told is not None
            assert told.startswith(f"{place} must be a string"), (schema, told)
