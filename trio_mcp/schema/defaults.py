"""Whether the default of a parameter is what the parameter may be.

A default is published, and it is what the function works with when nothing is sent, so one that no
caller could send is a mistake. Those that JSON cannot carry are markers for "nothing was sent", and
the function's own business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import NOTHING

from trio_mcp.schema.annotations import published_default
from trio_mcp.schema.kinds import annotation_text, bare
from trio_mcp.schema.plain import fits_at_sight
from trio_mcp.schema.signatures import Taken
from trio_mcp.schema.validate import compile_validator
from trio_mcp.wire.errors import SchemaError

__all__ = ["check_default", "check_defaults"]


def check_defaults(tool: str, taken: list[Taken], schema: Mapping[str, Any]) -> None:
    """Check the defaults of a function's parameters against the schema of its arguments.

    Raises:
        SchemaError: One does not fit; the message says what to do.
    """
    shared = {key: value for key, value in schema.items() if key == "$defs"}
    for each in taken:
        if each.default is NOTHING:
            continue
        _refuse_field(tool, each)
        check_default(
            tool, each.name, each.default, schema["properties"][each.name], shared, each.annotation
        )


def check_default(
    tool: str,
    name: str,
    default: Any,
    schema: Mapping[str, Any],
    shared: Mapping[str, Any] = {},
    annotation: Any = NOTHING,
) -> None:
    """Check one default against the schema of its parameter.

    Raises:
        SchemaError: It does not fit.
    """
    value = published_default(default)
    if value is NOTHING or fits_at_sight(schema, value):
        return
    problem = compile_validator({**schema, **shared}, inferred=True, noun="default")(value)
    if problem is None:
        return
    place = f"function {tool!r}, parameter {name!r}"
    if value is None and annotation is not NOTHING:
        allowed = f"{annotation_text(bare(annotation))} | None"
        raise SchemaError(
            f"{place}: its default is None, which its annotation does not allow; annotate it "
            f"`{allowed}`, or give it another default"
        )
    raise SchemaError(f"{place}: {problem[0].lower()}{problem[1:]}")


def _refuse_field(tool: str, taken: Taken) -> None:
    """Refuse what describes a field elsewhere: here it would be the default itself."""
    default = taken.default
    if hasattr(default, "default_factory") and hasattr(default, "metadata"):
        kind = type(default).__name__
        raise SchemaError(
            f"function {tool!r}, parameter {taken.name!r}: a {kind} would be its default; write "
            "Annotated[type, Field(...)] = default"
        )
