"""Arguments on the command line: what `3` means is for the schema to say."""

import io
import sys
from typing import Any

import pytest

from trio_mcp.cli.arguments import parse_arguments, parse_texts
from trio_mcp.cli.failures import Usage
from trio_mcp.cli.schemas import field_of, json_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {
        "color": {"enum": ["red", "green"]},
        "point": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "circle": {"$ref": "#/$defs/circle"},
    },
    "properties": {
        "text": {"type": "string"},
        "number": {"type": "number"},
        "whole": {"type": "integer"},
        "flag": {"type": "boolean"},
        "flags": {"type": "array", "items": {"type": "boolean"}},
        "switch": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "mixed": {"type": ["boolean", "integer"]},
        "nothing": {"type": "null"},
        "perhaps": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "name": {"type": ["string", "null"]},
        "either": {"type": ["string", "integer"]},
        "color": {"$ref": "#/$defs/color"},
        "level": {"enum": [1, 2, "high"]},
        "fixed": {"const": 7},
        "tags": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "number"}},
        "point": {"$ref": "#/$defs/point"},
        "anything": {},
        "circle": {"$ref": "#/$defs/circle"},
        "far": {"$ref": "https://example.com/schema"},
        "true": True,
    },
    "required": ["text"],
}


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["text=3"], {"text": "3"}),
        (["text=true"], {"text": "true"}),
        (['text={"a": 1}'], {"text": '{"a": 1}'}),
        (["text="], {"text": ""}),
        (["text=a=b"], {"text": "a=b"}),
        (["text=two\nlines"], {"text": "two\nlines"}),
        (["number=3"], {"number": 3}),
        (["number=-2.5e3"], {"number": -2500.0}),
        (["number=NaN"], {"number": "NaN"}),
        (["number=x"], {"number": "x"}),
        (["whole=12345678901234567890123"], {"whole": 12345678901234567890123}),
        (["whole=1.5"], {"whole": 1.5}),
        (["flag=true"], {"flag": True}),
        (["flag=False"], {"flag": False}),
        (["flag=1"], {"flag": True}),
        (["flag=No"], {"flag": False}),
        (["flag=Y"], {"flag": True}),
        (["flag=maybe"], {"flag": "maybe"}),
        (["flags=yes", "flags=0"], {"flags": [True, False]}),
        (["switch=no"], {"switch": False}),
        (["mixed=1"], {"mixed": 1}),
        (["mixed=yes"], {"mixed": "yes"}),
        (["mixed=true"], {"mixed": True}),
        (["nothing=null"], {"nothing": None}),
        (["perhaps=4"], {"perhaps": 4}),
        (["perhaps=null"], {"perhaps": None}),
        (["name=null"], {"name": "null"}),
        (["either=4"], {"either": 4}),
        (["either=four"], {"either": "four"}),
        (["color=red"], {"color": "red"}),
        (["level=2"], {"level": 2}),
        (["level=high"], {"level": "high"}),
        (["fixed=7"], {"fixed": 7}),
        (["tags=a"], {"tags": ["a"]}),
        (["tags=a", "tags=3"], {"tags": ["a", "3"]}),
        (['tags=["a", "b"]'], {"tags": ["a", "b"]}),
        (["numbers=1", "numbers=2.5"], {"numbers": [1, 2.5]}),
        (["numbers=1"], {"numbers": [1]}),
        (['point={"x": 1}'], {"point": {"x": 1}}),
        (["point.x=1"], {"point": {"x": 1}}),
        (["point.x=1", "point.y:=[2]"], {"point": {"x": 1, "y": [2]}}),
        (['{"point": {"y": 2}}', "point.x=1"], {"point": {"x": 1, "y": 2}}),
        (["text.x=1", "unknown.x=1"], {"text.x": "1", "unknown.x": "1"}),
        (["anything=3"], {"anything": "3"}),
        (["anything=[3]"], {"anything": [3]}),
        (["anything:=3"], {"anything": 3}),
        (["circle=3", "far=3", "true=3"], {"circle": "3", "far": "3", "true": "3"}),
        (["unknown=3"], {"unknown": "3"}),
        (["unknown=a", "unknown=b"], {"unknown": ["a", "b"]}),
        (['{"text": 3}'], {"text": 3}),
        (['{"text": "a", "whole": 1}', "whole=2"], {"text": "a", "whole": 2}),
        (['text:="a"'], {"text": "a"}),
        ([], {}),
    ],
    ids=str,
)
def test_what_words_mean(words: list[str], arguments: dict[str, Any]) -> None:
    parsed = parse_arguments(words, SCHEMA)
    assert parsed == arguments
    assert [type(each) for each in parsed.values()] == [type(each) for each in arguments.values()]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["3"], "'3' is not KEY=VALUE, KEY:=JSON or a JSON object; it takes: text: string"),
        (["=3"], "'=3' is not KEY=VALUE"),
        (["{"], "the arguments are not JSON"),
        (['{"a": NaN}'], "the arguments are not JSON: NaN is not JSON"),
        (["anything:=x"], "what follows anything:= is not JSON"),
        (["point:=3", "point.x=1"], "point is given as a value, and as an object"),
        (["whole=1", "whole=2"], "whole: given more than once, but it is not a list"),
        (["{" + '"a":{' * 100_000], "the arguments are not JSON"),
    ],
)
def test_what_words_cannot_mean(words: list[str], told: str) -> None:
    with pytest.raises(Usage) as caught:
        parse_arguments(words, SCHEMA)
    assert str(caught.value).startswith(told)


