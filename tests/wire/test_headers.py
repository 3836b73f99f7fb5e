import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire.headers import (
    MAX_INTEGER,
    decode_value,
    encode_value,
    mirrored_parameters,
    parameter_headers,
)

pytestmark = pytest.mark.requirement("F9")


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("us-west1", "us-west1"),
        ("two words", "two words"),
        ("", ""),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?BASE64?literal?=", "=?BASE64?literal?="),
        ("x\r\nEvil: yes", "=?base64?eA0KRXZpbDogeWVz?="),
        ("a\tb", "=?base64?YQli?="),
        ("\x7f", "=?base64?fw==?="),
        (42, "42"),
        (-7, "-7"),
        (True, "true"),
        (False, "false"),
        (MAX_INTEGER, "9007199254740991"),
        (-MAX_INTEGER, "-9007199254740991"),
    ],
)
def test_values_are_written_as_the_specification_says(value, encoded):
    assert encode_value(value) == encoded


@pytest.mark.parametrize("value", [MAX_INTEGER + 1, -MAX_INTEGER - 1, 10**4000])
def test_integers_that_javascript_cannot_hold_are_refused(value):
    with pytest.raises(ValueError, match="an integer in a header"):
        encode_value(value)


def test_a_text_that_is_not_unicode_is_refused():
    with pytest.raises(ValueError, match="surrogates"):
        encode_value("\ud800")


@given(st.text())
def test_every_text_survives_and_its_header_is_plain_ascii_without_line_ends(value):
    encoded = encode_value(value)
    assert encoded.isascii()
    assert encoded.isprintable()
    assert encoded == encoded.strip()
    assert decode_value(encoded) == value


@pytest.mark.parametrize(
    "value",
    [
        "caf\xe9",
        "a\nb",
        "\x00",
        "\x7f",
        "=?base64?not base64?=",
        "=?base64?SGk?=",  # no padding
        "=?base64?SGl=?=",  # padded, but not as an encoder would
        "=?base64?/w==?=",  # no UTF-8
    ],
)
def test_what_no_client_would_send_is_refused(value):
    with pytest.raises(ValueError, match=r"a header holds|between"):
        decode_value(value)


@pytest.mark.parametrize("value", ["=?base64?", "=?base64", "?=", "=?base64?=", "a\tb"])
def test_what_only_looks_like_base64_is_plain(value):
    assert decode_value(value) == value


def test_an_empty_value_may_be_wrapped():
    assert decode_value("=?base64??=") == ""


def schema(**properties):
    return {"type": "object", "properties": properties}


def marked(name, type="string", **more):
    return {"type": type, "x-mcp-header": name, **more}


def test_marked_parameters_are_found_at_any_depth_by_their_path():
    assert mirrored_parameters(
        schema(
            region=marked("Region"),
            plain={"type": "string"},
            where=schema(zone=marked("Zone", "integer"), deep=schema(er=marked("Er", "boolean"))),
        )
    ) == {
        "Mcp-Param-Region": ("region",),
        "Mcp-Param-Zone": ("where", "zone"),
        "Mcp-Param-Er": ("where", "deep", "er"),
    }


@pytest.mark.parametrize("input_schema", [{}, None, True, {"type": "object"}, {"properties": 3}])
def test_a_schema_without_marks_mirrors_nothing(input_schema):
    assert mirrored_parameters(input_schema) == {}


def test_data_in_a_schema_and_a_property_of_that_name_are_no_marks():
    data = {"x-mcp-header": "X"}
    input_schema = schema(a={"type": "string", "default": data, "examples": [data], "const": data})
    input_schema["properties"]["x-mcp-header"] = {"type": "string"}
    input_schema["enum"] = [data]
    assert mirrored_parameters(input_schema) == {}


