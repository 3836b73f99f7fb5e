"""Building a schema for one place of a function, with errors that name the place."""

from __future__ import annotations

from typing import Any

from trio_mcp.schema.annotations import Builder
from trio_mcp.schema.errors import errors_at
from trio_mcp.schema.signatures import where
from trio_mcp.schema.size import check_size

__all__ = ["bounded", "build_at"]


def build_at(builder: Builder, tool: str, parameter: str, annotation: Any) -> dict[str, Any]:
    """Build the schema of a parameter, or of `return`.

    Raises:
        SchemaError: The annotation has none; the message names function and parameter.
    """
    with errors_at(f"function {tool!r}, {where(parameter)}"):
        return builder.build(annotation)


def bounded(tool: str, builder: Builder, schema: dict[str, Any]) -> dict[str, Any]:
    """Bound an inferred schema; only raw keywords call for a check of everything.

    Raises:
        SchemaError: It is out of bounds, or not valid.
    """
    with errors_at(f"function {tool!r}"):
        if builder.raw:
            from trio_mcp.schema.bounds import check_schema  # imports much, and is seldom needed

            check_schema(schema)
        else:
            check_size(schema)
            if "$defs" in schema:  # an alias may stand for nothing but itself
                from trio_mcp.schema.references import References  # few schemas refer to anything

                References(schema)
    return schema
