"""The dialects of JSON Schema, and the one that a schema is written in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trio_mcp.schema.sentences import cut
from trio_mcp.wire.errors import SchemaError

__all__ = ["LONE_REFERENCES", "dialect_of"]

_NEWEST: Final = "https://json-schema.org/draft/2020-12/schema"

_DIALECTS: Final = {
    _NEWEST: "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}

LONE_REFERENCES: Final = frozenset({"Draft7Validator", "Draft6Validator", "Draft4Validator"})
"""The dialects in which whatever stands beside `$ref` says nothing."""


def dialect_of(schema: Mapping[str, Any]) -> str:
    """Return the name of the class for a schema's dialect, which both libraries call the same.

    Raises:
        SchemaError: `$schema` names a dialect that is not supported.
    """
    name = schema.get("$schema", _NEWEST)
    known = _DIALECTS.get(name.rstrip("#")) if isinstance(name, str) else None
    if known is None:
        raise SchemaError(
            f"the dialect {cut(name)} is not supported; leave $schema out for 2020-12, or use "
            f"one of {', '.join(_DIALECTS)}"
        )
    return known
