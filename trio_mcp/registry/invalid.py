"""Values of handlers that cannot be sent: an error for the caller, and a reason for the log.

The caller gets the type, and learns of nesting, for which no type is to blame. The author has to
find the place, so the log gets a path and what is wrong there, but never a value, which may be
private.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

import attrs

from trio_mcp.registry.checks import is_text
from trio_mcp.schema import unstructure
from trio_mcp.schema.models import is_model
from trio_mcp.schema.returns import BYTES, USE_OF_BYTES
from trio_mcp.schema.sentences import join_path
from trio_mcp.wire.conversion import Misfit, from_wire, to_wire
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.nested_arrays import TooManyArrays, has_many_arrays

_MOST_LOOKS: Final = 10_000
_DEEPEST: Final = 100
_MANY_ARRAYS: Final = f"it has {TooManyArrays()}"
_TOO_DEEP: Final = "it is nested too deeply, or it holds itself"

_Path = tuple[str | int, ...]


class InvalidResult(McpError):
    """A result that cannot be sent (`-32603`). The reason is for the log."""

    def __init__(self, message: str, reason: str, data: dict[str, Json] | None = None) -> None:
        super().__init__(INTERNAL_ERROR, message, data)
        self.reason = reason


def invalid_result(value: Any, whose: str, error: Exception | None = None) -> InvalidResult:
    """Make the error for a result of a handler, such as `tool add`, that cannot be sent."""
    kind = type(value).__name__
    reason = _reason(value, error)
    message = f"Invalid handler result type: {kind} ({whose})"
    if reason in (_MANY_ARRAYS, _TOO_DEEP):
        message = f"{message}: {reason}"
    return InvalidResult(message, reason, {"type": kind, "handler": whose})


def checked_wire(payload: Any, value: Any, whose: str) -> Json:
    """Return what a handler made of its value as it travels, or raise `InvalidResult`.

    The handler, such as `tool add`, may have filled a field with what it does not take.
    """
    try:
        wire = to_wire(payload)
        encode(wire)
        from_wire(wire, type(payload))
    except Exception as error:  # whatever a wrongly filled field makes the converter raise
        raise invalid_result(value, whose, error) from None
    return wire


def _reason(value: Any, error: Exception | None) -> str:
    if isinstance(value, BYTES):
        return USE_OF_BYTES
    if inspect.iscoroutine(value):
        return "it is a coroutine, which was not awaited: write await before the call that made it"
    if isinstance(error, Misfit) and error.path:
        return f"{error.path} of the {type(value).__name__} must be {error.expected}"
    if isinstance(error, TooManyArrays) or has_many_arrays(value):
        return _MANY_ARRAYS
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
            return _TOO_DEEP
        waiting.extend([((*path, step), part) for step, part in _parts(each)][::-1])
    return f"it is of type {type(value).__name__}, and too large to say what in it cannot be sent"


def _parts(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(key), each) for key, each in value.items())
    elif isinstance(value, list | tuple | Set):
        yield from enumerate(value)
    elif attrs.has(type(value)) or dataclasses.is_dataclass(type(value)):
        read = attrs.fields if attrs.has(type(value)) else dataclasses.fields
        yield from ((field.name, getattr(value, field.name, None)) for field in read(type(value)))
    elif is_model(type(value)):
        yield from getattr(value, "__dict__", {}).items()


def _wrong_with(value: Any) -> str | None:
    """Say what is wrong with a value itself, whatever is in it; `None` if nothing is."""
    if isinstance(value, float):
        return None if math.isfinite(value) else "NaN and infinity are not JSON"
    if isinstance(value, str):
        return None if is_text(value) else "a text with half a surrogate pair is not Unicode"
    if isinstance(value, Mapping):
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            return f"a key of type {type(odd).__name__}, where JSON has text only"
        return None if all(map(is_text, value)) else "a key is not Unicode"
    if isinstance(value, list | tuple | Set) or attrs.has(type(value)):
        return None
    try:
        unstructure(value)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__} cannot be turned into JSON"
    return None
