"""The parameter algebra: a small language of types, for tools that are declared by hand.

Each type is a value that knows its JSON Schema, and they nest as deep as need be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from attrs import NOTHING, Attribute, field, frozen, validators

from trio_mcp.public import public_in
from trio_mcp.schema.annotations import Builder, document
from trio_mcp.schema.bounds import check_schema
from trio_mcp.schema.errors import ArgumentError
from trio_mcp.schema.signatures import Signature, Taken
from trio_mcp.schema.structuring import as_they_came
from trio_mcp.schema.validate import compile_validator
from trio_mcp.wire.errors import SchemaError
from trio_mcp.wire.safe_repr import safe_repr
from trio_mcp.wire.subschemas import IN_PLACE, REFERENCES


@runtime_checkable
class ParameterType(Protocol):
    """Anything that knows its JSON Schema."""

    def to_schema(self) -> dict[str, Any]:
        """Return the JSON Schema, as a new dictionary."""
        ...


def _check_type(name: str, value: object) -> None:
    # A class has the method as well, but what is needed is one of its objects.
    if isinstance(value, type) or not isinstance(value, ParameterType):
        raise SchemaError(f"{name} must be a type such as String(), not {safe_repr(value)}")


def _is_type(_: object, attribute: Attribute[Any], value: Any) -> None:
    _check_type(attribute.name, value)


def _named_types(properties: Mapping[str, ParameterType]) -> Mapping[str, ParameterType]:
    if not isinstance(properties, Mapping):
        raise SchemaError(f"properties must be a dict, by name, not {safe_repr(properties)}")
    for name, kind in properties.items():
        if not isinstance(name, str):
            raise SchemaError(f"properties have names that are texts, not {safe_repr(name)}")
        _check_type(f"property {name!r}", kind)
    return properties


def _is_text(_: object, attribute: Attribute[Any], value: Any) -> None:
    if not isinstance(value, str):
        raise SchemaError(f"{attribute.name} must be a text, not {safe_repr(value)}")


@frozen
class _Plain:
    _type: ClassVar[str | None] = None

    def to_schema(self) -> dict[str, Any]:
        """Return the JSON Schema, as a new dictionary."""
        return {} if self._type is None else {"type": self._type}


class String(_Plain):
    """Text."""

    _type = "string"


class Integer(_Plain):
    """A whole number."""

    _type = "integer"


class Number(_Plain):
    """Any number."""

    _type = "number"


class Boolean(_Plain):
    """True or false."""

    _type = "boolean"


class AnyValue(_Plain):
    """Any JSON value."""


for _plain in _Plain.__subclasses__():
    public_in("trio_mcp.schema")(_plain)


@public_in("trio_mcp.schema")
@frozen
class Array:
    """A list whose items all have the same type."""

    items: ParameterType = field(factory=AnyValue, validator=_is_type)

    def to_schema(self) -> dict[str, Any]:
        """Return an `array` schema with `items`."""
        return {"type": "array", "items": self.items.to_schema()}


@public_in("trio_mcp.schema")
@frozen
class Object:
    """An object with named properties.

    Args:
        properties: The type of each property, by name.
        required: The names of those that must be present; by default all of them.
    """

    properties: Mapping[str, ParameterType] = field(converter=_named_types)
    required: Sequence[str] = field(kw_only=True)

    @required.default
    def _all(self) -> Sequence[str]:
        return tuple(self.properties)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.required, str) or not isinstance(self.required, Collection):
            raise SchemaError(f"required must be a list of names, not {safe_repr(self.required)}")
        for name in self.required:
            if name not in self.properties:
                raise SchemaError(f"property {name!r} is required, but it is not declared")

    def to_schema(self) -> dict[str, Any]:
        """Return an `object` schema with `properties` and `required`."""
        return {
            "type": "object",
            "properties": {name: kind.to_schema() for name, kind in self.properties.items()},
            "required": list(self.required),
        }


@public_in("trio_mcp.schema")
@frozen(init=False)
class OneOf:
    """One of a few strings.

    Example:
        >>> OneOf("asc", "desc").to_schema()
        {'type': 'string', 'enum': ['asc', 'desc']}
    """

    values: tuple[str, ...]

    def __init__(self, *values: str) -> None:
        if not all(isinstance(value, str) for value in values):
            raise SchemaError(f"OneOf takes strings, not {safe_repr(values)}")
        if not values or len(set(values)) != len(values):
            raise SchemaError("OneOf takes at least one string, and none of them twice")
        self.__attrs_init__(values)

    def to_schema(self) -> dict[str, Any]:
        """Return a `string` schema with `enum`."""
        return {"type": "string", "enum": list(self.values)}


@public_in("trio_mcp.schema")
@frozen
class Parameter:
    """An explicit declaration of a parameter.

    Args:
        name: The name of the argument.
        type: Its type.
        description: What it means, for the caller.
        required: Whether it must be given; a default makes it optional.
        default: What the function assumes if it is left out; published in the schema.
    """

    name: str = field(validator=_is_text)
    type: ParameterType = field(validator=_is_type)
    description: str | None = field(default=None, validator=validators.optional(_is_text))
    required: bool = True
    default: Any = field(factory=lambda: NOTHING)

    @property
    def must_be_given(self) -> bool:
        """Whether the caller must give it."""
        return self.required and self.default is NOTHING

    def to_schema(self) -> dict[str, Any]:
        """Return the schema of the type, with description and default."""
        schema = self.type.to_schema()
        document(schema, self.description, self.default)
        return schema


# Where else a schema may speak of properties.
_INDIRECT = {*REFERENCES, *IN_PLACE, "patternProperties"} - {"not"}


def declare(tool: str, taken: list[Taken], parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Make a schema of explicit declarations, checked against the function."""
    known = {parameter.name for parameter in taken if not parameter.rest}
    open_ended = any(parameter.rest for parameter in taken)
    declared: dict[str, dict[str, Any]] = {}
    for parameter in parameters:
        if parameter.name in declared:
            raise SchemaError(f"function {tool!r}: parameter {parameter.name!r} is declared twice")
        if parameter.name not in known and not open_ended:
            raise SchemaError(
                f"function {tool!r}: parameter {parameter.name!r} is declared, but the function "
                "does not take it"
            )
        declared[parameter.name] = parameter.to_schema()
    for one in taken:
        if one.name not in declared and one.is_needed:
            raise SchemaError(
                f"function {tool!r}: parameter {one.name!r} is needed, but it is not declared"
            )
        # What is passed on is structured by its annotation all the same.
        Builder().build_at(tool, one.name, one.annotation)
    schema = {
        "type": "object",
        "properties": declared,
        "required": [parameter.name for parameter in parameters if parameter.must_be_given],
        "additionalProperties": False,
    }
    return Builder().finish_within_bounds(tool, schema)


