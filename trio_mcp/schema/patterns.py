"""Regular expressions: which are accepted, and how large they are once they are compiled.

jsonschema-rs matches them in linear time. It is imported when the first pattern is met.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from trio_mcp.schema.keywords import Path, walk
from trio_mcp.schema.sentences import shorten
from trio_mcp.wire.errors import SchemaError

Test = Callable[[Any], bool]
"""Whether a value fits."""

_SMALLEST: Final = 1024
LARGEST: Final = 1024 * 1024
"""So many bytes a pattern may have, compiled."""


def patterns_of(schema: Any) -> Iterator[tuple[Path, str]]:
    """All the regular expressions in a schema, with the place of the schema that has them."""
    for path, each in walk(schema):
        if not isinstance(each, Mapping):
            continue
        named = each.get("patternProperties")
        yield from ((path, name) for name in (named if isinstance(named, Mapping) else ()))
        if isinstance(each.get("pattern"), str):
            yield path, each["pattern"]


@functools.lru_cache(maxsize=1024)
def pattern_size(pattern: str) -> int:
    """How many bytes a compiled pattern has; 0 if that is of no importance.

    Matching takes linear time, but what a character costs grows with this size. Up to 1 KiB there
    are so few states that the engine remembers all of them, and then a character costs next to
    nothing.

    Raises:
        SchemaError: It is no regular expression, cannot be matched in linear time, or is too large.
    """
    size = _SMALLEST
    while size <= LARGEST:
        if pattern_test(pattern, size):
            return 0 if size == _SMALLEST else size
        size *= 2
    import jsonschema_rs

    # How far too large it is, is not found out: to compile it takes the longer, the larger it is.
    if pattern_test(pattern, 4 * LARGEST):
        reason = "is not accepted: it is too large; use fewer or smaller repeats"
    elif pattern_test(pattern, LARGEST, jsonschema_rs.FancyRegexOptions):
        reason = (
            "is not accepted: what looks ahead or behind, or refers back, cannot be matched in "
            "linear time; write it without, or check that in the function"
        )
    else:
        reason = "is no regular expression" + (", or far too large" if "}" in pattern else "")
    raise SchemaError(f"the pattern {shorten(pattern)} {reason}")


def pattern_test(pattern: str, size: int, engine: Any = None) -> Test | None:
    """Compile a pattern, if it is one and no larger than so many bytes."""
    import jsonschema_rs

    options = (engine or jsonschema_rs.RegexOptions)(size_limit=size)
    try:
        return jsonschema_rs.Draft202012Validator(
            {"pattern": pattern}, pattern_options=options
        ).is_valid
    except ValueError:
        return None


def matching_time(pattern: str) -> float:
    """How many nanoseconds matching may take for each byte of a text."""
    return max(pattern_size(pattern) / 5, 4)


def encoded_length(text: str) -> int:
    """How many bytes a text has at most, in the encoding that patterns are matched in."""
    return len(text) if text.isascii() else 4 * len(text)
