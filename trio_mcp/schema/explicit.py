"""Arguments that were described by hand, held against the function that is to get them.

Either each is declared with the parameter algebra, or there is a whole schema. A schema may allow
more than its `properties` say, so where it does not rule out what the function could not take,
each call is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from trio_mcp.schema.annotations import Builder
from trio_mcp.schema.bounds import check_schema
from trio_mcp.schema.defaults import check_default
from trio_mcp.schema.errors import ArgumentError, Problem
from trio_mcp.schema.keywords import REFERENCES
from trio_mcp.schema.parameters import Parameter
from trio_mcp.schema.sentences import listed, named
from trio_mcp.schema.signatures import Taken
from trio_mcp.schema.structuring import as_they_came
from trio_mcp.wire.errors import SchemaError

__all__ = ["accept_schema", "declare"]

Structure = Callable[[dict[str, Any]], dict[str, Any]]

# Where else a schema may speak of properties.
_INDIRECT = frozenset(
    {
        *REFERENCES,
        *("allOf", "anyOf", "oneOf", "if", "then", "else"),
        *("dependentSchemas", "dependencies", "patternProperties"),
    }
)


def declare(tool: str, taken: list[Taken], parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Make a schema of explicit declarations.

    Raises:
        SchemaError: They are not what the function takes, or a default does not fit its type.
    """
    known = {each.name for each in taken if not each.rest}
    open_ended = any(each.rest for each in taken)
    declared: dict[str, dict[str, Any]] = {}
    for each in parameters:
        if each.name in declared:
            raise SchemaError(f"function {tool!r}: parameter {each.name!r} is declared twice")
        if each.name not in known and not open_ended:
            raise SchemaError(
                f"function {tool!r}: parameter {each.name!r} is declared, but the function does "
                "not take it"
            )
        declared[each.name] = each.to_schema()
        if each.default is not None:  # which stands for a default that is not told
            check_default(tool, each.name, each.default, declared[each.name])
    for one in taken:
        if one.name not in declared and one.is_needed:
            raise SchemaError(
                f"function {tool!r}: parameter {one.name!r} is needed, but it is not declared"
            )
    for one in taken:  # what is passed on is structured by its annotation all the same
        Builder().build_at(tool, one.name, one.annotation)
    schema = {
        "type": "object",
        "properties": declared,
        "required": [each.name for each in parameters if each.must_be_given],
        "additionalProperties": False,
    }
    return Builder().finish_within_bounds(tool, schema)


def accept_schema(
    tool: str, taken: list[Taken], context: str | None, schema: Mapping[str, Any]
) -> Structure:
    """Hold a schema for the arguments against the function.

    Returns:
        What passes valid arguments on. It raises `ArgumentError` for those that the function
        could not take although they are valid.

    Raises:
        SchemaError: The schema is not acceptable, it names what the function does not take, or
            it does not have what the function needs.
    """
    check_schema(schema)
    if schema.get("type") != "object":
        raise SchemaError('an input schema must have "type": "object"')
    takes = frozenset(each.name for each in taken if not each.rest)
    needs = frozenset(each.name for each in taken if each.is_needed)
    open_ended = any(each.rest for each in taken)
    properties = schema.get("properties", {})
    for name in properties:
        if name == context or not (open_ended or name in takes):
            why = "it is for the context" if name == context else "the function does not take it"
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
    if needs <= set(schema.get("required", ())) and (closed or (open_ended and context is None)):
        return as_they_came
    return _Passing(takes, needs, open_ended, context)


@frozen
class _Passing:
    """Passes on the arguments that a function can take, as they came."""

    takes: frozenset[str]
    needs: frozenset[str]
    open_ended: bool
    context: str | None

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        names = arguments.keys()
        if not self.needs <= names:
            missing = sorted(self.needs - names)
            told = list(map(repr, missing))
            text = f"Missing required {named('argument', told)}."
            raise ArgumentError(Problem(text, missing[0]))
        unknown = {self.context} & names if self.open_ended else names - self.takes
        if unknown:
            told = [repr(str(each)[:60]) for each in names if each in unknown]
            known = listed(map(repr, sorted(self.takes)), "and") or "no arguments"
            text = f"Unexpected {named('argument', told)}; this tool takes {known}."
            raise ArgumentError(Problem(text, next(each for each in names if each in unknown)))
        return arguments