def accept_schema(
    tool: str, signature: Signature, schema: Mapping[str, Any]
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Check a schema for the arguments against the function; return what passes arguments on.

    It raises `ArgumentError` for valid arguments that the function could not take.
    """
    check_schema(schema)
    if schema.get("type") != "object":
        raise SchemaError('an input schema must have "type": "object"')
    taken, context = signature.given, signature.context
    ours = {*signature.supplied, *(() if context is None else (context,))}
    takes = frozenset(parameter.name for parameter in taken if not parameter.rest)
    needs = frozenset(parameter.name for parameter in taken if parameter.is_needed)
    open_ended = any(parameter.rest for parameter in taken)
    properties = schema.get("properties", {})
    for name in properties:
        if name in ours or not (open_ended or name in takes):
            why = "the function does not take it"
            if name in ours:
                why = f"it is for {'the context' if name == context else 'a dependency'}"
            raise SchemaError(
                f"function {tool!r}: the input schema has the property {name!r}, but {why}"
            )
    direct = not _INDIRECT & schema.keys()
    for name in sorted(needs - properties.keys()):
        if direct:
            raise SchemaError(
                f"function {tool!r}: parameter {name!r} is needed, but the input schema does not "
                "have it; add it to the properties, or give the parameter a default"
            )
    closed = direct and schema.get("additionalProperties") is False
    if needs <= set(schema.get("required", ())) and (closed or (open_ended and not ours)):
        return as_they_came
    may_have: dict[str, Any] = {name: {} for name in sorted(takes)}
    if open_ended:
        may_have.update(dict.fromkeys(sorted(ours), False))
    passed = {"type": "object", "required": sorted(needs), "additionalProperties": open_ended}
    validate = compile_validator({"properties": may_have, **passed}, inferred=True)

    def pass_on(arguments: dict[str, Any]) -> dict[str, Any]:
        problem = validate(arguments)
        if problem is not None:
            raise ArgumentError(problem)
        return arguments

    return pass_on
