"""Whether a value fits a schema, and if not, why.

An object with properties of plain types is checked by exact type, so a server whose tools take text
and numbers never imports jsonschema-rs. For defaults, which are checked at the start, a few
keywords more are understood. What is not accepted so may still be valid (1.0 is an integer): that
is for `full`, which is not imported, and compiles nothing, before the first value that needs it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from trio_mcp.schema.errors import Problem
from trio_mcp.wire.subschemas import WORDS

if TYPE_CHECKING:
    from trio_mcp.schema.full import FullValidator


class Validator:
    """Says what is wrong with values by one schema. Made by `compile_validator`.

    It may be called from several threads. On an event loop, large values are for another thread.
    """

    def __init__(self, schema: Mapping[str, Any], noun: str, shows_values: bool) -> None:
        self._schema = schema
        self._noun = noun
        self._shows_values = shows_values
        self.is_plain = plain_test(schema) or (lambda _: False)
        """Whether a value fits at sight, as most do; if not, it may fit all the same."""

    def __call__(self, value: Any) -> Problem | None:
        """Say what is wrong with a value, in one or a few sentences; `None` if nothing is.

        A value that takes too much work, that is nested more than 200 levels deep, or that holds
        numbers of more than 1,024 bits where these matter, is refused.
        """
        return None if self.is_plain(value) else self._full(value)

    def compile(self) -> None:
        """Do now what else the first value would have to wait for."""
        assert self._full

    @functools.cached_property
    def _full(self) -> FullValidator:
        from trio_mcp.schema.full import FullValidator  # most servers need it for no first call

        return FullValidator(self._schema, self._noun, self._shows_values)


def compile_validator(
    schema: Mapping[str, Any],
    *,
    inferred: bool = False,
    noun: str = "argument",
    shows_values: bool = True,
) -> Validator:
    """Make the function that says what is wrong with values by a schema, `None` for valid ones.

    Args:
        schema: A JSON Schema; `$schema` says its dialect, by default 2020-12. It must not change.
        inferred: The schema was made from annotations or parameters, and need not be checked.
        noun: What the values within the value are called in sentences: 'argument' or 'result'.
        shows_values: Whether the sentences quote what came; they always name its type.

    Raises:
        SchemaError: The schema is not acceptable, as `check_schema` says.

    Example:
        >>> validate = compile_validator({"properties": {"a": {"type": "number"}}})
        >>> validate({"a": "x"})
        "Argument 'a' must be a number, but a string came ('x')."
    """
    validator = Validator(schema, noun, shows_values)
    if not inferred:
        from trio_mcp.schema.bounds import check_schema  # schemas written by hand are the exception

        check_schema(schema)
        validator.compile()
    return validator


def compile_test(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    """Make the function that says whether a value fits a schema from annotations.

    The value must be part of one that a validator has passed, or come from the author: its cost
    is not looked at.
    """

    @functools.cache
    def fits() -> Callable[[Any], bool]:
        from trio_mcp.schema.engine import Engine

        return Engine(schema).fits

    classes = classes_of(schema) or frozenset()
    return lambda value: value.__class__ in classes or fits()(value)


_CLASSES: Final[dict[str, frozenset[type]]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "null": frozenset({type(None)}),
}
_ANY: Final = frozenset[type]().union(*_CLASSES.values())

_Test = Callable[[Any, Any], bool]

_OF_AN_OBJECT: Final = frozenset({"type", "properties", "required", "additionalProperties"})


def classes_of(schema: Any) -> frozenset[type] | None:
    """The classes of scalars that fit a schema; `None` if it demands more than a plain type.

    The schema may be a server's, not checked yet: malformed, or nested too deeply for recursion.
    """
    found = frozenset[type]()
    members = [schema]
    for member in members:
        said = member.keys() - WORDS if isinstance(member, Mapping) else None
        if said == {"anyOf"} and isinstance(member["anyOf"], list):
            members += member["anyOf"]  # the loop goes on with them
        elif said == {"type"}:
            kinds = member["type"] if isinstance(member["type"], list) else [member["type"]]
            if not all(isinstance(kind, str) and kind in _CLASSES for kind in kinds):
                return None
            found = found.union(*(_CLASSES[kind] for kind in kinds))
        elif said == set():
            found |= _ANY
        else:
            return None
    return found


def plain_test(schema: Mapping[str, Any]) -> Callable[[Any], bool] | None:
    """Make the function that accepts plain scalars, or objects of them.

    It is `None` for a schema that demands more, or is malformed. Additional properties are never
    accepted.
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
    find = {name: kinds for name, kinds in classes.items() if kinds}.get
    nothing: frozenset[type] = frozenset()
    everything = len(classes)

    def fits(value: Any) -> bool:
        if value.__class__ is not dict:
            return False
        for name, each in value.items():
            if each.__class__ not in find(name, nothing) or each != each:
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
    return any(value.__class__ in _CLASSES.get(name, ()) for name in named) or (
        (value == [] and "array" in named) or (value == {} and "object" in named)
    )


def _is_same(wanted: Any, value: Any) -> bool:
    return wanted.__class__ is value.__class__ and bool(wanted == value)


def _bound(compare: Callable[[Any, Any], bool], of: Callable[[Any], Any], *kinds: type) -> _Test:
    return lambda bound, value: value.__class__ in kinds and compare(of(value), bound)


_TESTS: Final[dict[str, _Test]] = {
    "type": _is_of_type,
    "const": _is_same,
    "enum": lambda choices, value: any(_is_same(choice, value) for choice in choices),
    "anyOf": lambda members, value: any(fits_at_sight(member, value) for member in members),
    "items": lambda _, value: value == [],
    "additionalProperties": lambda _, value: value == {},
    "minimum": _bound(operator.ge, operator.pos, int, float),
    "maximum": _bound(operator.le, operator.pos, int, float),
    "exclusiveMinimum": _bound(operator.gt, operator.pos, int, float),
    "exclusiveMaximum": _bound(operator.lt, operator.pos, int, float),
    "minLength": _bound(operator.ge, len, str),
    "maxLength": _bound(operator.le, len, str),
}
