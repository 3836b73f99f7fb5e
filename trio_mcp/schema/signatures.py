"""The signature of a function: what it is called, what it takes, and whether it can be served.

Functions, bound methods, partials and callable objects all will do. What could never be called
with arguments by name, or would not give one answer, is refused here, with the way out.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from attrs import NOTHING, frozen

from trio_mcp.schema.constraints import Supplied
from trio_mcp.schema.fields import class_of, resolve_names
from trio_mcp.schema.kinds import alias_value, alternatives, is_type_alias
from trio_mcp.schema.sentences import shorten
from trio_mcp.wire.errors import SchemaError
from trio_mcp.wire.safe_repr import safe_repr


def check_function(function: Any, *, is_dependency: bool = False) -> None:
    """Make sure that something is a function, which gives one answer.

    Args:
        function: What should be one.
        is_dependency: Whether it fills a parameter: then it may yield, or be a class.
    """
    if isinstance(function, str):
        raise SchemaError(
            f"{shorten(function)} is a text, not a function; if it is meant as a name, write "
            f"name={shorten(function)}"
        )
    if not callable(function):
        raise SchemaError(
            f"{safe_repr(function)} cannot be called; register a function, a bound method or an "
            "object with __call__"
        )
    if isinstance(function, type):
        if not is_dependency:
            raise SchemaError(
                f"the class {function.__qualname__} is not a function; register a function that "
                "makes and returns one"
            )
        if inspect.isabstract(function) or getattr(function, "_is_protocol", False):
            raise SchemaError(
                f"the class {function.__qualname__} is abstract; depend on a function instead"
            )
    if yields(function) and not is_dependency:
        raise SchemaError(
            f"function {name_of(function)!r} yields, but a request has one answer; collect "
            "the values and return a list (a Context's progress() tells how far it is)"
        )


def yields(function: Any) -> bool:
    """Whether it is a generator function, async or not."""
    if isinstance(function, type):
        return False
    call = getattr(function, "__call__", None)  # noqa: B004  # a callable object
    return any(
        inspect.isgeneratorfunction(candidate) or inspect.isasyncgenfunction(candidate)
        for candidate in (innermost(function), call)
    )


def name_of(function: Any) -> str:
    """The function's own name; that of its class where it has none."""
    function = innermost(function)
    return str(getattr(function, "__name__", type(function).__name__))


def docstring_of(function: Any) -> str | None:
    """What the function says of itself."""
    function = innermost(function)
    if not inspect.isroutine(function):
        own = type(function).__dict__.get("__doc__")
        return own or getattr(type(function).__call__, "__doc__", None)
    return inspect.getdoc(function)


