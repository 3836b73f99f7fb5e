"""The functions that read and write JSON quickly, for all packages.

They are those of orjson itself, so that a call costs what it costs there. Both are strict: what is
not JSON is neither read nor written, but for NaN and infinities, which are written as `null`
(`jsonrpc.encode` refuses them). What they lose, `exact` finds.
"""

from typing import Final

from orjson import (
    OPT_APPEND_NEWLINE,
    OPT_INDENT_2,
    OPT_NON_STR_KEYS,
    OPT_PASSTHROUGH_DATACLASS,
    OPT_PASSTHROUGH_DATETIME,
    OPT_PASSTHROUGH_SUBCLASS,
    OPT_SORT_KEYS,
    Fragment,
    dumps,
    loads,
)
from orjson import JSONDecodeError as DecodeError

__all__ = [
    "ANY_KEYS",
    "INDENTED",
    "NEWLINE",
    "PLAIN",
    "SORTED",
    "DecodeError",
    "Fragment",
    "dumps",
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