def test_arguments_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"text": "from stdin"}'))
    assert parse_arguments(["-", "whole=1"], SCHEMA) == {"text": "from stdin", "whole": 1}
    monkeypatch.setattr(sys, "stdin", io.StringIO("[1]"))
    with pytest.raises(Usage, match="must be a JSON object"):
        parse_arguments(["-"], SCHEMA)


@pytest.mark.parametrize("schema", [None, True, [], {"properties": []}, {"properties": {"a": 1}}])
def test_a_schema_that_is_none_is_no_obstacle(schema: Any) -> None:
    assert parse_arguments(["a=3"], schema) == {"a": "3"}


def test_arguments_of_prompts_are_texts() -> None:
    assert parse_texts(["a=3", "b={}", "c="]) == {"a": "3", "b": "{}", "c": ""}
    with pytest.raises(Usage, match="'three' is not KEY=VALUE"):
        parse_texts(["three"])


def test_a_schema_in_words() -> None:
    shown = {name: each.in_words() for name, each in field_of(SCHEMA).properties.items()}
    assert shown["either"] == "string|integer"
    assert shown["perhaps"] == "integer"
    assert shown["color"] == "red|green"
    assert shown["level"] == "1|2|high"
    assert shown["numbers"] == "list of number"
    assert shown["point"] == "{x?: integer}"
    assert shown["anything"] == shown["circle"] == shown["far"] == "any"
    long = {"enum": [f"value{number}" for number in range(20)]}
    assert field_of(long).in_words().endswith("value7|…")
    schema = {"properties": {"a": {"type": "string", "default": "x"}, "b": {}}, "required": ["b"]}
    assert field_of(schema).signature() == "a?: string = x, b: any"
    deep: dict[str, Any] = {"type": "object", "properties": {"n": {"$ref": "#"}}}
    assert field_of(deep).signature() == "n?: {n?: {n?: object}}"


def test_a_large_schema_is_told_in_few_words() -> None:
    many = {"properties": {f"a{number}": {"type": "string"} for number in range(10_000)}}
    assert field_of(many).signature().endswith("a19?: string, …")
    either = {"anyOf": [{"enum": [number]} for number in range(10_000)]}
    assert field_of(either).in_words() == "0|1|2|3|4|5|6|7|…"


def test_a_schema_that_holds_itself_comes_to_an_end() -> None:
    tree = {"$ref": "#/$defs/tree"}
    schema = {"properties": {"a": tree}, "$defs": {"tree": {"type": "array", "items": tree}}}
    assert field_of(schema).signature() == "a?: list of list of array"
    value = parse_arguments(["a=x"], schema)["a"]
    while isinstance(value, list):
        (value,) = value
    assert value == "x"
    everywhere = {"anyOf": [{"$ref": "#"} for _ in range(50)], "type": "string"}
    assert field_of(everywhere).in_words() == "string"


def test_json_is_json() -> None:
    assert json_of(" [1] ") == [1]
    for text in ("NaN", "Infinity", "{'a': 1}", ""):
        with pytest.raises(ValueError, match=r"."):
            json_of(text)
    assert field_of({"type": "integer"}).typed("9" * 5000) == "9" * 5000, "too long for Python"