def innermost(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


class Hints:
    """The resolved annotations of a function, one at a time.

    One that cannot be resolved spoils only its own parameter; the context type is known by name.
    """

    def __init__(self, tool: str, function: Any, context_type: type | None) -> None:
        self.tool = tool
        function = innermost(function)
        if isinstance(function, type):
            function = function.__init__  # type: ignore[misc]  # only looked at
        elif not inspect.isroutine(function):
            function = type(function).__call__
        function = inspect.unwrap(function)
        self._globals = getattr(function, "__globals__", {})
        self._locals = _enclosed_names(function)
        self.context_type = context_type
        if context_type is not None:
            self._locals.setdefault(context_type.__name__, context_type)

    def resolve(self, parameter: str, annotation: Any) -> Any:
        """Replace the names in the annotation of a parameter, or of `return`."""
        if annotation is inspect.Parameter.empty:
            return Any
        # Names that are meant beat those that are merely known: globals shadow the context's.
        known = {key: value for key, value in self._locals.items() if key not in self._globals}
        try:
            return resolve_names(annotation, self._globals, known)
        except (NameError, AttributeError, TypeError, SyntaxError) as error:
            raise SchemaError(
                f"function {self.tool!r}, {where(parameter)}: the annotation {annotation!r} cannot "
                f"be resolved ({error}); define what it names at module level, outside "
                "`if TYPE_CHECKING`"
            ) from error

    def is_context(self, annotation: Any) -> bool:
        if self.context_type is None:
            return False
        kinds = [class_of(member) for member in alternatives(annotation)]
        return any(isinstance(kind, type) and issubclass(kind, self.context_type) for kind in kinds)


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


def where(parameter: str) -> str:
    return "return annotation" if parameter == "return" else f"parameter {parameter!r}"


@frozen(eq=False, repr=False)
class Taken:
    """One parameter that the function takes.

    `make` makes its default for each call, where that is a `Field(…)` of Pydantic's.
    """

    name: str
    annotation: Any
    default: Any
    make: Callable[[], Any] | None
    rest: bool
    is_context: bool
    supplied: Supplied | None

    @property
    def is_needed(self) -> bool:
        return self.default is NOTHING and not self.rest

    @classmethod
    def read(cls, parameter: inspect.Parameter, hints: Hints) -> Taken:
        place = f"function {hints.tool!r}, parameter {parameter.name!r}"
        refusal = _REFUSED.get(parameter.kind)
        if refusal is not None:
            raise SchemaError(f"{place}: {refusal}")
        if parameter.default is not parameter.empty and parameter.default is hints.context_type:
            kind = name_of(parameter.default)
            raise SchemaError(f"{place}: {kind} is its default; write {parameter.name}: {kind}")
        annotation = hints.resolve(parameter.name, parameter.annotation)
        rest = parameter.kind is parameter.VAR_KEYWORD
        supplied = _supplied(annotation, parameter.default, place)
        if len(supplied) > 1 or (supplied and rest):
            which = "is **, which is many" if rest else f"has {len(supplied)} of them"
            raise SchemaError(f"{place}: one dependency fills one parameter, and this {which}")
        annotation, default, make = _default_of(hints.tool, parameter, annotation)
        return cls(
            name=parameter.name,
            annotation=annotation,
            default=default,
            make=make,
            rest=rest,
            is_context=not supplied and hints.is_context(annotation),
            supplied=supplied[0] if supplied else None,
        )


def _supplied(annotation: Any, default: Any, place: str) -> list[Supplied]:
    """The marks for a parameter that is supplied.

    Marks of other libraries, and `Depends` without a function, are refused: callers would fill
    what its author keeps from them.
    """
    while is_type_alias(annotation):
        annotation = alias_value(annotation)
    marks = [*getattr(annotation, "__metadata__", ()), default]
    for mark in marks:
        kind = name_of(mark) if inspect.isroutine(mark) else type(mark).__name__
        if kind.lstrip("_") in _DEPENDENCIES_ELSEWHERE:
            raise SchemaError(
                f"{place}: this {kind} is of another library, or has no function, so callers would "
                "fill the parameter; write Depends(function), with the Depends of trio_mcp"
            )
    return [mark for mark in marks if isinstance(mark, Supplied)]


# In FastAPI, FastMCP and the official SDK; `Depends` is also the function of trio_mcp itself.
_DEPENDENCIES_ELSEWHERE = frozenset({"Depends", "Security", "Resolve"})


def _default_of(
    tool: str, parameter: inspect.Parameter, annotation: Any
) -> tuple[Any, Any, Callable[[], Any] | None]:
    """The annotation, the default, and what makes the default: Pydantic's `Field(…)` says both."""
    default = NOTHING if parameter.default is parameter.empty else parameter.default
    fields = [*filter(_is_field, (*getattr(annotation, "__metadata__", ()), default))]
    if not fields:
        return annotation, default, None
    _check_fields(f"function {tool!r}, parameter {parameter.name!r}", parameter.name, fields)
    if default is fields[-1]:
        annotation, default = Annotated[annotation, default], NOTHING
    field = next((field for field in reversed(fields) if not field.is_required()), None)
    if default is not NOTHING or field is None:
        return annotation, default, None
    make = functools.partial(field.get_default, call_default_factory=True)
    return annotation, (field.default if field.default_factory is None else make), make


def _check_fields(place: str, name: str, fields: list[Any]) -> None:
    for field in fields:
        alias = field.alias if field.validation_alias is None else field.validation_alias
        if alias not in (None, name):
            raise SchemaError(
                f"{place}: arguments have the names of the parameters, so the alias {alias!r} "
                "would be lost; rename the parameter"
            )
        if getattr(field, "default_factory_takes_validated_data", False):
            raise SchemaError(
                f"{place}: its default_factory takes the other arguments, which it does not get "
                "here; work the value out in the function"
            )


def _is_field(value: Any) -> bool:
    return type(value).__name__ == "FieldInfo" and hasattr(value, "get_default")


class _WithDefaults(functools.partial[Any]):
    """A function whose keywords are not values, but make one for each call that has none."""

    def __call__(self, /, *args: Any, **given: Any) -> Any:
        made = {name: make() for name, make in self.keywords.items() if name not in given}
        return self.func(*args, **given, **made)


def with_defaults(
    function: Callable[..., Any], made: Mapping[str, Callable[[], Any]]
) -> Callable[..., Any]:
    """Return a function that fills in what its caller leaves out: by parameter, what makes it."""
    return _WithDefaults(function, **made) if made else function


_REFUSED: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: (
        "arguments are passed by name, so *args would never be filled; take a list instead"
    ),
    inspect.Parameter.POSITIONAL_ONLY: (
        "arguments are passed by name, so it cannot be positional-only; remove the '/'"
    ),
}


@frozen(eq=False, repr=False)
class Signature:
    """What a function takes, and from whom.

    Args:
        given: The parameters that callers fill.
        context: The parameter for the context.
        supplied: By parameter, what fills it in their place.
        made: By parameter, what makes its default for each call.
        returns: The return annotation.
    """

    given: list[Taken]
    context: str | None
    supplied: Mapping[str, Supplied]
    made: Mapping[str, Callable[[], Any]]
    returns: Any


def signature_of(function: Callable[..., Any], hints: Hints) -> Signature:
    """Read a signature, or raise `SchemaError` if it cannot be served."""
    name = hints.tool
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise SchemaError(
            f"function {name!r}: its signature cannot be read ({error}); wrap it in a function"
        ) from error
    _check_bound(function, name, signature)
    taken = [Taken.read(parameter, hints) for parameter in signature.parameters.values()]
    contexts = [parameter.name for parameter in taken if parameter.is_context]
    if len(contexts) > 1:
        names = " and ".join(map(repr, contexts))
        raise SchemaError(
            f"function {name!r}: the parameters {names} are both for the context, of which there "
            "is one; take one of them away"
        )
    supplied = {one.name: one.supplied for one in taken if one.supplied is not None}
    given = [one for one in taken if not one.is_context and one.supplied is None]
    context = contexts[0] if contexts else None
    made = {one.name: one.make for one in given if one.make is not None}
    return Signature(given, context, supplied, made, signature.return_annotation)


def _check_bound(function: Any, name: str, signature: inspect.Signature) -> None:
    """Refuse a method that was taken from its class: its `self` would not be filled."""
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.name != "self" or first.annotation is not first.empty:
        return
    holder = getattr(innermost(function), "__qualname__", "").rpartition(".")[0]
    if holder and not holder.endswith("<locals>"):
        kind = holder.rpartition(".")[2]
        raise SchemaError(
            f"function {name!r}: it is a method of {kind} without an object to be called on; "
            f"register a bound method, such as {kind}(...).{name}"
        )