@pytest.mark.parametrize(
    ("input_schema", "why"),
    [
        (schema(a=marked("")), "a token"),
        (schema(a=marked("two words")), "a token"),
        (schema(a=marked("a:b")), "a token"),
        (schema(a=marked("a\r\nEvil: yes")), "a token"),
        (schema(a=marked("é")), "a token"),
        (schema(a=marked(7)), "a string, not a number"),
        (schema(a=marked(None)), "a string"),
        (schema(a=marked("X", "number")), "string, integer or boolean"),
        (schema(a=marked("X", "object")), "string, integer or boolean"),
        (schema(a=marked("X", ["string", "null"])), "string, integer or boolean"),
        (schema(a={"x-mcp-header": "X"}), "string, integer or boolean"),
        (schema(a=marked("Same"), b=marked("sAME")), "already"),
        (schema(a=marked("Same"), b=schema(c=marked("same"))), "already"),
        ({"x-mcp-header": "X", "type": "string"}, "only properties"),
        (schema(a={"type": "array", "items": marked("X")}), "only properties"),
        (schema(a={"items": [marked("X")]}), "only properties"),
        (schema(a={"prefixItems": [marked("X")]}), "only properties"),
        (schema(a={"anyOf": [marked("X"), {"type": "null"}]}), "only properties"),
        ({"allOf": [schema(a=marked("X"))]}, "only properties"),
        ({"oneOf": [schema(a=marked("X"))]}, "only properties"),
        ({"not": schema(a=marked("X"))}, "only properties"),
        ({"if": schema(a=marked("X"))}, "only properties"),
        ({"then": schema(a=marked("X"))}, "only properties"),
        ({"else": schema(a=marked("X"))}, "only properties"),
        ({"$defs": {"a": marked("X")}}, "only properties"),
        ({"definitions": {"a": marked("X")}}, "only properties"),
        ({"additionalProperties": marked("X")}, "only properties"),
        ({"patternProperties": {".": marked("X")}}, "only properties"),
        ({"dependentSchemas": {"a": schema(a=marked("X"))}}, "only properties"),
    ],
)
def test_a_mark_that_breaks_a_rule_makes_the_schema_invalid(input_schema, why):
    with pytest.raises(ValueError, match=why):
        mirrored_parameters(input_schema)


MIRRORED = {"Mcp-Param-Region": ("region",), "Mcp-Param-Zone": ("where", "zone")}


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "us-west1", "where": {"zone": 3}}, {"Region": "us-west1", "Zone": "3"}),
        ({"region": "Zürich"}, {"Region": "=?base64?WsO8cmljaA==?="}),
        ({"region": None, "where": None}, {}),
        ({"where": {"zone": None}}, {}),
        ({"where": {}}, {}),
        ({"where": "elsewhere"}, {}),
        ({}, {}),
        (None, {}),
        ({"where": {"zone": 42.0}}, {"Zone": "42"}),
        ({"where": {"zone": True}}, {"Zone": "true"}),
        ({"region": ""}, {"Region": ""}),
    ],
)
def test_arguments_are_mirrored_unless_missing_or_null(arguments, headers):
    expected = {f"Mcp-Param-{name}": value for name, value in headers.items()}
    assert parameter_headers(MIRRORED, arguments) == expected


@pytest.mark.parametrize("value", [[], {}, 1.5, 2**53, 1e300, float("inf")])
def test_an_argument_that_no_header_holds_is_refused_by_name(value):
    with pytest.raises(ValueError, match=r"^'where\.zone'"):
        parameter_headers(MIRRORED, {"where": {"zone": value}})


# -- how much of it ----------------------------------------------------------------------------


def nested(schema, levels):
    for _ in range(levels):
        schema = {"type": "object", "properties": {"n" * 1000: schema}}
    return schema


@pytest.mark.long
def test_a_schema_that_is_deep_and_wide_takes_little_more_memory_than_it_has():
    wide = {"properties": {str(number): {"type": "string"} for number in range(50_000)}}
    schema = nested(wide, 200)
    tracemalloc.start()
    try:
        assert mirrored_parameters(schema) == {}
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000  # a path of 200 names for each would be five times as much


def test_the_path_of_a_parameter_begins_at_the_top():
    inner = {"properties": {"b": {"type": "string", "x-mcp-header": "B"}}}
    assert mirrored_parameters({"properties": {"a": inner}}) == {"Mcp-Param-B": ("a", "b")}


def test_there_are_not_many_parameters_in_headers():
    def schema(count):
        names = range(count)
        return {"properties": {f"{n}": {"type": "string", "x-mcp-header": f"H{n}"} for n in names}}

    assert len(mirrored_parameters(schema(100))) == 100
    with pytest.raises(ValueError, match="more than 100 parameters"):
        mirrored_parameters(schema(101))
