"""Dependencies: parameters that come from a function of the author's, and not from a client."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final
from weakref import WeakSet

from attrs import field, frozen

from trio_mcp.layers.injecting import Injection, Step, awaited, entered, entered_aside, threaded
from trio_mcp.public import public
from trio_mcp.registry.context import Context
from trio_mcp.registry.functions import is_async
from trio_mcp.schema import SchemaError, check_function, name_of
from trio_mcp.schema.constraints import Supplied
from trio_mcp.schema.errors import errors_at
from trio_mcp.schema.signatures import Hints, innermost, signature_of, with_defaults, yields
from trio_mcp.wire.safe_repr import safe_repr

_DEEPEST: Final = 50

Prepare = Callable[[Callable[..., Any]], Callable[..., Any]]
Replaced = Mapping[Callable[..., Any], Callable[..., Any]]


@frozen
class Dependency(Supplied):
    """What `Depends` returns."""

    function: Callable[..., Any]


@public
def Depends(function: Callable[..., Any]) -> Any:  # as it is called elsewhere
    """Have a function fill a parameter of a tool, resource, prompt or completion.

    Write it in the annotation, `Annotated[Database, Depends(open_database)]`, or as the default.
    The parameter is in no schema, and no caller can fill it. For each call, the function is called
    once, however many parameters it fills, before the function that needs it; both within the time
    limit of the call. Its exceptions are reported as those of the tool itself.

    An `async def` function runs on the Trio thread (in a `trio_mcp.aio.Registry`, in the event
    loop), a plain one in a worker thread. If it yields, or is decorated with
    `contextlib.contextmanager` or `asynccontextmanager`, the rest of it runs after the call: when
    the tool has returned, has failed or was cancelled. What is opened last is closed first.

    Args:
        function: The function, or a class, which is called to make an object. It may take a
            `Context`, and have dependencies itself. Other parameters need a default.

    Returns:
        A mark for the annotation, or the default.

    Example:
        >>> async def database() -> AsyncIterator[Database]:
        ...     async with connected() as connection:
        ...         yield connection
        >>> registry = Registry("users")
        >>> @registry.tool
        ... async def count(db: Annotated[Database, Depends(database)]) -> int:
        ...     return await db.count("users")
    """
    return Dependency(function)


def injection_of(name: str, wanted: Mapping[str, Any]) -> Injection:
    """Make what fills the parameters of a function, or raise `SchemaError`.

    Args:
        name: The function's.
        wanted: By parameter, its dependency.
    """
    injection = Injection(name, wanted)
    plan = _Plan(lambda function: function, {})  # until a registry adopts it
    injection.steps, injection.filled = plan.steps_of(injection)
    return injection


class Dependencies:
    """The dependencies of one registry.

    Args:
        prepare: Makes of a function what is run.
    """

    def __init__(self, prepare: Prepare) -> None:
        self._prepare = prepare
        self._replaced: Replaced = {}
        self._injections: WeakSet[Injection] = WeakSet()
        self.functions: Final[set[Callable[..., Any]]] = set()
        """All that anything depends on."""

    def adopt(self, injection: Injection) -> None:
        """Have an injection run as the registry wants it."""
        self._injections.add(injection)
        self._apply(injection)

    @contextmanager
    def replaced(
        self, function: Callable[..., Any], replacement: Callable[..., Any]
    ) -> Iterator[None]:
        """Have another function run in the place of one, for the block.

        Raises:
            SchemaError: It cannot be a dependency.
        """
        before = self._replaced
        self._take({**before, function: replacement})
        try:
            yield
        finally:
            self._take(before)

    def _take(self, replaced: Replaced) -> None:
        for injection in self._injections:  # all of them, before any is changed
            _Plan(self._prepare, replaced).steps_of(injection)
        self._replaced = replaced
        for injection in self._injections:
            self._apply(injection)

    def _apply(self, injection: Injection) -> None:
        plan = _Plan(self._prepare, self._replaced)
        injection.steps, injection.filled = plan.steps_of(injection)
        self.functions.update(plan.numbers)


@frozen
class _Plan:
    """In which order functions are called, so that each has what it needs."""

    _prepare: Prepare
    _replaced: Replaced
    _steps: list[Step] = field(factory=list, init=False)
    numbers: dict[Callable[..., Any], int] = field(factory=dict, init=False)
    """By function, its step."""
    _open: list[Callable[..., Any]] = field(factory=list, init=False)

    def steps_of(self, injection: Injection) -> tuple[list[Step], dict[str, int]]:
        """Return the steps, and by parameter the one that fills it.

        Raises:
            SchemaError: A function cannot be called so, or they depend on each other.
        """
        filled = self._filled(injection.function, injection.wanted)
        return self._steps, filled

    def _filled(self, name: str, wanted: Mapping[str, Any]) -> dict[str, int]:
        found = {}
        for parameter, dependency in wanted.items():
            with errors_at(f"function {name!r}, dependency {parameter!r}"):
                found[parameter] = self._number(dependency.function)
        return found

    def _number(self, function: Any) -> int:
        """Return the step of a function, which is made if there is none."""
        check_function(function, is_dependency=True)
        if getattr(type(function), "__hash__", None) is None:
            raise SchemaError(
                f"{safe_repr(function)} has no hash; make its class frozen, or use a function"
            )
        function = self._replaced.get(function, function)
        if function in self._open:
            circle = [*self._open[self._open.index(function) :], function]
            names = " → ".join(map(name_of, circle))
            raise SchemaError(f"dependencies need each other in a circle: {names}")
        if function not in self.numbers:
            if len(self._open) == _DEEPEST:
                raise SchemaError(f"dependencies are nested more than {_DEEPEST} levels deep")
            self._open.append(function)
            step = self._step(function)
            self._open.pop()
            self._steps.append(step)
            self.numbers[function] = len(self._steps) - 1
        return self.numbers[function]

    def _step(self, function: Callable[..., Any]) -> Step:
        check_function(function, is_dependency=True)
        name = name_of(function)
        signature = signature_of(function, Hints(name, function, Context))
        for parameter in signature.given:
            if parameter.is_needed:
                raise SchemaError(
                    f"function {name!r}, parameter {parameter.name!r}: nothing fills it, as the "
                    "function is a dependency; give it a default, or annotate it with a Context "
                    "or with Annotated[…, Depends(…)]"
                )
        filled = self._filled(name, signature.supplied)
        run, behind = with_defaults(self._prepare(function), signature.made), _behind(function)
        if inspect.isasyncgenfunction(behind):
            run, fill = (asynccontextmanager(run) if yields(run) else run), entered
        elif inspect.isgeneratorfunction(behind):
            run, fill = (contextmanager(run) if yields(run) else run), entered_aside
        else:
            fill = awaited if is_async(run) else threaded
        return Step(run, fill, filled, signature.context)


def _behind(function: Any) -> Any:
    """Return the function that a decorator, such as `contextmanager`, stands for."""
    function = innermost(function)
    if not inspect.isroutine(function):
        function = type(function).__call__
    return inspect.unwrap(function)
