"""JSON without loss: long integers and lone surrogates are written and read as they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

from trio_mcp.store.errors import Damaged
from trio_mcp.wire import codec

T = TypeVar("T")

_SLOW: Final = b" "
"""What begins with a space was written by the standard library, and has to be read by it."""


def dumps(value: Any) -> bytes:
    """Write a value; there is no line break in it. What is not JSON becomes text."""
    try:
        return codec.dumps(value, default=str)
    except TypeError:  # an integer beyond 64 bits, or half a surrogate pair
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
        return _SLOW + text.encode("utf-8", "surrogatepass")


def loads(kept: bytes) -> Any:
    """Read what `dumps` wrote; `ValueError` if it is damaged."""
    return json.loads(kept) if kept.startswith(_SLOW) else codec.loads(kept)


def read(kept: bytes, what: str, parse: Callable[[Any], T]) -> T:
    """Read what `dumps` wrote, and what it means.

    Args:
        kept: What was written.
        what: What it is called in the error.
        parse: Makes what is returned of the value, or raises that it is of another kind.

    Raises:
        Damaged: It is not what was written, or a newer version wrote it.
    """
    try:
        return parse(loads(kept))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Damaged(f"{what} in the store is damaged, or of a newer version") from error
