import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import ipaddress
import pathlib
import types
import urllib.parse
import uuid
from typing import Any, NamedTuple

import attrs
import pytest
import trio

from trio_mcp.schema import unstructure

pytestmark = pytest.mark.requirement("B5")


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@attrs.frozen
class Point:
    x: int
    label: Color = Color.RED
    norm: float = attrs.field(init=False, default=1.5)


@dataclasses.dataclass
class Line:
    points: list[Point]


class Pair(NamedTuple):
    a: int
    b: datetime.date


class Text(str):
    __slots__ = ()


UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ("x", "x"),
        (1, 1),
        (1.5, 1.5),
        (True, True),
        (None, None),
        ([1, ["x"]], [1, ["x"]]),
        ({"a": {"b": (1, 2)}}, {"a": {"b": [1, 2]}}),
        ({3}, [3]),
        (frozenset(), []),
        (range(3), [0, 1, 2]),
        (collections.deque([1]), [1]),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        ({Color.RED: 1}, {"red": 1}),
        (Color.RED, "red"),
        (Level.LOW, 1),
        (Text("x"), "x"),
        (datetime.date(2024, 5, 1), "2024-05-01"),
        (datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC), "2024-05-01T12:00:00+00:00"),
        (datetime.time(12, 30), "12:30:00"),
        (UUID, str(UUID)),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (trio.Path("/a"), "/a"),
        (decimal.Decimal("1.10"), "1.10"),
        (ipaddress.ip_address("::1"), "::1"),
        (ipaddress.ip_address("127.0.0.1"), "127.0.0.1"),
        (urllib.parse.urlsplit("https://x.org/a?b=c"), "https://x.org/a?b=c"),
        (urllib.parse.urlparse("https://x.org/a;p"), "https://x.org/a;p"),
        (b"\x00\xff", "AP8="),
        (bytearray(b"a"), "YQ=="),
        (memoryview(b"a"), "YQ=="),
        (memoryview(b"abcdefgh").cast("I"), "YWJjZGVmZ2g="),
        (b"", ""),
        (Point(1), {"x": 1, "label": "red", "norm": 1.5}),
        (Line([Point(1)]), {"points": [{"x": 1, "label": "red", "norm": 1.5}]}),
        (Pair(1, datetime.date(2024, 5, 1)), [1, "2024-05-01"]),
    ],
)
def test_values_become_plain(value: Any, plain: Any) -> None:
    result = unstructure(value)
    assert result == plain
    assert type(result) is type(plain)


@pytest.mark.parametrize("size", [3 * 2**18, 3 * 2**18 + 1, 2_000_000])
def test_many_bytes_become_one_text(size: int) -> None:
    value = bytes(range(250)) * (size // 250 + 1)
    assert unstructure(value[:size]) == base64.b64encode(value[:size]).decode()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "a value of type object cannot be turned into JSON"),
        ([1, {"a": 1j}], "a value of type complex cannot be turned into JSON"),
        ((each for each in "ab"), "generator"),
        ({1: 2}, "the keys of a JSON object are strings, not int"),
        (Point, "a value of type type"),
    ],
)
def test_other_values_are_refused_by_name(value: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        unstructure(value)


def test_the_value_itself_is_left_alone() -> None:
    value = {"a": [datetime.date(2024, 5, 1)]}
    unstructure(value)
    assert value == {"a": [datetime.date(2024, 5, 1)]}
