"""Worker threads, for work on large values and for work that blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

import attrs
import trio

from trio_mcp.background import of_this_run
from trio_mcp.public import public_in
from trio_mcp.wire.weight import is_long

T = TypeVar("T")
V = TypeVar("V")
Ts = TypeVarTuple("Ts")

_MANY: Final = 2000
LONG_TEXT: Final = 1_000_000
"""Characters beyond which a text is large. Where each call has one, it is not worth a call."""
SHORT_JSON: Final = 64 * 1024
"""Bytes of the shortest JSON that may be large."""
_NUMBERS: Final = (int, float, type(None))
_PLAIN: Final = frozenset((*_NUMBERS, bool))
_TEXTS: Final = (str, bytes, bytearray)

_MAX_CONVERSIONS: Final = 8
_DECODING: Final = trio.lowlevel.RunVar[trio.CapacityLimiter]("decoding")
_CONVERTING: Final = trio.lowlevel.RunVar[trio.CapacityLimiter]("converting")


def is_large(value: object) -> bool:
    """Tell whether work on a value would hold up the event loop.

    Bytes are taken for JSON that is to be parsed. Other values count by what is in them: lists,
    mappings, attrs classes, dataclasses and Pydantic models, and their texts, keys among them. This
    itself is quick, however large the value is.
    """
    if value.__class__ is bytes:
        text: Any = value
        return len(text) >= SHORT_JSON and is_long(text)
    if isinstance(value, str):
        return len(value) > LONG_TEXT
    waiting: list[Any] = [value]
    count = length = 0
    for part in waiting:  # which grows meanwhile
        kind = part.__class__
        if kind is str:  # what JSON has in it most is asked for first, and by its very class
            length += len(part)
        elif kind is list or kind is dict:
            count += len(part)
            if count <= _MANY:
                waiting += part
                if kind is dict:
                    waiting += part.values()
        elif kind in _PLAIN:
            pass
        elif isinstance(part, _TEXTS):
            length += len(part)
        elif not isinstance(part, _NUMBERS):
            parts = _parts(part)
            count += len(parts)
            if count <= _MANY:
                waiting.extend(parts)
        if count > _MANY or length > LONG_TEXT:
            return True
    return False


def _parts(value: object) -> Collection[Any]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple | Set):
        return value
    kind = type(value)
    if attrs.has(kind):
        return [getattr(value, field.name, None) for field in attrs.fields(kind)]
    if hasattr(kind, "__dataclass_fields__"):
        return [getattr(value, name, None) for name in kind.__dataclass_fields__]
    return vars(value).values() if hasattr(kind, "__pydantic_fields__") else ()


@public_in("trio_mcp.extending")
async def offload(work: Callable[[V, Unpack[Ts]], T], value: V, *args: *Ts) -> T:
    """Do work on a value, in a worker thread if the value is large.

    Extensions should convert results so: a peer may send a million items where ten are expected,
    and other tasks would wait meanwhile.

    Args:
        work: What to do. It must not use Trio, since it may run in a thread.
        value: Mostly JSON: as bytes, or parsed. Its size decides.
        args: Further arguments for `work`, however large.

    Returns:
        What `work` returns; its exceptions are raised as they are. If the value is small, this is
        no checkpoint. If cancelled, a thread goes on until `work` returns, and its result is
        dropped.

    Example:
        >>> async def colours(client: Client) -> list[str]:
        ...     result = await client.request("colours/list", {})
        ...     return await offload(lambda wire: list(map(str, wire)), result["colours"])
    """
    if not is_large(value):
        return work(value, *args)
    return await trio.to_thread.run_sync(
        work, value, *args, abandon_on_cancel=True, limiter=_turns(value.__class__ is bytes)
    )


async def convert(work: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    """Do work on a value that is known to be large, as `offload` does."""
    return await trio.to_thread.run_sync(
        work, *args, abandon_on_cancel=True, limiter=_turns(decodes=False)
    )


async def in_thread(
    work: Callable[[Unpack[Ts]], T], *args: *Ts, abandon_on_cancel: bool = True
) -> T:
    """Do work that blocks in a worker thread: files, names, a keyring.

    If cancelled, the thread goes on by itself, and its result is dropped; or, without
    `abandon_on_cancel`, it is waited for.
    """
    return await trio.to_thread.run_sync(work, *args, abandon_on_cancel=abandon_on_cancel)


def _turns(decodes: bool) -> trio.CapacityLimiter:
    """Return the limiter of work on large values.

    It is apart from that of other threads, which may all wait for messages. Texts are parsed one at
    a time, since each holds the interpreter for a while; they wait for no conversion either, which
    may run functions of authors.
    """
    limiter, limit = (_DECODING, 1) if decodes else (_CONVERTING, _MAX_CONVERSIONS)
    return of_this_run(limiter, partial(trio.CapacityLimiter, limit))
