"""What a schema may be, before it is used.

A schema may come from anywhere, so it is looked at as data first (`size`). Then come its regular
expressions, its dialect's metaschema, and what no metaschema can know: where references lead (never
to the network, never in a circle that gets nowhere).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trio_mcp.schema.dialects import dialect_of
from trio_mcp.schema.engine import pattern_size, patterns_of
from trio_mcp.schema.errors import errors_at
from trio_mcp.schema.keywords import place_in_words
from trio_mcp.schema.references import References
from trio_mcp.schema.sentences import cut
from trio_mcp.schema.size import check_size
from trio_mcp.wire.errors import SchemaError

__all__ = ["check_schema"]

_MOST_OF_PATTERNS: Final = 8 * 1024 * 1024
"""So many bytes all patterns of a schema may have together: they take 30 ms to compile."""


def check_schema(schema: Mapping[str, Any]) -> None:
    """Check that a JSON Schema is valid, bounded and self-contained.

    Args:
        schema: The schema, as JSON. Its dialect is what `$schema` says, or 2020-12.

    Raises:
        SchemaError: The schema is no JSON, is invalid, too large or too deep, is of an unknown
            dialect, refers to what is not in it or in a circle that consumes nothing, or holds
            a regular expression that is invalid or cannot be matched in linear time.
    """
    check_size(schema)
    dialect = dialect_of(schema)
    _check_patterns(schema)
    _check_metaschema(dialect, schema)
    References(schema)


def _check_patterns(schema: Mapping[str, Any]) -> None:
    total = 0
    for path, pattern in patterns_of(schema):
        with errors_at(f"the schema at {place_in_words(path)}"):
            total += pattern_size(pattern)
        if total > _MOST_OF_PATTERNS:
            raise SchemaError("the patterns of the schema are too large together; simplify them")


def _check_metaschema(dialect: str, schema: Mapping[str, Any]) -> None:
    import jsonschema_rs

    # This takes a millisecond where jsonschema takes a third of a second, and as long to import.
    if jsonschema_rs.meta.is_valid(dict(schema)):
        return
    import jsonschema
    from jsonschema.exceptions import best_match

    validator = getattr(jsonschema, dialect)
    error = best_match(validator(validator.META_SCHEMA).iter_errors(schema))
    if error is None:
        raise SchemaError("the schema is invalid by the metaschema of its dialect")
    raise SchemaError(
        f"the schema is invalid at {place_in_words(tuple(error.absolute_path))}: "
        f"{cut(error.instance)} does not fit {error.validator} {cut(error.validator_value)}"
    )
