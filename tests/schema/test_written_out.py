"""References in schemas: what is written out where it is used, and what keeps them."""

import json
from itertools import pairwise
from typing import Any

import attrs
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp import Registry, Remote, connect
from trio_mcp.errors import InvalidArguments
from trio_mcp.schema.written_out import MOST_ADDED, written_out
from trio_mcp.wire.jsonrpc import Json

pytestmark = pytest.mark.requirement("Q5")

Schema = dict[str, Any]
PLACE: Schema = {"type": "object", "properties": {"city": {"type": "string"}}}


def ref(name: str, **beside: Json) -> Schema:
    return {"$ref": f"#/$defs/{name}", **beside}


def schema_of(properties: Schema, **definitions: Any) -> Schema:
    return {"type": "object", "properties": properties, "$defs": definitions}


def count(value: Any) -> int:
    parts = list(value.values()) if isinstance(value, dict) else value
    return 1 + sum(map(count, parts)) if isinstance(parts, list) else 1


def test_a_definition_is_written_out_wherever_it_is_used() -> None:
    trip = {"type": "object", "properties": {"from": ref("Place"), "to": ref("Place")}}
    schema = schema_of(
        {"there": ref("Trip"), "stops": {"items": ref("Place")}}, Trip=trip, Place=PLACE
    )
    assert written_out(schema) == {
        "type": "object",
        "properties": {
            "there": {"type": "object", "properties": {"from": PLACE, "to": PLACE}},
            "stops": {"items": PLACE},
        },
    }
    assert schema["$defs"] == {"Trip": trip, "Place": PLACE}, "what was given stays as it is"


