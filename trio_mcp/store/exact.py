"""JSON without loss: long integers and lone surrogates are written and read as they are."""

from __future__ import annotations

import json
from typing import Any, Final

from trio_mcp.wire import codec

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
