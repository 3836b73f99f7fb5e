"""A yes without any validator, for the arguments and the defaults that most tools have.

An object with properties of plain types and no further demands is checked by exact type. So a
server whose tools take text and numbers never imports jsonschema-rs, not even for its first call.
Defaults are checked at the start, which is why a few keywords more are understood for them.
Whatever is not accepted here may still be valid: 1.0 is an integer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from trio_mcp.schema.errors import Problem

__all__ = ["TAKES_LONG", "WORDS", "classes_of", "fits_at_sight", "plain_test"]

TAKES_LONG: Final = Problem("This takes long to check.")
"""What `Validator.at_once` returns, by identity, for a value that it has not checked."""

_CLASSES: Final[dict[str, frozenset[type]]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "null": frozenset({type(None)}),
}
_ANY: Final = frozenset[type]().union(*_CLASSES.values())

_Test = Callable[[Any, Any], bool]

WORDS: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
    | {"format", "contentEncoding", "contentMediaType", "$comment"}
    | {"$schema", "$defs", "definitions"}
)
"""Keywords that demand nothing."""

_OF_AN_OBJECT: Final = frozenset({"type", "properties", "required", "additionalProperties"})


def classes_of(schema: Any) -> frozenset[type] | None:
    """The classes of scalars that fit a schema; `None` if it demands more than a plain type.

    The schema may be a server's, not checked yet: malformed, or nested too deeply for recursion.
    """
    found = frozenset[type]()
    members = [schema]
    for each in members:
        said = each.keys() - WORDS if isinstance(each, Mapping) else None
        if said == {"anyOf"} and isinstance(each["anyOf"], list):
            members += each["anyOf"]  # the loop goes on with them
        elif said == {"type"}:
            kinds = each["type"] if isinstance(each["type"], list) else [each["type"]]
            if not all(isinstance(kind, str) and kind in _CLASSES for kind in kinds):
                return None
            found = found.union(*(_CLASSES[kind] for kind in kinds))
        elif said == set():
            found |= _ANY
        else:
            return None
    return found


def plain_test(schema: Mapping[str, Any]) -> Callable[[Any], bool] | None:
    """Make the function that says yes to plain scalars, or objects of them.

    It is `None` for a schema that demands more, or is malformed. Additional properties are never
    said yes to.
    """
    scalars = classes_of(schema)
    if scalars:
        # NaN is a float, but no number: it is not even equal to itself.
        return lambda value: value.__class__ in scalars and bool(value == value)
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type") != "object" or not schema.keys() - WORDS <= _OF_AN_OBJECT:
        return None
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return None
    # A property that demands more is never found plain; calls without it may be.
    classes = {name: classes_of(each) for name, each in properties.items()}
    if any(not isinstance(name, str) or classes.get(name) is None for name in required):
        return None
    needed = frozenset(required)
    find = classes.get
    nothing: frozenset[type] = frozenset()
    everything = len(classes)

    def fits(value: Any) -> bool:
        if value.__class__ is not dict:
            return False
        for name, each in value.items():
            if each.__class__ not in (find(name) or nothing) or each != each:
                return False
        return len(value) == everything or needed <= value.keys()

    return fits


def fits_at_sight(schema: Any, value: Any) -> bool:
    """Whether a value, a scalar or an empty list or object, is seen to fit a schema."""
    if not isinstance(schema, Mapping):
        return schema is True
    return all(
        keyword in _TESTS and _TESTS[keyword](schema[keyword], value)
        for keyword in schema.keys() - WORDS
    )


def _is_of_type(kinds: Any, value: Any) -> bool:
    named = kinds if isinstance(kinds, list) else [kinds]
    return any(value.__class__ in _CLASSES.get(each, ()) for each in named) or (
        (value == [] and "array" in named) or (value == {} and "object" in named)
    )


def _is_same(wanted: Any, value: Any) -> bool:
    return wanted.__class__ is value.__class__ and bool(wanted == value)


def _number(compare: Callable[[Any, Any], bool]) -> _Test:
    return lambda bound, value: value.__class__ in (int, float) and compare(value, bound)


def _length(compare: Callable[[Any, Any], bool]) -> _Test:
    return lambda bound, value: isinstance(value, str) and compare(len(value), bound)


_TESTS: Final[dict[str, _Test]] = {
    "type": _is_of_type,
    "const": _is_same,
    "enum": lambda choices, value: any(_is_same(each, value) for each in choices),
    "anyOf": lambda members, value: any(fits_at_sight(each, value) for each in members),
    "items": lambda _, value: value == [],
    "additionalProperties": lambda _, value: value == {},
    "minimum": _number(operator.ge),
    "maximum": _number(operator.le),
    "exclusiveMinimum": _number(operator.gt),
    "exclusiveMaximum": _number(operator.lt),
    "minLength": _length(operator.ge),
    "maxLength": _length(operator.le),
}
