"""Schemas of anything as schemas of objects, for revisions that have no other results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trio_mcp.schema.keywords import ANCHORED, DEFINITIONS, walk
from trio_mcp.wire.payloads import WRAPS_RESULT


def wrapped(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema of `{"result": value}`, where a schema is of the value.

    Returns:
        `None` if something in it would then refer to another place.

    Example:
        >>> wrapped({"type": "integer"})["properties"]
        {'result': {'type': 'integer'}}
    """
    if not all(_may_move(part) for _, part in walk(schema)):
        return None
    whole = {key: schema[key] for key in ("$schema", *DEFINITIONS) if key in schema}
    value = {key: schema[key] for key in schema if key not in whole}
    return {
        **whole,
        "type": "object",
        "properties": {"result": value},
        "required": ["result"],
        WRAPS_RESULT: True,
    }


def _may_move(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return True
    if any(isinstance(schema.get(keyword), str) for keyword in ANCHORED):
        return False
    reference = schema.get("$ref")
    places = tuple(f"#/{place}/" for place in DEFINITIONS)
    return reference is None or (isinstance(reference, str) and reference.startswith(places))
