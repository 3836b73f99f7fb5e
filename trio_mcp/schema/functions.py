"""A function as a tool: its name, what it says of itself, its schemas and its converters.

Everything is worked out once, at registration; what a call needs is left behind as plain
functions.
"""

from __future__ import annotations

import collections.abc as abc
import functools
import inspect
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from attrs import NOTHING, frozen

from trio_mcp.schema.annotations import Builder, alias_value, describe, is_type_alias
from trio_mcp.schema.bounds import check_schema, check_size
from trio_mcp.schema.docstrings import Docs, parse_docstring
from trio_mcp.schema.errors import SchemaError
from trio_mcp.schema.fields import is_named_tuple, is_record, resolve_names
from trio_mcp.schema.parameters import Parameter
from trio_mcp.schema.structuring import bare, is_plain, structure_arguments
from trio_mcp.schema.unstructuring import unstructure

__all__ = ["FunctionSchema", "describe_function"]


@frozen
class FunctionSchema:
    """What a function looks like from outside, and how values cross its border."""

    name: str
    """The function's own name."""

    description: str | None
    """Its docstring, without the sections about parameters, results and errors."""

    input_schema: dict[str, Any]
    """The schema of its arguments: always an object."""

    output_schema: dict[str, Any] | None
    """The schema of its result where that is an object, else `None`."""

    context_parameter: str | None
    """The parameter that takes the context; it is no part of the schema."""

    structure: Callable[[dict[str, Any]], dict[str, Any]]
    """Valid JSON arguments to keyword arguments; raises `ArgumentError`."""

    unstructure: Callable[[Any], Any] | None
    """The result to a JSON-able value; `None` where nothing needs doing."""


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
        input_schema: A schema for the arguments, used in place of all that; the function gets
            the arguments as they came.
        result_types: Classes that are results in themselves; a return annotation that names one
            of them has no schema, and its values are not converted.
        describe_result: Whether the return annotation matters at all.

    Returns:
        The description, which is self-contained: the function is not looked at again.

    Raises:
        SchemaError: A parameter cannot be passed by name, an annotation has no counterpart in
            JSON, or the schema is out of bounds. The message names function and parameter.

    Example:
        >>> async def add(a: float, b: float = 0) -> float:
        ...     "Add two numbers."
        >>> describe_function(add).input_schema["required"]
        ['a']
    """
    name = _name_of(function)
    signature = _signature_of(function, name)
    hints = _Hints(function, context_type)
    docs = parse_docstring(_docstring_of(function))
    taken = [_Taken.read(each, hints, name) for each in signature.parameters.values()]
    context = next((each.name for each in taken if each.is_context), None)
    taken = [each for each in taken if not each.is_context]

    structure = structure_arguments(
        {each.name: each.annotation for each in taken if not each.rest},
        next((each.annotation for each in taken if each.rest), None),
    )
    if input_schema is not None:
        accepted, structure = dict(input_schema), _as_they_came
    elif parameters is not None:
        accepted = _declare(name, taken, parameters)
    else:
        accepted = _infer(name, taken, docs)
    result: Any = Any
    if describe_result:
        result = _resolve(name, "return", hints, signature.return_annotation)
    if _mentions(result, result_types):
        result = Any
    return FunctionSchema(
        name=name,
        description=docs.description,
        input_schema=accepted,
        output_schema=_output_schema(name, result),
        context_parameter=context,
        structure=structure,
        unstructure=None if is_plain(result) else unstructure,
    )


# The signature ------------------------------------------------------------------------------


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _docstring_of(function: Any) -> str | None:
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        own = type(function).__dict__.get("__doc__")
        return own or getattr(type(function).__call__, "__doc__", None)
    return inspect.getdoc(function)


def _signature_of(function: Callable[..., Any], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise SchemaError(
            f"function {name!r}: its signature cannot be read ({error}); wrap it in a function"
        ) from error


class _Hints:
    """The resolved annotations of a function, one at a time.

    One that cannot be resolved spoils only its own parameter, and the context type is known by
    its name even where it was imported for type checking alone.
    """

    def __init__(self, function: Any, context_type: type | None) -> None:
        while isinstance(function, functools.partial):
            function = function.func
        if not inspect.isroutine(function) and not isinstance(function, type):
            function = type(function).__call__
        function = inspect.unwrap(function)
        self._globals = getattr(function, "__globals__", {})
        self._locals = _enclosed_names(function)
        self.context_type = context_type
        if context_type is not None:
            self._locals.setdefault(context_type.__name__, context_type)

    def resolve(self, annotation: Any) -> Any:
        if annotation is inspect.Parameter.empty:
            return Any
        # Names that are meant beat those that are merely known: globals shadow the context's.
        known = {key: value for key, value in self._locals.items() if key not in self._globals}
        return resolve_names(annotation, self._globals, known)

    def is_context(self, annotation: Any) -> bool:
        if self.context_type is None:
            return False
        if typing.get_origin(annotation) is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        if typing.get_origin(annotation) in (typing.Union, types.UnionType):
            members = typing.get_args(annotation)
            return any(self.is_context(each) for each in members)
        annotation = typing.get_origin(annotation) or annotation
        return isinstance(annotation, type) and issubclass(annotation, self.context_type)


def _enclosed_names(function: Any) -> dict[str, Any]:
    """What the function closes over, which is where local classes may be found."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    known = {}
    for name, cell in zip(names, cells, strict=False):
        try:
            known[name] = cell.cell_contents
        except ValueError:  # not filled in yet
            continue
    return known


