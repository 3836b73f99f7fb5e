"""A function as a tool: its name, what it says of itself, its schemas and its converters.

Everything is worked out once, at registration; what a call needs is left behind as plain
functions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from attrs import NOTHING, frozen

from trio_mcp.schema.annotations import Builder, document, published_default
from trio_mcp.schema.constraints import Supplied
from trio_mcp.schema.docstrings import Docs, parse_docstring
from trio_mcp.schema.kinds import annotation_text, bare
from trio_mcp.schema.returns import describe_return
from trio_mcp.schema.signatures import (
    Hints,
    Taken,
    check_function,
    docstring_of,
    name_of,
    signature_of,
)
from trio_mcp.schema.structuring import structure_arguments
from trio_mcp.schema.validate import compile_validator, fits_at_sight
from trio_mcp.wire.errors import SchemaError

if TYPE_CHECKING:
    from trio_mcp.schema.parameters import Parameter


@frozen(eq=False, repr=False)
class FunctionSchema:
    """What a function looks like from outside, and how values cross its border.

    Args:
        name: The function's own name.
        description: Its docstring, without the sections about parameters, results and errors.
        input_schema: The schema of its arguments: always an object.
        checked_schema: What arguments are checked against: the same, but anything goes where
            Pydantic decides.
        output_schema: The schema of its result; `None` where that is text, nothing, or anything.
        context_parameter: The parameter that takes the context; it is no part of the schema.
        structure: Valid JSON arguments to keyword arguments; raises `ArgumentError`.
        unstructure: Results to JSON; `None` if they need nothing.
        lists_results: Whether results are lists of the classes that are results themselves.
        supplied: By parameter, what fills it and is no part of the schema either.
        made: By parameter, what makes its default for each call.
    """

    name: str
    description: str | None
    input_schema: dict[str, Any]
    checked_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    context_parameter: str | None
    structure: Callable[[dict[str, Any]], dict[str, Any]]
    unstructure: Callable[[Any], Any] | None
    lists_results: bool = False
    supplied: Mapping[str, Supplied] = MappingProxyType({})
    made: Mapping[str, Callable[[], Any]] = MappingProxyType({})


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
        context_type: The class whose parameter is filled in by the server, and is in no schema.
        parameters: Explicit declarations, used in place of the annotations.
        input_schema: A schema for the arguments, used in place of the annotations; the function
            gets the arguments as they came.
        result_types: Classes that are results in themselves: they have no schema, and their values
            are not converted.
        describe_result: Whether the return annotation matters at all.

    Raises:
        SchemaError: The function cannot be called by name, does not give one answer, or an
            annotation, a default or the schema does not fit. The message names function and
            parameter.

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
    signature = signature_of(function, hints)
    taken, context = signature.given, signature.context
    docs = parse_docstring(docstring_of(function))

    structure = structure_arguments(
        {parameter.name: parameter.annotation for parameter in taken if not parameter.rest},
        next((parameter.annotation for parameter in taken if parameter.rest), None),
    )
    if input_schema is not None:
        from trio_mcp.schema.parameters import accept_schema  # the exception: no start waits for it

        accepted = checked = dict(input_schema)
        structure = accept_schema(name, signature, input_schema)
    elif parameters is not None:
        from trio_mcp.schema.parameters import declare

        accepted = checked = declare(name, taken, parameters)
        for parameter in parameters:
            if parameter.default is not None:  # which stands for a default that is not published
                _check_default(name, parameter, accepted)
    else:
        builder = Builder()
        accepted = checked = _build(builder, name, taken, docs)
        if builder.has_models:
            checked = _build(Builder(open_models=True), name, taken, docs)
        for one in taken:
            _refuse_field(name, one)
            _check_default(name, one, checked)
    result = hints.resolve("return", signature.returns) if describe_result else Any
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
        supplied=signature.supplied,
        made=signature.made,
    )


def _build(builder: Builder, tool: str, taken: list[Taken], docs: Docs) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    additional: Any = False
    for parameter in taken:
        _refuse_function(tool, parameter)
        schema = builder.build_at(tool, parameter.name, parameter.annotation)
        if parameter.rest:
            additional = schema
            continue
        document(schema, docs.parameters.get(parameter.name), parameter.default)
        properties[parameter.name] = schema
    required = [parameter.name for parameter in taken if parameter.is_needed]
    schema = {"type": "object", "properties": properties, "required": required}
    if additional != {}:
        schema["additionalProperties"] = additional
    return builder.finish_within_bounds(tool, schema)


def _check_default(tool: str, taken: Taken | Parameter, schema: dict[str, Any]) -> None:
    """Check that a default is what callers could send, or no JSON: the function's own marker."""
    value = published_default(taken.default)
    if value is NOTHING or fits_at_sight(schema["properties"][taken.name], value):
        return
    one = {**schema["properties"][taken.name], "$defs": schema.get("$defs", {})}
    problem = compile_validator(one, inferred=True, noun="default")(value)
    if problem is None:
        return
    place = f"function {tool!r}, parameter {taken.name!r}"
    if value is None and isinstance(taken, Taken):
        allowed = f"{annotation_text(bare(taken.annotation))} | None"
        raise SchemaError(
            f"{place}: its default is None, which its annotation does not allow; annotate it "
            f"`{allowed}`, or give it another default"
        )
    raise SchemaError(f"{place}: {problem[0].lower()}{problem[1:]}")


def _refuse_function(tool: str, taken: Taken) -> None:
    """Refuse a function that was meant to fill a parameter: callers would fill it."""
    place = f"function {tool!r}, parameter {taken.name!r}"
    if taken.default is ...:
        raise SchemaError(f"{place}: its default would be `...`; leave it out, or write Field(...)")
    if inspect.isroutine(taken.default) or isinstance(taken.default, type):
        name = name_of(taken.default)
        raise SchemaError(
            f"{place}: its default is {name} itself, not what that returns; to have it called for "
            f"each call, write Depends({name})"
        )
    marks = (taken.annotation, *getattr(taken.annotation, "__metadata__", ()))
    for mark in filter(inspect.isroutine, marks):
        name = name_of(mark)
        raise SchemaError(
            f"{place}: its annotation has the function {name}, which is not a type; to have it "
            f"fill the parameter, write Annotated[…, Depends({name})]"
        )


def _refuse_field(tool: str, taken: Taken) -> None:
    """Refuse what describes a field elsewhere: here it would be the default itself."""
    default = taken.default
    if hasattr(default, "default_factory") and hasattr(default, "metadata"):
        kind = type(default).__name__
        raise SchemaError(
            f"function {tool!r}, parameter {taken.name!r}: a {kind} would be its default; write "
            "Annotated[type, ...] = default"
        )
