"""A schema as data: whether it is JSON at all, how large it is, and how deep.

This is all that needs to be asked of a schema that was made from annotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trio_mcp.schema.errors import SchemaError
from trio_mcp.schema.keywords import parts_of
from trio_mcp.schema.sentences import cut

__all__ = ["check_size"]

_VALUES_PER_SUBSCHEMA: Final = 50
_LEVELS_PER_SUBSCHEMA: Final = 3


def check_size(
    schema: Mapping[str, Any], *, max_depth: int = 64, max_subschemas: int = 2000
) -> None:
    """Check that a schema is JSON and within its bounds, and no more than that.

    Raises:
        SchemaError: It is not.
    """
    if not isinstance(schema, Mapping):
        raise SchemaError(f"a schema is a JSON object, not a {type(schema).__name__}")
    _check_json(schema, max_depth * _LEVELS_PER_SUBSCHEMA, max_subschemas * _VALUES_PER_SUBSCHEMA)
    count = 0
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        each, depth = waiting.pop()
        count += 1
        if count > max_subschemas:
            raise SchemaError(f"the schema holds more than {max_subschemas} subschemas")
        if depth > max_depth:
            raise SchemaError(f"the schema is nested more than {max_depth} levels deep")
        waiting.extend((part.schema, depth + 1) for part in parts_of(each))


def _check_json(schema: Any, max_levels: int, max_values: int) -> None:
    values = 0
    waiting = [(schema, 0)]
    while waiting:
        value, level = waiting.pop()
        values += 1
        if values > max_values:
            raise SchemaError(f"the schema holds more than {max_values} values")
        if level > max_levels:
            raise SchemaError(f"the schema is nested more than {max_levels} levels deep")
        if isinstance(value, Mapping):
            for key, each in value.items():
                if not isinstance(key, str):
                    raise SchemaError(f"the schema has the key {cut(key)}, which is no string")
                waiting.append((each, level + 1))
        elif isinstance(value, list):
            waiting.extend((each, level + 1) for each in value)
        elif not isinstance(value, str | int | float | bool | None):
            raise SchemaError(
                f"the schema holds a {type(value).__name__} ({cut(value)}), which JSON has not"
            )
