import dataclasses
import datetime
import decimal
import enum
import ipaddress
import pathlib
import urllib.parse
import uuid
from collections.abc import Callable, Iterable, Mapping, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict

import attrs
import pytest
import trio
from typing_extensions import TypeAliasType

from trio_mcp.schema import ArgumentError, describe_function, unstructure
from trio_mcp.schema.structuring import structure_arguments

pytestmark = pytest.mark.requirement("B4")

UserId = NewType("UserId", int)
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | datetime.date | None")
Day = datetime.date(2024, 5, 31)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


@attrs.frozen
class Tree:
    value: float
    when: datetime.date | None = None
    children: list["Tree"] = attrs.Factory(list)


@attrs.frozen
class Small:
    x: int


@dataclasses.dataclass
class Large:
    x: int
    y: int = 0


class Movie(TypedDict):
    year: int
    seen: NotRequired[datetime.date]


class Pair(NamedTuple):
    a: int
    b: Color = Color.RED


@attrs.frozen
class Picky:
    even: int = attrs.field()

    @even.validator
    def _check(self, _: Any, value: int) -> None:
        if value == 13:
            raise RuntimeError("secret")
        if value % 2:
            raise ValueError("even must be even.")


Raw = Annotated[float, {"maximum": 9}]


@attrs.frozen
class RawAttrs:
    a: list[Raw]
    b: Raw


@dataclasses.dataclass
class RawClass:
    a: list[Raw]
    b: Raw


class RawDict(TypedDict):
    a: list[Raw]
    b: Raw


ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("annotation", "given", "wanted"),
    [
        (int, 1, 1),
        (int, 1.0, 1),
        (float, 1, 1.0),
        (float, 1.5, 1.5),
        (bool, True, True),
        (str, "x", "x"),
        (Any, {"a": [1]}, {"a": [1]}),
        (object, [1.0], [1.0]),
        (UserId, 1.0, 1),
        (Annotated[float, "x"], 1, 1.0),
        (list[float], [1, 2.0], [1.0, 2.0]),
        (list[list[int]], [[1.0]], [[1]]),
        (dict[str, float], {"a": 1}, {"a": 1.0}),
        (Mapping[str, int], {"a": 1.0}, {"a": 1}),
        (dict[Color, int], {"red": 1}, {Color.RED: 1}),
        (Sequence[float], [1], [1.0]),
        (Iterable[Color], ["red"], [Color.RED]),
        (set[int], [1, 2.0], {1, 2}),
        (frozenset[str], ["a"], frozenset({"a"})),
        (AbstractSet[str], ["a"], frozenset({"a"})),
        (MutableSet[int], [1.0], {1}),
        (Sequence, ["a"], ["a"]),
        (set, ["a"], {"a"}),
        (tuple, ["a", 1], ("a", 1)),
        (tuple[int, ...], [1.0, 2], (1, 2)),
        (tuple[int, Color], [1, "red"], (1, Color.RED)),
        (Pair, [1.0, "blue"], Pair(1, Color.BLUE)),
        (Pair, [1], Pair(1)),
        (Color, "blue", Color.BLUE),
        (Level, 1.0, Level.LOW),
        (list[Level], [1.0], [Level.LOW]),
        (Literal["a", 1], 1.0, 1),
        (Literal["a", 1], "a", "a"),
        (Literal[Color.RED, 1, True], "red", Color.RED),
        (Literal[Color.RED, 1, True], True, True),
        (datetime.date, "2024-05-31", Day),
        (
            datetime.datetime,
            "2024-05-31T10:00:00Z",
            datetime.datetime(2024, 5, 31, 10, tzinfo=datetime.UTC),
        ),
        (datetime.time, "10:30", datetime.time(10, 30)),
        (uuid.UUID, str(ID), ID),
        (pathlib.Path, "/a", pathlib.Path("/a")),
        (trio.Path, "/a", trio.Path("/a")),
        (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
        (ipaddress.IPv4Address, "127.0.0.1", ipaddress.ip_address("127.0.0.1")),
        (urllib.parse.SplitResult, "https://x.org/a", urllib.parse.urlsplit("https://x.org/a")),
        (urllib.parse.ParseResult, "https://x.org/a", urllib.parse.urlparse("https://x.org/a")),
        (bytes, "AP8=", b"\x00\xff"),
        (
            Tree,
            {"value": 1, "when": "2024-05-31", "children": [{"value": 2}]},
            Tree(1.0, Day, [Tree(2.0)]),
        ),
        (Large, {"x": 1.0}, Large(1)),
        (Movie, {"year": 1.0, "seen": "2024-05-31"}, {"year": 1, "seen": Day}),
        (float | None, None, None),
        (float | None, 1, 1.0),
        (int | float, 1.0, 1.0),
        (float | int, 1, 1),
        (float | str, 1, 1.0),
        (int | str, 2.0, 2),
        (bool | int, True, True),
        (datetime.date | str, "2024-05-31", Day),
        (datetime.date | str, "soon", "soon"),
        (str | datetime.date, "2024-05-31", Day),
        (Large | Small, {"x": 1}, Small(1)),
        (datetime.date | uuid.UUID | None, str(ID), ID),
        (Small | Large, {"x": 1}, Small(1)),
        (Small | Large, {"x": 1, "y": 2}, Large(1, 2)),
        (Large | Small | None, None, None),
        (list[Small] | Small, [{"x": 1}], [Small(1)]),
        (list[Small] | dict[str, int] | Small, {"x": 1}, {"x": 1}),
        (Json, {"a": ["2024-05-31", "x", None]}, {"a": [Day, "x", None]}),
        (list[Json], [[["x"]]], [[["x"]]]),
        (list[Annotated[float, {"minimum": 1}]], [1], [1.0]),
        (Annotated[list[float] | None, {"title": "x"}], [1], [1.0]),
        (RawAttrs, {"a": [1], "b": 1}, RawAttrs([1.0], 1.0)),
        (RawClass, {"a": [1], "b": 1}, RawClass([1.0], 1.0)),
        (RawDict, {"a": [1], "b": 1}, {"a": [1.0], "b": 1.0}),
        (float | datetime.date, 10**300, 1e300),
    ],
)
def test_values_become_what_they_are_annotated_with(
    annotation: Any, given: Any, wanted: Any
) -> None:
    before = repr(given)
    result = structure_arguments({"a": annotation})({"a": given})["a"]
    assert result == wanted
    assert type(result) is type(wanted)
    assert repr(given) == before


