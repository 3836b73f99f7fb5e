import dataclasses
import datetime
import decimal
import enum
import ipaddress
import pathlib
import urllib.parse
import uuid
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
)

import attrs
import pytest
import trio
from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MaxLen, MinLen, MultipleOf
from jsonschema import Draft202012Validator
from typing_extensions import Doc, TypeAliasType

from trio_mcp.schema import SchemaError, schema_of

pytestmark = pytest.mark.requirement("C2")

UserId = NewType("UserId", int)
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | None")
Short = TypeAliasType("Short", Annotated[str, MaxLen(3)])


class Color(enum.Enum):
    """What it looks like."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mode(enum.StrEnum):
    FAST = "fast"
    SLOW = "slow"


@attrs.frozen
class Point:
    """A place.

    Attributes:
        x: How far to the right.
    """

    x: float
    y: float = attrs.field(default=0.0, metadata={"description": "How far up."})
    tags: list[str] = attrs.Factory(list)
    norm: float = attrs.field(init=False, default=0.0)


@dataclasses.dataclass
class Line:
    start: Point
    end: Point
    style: Mode = Mode.FAST
    notes: list[str] = dataclasses.field(default_factory=list)


class Movie(TypedDict):
    name: str
    year: NotRequired[int]


class Loose(TypedDict, total=False):
    key: Required[str]
    value: "int"


class Pair(NamedTuple):
    left: int
    right: str = ""


@attrs.define
class Tree:
    value: int
    children: list["Tree"] = attrs.Factory(list)


@dataclasses.dataclass
class Wrapper:
    tree: Tree


@attrs.define
class Unmappable:
    inner: complex


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, STRING),
        (int, INTEGER),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, NULL),
        (type(None), NULL),
        (Any, {}),
        (object, {}),
        (list, {"type": "array"}),
        (dict, {"type": "object"}),
        (tuple, {"type": "array"}),
        (set, {"type": "array", "uniqueItems": True}),
        (list[int], {"type": "array", "items": INTEGER}),
        (list[Any], {"type": "array"}),
        (Sequence[str], {"type": "array", "items": STRING}),
        (Iterable[str], {"type": "array", "items": STRING}),
        (set[str], {"type": "array", "items": STRING, "uniqueItems": True}),
        (frozenset[int], {"type": "array", "items": INTEGER, "uniqueItems": True}),
        (AbstractSet[int], {"type": "array", "items": INTEGER, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": INTEGER}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2},
        ),
        (tuple[()], {"type": "array", "maxItems": 0}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (dict[str, Any], {"type": "object"}),
        (Mapping[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (
            dict[Mode, int],
            {
                "type": "object",
                "propertyNames": {"type": "string", "enum": ["fast", "slow"]},
                "additionalProperties": INTEGER,
            },
        ),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1, None], {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}),
        (Literal[True, Color.RED], {"type": ["boolean", "string"], "enum": [True, "red"]}),
        (
            Color,
            {"type": "string", "enum": ["red", "blue"], "description": "What it looks like."},
        ),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Mode, {"type": "string", "enum": ["fast", "slow"]}),
        (Optional[int], {"anyOf": [INTEGER, NULL]}),  # noqa: UP045
        (None | int, {"anyOf": [INTEGER, NULL]}),
        (Union[int, str], {"anyOf": [INTEGER, STRING]}),  # noqa: UP007
        (int | str | None, {"anyOf": [INTEGER, STRING, NULL]}),
        (int | Any, {}),
        (
            int | Annotated[str | None, "x"],
            {"anyOf": [INTEGER, {"anyOf": [STRING, NULL], "description": "x"}]},
        ),
        (UserId, INTEGER),
        (UserId | int, INTEGER),
        (Short, {"type": "string", "maxLength": 3}),
        (Final[int], INTEGER),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (datetime.time, {"type": "string", "format": "time"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (pathlib.Path, {"type": "string", "format": "path"}),
        (pathlib.PurePosixPath, {"type": "string", "format": "path"}),
        (trio.Path, {"type": "string", "format": "path"}),
        (decimal.Decimal, {"type": "string", "format": "decimal"}),
        (ipaddress.IPv4Address, {"type": "string", "format": "ipv4"}),
        (ipaddress.IPv6Address, {"type": "string", "format": "ipv6"}),
        (urllib.parse.SplitResult, {"type": "string", "format": "uri"}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
    ],
)
def test_the_schema_of_an_annotation(annotation: Any, schema: dict[str, Any]) -> None:
    assert schema_of(annotation) == schema
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Annotated[int, " How many. "], {"type": "integer", "description": "How many."}),
        (Annotated[int, Doc("How many.")], {"type": "integer", "description": "How many."}),
        (
            Annotated[int, Gt(1), Lt(5)],
            {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 5},
        ),
        (Annotated[float, Ge(0.5), Le(5)], {"type": "number", "minimum": 0.5, "maximum": 5}),
        (
            Annotated[int, Interval(ge=0, lt=9)],
            {"type": "integer", "minimum": 0, "exclusiveMaximum": 9},
        ),
        (Annotated[int, MultipleOf(5)], {"type": "integer", "multipleOf": 5}),
        (Annotated[str, MinLen(1), MaxLen(9)], {"type": "string", "minLength": 1, "maxLength": 9}),
        (Annotated[str, Len(0, 3)], {"type": "string", "maxLength": 3}),
        (
            Annotated[list[int], Len(2, 3)],
            {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 3},
        ),
        (Annotated[dict[str, Any], MinLen(1)], {"type": "object", "minProperties": 1}),
        (
            Annotated[int | None, Ge(1), "x"],
            {"anyOf": [{"type": "integer", "minimum": 1}, NULL], "description": "x"},
        ),
        (
            Annotated[str, {"pattern": "^a", "examples": ["abc"]}],
            {"type": "string", "pattern": "^a", "examples": ["abc"]},
        ),
        (Annotated[int, object(), int], INTEGER),
        (
            list[Annotated[int, Ge(1)]],
            {"type": "array", "items": {"type": "integer", "minimum": 1}},
        ),
    ],
)
def test_annotated_constraints(annotation: Any, schema: dict[str, Any]) -> None:
    assert schema_of(annotation) == schema


def test_a_pattern_object_is_a_pattern() -> None:
    import re
    from types import SimpleNamespace

    assert schema_of(Annotated[str, SimpleNamespace(pattern="^a")])["pattern"] == "^a"
    assert schema_of(Annotated[str, re.compile("^a")])["pattern"] == "^a"


def test_an_attrs_class() -> None:
    assert schema_of(Point) == {
        "type": "object",
        "description": "A place.",
        "properties": {
            "x": {"type": "number", "description": "How far to the right."},
            "y": {"type": "number", "description": "How far up.", "default": 0.0},
            "tags": {"type": "array", "items": STRING},
        },
        "required": ["x"],
    }


def test_a_dataclass_shares_what_it_uses_twice() -> None:
    schema = schema_of(Line)
    assert schema["properties"]["start"] == {"$ref": "#/$defs/Point"}
    assert schema["properties"]["end"] == {"$ref": "#/$defs/Point"}
    assert schema["properties"]["style"] == {
        "type": "string",
        "enum": ["fast", "slow"],
        "default": "fast",
    }
    assert schema["required"] == ["start", "end"]
    assert list(schema["$defs"]) == ["Point"]


def test_typed_dicts() -> None:
    assert schema_of(Movie) == {
        "type": "object",
        "properties": {"name": STRING, "year": INTEGER},
        "required": ["name"],
    }
    assert schema_of(Loose) == {
        "type": "object",
        "properties": {"key": STRING, "value": INTEGER},
        "required": ["key"],
    }


def test_a_named_tuple_is_an_array() -> None:
    assert schema_of(Pair) == {
        "type": "array",
        "prefixItems": [
            {"type": "integer", "description": "left"},
            {"type": "string", "description": "right"},
        ],
        "minItems": 1,
        "maxItems": 2,
    }


def test_recursive_classes_refer_to_themselves() -> None:
    tree = {
        "type": "object",
        "properties": {
            "value": INTEGER,
            "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
        },
        "required": ["value"],
    }
    assert schema_of(Tree) == {"$ref": "#/$defs/Tree", "$defs": {"Tree": tree}}
    wrapped = schema_of(Wrapper)
    assert wrapped["properties"] == {"tree": {"$ref": "#/$defs/Tree"}}
    assert wrapped["$defs"] == {"Tree": tree}


def test_recursive_aliases() -> None:
    schema = schema_of(dict[str, Json])
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    assert validator.is_valid({"a": ["b", {"c": None}]})
    assert not validator.is_valid({"a": [1]})


def test_two_classes_of_one_name() -> None:
    other = attrs.make_class("Tree", {"tree": attrs.field(type=Tree | None)})
    schema = schema_of(tuple[Tree, other, other])
    assert list(schema["$defs"]) == ["Tree", "Tree2"]


def test_a_description_stands_beside_a_reference() -> None:
    schema = schema_of(Annotated[Tree, "The root."])
    assert schema["$ref"] == "#/$defs/Tree"
    assert schema["description"] == "The root."


T = TypeVar("T")


class Plain:
    pass


class Box(Generic[T]):
    pass


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (complex, "the class complex has no JSON Schema; use str, int"),
        (Plain, "the class Plain has no JSON Schema"),
        (Box[int], "has no JSON Schema"),
        (T, "the annotation ~T has no JSON Schema"),
        ("Nowhere", "the annotation Nowhere is a name that cannot be resolved"),
        (list["Nowhere"], "Nowhere"),  # noqa: F821
        (Optional["Nowhere"], "'Nowhere' is a name that cannot be resolved"),  # noqa: F821
        (dict[int, str], "the keys of a JSON object are strings, so int cannot be the key"),
        (Literal[b"x"], "the value b'x' cannot be one of a choice"),
        (Unmappable, "field 'inner' of Unmappable: the class complex"),
        (Annotated[datetime.date, Ge(datetime.date(2024, 1, 1))], "the constraint ge="),
        (Annotated[str, "no 1 of typing's cache", MinLen(True)], "the constraint min_length=True"),
        (Annotated[int, MinLen(1)], "a length constrains strings"),
        ([int], "has no JSON Schema"),
    ],
)
def test_what_cannot_be_mapped_is_refused(annotation: Any, words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        schema_of(annotation)
    assert words in str(caught.value)


@attrs.define
class Lost:
    where: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.requirement("C3")
def test_a_class_whose_annotations_cannot_be_resolved() -> None:
    with pytest.raises(SchemaError, match="annotations of class Lost cannot be resolved"):
        schema_of(Lost)


def test_unpublishable_defaults_are_left_out() -> None:
    @dataclasses.dataclass
    class Odd:
        a: float = float("nan")
        b: Any = ...
        c: int = None  # type: ignore[assignment]
        d: int | None = None
        e: Any = None
        f: tuple[int, ...] = (1, 2)

    properties = schema_of(Odd)["properties"]
    published = {name: each["default"] for name, each in properties.items() if "default" in each}
    assert published == {"d": None, "e": None, "f": [1, 2]}


def test_attrs_fields_without_annotations_take_anything() -> None:
    kind = attrs.make_class("Untyped", ["x"])
    assert schema_of(kind) == {"type": "object", "properties": {"x": {}}, "required": ["x"]}
