"""What a schema may be, before it is used.

A schema may come from anywhere: it is checked as data first, then its regular expressions, then
against its metaschema, and last where its references lead, which no metaschema can know.

jsonschema-rs matches regular expressions in linear time. It is imported when it is needed first.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from trio_mcp.schema.errors import errors_at
from trio_mcp.schema.references import References, dialect_of
from trio_mcp.schema.sentences import shorten
from trio_mcp.schema.size import check_size
from trio_mcp.wire.errors import SchemaError
from trio_mcp.wire.subschemas import Path, place_in_words, walk

_MOST_OF_PATTERNS: Final = 8 * 1024 * 1024
"""So many bytes all patterns of a schema may have together: they take 30 ms to compile."""


def check_schema(schema: Mapping[str, Any]) -> None:
    """Check that a JSON Schema is valid, bounded and self-contained.

    Raises:
        SchemaError: The schema is not JSON, is invalid, too large or too deep, is of an unknown
            dialect, refers to what is not in it or in a circle that consumes nothing, or holds
            a regular expression that is invalid or cannot be matched in linear time.
    """
    check_size(schema)
    dialect_of(schema)
    total = 0
    for path, pattern in patterns_of(schema):
        with errors_at(f"the schema at {place_in_words(path)}"):
            total += pattern_size(pattern)
        if total > _MOST_OF_PATTERNS:
            raise SchemaError("the patterns of the schema are too large together; simplify them")
    _check_metaschema(schema)
    References(schema)


def _check_metaschema(schema: Mapping[str, Any]) -> None:
    import jsonschema_rs

    try:
        jsonschema_rs.meta.validate(dict(schema))
    except jsonschema_rs.ValidationError as error:
        place, value, kind = tuple(error.instance_path), error.instance, error.kind
        while kind.name == "anyOf":  # the first alternative says best what is meant
            kind = kind.as_dict()["context"][0][0].kind
        wanted = next(iter(kind.as_dict().values()), True)
        if isinstance(wanted, list) and len(wanted) == 1:
            (wanted,) = wanted
        raise SchemaError(
            f"the schema is invalid at {place_in_words(place)}: {shorten(value)} does not fit "
            f"{kind.name} {shorten(wanted)}"
        ) from None


Test = Callable[[Any], bool]
"""Whether a value fits."""

_SMALLEST: Final = 1024
LARGEST: Final = 1024 * 1024
"""So many bytes a pattern may have, compiled."""


def patterns_of(schema: Any) -> Iterator[tuple[Path, str]]:
    """All the regular expressions in a schema, with the place of the schema that has them."""
    for path, each in walk(schema):
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
        SchemaError: It is not a regular expression, is too large, or takes more than linear time.
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
