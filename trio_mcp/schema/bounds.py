"""What a schema may be, before it is used.

A schema may come from anywhere: it is checked as data first, then its regular expressions, then
against its metaschema, and last where its references lead, which no metaschema can know.
"""

from collections.abc import Mapping
from typing import Any, Final

from trio_mcp.schema.errors import errors_at
from trio_mcp.schema.keywords import check_size, place_in_words
from trio_mcp.schema.patterns import pattern_size, patterns_of
from trio_mcp.schema.references import References, dialect_of
from trio_mcp.schema.sentences import shorten
from trio_mcp.wire.errors import SchemaError

_MOST_OF_PATTERNS: Final = 8 * 1024 * 1024
"""So many bytes all patterns of a schema may have together: they take 30 ms to compile."""


def check_schema(schema: Mapping[str, Any]) -> None:
    """Check that a JSON Schema is valid, bounded and self-contained.

    Raises:
        SchemaError: The schema is no JSON, is invalid, too large or too deep, is of an unknown
            dialect, refers to what is not in it or in a circle that consumes nothing, or holds
            a regular expression that is invalid or cannot be matched in linear time.
    """
    check_size(schema)
    dialect_of(schema)
    _check_patterns(schema)
    _check_metaschema(schema)
    References(schema)


def _check_patterns(schema: Mapping[str, Any]) -> None:
    total = 0
    for path, pattern in patterns_of(schema):
        with errors_at(f"the schema at {place_in_words(path)}"):
            total += pattern_size(pattern)
        if total > _MOST_OF_PATTERNS:
            raise SchemaError("the patterns of the schema are too large together; simplify them")


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