def _fail(annotation: Any, value: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        structure_arguments({"a": annotation})({"a": value})
    return str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "value", "sentence"),
    [
        (
            datetime.date,
            "2024-13-45",
            "Argument 'a' must be a date such as 2024-05-31, but a string came ('2024-13-45').",
        ),
        (uuid.UUID, "x", "Argument 'a' must be a UUID, but a string came ('x')."),
        (bytes, "!", "Argument 'a' must be base64 text, but a string came ('!')."),
        (
            decimal.Decimal,
            "NaN",
            "Argument 'a' must be a decimal number in a string, but a string came ('NaN').",
        ),
        (
            decimal.Decimal,
            "x",
            "Argument 'a' must be a decimal number in a string, but a string came ('x').",
        ),
        (
            urllib.parse.SplitResult,
            "http://[",
            "Argument 'a' must be a URI, but a string came ('http://[').",
        ),
        (
            float,
            10**400,
            "Argument 'a' must be a number that fits a float, but a number came (1329 bits long).",
        ),
        (
            list[datetime.date],
            ["2024-05-31", "x"],
            "Argument 'a[1]' must be a date such as 2024-05-31, but a string came ('x').",
        ),
        (
            dict[str, list[uuid.UUID]],
            {"k": ["x"]},
            "Argument 'a.k[0]' must be a UUID, but a string came ('x').",
        ),
        (
            Tree,
            {"value": 1, "children": [{"value": 1, "when": "x"}]},
            "Argument 'a.children[0].when' must be a date such as 2024-05-31, but a string came ('x').",
        ),
        (
            Movie,
            {"year": 1, "seen": "x"},
            "Argument 'a.seen' must be a date such as 2024-05-31, but a string came ('x').",
        ),
        (
            list[Tree] | Tree,
            {"value": 1, "when": "x"},
            "Argument 'a.when' must be a date such as 2024-05-31, but a string came ('x').",
        ),
        (
            dict[str, datetime.date] | dict[str, str],
            {"k": "x"},
            "Argument 'a.k' must be a date such as 2024-05-31, but a string came ('x').",
        ),
        (
            datetime.date | uuid.UUID,
            "x",
            "Argument 'a' must be a UUID, but a string came ('x').",
        ),
        (int | str, [], "Argument 'a' must be an integer or a string, but an array came ([])."),
        (Picky, {"even": 1}, "Argument 'a' is not acceptable: even must be even."),
        (list[Picky], [{"even": 1}], "Argument 'a[0]' is not acceptable: even must be even."),
        (Picky, {"even": 13}, "Argument 'a' is not acceptable."),
    ],
)
def test_what_the_schema_cannot_know_is_reported(
    annotation: Any, value: Any, sentence: str
) -> None:
    assert _fail(annotation, value) == sentence


