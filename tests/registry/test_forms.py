"""Forms: what may be asked of a user, how each revision writes it, what comes of the answer."""

import copy
import dataclasses
import datetime
import enum
import json
import subprocess
import sys
import urllib.parse
import uuid
from collections.abc import Callable, Sequence
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Required,
    TypedDict,
    cast,
)

import annotated_types as bounds
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from typing_extensions import TypeAliasType

from tests.support import official
from trio_mcp.registry.forms import form_of
from trio_mcp.schema import ArgumentError, SchemaError, unstructure
from trio_mcp.wire.revisions import ALL, BY_NAME, NEWEST, Revision

FIRST = BY_NAME["2025-06-18"]
LATER = [BY_NAME["2025-11-25"], BY_NAME["2026-07-28"]]
WITH_FORMS = [FIRST, LATER[-1]]

each_revision = pytest.mark.parametrize("revision", WITH_FORMS, ids=lambda each: each.name)
each_later_revision = pytest.mark.parametrize("revision", LATER, ids=lambda each: each.name)


class Color(enum.Enum):
    DARK_RED = "#800000"
    sky_blue = "#87ceeb"
    iOSGrey = "#8e8e93"


class Size(enum.StrEnum):
    """How large it shall be."""

    small = "small"
    large = "large"


class Level(enum.IntEnum):
    LOW = 1


@attrs.frozen
class Empty:
    """Nothing is asked for but a yes."""


@attrs.frozen
class Inner:
    x: int


class Pair(NamedTuple):
    a: str


Email = Annotated[str, {"format": "email"}]
Nick = NewType("Nick", str)
Flavour = TypeAliasType("Flavour", Literal["sweet", "sour"])


# -- the judge ---------------------------------------------------------------------------------


