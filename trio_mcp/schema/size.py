"""A schema as data: whether it is JSON at all, how large it is, and how deep.

This is all that needs to be asked of a schema that was made from annotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trio_mcp.schema.keywords import parts_of
from trio_mcp.schema.sentences import cut
from trio_mcp.wire.errors import SchemaError

__all__ = ["check_size"]

_MOST_SUBSCHEMAS: Final = 2000
_DEEPEST_SUBSCHEMA: Final = 64
_MOST_VALUES: Final = 50 * _MOST_SUBSCHEMAS
_DEEPEST_VALUE: Final = 3 * _DEEPEST_SUBSCHEMA

_OBJECT: Final = (dict, Mapping)  # in the order of what is asked quickly
_SCALAR: Final = (str, int, float, bool, type(None))


def check_size(schema: Mapping[str, Any]) -> None:
    """Check that a schema is JSON and within its bounds, and no more than that.

    Raises:
        SchemaError: It is not.
    """
    if not isinstance(schema, Mapping):
        raise SchemaError(f"a schema is a JSON object, not a {type(schema).__name__}")
    _check_json(schema)
    count = 0
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        each, depth = waiting.pop()
        count += 1
        if count > _MOST_SUBSCHEMAS:
            raise SchemaError(f"the schema holds more than {_MOST_SUBSCHEMAS} subschemas")
        if depth > _DEEPEST_SUBSCHEMA:
            raise SchemaError(f"the schema is nested more than {_DEEPEST_SUBSCHEMA} levels deep")
        waiting.extend((part, depth + 1) for _, part in parts_of(each))


def _check_json(schema: Any) -> None:
    values = 0
    waiting = [(schema, 0)]
    while waiting:
        value, level = waiting.pop()
        values += 1
        if values > _MOST_VALUES:
            raise SchemaError(f"the schema holds more than {_MOST_VALUES} values")
        if level > _DEEPEST_VALUE:
            raise SchemaError(f"the schema is nested more than {_DEEPEST_VALUE} levels deep")
        if isinstance(value, _OBJECT):
            for key, each in value.items():
                if not isinstance(key, str):
                    raise SchemaError(f"the schema has the key {cut(key)}, which is no string")
                waiting.append((each, level + 1))
        elif isinstance(value, list):
            waiting.extend((each, level + 1) for each in value)
        elif not isinstance(value, _SCALAR):
            raise SchemaError(
                f"the schema holds a {type(value).__name__} ({cut(value)}), which JSON has not"
            )