@pytest.mark.parametrize(
    ("reference", "target", "out"),
    [
        (ref("T", description="mine"), {"description": "its", "type": "integer"}, {"description": "mine", "type": "integer"}),
        (ref("T", type="integer"), {"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 1}),
        (
            ref("T", minimum=2, title="x"),
            {"type": "integer", "minimum": 1},
            {"allOf": [{"type": "integer", "minimum": 1}], "minimum": 2, "title": "x"},
        ),
        (ref("T", allOf=[{}]), {"type": "integer"}, {"allOf": [{"type": "integer"}, {}]}),
        (ref("T"), True, True),
    ],
)  # fmt: skip
def test_what_stands_beside_a_reference_counts_as_before(
    reference: Schema, target: Any, out: Schema
) -> None:
    assert written_out(schema_of({"a": reference}, T=target))["properties"]["a"] == out


def test_in_old_dialects_it_says_nothing_and_they_have_another_place() -> None:
    reference = {"$ref": "#/definitions/T", "minimum": 2, "description": "mine"}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": reference},
        "definitions": {"T": {"type": "integer"}},
    }
    out = written_out(schema)
    assert out["properties"] == {"a": {"type": "integer", "description": "mine"}}
    assert "definitions" not in out


def test_what_is_recursive_keeps_its_reference_and_all_that_it_needs() -> None:
    tree = {"properties": {"left": ref("Tree"), "at": ref("Place")}}
    schema = schema_of({"tree": ref("Tree"), "at": ref("Place")}, Tree=tree, Place=PLACE, Lost={})
    assert written_out(schema) == {
        "type": "object",
        "properties": {"tree": ref("Tree"), "at": PLACE},
        "$defs": {"Tree": tree, "Place": PLACE},
    }
    even, odd = {"items": ref("Odd")}, {"items": ref("Even")}
    out = written_out(schema_of({"a": ref("Even"), "b": ref("Odd")}, Even=even, Odd=odd))
    assert set(out["$defs"]) == {"Even", "Odd"}


def test_what_only_looks_like_a_reference_stays() -> None:
    held = {"properties": {"$ref": {"type": "string"}}, "enum": [{"$ref": "#/$defs/Place"}]}
    out = written_out(schema_of({"a": held, "b": ref("Place")}, Place=PLACE))
    assert out["properties"] == {"a": held, "b": PLACE}


def test_names_with_slashes_and_tildes_are_found() -> None:
    assert "$defs" not in written_out(schema_of({"a": ref("x~1y~0z")}, **{"x/y~z": PLACE}))


@pytest.mark.parametrize(
    "schema",
    [
        PLACE,
        schema_of({"a": ref("Lost")}),
        schema_of({"a": {"$ref": "#/properties/b"}, "b": {}, "c": ref("T")}, T={}),
        schema_of({"a": {"$ref": "https://example.com/schema"}}, T={}),
        schema_of({"a": {"$dynamicRef": "#x"}, "b": ref("T")}, T={"$dynamicAnchor": "x"}),
        {**schema_of({"a": ref("T")}, T={}), "$id": "https://example.com/schema"},
        {**schema_of({"a": ref("T")}, T={}), "$schema": "https://example.com/dialect"},
        {"$defs": []},
    ],
)
def test_what_is_not_understood_is_left_alone(schema: Schema) -> None:
    assert written_out(schema) is schema


# -- bounds -----------------------------------------------------------------------------------


def doubling(levels: int) -> Schema:
    """Each definition refers twice to the next: written out, it would be 2 to so many."""
    names = [f"D{number}" for number in range(levels)]
    twice = {
        name: {"properties": {"x": ref(then), "y": ref(then)}} for name, then in pairwise(names)
    }
    return schema_of({"a": ref("D0"), "small": ref(names[-1])}, **twice, **{names[-1]: PLACE})


def test_what_would_grow_without_bound_keeps_its_reference() -> None:
    schema = doubling(100)
    out = written_out(schema)
    assert out["properties"] == {"a": ref("D0"), "small": PLACE}
    assert len(out["$defs"]) == 100
    assert "$defs" not in written_out(doubling(5))


@given(st.integers(1, 12), st.integers(1, 300))
def test_a_schema_grows_by_a_bounded_number_of_values(levels: int, uses: int) -> None:
    schema = doubling(levels)
    schema["properties"] |= {f"p{number}": ref("D0") for number in range(uses)}
    assert count(written_out(schema)) <= count(schema) + MOST_ADDED


def test_what_would_get_too_deep_keeps_its_reference() -> None:
    names = [f"D{number}" for number in range(50)]
    chain = {name: {"items": {"items": ref(then)}} for name, then in pairwise(names)}
    schema = schema_of({"a": ref("D0"), "b": ref("D40")}, **chain, D49=PLACE)
    out = written_out(schema)
    assert out["properties"]["a"] == ref("D0")
    assert "$ref" not in json.dumps(out["properties"]["b"])


def test_a_schema_that_is_large_already_stays() -> None:
    schema = schema_of({f"p{number}": ref("T") for number in range(3000)}, T=PLACE)
    assert written_out(schema) is schema
    deep: Any = ref("T")
    for _ in range(300):
        deep = {"items": deep}
    schema = schema_of({"a": deep}, T=PLACE)
    assert written_out(schema) is schema


# -- it says the same ---------------------------------------------------------------------------

NAMES = ["A", "B", "C"]
REFERENCES = st.builds(
    lambda name, beside: {**ref(name), **beside},
    st.sampled_from(NAMES),
    st.sampled_from([{}, {"description": "x"}, {"minimum": 1}, {"type": "object"}, {"required": ["a"]}]),
)  # fmt: skip
LEAVES = st.sampled_from(
    [True, {"type": "integer"}, {"type": "object"}, {"const": 1}, {"minimum": 2}]
)
PARTS = st.one_of(LEAVES, REFERENCES)
DEFINITIONS = st.one_of(
    LEAVES,
    st.builds(lambda part: {"type": "array", "items": part}, PARTS),
    st.builds(
        lambda parts, rest: {"properties": parts, "additionalProperties": rest},
        st.dictionaries(st.sampled_from("ab"), PARTS),
        PARTS,
    ),
)
VALUES = st.recursive(
    st.sampled_from([1, 2, "x", None]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)


@given(st.lists(PARTS, min_size=1), st.tuples(*[DEFINITIONS] * len(NAMES)), VALUES)
def test_the_same_values_fit(parts: list[Any], definitions: tuple[Any, ...], value: Json) -> None:
    properties = dict(zip("abcdefgh", parts, strict=False))
    schema = schema_of(properties, **dict(zip(NAMES, definitions, strict=True)))
    for wrapped in (value, {"a": value}):
        expected = jsonschema_rs.validator_for(schema).is_valid(wrapped)
        assert jsonschema_rs.validator_for(dict(written_out(schema))).is_valid(wrapped) == expected


# -- where it is shown ----------------------------------------------------------------------------


@attrs.frozen
class Place:
    city: str
    street: str = ""


@attrs.frozen
class Trip:
    start: Place
    end: Place


def travel(**options: Any) -> Registry:
    registry = Registry("travel", **options)

    @registry.tool
    async def plan(there: Trip, stop: Place) -> Trip:
        return Trip(there.start, stop)

    return registry


ARGUMENTS = {"there": {"start": {"city": "a"}, "end": {"city": "b"}}, "stop": {"city": "c"}}


async def test_lists_show_tools_without_references_that_work_as_before() -> None:
    async with connect(travel()) as client:
        assert "$ref" not in json.dumps(client.tools["plan"].details)
        result = await client.call_tool("plan", ARGUMENTS)
        assert result.structured_content["end"] == {"city": "c", "street": ""}
        wrong = {**ARGUMENTS, "there": {"start": {"city": "a"}, "end": {"city": 1}}}
        with pytest.raises(InvalidArguments, match="must be a string"):
            await client.call_tool("plan", wrong)
    async with connect(travel(dereference_schemas=False)) as client:
        shown = client.tools["plan"].details
        assert {"$defs"} <= shown["inputSchema"].keys() & shown["outputSchema"].keys()


async def test_those_of_a_server_elsewhere_stay_as_they_are_unless_asked_for() -> None:
    far = travel(dereference_schemas=False)
    async with connect(far) as client:
        original = client.tools["plan"].details
    for options, is_same in (({}, True), ({"dereference_schemas": True}, False)):
        registry = Registry("here")
        registry.mount(Remote(far, **options))
        async with connect(registry) as client:
            shown = client.tools["plan"].details
            assert (shown["inputSchema"] == original["inputSchema"]) is is_same
            assert ("$ref" in json.dumps(shown)) is is_same
            assert (await client.call_tool("plan", ARGUMENTS)).success