def test_alternatives_are_not_tried_again_at_every_level() -> None:
    """Two classes that hold each other would otherwise take twice as long with each level."""
    attempts = 0

    def count(_: Any, __: Any, ___: Any) -> None:
        nonlocal attempts
        attempts += 1
        raise ValueError("never")

    @attrs.define
    class Leaf:
        x: int = attrs.field(validator=count)

    @attrs.define
    class One:
        inner: "One | Two | Leaf"

    @attrs.define
    class Two:
        inner: "One | Two | Leaf"

    names = {"One": One, "Two": Two, "Leaf": Leaf}
    attrs.resolve_types(One, localns=names)
    attrs.resolve_types(Two, localns=names)
    globals().update(names)
    try:
        value: dict[str, Any] = {"x": 1}
        for _ in range(8):
            value = {"inner": value}
        _fail(One | Two, value)
    finally:
        for name in names:
            del globals()[name]
    assert attempts == 1


@pytest.mark.parametrize(
    "annotation",
    [
        str,
        bool,
        None,
        Any,
        object,
        list,
        dict,
        list[str],
        dict[str, Any],
        dict[str, list[bool]],
        str | None,
        Literal["a", True],
        Annotated[str, "x"],
        list[Annotated[str, {"title": "x"}]],
    ],
)
def test_plain_types_cost_nothing(annotation: Any) -> None:
    arguments: dict[str, Any] = {"a": object()}
    assert structure_arguments({"a": annotation})(arguments) is arguments


def test_arguments_that_are_left_out_stay_out() -> None:
    structure = structure_arguments({"a": int, "b": float, "c": str})
    assert structure({"b": 1}) == {"b": 1.0}


def test_the_rest_is_structured_too() -> None:
    structure = structure_arguments({"a": int}, Color)
    assert structure({"a": 1.0, "b": "red"}) == {"a": 1, "b": Color.RED}
    plain: Callable[..., Any] = structure_arguments({"a": str}, str)
    arguments = {"a": "x", "b": "y"}
    assert plain(arguments) is arguments
    with pytest.raises(ArgumentError, match="'b'"):
        structure_arguments({}, datetime.date)({"b": "x"})


@pytest.mark.requirement("C2")
@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("PT1H30M", datetime.timedelta(hours=1, minutes=30)),
        ("P2W", datetime.timedelta(weeks=2)),
        ("P1DT0.5S", datetime.timedelta(days=1, seconds=0.5)),
        ("-PT1M", datetime.timedelta(minutes=-1)),
        ("PT0S", datetime.timedelta()),
    ],
)
def test_durations(text: str, duration: datetime.timedelta) -> None:
    def use(it: datetime.timedelta) -> None: ...

    described = describe_function(use)
    assert described.structure({"it": text}) == {"it": duration}
    assert described.structure({"it": unstructure(duration)}) == {"it": duration}
    assert described.input_schema["properties"]["it"] == {"type": "string", "format": "duration"}


@pytest.mark.requirement("C2")
@pytest.mark.parametrize(
    "text", ["", "P", "PT", "1h", "P1Y", "P1M", "PT1.1234567S", "90", "PT" + "9" * 1_000_000 + "S"]
)
def test_what_is_no_duration(text: str) -> None:
    def use(it: datetime.timedelta) -> None: ...

    with pytest.raises(ArgumentError, match="'it' must be a duration such as PT1H30M"):
        describe_function(use).structure({"it": text})