def closed(schema: Any) -> Any:
    """A schema whose objects have the properties that are named, and no others."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        schema.setdefault("additionalProperties", False)
    return schema


@cache
def official_judge(revision: str) -> Validator:
    """The official schema of a request to elicit, which admits more than it says: so, closed."""
    schema = json.loads((official.SCHEMAS / f"{revision}.json").read_text())
    key = "$defs" if "$defs" in schema else "definitions"
    whole = {"$ref": f"#/{key}/ElicitRequest", key: closed(schema[key])}
    return validator_for(schema)({"$schema": schema["$schema"], **whole})


def judge(schema: Any, revision: Revision) -> None:
    """Fail unless a form is one in a revision."""
    params: dict[str, Any] = {"message": "Please", "requestedSchema": schema}
    if revision is not FIRST:
        params["mode"] = "form"
    request: dict[str, Any] = {"method": "elicitation/create", "params": params}
    if revision is LATER[0]:
        request |= {"jsonrpc": "2.0", "id": 1}
    official_judge(revision.name).validate(json.loads(json.dumps(request)))


def written(kind: Any, revision: Revision) -> dict[str, Any]:
    """The schema of a form, which the official schema of its revision admits."""
    schema = form_of(kind, revision).schema
    if official.available():
        judge(schema, revision)
    return schema


def asked(annotation: Any, revision: Revision = NEWEST) -> Any:
    """How a single value is asked for."""
    schema = written(annotation, revision)
    assert schema.keys() - {"required"} == {"type", "properties"}
    assert list(schema["properties"]) == ["value"]
    return schema["properties"]["value"]


def refusal(kind: Any, revision: Revision = NEWEST) -> str:
    """Why there is no form."""
    with pytest.raises(SchemaError) as caught:
        form_of(kind, revision)
    return str(caught.value)


def complaint(kind: Any, content: Any, revision: Revision = NEWEST) -> str:
    """What is wrong with an answer."""
    with pytest.raises(ArgumentError) as caught:
        form_of(kind, revision).parse(content)
    return str(caught.value)


@pytest.mark.skipif(not official.available(), reason=official.MISSING)
@each_revision
def test_the_judge_is_strict(revision: Revision) -> None:
    judge(raw({"type": "string"}), revision)
    for odd in ({"type": "string", "pattern": "x"}, {"type": "object"}, {"type": "null"}):
        with pytest.raises(ValidationError):
            judge(raw(odd), revision)


# -- what is asked for -------------------------------------------------------------------------


@each_revision
@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (urllib.parse.SplitResult, {"type": "string", "format": "uri"}),
        (Email, {"type": "string", "format": "email"}),
        (Nick, {"type": "string"}),
        (str | None, {"type": "string"}),
        (Literal["b", "a"], {"type": "string", "enum": ["b", "a"]}),
        (Literal["a", None], {"type": "string", "enum": ["a"]}),
        (Literal["a", None] | None, {"type": "string", "enum": ["a"]}),
        (Literal[Size.small, "x"], {"type": "string", "enum": ["small", "x"]}),
        (Flavour, {"type": "string", "enum": ["sweet", "sour"]}),
        (
            Annotated[Flavour, "How it shall taste."],
            {"type": "string", "description": "How it shall taste.", "enum": ["sweet", "sour"]},
        ),
        (
            Size | None,
            {
                "type": "string",
                "description": "How large it shall be.",
                "enum": ["small", "large"],
            },
        ),
        (
            Annotated[str, "Your name.", {"title": "Name"}, bounds.Len(2, 9)],
            {
                "type": "string",
                "title": "Name",
                "description": "Your name.",
                "minLength": 2,
                "maxLength": 9,
            },
        ),
        (
            Annotated[float, bounds.Ge(0.5), bounds.Le(2)],
            {"type": "number", "minimum": 0.5, "maximum": 2},
        ),
        (
            Annotated[int | None, bounds.Gt(0), bounds.Lt(10)],
            {"type": "integer", "minimum": 1, "maximum": 9},
        ),
        (
            Annotated[int, bounds.Gt(-1.5), bounds.Ge(-3), bounds.Lt(9.5), bounds.Le(8)],
            {"type": "integer", "minimum": -1, "maximum": 8},
        ),
        (Annotated[bool, {"default": False}], {"type": "boolean", "default": False}),
    ],
)
def test_a_single_value_is_asked_for(annotation: Any, expected: Any, revision: Revision) -> None:
    assert asked(annotation, revision) == expected


@each_revision
def test_what_may_be_none_is_not_required(revision: Revision) -> None:
    assert written(str, revision)["required"] == ["value"]
    assert "required" not in written(str | None, revision)
    assert form_of(str | None, revision).parse({}) is None
    assert form_of(str | None, revision).parse({"value": "x"}) == "x"


TITLED = [
    {"const": "#800000", "title": "Dark red"},
    {"const": "#87ceeb", "title": "Sky blue"},
    {"const": "#8e8e93", "title": "iOSGrey"},
]
VALUES = [each["const"] for each in TITLED]
TITLES = [each["title"] for each in TITLED]


@each_later_revision
def test_members_have_titles_of_their_names(revision: Revision) -> None:
    assert asked(Color, revision) == {"type": "string", "oneOf": TITLED}
    assert asked(list[Color], revision) == {"type": "array", "items": {"anyOf": TITLED}}


def test_the_first_forms_have_titles_beside_the_values() -> None:
    assert asked(Color, FIRST) == {"type": "string", "enum": VALUES, "enumNames": TITLES}


@each_later_revision
@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (list[Literal["a", "b"]], {"items": {"type": "string", "enum": ["a", "b"]}}),
        (Sequence[Literal["a"]] | None, {"items": {"type": "string", "enum": ["a"]}}),
        (tuple[Flavour, ...], {"items": {"type": "string", "enum": ["sweet", "sour"]}}),
        (
            list[Size],
            {
                "description": "How large it shall be.",
                "items": {"type": "string", "enum": ["small", "large"]},
            },
        ),
        (
            Annotated[list[Size], bounds.Len(1, 2), "Pick."],
            {
                "description": "Pick.",
                "minItems": 1,
                "maxItems": 2,
                "items": {"type": "string", "enum": ["small", "large"]},
            },
        ),
    ],
)
def test_several_choices_are_asked_for(annotation: Any, expected: Any, revision: Revision) -> None:
    assert asked(annotation, revision) == {"type": "array", **expected}


def test_the_first_forms_have_no_lists() -> None:
    said = refusal(list[Color], FIRST)
    assert said.startswith("field 'value': revision 2025-06-18 cannot ask for a list of choices")
    assert "2025-11-25" in said


@pytest.mark.parametrize("revision", ALL[:2], ids=lambda each: each.name)
def test_older_revisions_have_no_forms(revision: Revision) -> None:
    assert refusal(str, revision) == (
        f"revision {revision.name} has no forms; they came with 2025-06-18"
    )


# -- classes -----------------------------------------------------------------------------------


@attrs.frozen
class Booking:
    """A table.

    Args:
        name: Who comes.
        seats: For how many.
    """

    name: Annotated[str, bounds.MinLen(2)]
    day: datetime.date
    seats: Annotated[int, bounds.Interval(ge=1, le=12)] = 2
    tip: float = attrs.field(default=0.1, metadata={"description": "As a fraction."})
    outside: bool = False
    wine: Color | None = None
    size: Size = Size.large
    note: str | None = "none"
    email: Annotated[str | None, {"format": "email"}] = None
    at: datetime.datetime | None = None
    _key: str = "k"
    made: int = attrs.field(default=0, init=False)


BOOKING: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "description": "Who comes.", "minLength": 2},
    "day": {"type": "string", "format": "date"},
    "seats": {
        "type": "integer",
        "description": "For how many.",
        "minimum": 1,
        "maximum": 12,
        "default": 2,
    },
    "tip": {"type": "number", "description": "As a fraction.", "default": 0.1},
    "outside": {"type": "boolean", "default": False},
    "wine": {"type": "string", "oneOf": TITLED},
    "size": {
        "type": "string",
        "description": "How large it shall be.",
        "enum": ["small", "large"],
        "default": "large",
    },
    "note": {"type": "string", "default": "none"},
    "email": {"type": "string", "format": "email"},
    "at": {"type": "string", "format": "date-time"},
    "_key": {"type": "string", "default": "k"},
}


@each_later_revision
def test_a_class_is_a_form(revision: Revision) -> None:
    assert written(Booking, revision) == {
        "type": "object",
        "properties": BOOKING,
        "required": ["name", "day"],
    }


def test_the_first_forms_have_defaults_for_yes_and_no_alone() -> None:
    expected: dict[str, Any] = copy.deepcopy(BOOKING)
    for name, schema in expected.items():
        if name != "outside":
            schema.pop("default", None)
    expected["wine"] = {"type": "string", "enum": VALUES, "enumNames": TITLES}
    assert written(Booking, FIRST)["properties"] == expected


@each_revision
def test_an_answer_becomes_an_instance(revision: Revision) -> None:
    form = form_of(Booking, revision)
    day = datetime.date(2024, 5, 31)
    assert form.parse({"name": "Ann", "day": "2024-05-31"}) == Booking("Ann", day)
    answer = {
        "name": "Ann",
        "day": "2024-05-31",
        "seats": 3.0,
        "tip": 1,
        "outside": True,
        "wine": "#800000",
        "size": "small",
        "note": "",
        "email": "ann@example.com",
        "at": "2024-05-31T19:30:00Z",
        "_key": "secret",
    }
    booking = form.parse(answer)
    at = datetime.datetime(2024, 5, 31, 19, 30, tzinfo=datetime.UTC)
    assert booking == Booking(
        "Ann",
        day,
        seats=3,
        tip=1.0,
        outside=True,
        wine=Color.DARK_RED,
        size=Size.small,
        note="",
        email="ann@example.com",
        at=at,
        key="secret",
    )
    assert (type(booking.seats), type(booking.tip)) == (int, float)


@each_later_revision
def test_dataclasses_and_typed_dictionaries_are_forms(revision: Revision) -> None:
    @dataclasses.dataclass
    class Order:
        colors: list[Color]
        extras: list[Literal["ice"]] = dataclasses.field(default_factory=list)
        note: Annotated[str | None, {"title": "Note"}] = None

    class Wish(TypedDict, total=False):
        size: Required[Size]
        colors: NotRequired[list[Color]]
        note: Required[str | None]

    order = form_of(Order, revision)
    assert written(Order, revision)["required"] == ["colors"]
    assert order.parse({"colors": []}) == Order([])
    full = {"colors": ["#87ceeb", "#800000"], "extras": ["ice"], "note": "x"}
    assert order.parse(full) == Order([Color.sky_blue, Color.DARK_RED], ["ice"], "x")

    assert written(Wish, revision)["required"] == ["size"]
    wish = form_of(Wish, revision)
    assert wish.parse({"size": "small"}) == {"size": Size.small, "note": None}
    assert wish.parse({"size": "small", "colors": ["#800000"], "note": "n"}) == {
        "size": Size.small,
        "colors": [Color.DARK_RED],
        "note": "n",
    }


@each_revision
def test_a_form_may_ask_for_nothing(revision: Revision) -> None:
    assert written(Empty, revision) == {"type": "object", "properties": {}}
    assert form_of(Empty, revision).parse({}) == Empty()


@each_revision
def test_names_of_types_are_seen_through(revision: Revision) -> None:
    alias = TypeAliasType("alias", Annotated[Empty, "described"])
    assert form_of(NewType("New", Empty), revision).parse({}) == Empty()
    assert form_of(Annotated[alias, "again"], revision).parse({}) == Empty()


@pytest.mark.parametrize(
    ("annotation", "answer", "value"),
    [
        (int, 3.0, 3),
        (float, 3, 3.0),
        (bool, True, True),
        (Color, "#800000", Color.DARK_RED),
        (Literal[Size.large], "large", Size.large),
        (datetime.date, "2024-02-29", datetime.date(2024, 2, 29)),
        (urllib.parse.SplitResult, "https://a.b/c", urllib.parse.urlsplit("https://a.b/c")),
        (tuple[Size, ...], ["small", "small"], (Size.small, Size.small)),
    ],
)
def test_a_single_value_comes_back_bare(annotation: Any, answer: Any, value: Any) -> None:
    parsed = form_of(annotation, NEWEST).parse({"value": answer, "more": {"not": "asked"}})
    assert parsed == value
    assert type(parsed) is type(value)


# -- what is refused ---------------------------------------------------------------------------


def class_of(annotation: Any, default: Any = attrs.NOTHING) -> type:
    """A class with a field `odd`."""
    return attrs.make_class("Kind", {"odd": attrs.field(type=annotation, default=default)})


@each_revision
@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (Inner, "it is an object, and a form is flat; a form may ask for text"),
        (Inner | None, "it is an object"),
        (dict, "it is an object"),
        (dict[str, str], "it is an object"),
        (str | int, "it may be of several types; a form may ask for text"),
        (int | float, "it may be of several types"),
        (Size | Color | None, "it may be of several types"),
        (Any, "nothing is said of its type; a form may ask for text"),
        (type(None), "values of its type cannot be asked for"),
        (list, "it is a list of something other than choices; a form may ask for text"),
        (list[str], "it is a list of something other than choices"),
        (list[Inner], "it is a list of something other than choices"),
        (list[list[Size]], "it is a list of something other than choices"),
        (Pair, "it is a list of something other than choices"),
        (set[Size], "'uniqueItems' cannot be demanded of a list of choices in a form; its keyw"),
        (Literal[1, 2], "the values of a choice must all be strings"),
        (Literal["a", 1], "the values of a choice must all be strings"),
        (Literal[True], "the values of a choice must all be strings"),
        (Level, "the values of a choice must all be strings"),
        (list[Level], "the values of a choice must all be strings"),
        (enum.Enum("Never", []), "the values of a choice must all be strings"),
        (enum.Enum("Objects", {"A": object()}), "cannot be one of a choice"),
        (uuid.UUID, "'format' must be one of 'email', 'uri', 'date' and 'date-time', not 'uuid'"),
        (datetime.time, "'format' must be one of"),
        (bytes, "'contentEncoding' cannot be demanded of text in a form; its keywords are title"),
        (Annotated[str, {"pattern": "x"}], "'pattern' cannot be demanded of text"),
        (Annotated[str, {"x-secret": True}], "'x-secret' cannot be demanded of text"),
        (Annotated[str, bounds.Ge(1)], "'minimum' cannot be demanded of text"),
        (Annotated[float, bounds.Gt(1)], "'exclusiveMinimum' cannot be demanded of a number"),
        (Annotated[int, bounds.MultipleOf(2)], "'multipleOf' cannot be demanded of a whole"),
        (Annotated[bool, {"minimum": 0}], "'minimum' cannot be demanded of yes or no"),
        (Annotated[Size, bounds.MinLen(2)], "'minLength' cannot be demanded of a choice"),
        (Annotated[int, {"minimum": "1"}], "'minimum' must be a number, not '1'"),
        (Annotated[int, {"minimum": True}], "'minimum' must be a number"),
        (Annotated[int, {"minimum": 10**400}], "'minimum' must be a number"),
        (Annotated[float, bounds.Le(float("inf"))], "'maximum' must be a number"),
        (Annotated[str, {"minLength": -1}], "'minLength' must be a whole number that is not neg"),
        (Annotated[str, {"title": 5}], "'title' must be a string"),
        (Annotated[str, {"format": ["email"]}], "'format' must be one of"),
        (Annotated[Any, {"enum": ["a", None]}], "the values of a choice must all be strings"),
        (Annotated[str, {"enum": 5}], "'enum' must be a list"),
        (Annotated[str, {"anyOf": 5}], "'anyOf' must be a list"),
        (Annotated[str, {"type": 5}], "values of its type cannot be asked for"),
        (Annotated[float, {"default": float("nan")}], "its default nan does not fit"),
        (object(), "has no JSON Schema"),
    ],
)
def test_what_a_form_cannot_ask_for(annotation: Any, reason: str, revision: Revision) -> None:
    said = refusal(class_of(annotation), revision)
    assert said.startswith("field 'odd' of Kind: "), said
    assert reason in said
    if annotation is not Inner:
        assert refusal(annotation, revision) == said.replace("'odd' of Kind", "'value'")


def test_a_class_within_itself_is_no_form() -> None:
    @attrs.frozen
    class Tree:
        left: "Tree | None"

    assert "Tree: it is an object, and a form is flat" in refusal(Tree)


def test_names_that_mean_nothing_are_refused() -> None:
    @attrs.frozen
    class Lost:
        x: "Nowhere"  # type: ignore[name-defined]  # noqa: F821

    assert "class" in refusal(Lost)
    assert "Nowhere" in refusal(Lost)


@each_revision
@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (str, 5),
        (int, "5"),
        (Annotated[int, bounds.Ge(1)], 0),
        (Size, "huge"),
        (datetime.datetime, datetime.datetime(2024, 5, 31)),
        (Email, "nobody"),
        (bool, 1),
    ],
)
def test_a_default_fits_its_field(annotation: Any, default: Any, revision: Revision) -> None:
    said = refusal(class_of(annotation, default), revision)
    assert said.startswith("field 'odd' of Kind: its default ")
    assert "does not fit the field itself" in said


def test_a_default_that_json_has_not_is_not_sent() -> None:
    form = form_of(cast(Any, class_of(float, float("inf"))), NEWEST)
    assert form.schema["properties"] == {"odd": {"type": "number"}}
    assert form.parse({}).odd == float("inf")


@each_revision
@pytest.mark.parametrize(
    ("annotation", "answer", "said"),
    [
        (str, 5, "Field 'value' must be a string, but a number came (5)."),
        (str, None, "Field 'value' must be a string, but null came (null)."),
        (int, 1.5, "Field 'value' must be an integer, but a number came (1.5)."),
        (int, True, "Field 'value' must be an integer, but a boolean came (true)."),
        (float, "1", "Field 'value' must be a number, but a string came ('1')."),
        (bool, 1, "Field 'value' must be a boolean, but a number came (1)."),
        (
            Size,
            "huge",
            "Field 'value' must be one of 'small' or 'large', but a string came ('huge').",
        ),
        (
            datetime.date,
            "2024-13-45",
            "Field 'value' must be a date such as 2024-05-31, but a string came ('2024-13-45').",
        ),
        (
            datetime.datetime,
            "2024-05-31T12:30:00",
            "Field 'value' must be a date and time such as 2024-05-31T12:30:00Z, but a string "
            "came ('2024-05-31T12:30:00').",
        ),
        (
            Email,
            "nobody",
            "Field 'value' must be an email address such as user@example.com, but a string came "
            "('nobody').",
        ),
        (
            urllib.parse.ParseResult,
            "http://[",
            "Field 'value' must be a URI, but a string came ('http://[').",
        ),
        (
            Annotated[str, bounds.MaxLen(1)],
            "ab",
            "Field 'value' must have at most 1 character, but a string came ('ab').",
        ),
        (
            float,
            10**400,
            "Field 'value' must be a number that fits a float, but a number came (1329 bits long).",
        ),
    ],
)
def test_what_is_wrong_with_an_answer(
    annotation: Any, answer: Any, said: str, revision: Revision
) -> None:
    assert complaint(annotation, {"value": answer}, revision) == said


@each_revision
def test_a_wrong_choice_names_the_right_ones(revision: Revision) -> None:
    said = complaint(Color, {"value": "red"}, revision)
    assert said.startswith("Field 'value' must be ")
    assert all(repr(value) in said for value in VALUES)
    assert said.endswith("but a string came ('red').")


@each_later_revision
def test_a_wrong_choice_among_several_is_named(revision: Revision) -> None:
    said = complaint(list[Color], {"value": ["#800000", "red"]}, revision)
    assert said.startswith("Field 'value[1]' must be ")
    said = complaint(Annotated[list[Size], bounds.Len(1)], {"value": []}, revision)
    assert said == "Field 'value' must have at least 1 item, but an array came ([])."


@each_revision
def test_what_was_not_answered_is_named(revision: Revision) -> None:
    assert complaint(Booking, {}, revision) == (
        "Missing required fields 'name' (string) and 'day' (date such as 2024-05-31)."
    )


@pytest.mark.parametrize("content", [None, [], "x", 1])
def test_an_answer_is_an_object(content: Any) -> None:
    assert complaint(Empty, content).startswith("The form must be an object, but ")


def test_the_class_has_the_last_word() -> None:
    @dataclasses.dataclass
    class Picky:
        even: int

        def __post_init__(self) -> None:
            if self.even == 13:
                raise RuntimeError("secret")
            if self.even % 2:
                raise ValueError("even must be even.")

    assert complaint(Picky, {"even": 1}) == "The form is not acceptable: even must be even."
    assert complaint(Picky, {"even": 13}) == "The form is not acceptable."
    assert form_of(Picky, NEWEST).parse({"even": 2}) == Picky(2)


# -- formats -----------------------------------------------------------------------------------

FORMATS: dict[str, tuple[list[str], list[str]]] = {
    "email": (
        ["a@b", "first.last+tag@mail.example.com", "ü@example.com"],
        ["", "a", "@", "a@", "@b", "a@b@c", "a b@c", "a@b c", "a@b\n"],
    ),
    "uri": (
        ["https://example.com/a?b=c#d", "mailto:a@b", "urn:x:1", "http://[::1]:80/", "x:%20"],
        ["", "example.com", "/path", "https://a b", "http://ü", "1:x", "http://[::1", "x:\n", 'x:"'],
    ),
    "date": (
        ["2024-05-31", "2024-02-29", "0001-01-01"],
        ["", "2023-02-29", "20240531", "2024-W22-5", "2024-5-31", "2024-05-31T00:00:00Z", "٢٠٢٤-٠٥-٣١"],
    ),
    "date-time": (
        ["2024-05-31T12:30:00Z", "2024-05-31T12:30:00.123456789+02:00", "2024-05-31T00:00:00-00:30"],
        ["", "2024-05-31", "2024-05-31T12:30:00", "2024-05-31T12:30Z", "2024-05-31T24:30:00Z", "2024-05-31 12:30:00Z"],
    ),
}  # fmt: skip


@each_revision
@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_kept(name: str, revision: Revision) -> None:
    right, wrong = FORMATS[name]
    form = form_of(Annotated[str, {"format": name}], revision)
    assert [form.parse({"value": text}) for text in right] == right
    for text in wrong:
        with pytest.raises(ArgumentError, match="Field 'value' must be a"):
            form.parse({"value": text})


# -- raw schemas -------------------------------------------------------------------------------


def raw(field: Any, **beside: Any) -> dict[str, Any]:
    """A form with a field `a`."""
    return {"type": "object", "properties": {"a": field}, **beside}


@each_revision
@pytest.mark.parametrize(
    "field",
    [
        {"type": "string", "oneOf": TITLED, "default": "#800000"},
        {"type": "string", "enum": VALUES, "enumNames": TITLES, "default": "#800000"},
    ],
)
def test_choices_are_rewritten_where_a_revision_needs_it(field: Any, revision: Revision) -> None:
    expected = field
    if revision is FIRST:
        expected = {"type": "string", "enum": VALUES, "enumNames": TITLES}
    assert written(raw(field), revision)["properties"] == {"a": expected}


@each_revision
def test_a_raw_schema_is_a_form(revision: Revision) -> None:
    schema = raw(
        {"type": "number", "title": "A", "maximum": 3, "default": 1},
        required=["a"],
        title="Not sent",
        description="Neither",
        **{"$schema": "https://json-schema.org/draft/2020-12/schema"},
    )
    before = json.dumps(schema)
    form = written(schema, revision)
    expected = {"type": "number", "title": "A", "maximum": 3}
    if revision is FIRST:
        assert form == raw(expected, required=["a"])
    else:
        dialect = {"$schema": schema["$schema"]}
        assert form == raw({**expected, "default": 1}, required=["a"]) | dialect
    assert json.dumps(schema) == before
    assert form_of(schema, revision).parse({"a": 2, "more": 1}) == {"a": 2}
    assert complaint(schema, {"a": 4}, revision).startswith("Field 'a' must be at most 3")
    assert complaint(schema, {}, revision) == "Missing required field 'a' (number)."


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({}, "must have the type 'object', and 'properties'"),
        ({"type": "array", "properties": {}}, "must have the type 'object'"),
        ({"type": "object", "properties": []}, "must have the type 'object'"),
        (raw({}, additionalProperties=False), "'additionalProperties' has no place in the schema"),
        (raw({"type": "string"}, required="a"), "'required' must list names"),
        (raw({"type": "string"}, required=["b"]), "'required' must list names"),
        (raw({"type": "string"}, required=[["a"]]), "'required' must list names"),
        (raw({"type": "string"}, required=["a", "a"]), "'required' must list names"),
        (raw({"type": "string"}, **{"$schema": "odd"}), "dialect 'odd' is not supported"),
        (raw({"type": "string"}, **{"$schema": 1}), "dialect 1 is not supported"),
        ({"type": "object", "properties": {1: {"type": "string"}}}, "field 1: its name must be"),
        (raw(True), "field 'a': its schema must be a JSON object; a form may ask for text"),
        (raw({}), "field 'a': nothing is said of its type"),
        (raw({"type": ["string", "null"]}), "field 'a': it may be of several types"),
        (raw({"type": "object", "properties": {}}), "field 'a': it is an object"),
        (raw({"$ref": "#/$defs/x"}), "field 'a': it is an object"),
        (raw({"type": "array"}), "field 'a': it is a list of something other than choices"),
        (raw({"type": "array", "items": {"type": "string"}}), "something other than choices"),
        (
            raw({"type": "array", "items": {"type": "string", "enum": ["a"], "title": "x"}}),
            "field 'a': its items must be choices and nothing else",
        ),
        (raw({"type": "array", "items": {"type": "integer", "enum": ["a"]}}), "its items must be"),
        (raw({"type": "string", "enum": []}), "'enum' must be a list with at least one"),
        (raw({"type": "string", "enum": "ab"}), "'enum' must be a list"),
        (raw({"type": "string", "enum": ["a", 1]}), "values of a choice must all be strings"),
        (raw({"type": "integer", "enum": [1]}), "values of a choice must all be strings"),
        (raw({"type": "string", "enum": ["a", "a"]}), "the values of a choice must be different"),
        (raw({"type": "string", "enum": ["a"], "enumNames": []}), "a title for each value"),
        (raw({"type": "string", "enum": ["a"], "enumNames": [1]}), "so must its titles"),
        (raw({"type": "string", "oneOf": [{"const": "a"}]}), "each an object with 'const' and"),
        (raw({"type": "string", "oneOf": ["a"]}), "each an object with 'const' and 'title'"),
        (raw({"type": "string", "oneOf": TITLED, "enum": VALUES}), "'oneOf' cannot be demanded"),
        (raw({"type": "string", "default": None}), "its default null does not fit"),
        (raw({"type": "string", "const": "a"}), "'const' cannot be demanded of text"),
    ],
)
@each_revision
def test_raw_schemas_are_checked(schema: Any, reason: str, revision: Revision) -> None:
    assert reason in refusal(schema, revision)


keywords = st.sampled_from(
    [
        "type",
        "title",
        "description",
        "default",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "items",
        "enum",
        "enumNames",
        "oneOf",
        "anyOf",
        "const",
        "pattern",
        "$ref",
        "properties",
    ]
)
types = st.sampled_from(["string", "number", "integer", "boolean", "array", "object", "null"])
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.text(max_size=2) | types,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(keywords | st.just("title"), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.long
@given(st.dictionaries(keywords, junk, max_size=4), types | junk, st.sampled_from(WITH_FORMS))
def test_whatever_is_demanded_is_a_form_or_refused(
    field: dict[str, Any], kind: Any, revision: Revision
) -> None:
    field = {"type": kind, **field}
    for demand in (raw(field), Annotated[Any, field]):
        try:
            form_of(demand, revision)
        except SchemaError:
            continue
        written(demand, revision)


def test_a_form_has_bounds() -> None:
    many = {"type": "object", "properties": {str(n): {"type": "string"} for n in range(3000)}}
    assert "more than 2000 subschemas" in refusal(many)


# -- the same as jsonschema says ---------------------------------------------------------------

names = st.sampled_from(["a", "b", "c", "ü"])
texts = st.text(max_size=4)
counts = st.integers(0, 3)
numbers = st.integers(-5, 5) | st.floats(-5, 5)
choices = st.lists(texts, min_size=1, max_size=4, unique=True)
titled = st.builds(
    lambda values: [{"const": each, "title": each.upper()} for each in values], choices
)


def schema_of_type(name: str, **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"type": st.just(name)}, optional=optional)


def options(**required: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"type": st.just("string"), **required})


fields = (
    schema_of_type("string", minLength=counts, maxLength=counts, title=texts)
    | schema_of_type("string", format=st.sampled_from(list(FORMATS)), description=texts)
    | schema_of_type("number", minimum=numbers, maximum=numbers)
    | schema_of_type("integer", minimum=numbers, maximum=numbers, exclusiveMaximum=numbers)
    | schema_of_type("boolean", default=st.booleans())
    | options(enum=choices)
    | options(oneOf=titled)
)
lists = st.builds(
    lambda items, bounded: {"type": "array", "items": items, **bounded},
    options(enum=choices) | st.fixed_dictionaries({"anyOf": titled}),
    st.fixed_dictionaries({}, optional={"minItems": counts, "maxItems": counts}),
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
anything = scalars | st.lists(scalars, max_size=3) | st.dictionaries(names, scalars, max_size=2)


def values_of(field: Any) -> st.SearchStrategy[Any]:
    """Values that mostly fit a field, or miss it narrowly."""
    if "format" in field:  # what else is text has no known verdict
        right, wrong = FORMATS[field["format"]]
        return st.sampled_from([*right, *wrong, 5, None])
    chosen = [each["const"] for each in field.get("oneOf", [])] or field.get("enum", [])
    if field["type"] == "array":
        items = field["items"]
        inner = [each["const"] for each in items.get("anyOf", [])] or items["enum"]
        return st.lists(st.sampled_from(inner) | texts, max_size=4) | anything
    likely = st.sampled_from(chosen) if chosen else numbers | texts | st.booleans()
    return likely | anything


@cache
def format_checker() -> FormatChecker:
    """Knows the samples of each format."""
    checker = FormatChecker(formats=())
    for name, (right, _) in FORMATS.items():
        checker.checks(name)(
            lambda value, right=right: not isinstance(value, str) or value in right
        )
    return checker


def fits(schema: Any, content: Any) -> bool:
    """What jsonschema says."""
    return Draft202012Validator(schema, format_checker=format_checker()).is_valid(content)


def draw_content(data: st.DataObject, properties: dict[str, Any]) -> Any:
    """Content for a form: with fields that are missing, superfluous or wrong."""
    if not data.draw(st.integers(0, 19), label="no object"):
        return data.draw(anything)
    given = {name: data.draw(values_of(field), label=name) for name, field in properties.items()}
    for name in data.draw(st.sets(names)):
        given.pop(name, None)
    return given | data.draw(st.dictionaries(st.just("superfluous"), anything))


def parses(parse: Callable[[Any], Any], content: Any) -> bool:
    """Whether content is taken."""
    try:
        parse(content)
    except ArgumentError as error:
        assert str(error).endswith(".")  # noqa: PT017 - refusals are half of what is looked at
        return False
    return True


@given(st.data(), st.sampled_from(WITH_FORMS))
def test_content_is_taken_if_and_only_if_it_fits_the_schema(
    data: st.DataObject, revision: Revision
) -> None:
    possible = fields if revision is FIRST else fields | lists
    properties = data.draw(st.dictionaries(names, possible, max_size=4))
    required = data.draw(st.lists(st.sampled_from(sorted(properties) or ["-"]), unique=True))
    asked_for = {"type": "object", "properties": properties}
    if properties:
        asked_for["required"] = required
    schema = written(asked_for, revision)
    content = draw_content(data, properties)

    assert parses(form_of(asked_for, revision).parse, content) == fits(schema, content)
    if fits(schema, content):  # and what was sent means what was asked for
        assert fits(asked_for, content)
        kept = {name: value for name, value in content.items() if name in properties}
        assert form_of(asked_for, revision).parse(content) == kept


@attrs.frozen
class Everything:
    text: Annotated[str, bounds.Len(1, 3)]
    number: Annotated[float, bounds.Le(3)]
    integer: Annotated[int, bounds.Gt(-3)]
    truth: bool
    day: datetime.date | None = None
    email: Annotated[str | None, {"format": "email"}] = None
    color: Color | None = None
    flavour: Flavour = "sweet"
    colors: Annotated[list[Color], bounds.MaxLen(2)] = attrs.Factory(list)
    flavours: tuple[Flavour, ...] = ()


@given(st.data(), st.sampled_from(LATER))
def test_a_class_takes_what_fits_its_schema(data: st.DataObject, revision: Revision) -> None:
    schema = written(Everything, revision)
    properties = schema["properties"]
    content = {
        name: data.draw(values_of(field), label=name)
        for name, field in properties.items()
        if name in schema["required"] or data.draw(st.booleans(), label=f"with {name}")
    }
    form = form_of(Everything, revision)
    assert parses(form.parse, content) == fits(schema, content)
    # One answer that is surely right, so that the wrong ones do not hide the right ones.
    right = {"text": "x", "number": 1, "integer": 2.0, "truth": False}
    name = data.draw(st.sampled_from(list(properties)))
    right[name] = data.draw(values_of(properties[name]))
    assert parses(form.parse, right) == fits(schema, right)
    if fits(schema, right):
        assert unstructure(form.parse(right)).items() >= right.items()


def test_nothing_heavy_is_imported_for_a_plain_form() -> None:
    program = (
        "import sys\n"
        "from trio_mcp.registry.forms import form_of\n"
        "from trio_mcp.wire.revisions import NEWEST\n"
        "assert form_of(str, NEWEST).parse({'value': 'x'}) == 'x'\n"
        "print([name for name in ('jsonschema', 'cattrs') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
