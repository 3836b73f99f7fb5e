"""How large a schema may be: whatever is done with one then takes little time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from trio_mcp.schema.sentences import shorten
from trio_mcp.wire.errors import SchemaError
from trio_mcp.wire.subschemas import parts_of

_MOST_SUBSCHEMAS: Final = 2000
_DEEPEST_SUBSCHEMA: Final = 64
_MOST_VALUES: Final = 50 * _MOST_SUBSCHEMAS
_DEEPEST_VALUE: Final = 3 * _DEEPEST_SUBSCHEMA

_OBJECT: Final = (dict, Mapping)  # in the order of what is asked quickly
_SCALAR: Final = (str, int, float, bool, type(None))


def check_size(schema: Mapping[str, Any]) -> None:
    """Check that a schema is JSON and within its bounds, and no more than that."""
    if not isinstance(schema, Mapping):
        raise SchemaError(f"a schema is a JSON object, not a {type(schema).__name__}")
    _check_bounds(schema, _json_within, _MOST_VALUES, _DEEPEST_VALUE, "values")
    _check_bounds(schema, _schemas_within, _MOST_SUBSCHEMAS, _DEEPEST_SUBSCHEMA, "subschemas")


def _check_bounds(
    schema: Any, within: Callable[[Any], Iterable[Any]], limit: int, deepest: int, what: str
) -> None:
    count = 0
    waiting = [(schema, 0)]
    while waiting:
        each, level = waiting.pop()
        count += 1
        if count > limit:
            raise SchemaError(f"the schema holds more than {limit} {what}")
        if level > deepest:
            raise SchemaError(f"the schema is nested more than {deepest} levels deep")
        waiting.extend((part, level + 1) for part in within(each))


def _schemas_within(schema: Any) -> Iterator[Any]:
    return (part for _, part in parts_of(schema))


def _json_within(value: Any) -> Iterable[Any]:
    if isinstance(value, _OBJECT):
        for key in value:
            if not isinstance(key, str):
                raise SchemaError(f"the schema has the key {shorten(key)}, which is not a string")
        return value.values()
    if isinstance(value, list):
        return value
    if not isinstance(value, _SCALAR):
        raise SchemaError(
            f"the schema holds a {type(value).__name__} ({shorten(value)}), which JSON has not"
        )
    return ()
