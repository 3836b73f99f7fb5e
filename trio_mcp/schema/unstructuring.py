"""Python values as JSON-able ones, by what they are at run time.

One table by exact type serves most values; a class that is met for the first time is looked at
once and its way is remembered.
"""

import base64
import collections.abc as abc
import enum
import functools
from collections.abc import Callable
from typing import Any, Final

from trio_mcp.schema.fields import members_of
from trio_mcp.schema.models import Model, is_model
from trio_mcp.schema.texts import text_type

_PIECE: Final = 3 * 256 * 1024
"""Bytes that are written as base64 in a millisecond. Threes, of which it makes fours."""


def unstructure(value: Any) -> Any:
    """Turn a Python value into one that JSON can carry.

    Args:
        value: Plain JSON values, attrs classes, dataclasses, enums, dates and times, UUIDs,
            paths, decimals, bytes (as base64), and lists, tuples, sets and mappings of those.

    Raises:
        TypeError: A value, or one within it, has no JSON counterpart; the message names its type.

    Example:
        >>> unstructure({"when": datetime.date(2024, 5, 1)})
        {'when': '2024-05-01'}
    """
    return _way_of(type(value))(value)  # type: ignore[arg-type]  # classes are hashable


def can_unstructure(kind: type) -> bool:
    try:
        _way_of(kind)
    except TypeError:
        return False
    return True


def _same(value: Any) -> Any:
    return value


def _mapping(value: Any) -> dict[str, Any]:
    return {_key(key): unstructure(each) for key, each in value.items()}


def _key(key: Any) -> str:
    plain = unstructure(key)
    if isinstance(plain, str):
        return plain
    raise TypeError(f"the keys of a JSON object are strings, not {type(key).__name__}")


def _base64(value: bytes | bytearray | memoryview) -> str:
    """Encode bytes piece by piece: all at once, many would hold up other threads."""
    view = memoryview(value).cast("B")
    pieces = (view[at : at + _PIECE] for at in range(0, len(view), _PIECE))
    return "".join([base64.b64encode(piece).decode() for piece in pieces])


# The first that fits: an enum of strings is an enum, and a string is not a sequence.
_BY_BASE: list[tuple[type | tuple[type, ...], Callable[[Any], Any]]] = [
    (enum.Enum, lambda value: unstructure(value.value)),
    (bool, _same),
    (str, str),
    (int, int),
    (float, float),
    ((bytes, bytearray, memoryview), _base64),
    (abc.Mapping, _mapping),
    ((list, tuple, abc.Set, abc.Sequence), lambda value: [unstructure(item) for item in value]),
]


@functools.lru_cache(maxsize=1024)
def _way_of(kind: Any) -> Callable[[Any], Any]:
    if kind in (str, int, float, bool, type(None)):
        return _same
    text = text_type(kind)
    if text is not None and not issubclass(kind, enum.Enum):
        return text.write
    if is_model(kind):
        return Model(kind).write
    members = members_of(kind)
    if members is not None:
        return _record([member.name for member in members])
    for base, way in _BY_BASE:
        if issubclass(kind, base):
            return way
    raise TypeError(f"a value of type {kind.__name__} cannot be turned into JSON")


def _record(names: list[str]) -> Callable[[Any], dict[str, Any]]:
    def unstructure_record(value: Any) -> dict[str, Any]:
        return {name: unstructure(getattr(value, name)) for name in names}

    return unstructure_record