def _resolve(tool: str, parameter: str, hints: _Hints, annotation: Any) -> Any:
    try:
        return hints.resolve(annotation)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise SchemaError(
            f"function {tool!r}, {_where(parameter)}: the annotation {annotation!r} cannot be "
            f"resolved ({error}); define what it names at module level, outside "
            "`if TYPE_CHECKING`"
        ) from error


def _where(parameter: str) -> str:
    return "return annotation" if parameter == "return" else f"parameter {parameter!r}"


@frozen
class _Taken:
    """One parameter that the function takes."""

    name: str
    annotation: Any
    default: Any
    rest: bool
    is_context: bool

    @classmethod
    def read(cls, parameter: inspect.Parameter, hints: _Hints, tool: str) -> _Taken:
        refusal = _REFUSED.get(parameter.kind)
        if refusal is not None:
            raise SchemaError(f"function {tool!r}, parameter {parameter.name!r}: {refusal}")
        annotation = _resolve(tool, parameter.name, hints, parameter.annotation)
        return cls(
            name=parameter.name,
            annotation=annotation,
            default=NOTHING if parameter.default is parameter.empty else parameter.default,
            rest=parameter.kind is parameter.VAR_KEYWORD,
            is_context=hints.is_context(annotation),
        )


_REFUSED: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: (
        "arguments are passed by name, so *args would never be filled; take a list instead"
    ),
    inspect.Parameter.POSITIONAL_ONLY: (
        "arguments are passed by name, so it cannot be positional-only; remove the '/'"
    ),
}


# The input schema ---------------------------------------------------------------------------


def _infer(tool: str, taken: list[_Taken], docs: Docs) -> dict[str, Any]:
    builder = Builder()
    properties: dict[str, Any] = {}
    additional: Any = False
    for each in taken:
        schema = _build(builder, tool, each.name, each.annotation)
        if each.rest:
            additional = schema
            continue
        describe(schema, docs.parameters.get(each.name), each.default)
        properties[each.name] = schema
    required = [each.name for each in taken if each.default is NOTHING and not each.rest]
    schema = {"type": "object", "properties": properties, "required": required}
    if additional != {}:
        schema["additionalProperties"] = additional
    return _checked(tool, builder, builder.finish(schema))


def _build(builder: Builder, tool: str, parameter: str, annotation: Any) -> dict[str, Any]:
    try:
        return builder.build(annotation)
    except SchemaError as error:
        raise SchemaError(f"function {tool!r}, {_where(parameter)}: {error}") from error


def _checked(tool: str, builder: Builder, schema: dict[str, Any]) -> dict[str, Any]:
    """Bound an inferred schema; only raw keywords call for a check of everything."""
    try:
        if builder.raw:
            check_schema(schema)
        else:
            check_size(schema)
    except SchemaError as error:
        raise SchemaError(f"function {tool!r}: {error}") from error
    return schema


def _declare(tool: str, taken: list[_Taken], parameters: Sequence[Parameter]) -> dict[str, Any]:
    known = {each.name for each in taken if not each.rest}
    open_ended = any(each.rest for each in taken)
    declared: set[str] = set()
    for each in parameters:
        if each.name in declared:
            raise SchemaError(f"function {tool!r}: parameter {each.name!r} is declared twice")
        if each.name not in known and not open_ended:
            raise SchemaError(
                f"function {tool!r}: parameter {each.name!r} is declared, but the function does "
                "not take it"
            )
        declared.add(each.name)
    for one in taken:
        if one.name not in declared and one.default is NOTHING and not one.rest:
            raise SchemaError(
                f"function {tool!r}: parameter {one.name!r} is needed, but it is not declared"
            )
    for one in taken:  # what is passed on is structured by its annotation all the same
        _build(Builder(), tool, one.name, one.annotation)
    schema = {
        "type": "object",
        "properties": {each.name: each.to_schema() for each in parameters},
        "required": [each.name for each in parameters if each.must_be_given],
        "additionalProperties": False,
    }
    return _checked(tool, Builder(), schema)


# The output schema --------------------------------------------------------------------------


def _output_schema(tool: str, annotation: Any) -> dict[str, Any] | None:
    if not _is_object(annotation):
        return None
    builder = Builder(output=True)
    schema = builder.finish(_build(builder, tool, "return", annotation))
    # One that recurs is a reference, which does not say at first sight that it is an object.
    return _checked(tool, builder, {"type": "object", **schema})


def _as_they_came(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


def _mentions(annotation: Any, kinds: Collection[type]) -> bool:
    """Whether one of the classes stands anywhere in the annotation."""
    return any(annotation is kind for kind in kinds) or any(
        _mentions(each, kinds) for each in typing.get_args(annotation)
    )


def _is_object(annotation: Any) -> bool:
    annotation = bare(annotation)
    if is_type_alias(annotation):
        return _is_object(alias_value(annotation))
    if is_record(annotation):
        return not is_named_tuple(annotation)
    origin = typing.get_origin(annotation) or annotation
    return any(origin is kind for kind in (dict, abc.Mapping, abc.MutableMapping))
