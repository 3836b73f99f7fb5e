"""A function as a tool: its name, what it says of itself, its schemas and its converters.

Everything is worked out once, at registration; what a call needs is left behind as plain
functions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from trio_mcp.schema.annotations import Builder, describe
from trio_mcp.schema.defaults import check_defaults
from trio_mcp.schema.docstrings import Docs, parse_docstring
from trio_mcp.schema.returns import describe_return
from trio_mcp.schema.signatures import (
    Hints,
    Taken,
    check_function,
    docstring_of,
    name_of,
    taken_by,
)
from trio_mcp.schema.structuring import structure_arguments
from trio_mcp.wire.errors import SchemaError

if TYPE_CHECKING:
    from trio_mcp.schema.parameters import Parameter

__all__ = ["FunctionSchema", "describe_function"]


@frozen(eq=False, repr=False)
class FunctionSchema:
    """What a function looks like from outside, and how values cross its border."""

    name: str
    """The function's own name."""

    description: str | None
    """Its docstring, without the sections about parameters, results and errors."""

    input_schema: dict[str, Any]
    """The schema of its arguments: always an object."""

    checked_schema: dict[str, Any]
    """What arguments are held against: the same, but anything goes where Pydantic decides."""

    output_schema: dict[str, Any] | None
    """The schema of its result; `None` where that is text, nothing, or anything."""

    context_parameter: str | None
    """The parameter that takes the context; it is no part of the schema."""

    structure: Callable[[dict[str, Any]], dict[str, Any]]
    """Valid JSON arguments to keyword arguments; raises `ArgumentError`."""

    unstructure: Callable[[Any], Any] | None
    """The result to a JSON-able value; `None` where nothing needs doing."""

    lists_results: bool = False
    """Whether the result is a list of `result_types`, by its annotation."""


def describe_function(
    function: Callable[..., Any],
    *,
    context_type: type | None = None,
    parameters: Sequence[Parameter] | None = None,
    input_schema: Mapping[str, Any] | None = None,
    result_types: Collection[type] = (),
    describe_result: bool = True,
) -> FunctionSchema:
    """Work out the schemas of a function from its signature, annotations and docstring.

    Args:
        function: A function, method, partial or callable object, async or not.
        context_type: The class whose parameter is filled in by the server; a parameter
            annotated with it stays out of the schema.
        parameters: Explicit declarations, used in place of the annotations.
        input_schema: A schema for the arguments, used in place of the annotations; the function
            gets the arguments as they came.
        result_types: Classes that are results in themselves; a return annotation that names one
            of them has no schema, and its values are not converted.
        describe_result: Whether the return annotation matters at all.

    Returns:
        The description, which is self-contained: the function is not looked at again.

    Raises:
        SchemaError: It is no function that gives one answer, a parameter cannot be filled, an
            annotation has no counterpart in JSON, a default does not fit its annotation, or the
            schema is out of bounds, or not what the function takes. The message names function
            and parameter.

    Example:
        >>> async def add(a: float, b: float = 0) -> float:
        ...     "Add two numbers."
        >>> describe_function(add).input_schema["required"]
        ['a']
    """
    check_function(function)
    name = name_of(function)
    if parameters is not None and input_schema is not None:
        raise SchemaError("parameters= and input_schema= exclude each other; give one of them")
    hints = Hints(name, function, context_type)
    taken, context, returns = taken_by(function, hints)
    docs = parse_docstring(docstring_of(function))

    structure = structure_arguments(
        {each.name: each.annotation for each in taken if not each.rest},
        next((each.annotation for each in taken if each.rest), None),
    )
    if input_schema is not None:
        from trio_mcp.schema.explicit import accept_schema  # the exception: no start waits for it

        accepted = checked = dict(input_schema)
        structure = accept_schema(name, taken, context, input_schema)
    elif parameters is not None:
        from trio_mcp.schema.explicit import declare

        accepted = checked = declare(name, taken, parameters)
    else:
        accepted, checked = _infer(name, taken, docs)
    result = hints.resolve("return", returns) if describe_result else Any
    output_schema, unstructure, lists_results = describe_return(name, result, result_types)
    return FunctionSchema(
        name=name,
        description=docs.description,
        input_schema=accepted,
        checked_schema=checked,
        output_schema=output_schema,
        context_parameter=context,
        structure=structure,
        unstructure=unstructure,
        lists_results=lists_results,
    )


def _infer(tool: str, taken: list[Taken], docs: Docs) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of the arguments, and the one that they are held against."""
    builder = Builder()
    schema = checked = _build(builder, tool, taken, docs)
    if builder.has_models:
        checked = _build(Builder(open_models=True), tool, taken, docs)
    check_defaults(tool, taken, checked)
    return schema, checked


def _build(builder: Builder, tool: str, taken: list[Taken], docs: Docs) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    additional: Any = False
    for each in taken:
        schema = builder.build_at(tool, each.name, each.annotation)
        if each.rest:
            additional = schema
            continue
        describe(schema, docs.parameters.get(each.name), each.default)
        properties[each.name] = schema
    required = [each.name for each in taken if each.is_needed]
    schema = {"type": "object", "properties": properties, "required": required}
    if additional != {}:
        schema["additionalProperties"] = additional
    return builder.finish_within_bounds(tool, schema)
