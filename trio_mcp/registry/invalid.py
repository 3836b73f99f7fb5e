"""What a handler returned and nobody can send: an error for the caller, and a reason for the log.

The caller is told the type. The author has to find the place, so the log gets a path and what is
wrong there, but never a value: those may be anybody's.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

import attrs

from trio_mcp.schema import unstructure
from trio_mcp.schema.models import is_model
from trio_mcp.schema.returns import BYTES, USE_OF_BYTES
from trio_mcp.schema.sentences import join_path
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError

_MOST_LOOKS: Final = 10_000
_DEEPEST: Final = 100
_MANY: Final = 2000
_LONG: Final = 1_000_000
_NUMBERS: Final = (int, float, type(None))
_TEXTS: Final = (str, bytes, bytearray)
_PLACE: Final = r" @ \w+\.([\w.\[\]]+)(?=$|;)"

_Path = tuple[str | int, ...]


class InvalidResult(McpError):
    """A result that cannot be sent (`-32603`).

    Args:
        message: For the caller.
        reason: For the log: where, and what is wrong there.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(INTERNAL_ERROR, message)
        self.reason = reason


def invalid_result(value: Any, whose: str, error: Exception | None = None) -> InvalidResult:
    """Make the error for a result that cannot be sent.

    Args:
        value: What was returned.
        whose: The handler, such as `tool add`.
        error: What the converter raised, if it did.
    """
    kind = type(value).__name__
    return InvalidResult(f"Invalid handler result type: {kind} ({whose})", _reason(value, error))


def _reason(value: Any, error: Exception | None) -> str:
    if isinstance(value, BYTES):
        return USE_OF_BYTES
    misfilled = re.findall(_PLACE, str(error)) if isinstance(error, ValueError) else []
    if misfilled:
        return f"{' and '.join(misfilled[:3])} of the {type(value).__name__} is of the wrong type"
    waiting: list[tuple[_Path, Any]] = [((), value)]
    for _ in range(_MOST_LOOKS):
        if not waiting:
            return (
                f"it is of type {type(value).__name__}, and that, or what is in it, cannot be sent"
            )
        path, each = waiting.pop()
        wrong = _wrong_with(each)
        if wrong:
            return f"at {join_path(path)!r}: {wrong}" if path else wrong
        if len(path) == _DEEPEST:
            break
        waiting.extend([((*path, step), part) for step, part in parts_of_value(each)][::-1])
    return "it is too large or nested too deeply, or it holds itself"


def parts_of_value(value: Any) -> Iterator[tuple[str | int, Any]]:
    """What a value holds, and where."""
    if isinstance(value, Mapping):
        yield from ((str(key), each) for key, each in value.items())
    elif isinstance(value, list | tuple | Set):
        yield from enumerate(value)
    elif attrs.has(type(value)) or dataclasses.is_dataclass(type(value)):
        read = attrs.fields if attrs.has(type(value)) else dataclasses.fields
        yield from ((each.name, getattr(value, each.name, None)) for each in read(type(value)))
    elif is_model(type(value)):
        yield from getattr(value, "__dict__", {}).items()


def holds_many(value: Any) -> bool:
    """Whether a value holds so much that converting it would hold up an event loop."""
    waiting, count, length = [value], 0, 0
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping | list | tuple | Set):
            count += len(each)
            if count > _MANY:
                return True
        if isinstance(each, _TEXTS):
            length += len(each)
            if length > _LONG:
                return True
        elif not isinstance(each, _NUMBERS):
            waiting.extend(part for _, part in parts_of_value(each))
    return False


def _wrong_with(value: Any) -> str | None:
    """What is wrong with a value, whatever is in it aside; `None` if nothing is."""
    if isinstance(value, float):
        return None if math.isfinite(value) else "NaN and infinity are no JSON"
    if isinstance(value, str):
        return None if _is_unicode(value) else "a text with half a surrogate pair is not Unicode"
    if isinstance(value, Mapping):
        odd = next((each for each in value if not isinstance(each, str)), None)
        if odd is not None:
            return f"a key of type {type(odd).__name__}, where JSON has text only"
        return None if all(map(_is_unicode, value)) else "a key is not Unicode"
    if isinstance(value, list | tuple | Set) or attrs.has(type(value)):
        return None
    try:
        unstructure(value)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__} cannot be turned into JSON"
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
