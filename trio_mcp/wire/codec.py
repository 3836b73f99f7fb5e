"""The functions that read and write JSON quickly, for all packages.

They are those of orjson. Both are strict: what is not JSON is neither read nor written, but for NaN
and infinities, which are written as `null` (`jsonrpc.encode` refuses them). What they lose, `exact`
finds.

More arrays that end together than orjson can write are found before (`nested_arrays`).
"""

from collections.abc import Callable
from typing import Any, Final

from orjson import (
    OPT_APPEND_NEWLINE,
    OPT_INDENT_2,
    OPT_NON_STR_KEYS,
    OPT_PASSTHROUGH_DATACLASS,
    OPT_PASSTHROUGH_DATETIME,
    OPT_PASSTHROUGH_SUBCLASS,
    OPT_SORT_KEYS,
    loads,
)
from orjson import JSONDecodeError as DecodeError
from orjson import dumps as dumps_unchecked

from trio_mcp.wire.nested_arrays import MOST_ARRAYS, TooManyArrays, has_many_arrays

__all__ = [
    "ANY_KEYS",
    "INDENTED",
    "NEWLINE",
    "PLAIN",
    "SORTED",
    "DecodeError",
    "dumps",
    "dumps_parsed",
    "dumps_unchecked",
    "loads",
]

ANY_KEYS: Final = OPT_NON_STR_KEYS
"""Keys that are not texts are written as texts."""
INDENTED: Final = OPT_INDENT_2
"""Written in lines, with two spaces for each level."""
NEWLINE: Final = OPT_APPEND_NEWLINE
"""With a newline at the end."""
PLAIN: Final = OPT_PASSTHROUGH_DATACLASS | OPT_PASSTHROUGH_DATETIME | OPT_PASSTHROUGH_SUBCLASS
"""Only what Python itself has for JSON: no data classes, no times, no subclasses."""
SORTED: Final = OPT_SORT_KEYS
"""By their names."""

_END: Final = b"]" * (MOST_ARRAYS + 1)
_SPACE: Final = b" \t\r\n"


def dumps(
    value: Any, default: Callable[[Any], Any] | None = None, option: int | None = None
) -> bytes:
    """Encode a value. The arguments are those of `orjson.dumps`, which is `dumps_unchecked`.

    Raises:
        TypeError: The value holds what is not JSON, or is nested too deeply (`TooManyArrays`).
    """
    if has_many_arrays(value):
        raise TooManyArrays
    return dumps_unchecked(value, default, option)


def dumps_parsed(value: Any, text: bytes, option: int | None = None) -> bytes:
    """Encode a value as `dumps` does, given the text that it was parsed from: that is looked at."""
    if (
        text.count(b"]") > MOST_ARRAYS
        and text.translate(None, _SPACE).rfind(_END) >= 0
        and has_many_arrays(value)  # else it was in a string
    ):
        raise TooManyArrays
    return dumps_unchecked(value, None, option)
