"""Middleware: functions of the author's that run around requests, and around calls.

There are two levels, and one shape for both: an async function that gets what comes, and
`call_next`, which does the rest and returns the result.

    client ──▶ around the request (JSON)  ──▶ checks ──▶ around the call (Python) ──▶ function

One list holds both (`Registry(middleware=[…])`): what each one goes around is decided when the
registry is made, by its attribute `around`, else by the annotation of its first parameter. The
first one given is outermost. What is handed on is a value: to change something, hand on a
changed copy (`attrs.evolve`).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from inspect import signature
from typing import Any, Final, Literal, TypeVar, cast, get_args

from attrs import field, frozen

from trio_mcp.public import public_in
from trio_mcp.registry.context import Context
from trio_mcp.registry.functions import is_async, takes
from trio_mcp.registry.kinds import CALL_METHODS
from trio_mcp.wire.jsonrpc import Json

T = TypeVar("T")

Around = Literal["requests", "calls"]
"""What middleware goes around."""

Description = Any
"""What lists show: a `ToolDescription`, `ResourceDescription`, `PromptDescription`, …"""


class _HasContext:
    """Has a context that is made when it is first asked for."""

    __slots__ = ()
    _context: Any

    def _made(self) -> Any:
        context = self._context
        if callable(context):
            context = context()
            object.__setattr__(self, "_context", context)
        return context


@public_in("trio_mcp.middleware")
@frozen(kw_only=True)
class McpRequest(_HasContext):
    """A request, as middleware around requests gets it: on a server, and on a client.

    Example:
        >>> from attrs import evolve
        >>> async def shout(request: McpRequest, call_next) -> dict[str, object]:
        ...     loud = evolve(request, params={**request.params, "cursor": None})
        ...     return await call_next(loud)
    """

    method: str
    """Such as `tools/call`. It cannot be changed."""
    params: dict[str, Json] = field(factory=dict, repr=False)
    """Its parameters, `_meta` among them."""
    _context: Context | Callable[[], Context] | None = field(default=None, repr=False)
    _describe: Callable[[McpRequest], Description | None] = field(
        default=lambda request: None, repr=False
    )
    _resource_version: Callable[[], int] = field(default=int, repr=False)

    @property
    def context(self) -> Context | None:
        """Who asks, on a server; `None` on a client.

        Nothing can be said or asked through it: that is for middleware around calls.
        """
        context: Context | None = self._made()
        return context

    @property
    def target(self) -> str | None:
        """The tool, prompt or resource that it is about, as the caller names it; else `None`."""
        value = self.params.get("uri" if self.method.startswith("resources/") else "name")
        return value if isinstance(value, str) else None

    @property
    def description(self) -> Description | None:
        """What the lists say of its target, such as a `ToolDescription`; `None` if there is none.

        A client knows its tools and nothing else.
        """
        return self._describe(self)

    @property
    def resource_version(self) -> int:
        """A number that is another one after the server's notification of a changed resource."""
        return self._resource_version()


@public_in("trio_mcp.middleware")
@frozen(kw_only=True)
class McpCall(_HasContext):
    """A call of one of your functions, as middleware around calls gets it.

    Example:
        >>> async def no_admin(call: McpCall, call_next) -> object:
        ...     if call.name.startswith("admin_") and call.context.principal != "ada":
        ...         raise ToolError("Only Ada may do that.")
        ...     return await call_next(call)
    """

    kind: Literal["tool", "resource", "prompt", "completion"]
    name: str
    """What the function is registered as: a tool's or a prompt's name, a URI or a URI template."""
    arguments: dict[str, Any] = field(repr=False)
    """What the function is called with, checked and converted. What you put in their place is
    not checked again."""
    _context: Context | Callable[[], Context] = field(repr=False)
    description: Description | None = None
    """What the lists say of it, such as a `ToolDescription`; `None` for completions."""

    @property
    def context(self) -> Context:
        """The context that the function gets, if it takes one: who calls, and a way to talk back.

        `attrs.evolve(call, context=…)` gives it another one.
        """
        context: Context = self._made()
        return context

    @property
    def method(self) -> str:
        """The method of the request that it answers, such as `tools/call`."""
        return CALL_METHODS[self.kind]

    @property
    def target(self) -> str:
        """What was asked for: the name; of a URI template, the URI."""
        return self.context.tool


RequestNext = Callable[[McpRequest], Awaitable[dict[str, Json]]]
"""Answers a request: returns the members of its result, or raises `McpError`."""

Middleware = Callable[[McpRequest, RequestNext], Awaitable[dict[str, Json]]]
"""Runs around requests."""

CallNext = Callable[[McpCall], Awaitable[Any]]
"""Calls the function: returns what it returns, and raises what it raises."""

CallMiddleware = Callable[[McpCall, CallNext], Awaitable[Any]]
"""Runs around calls."""


OpenLifespan = Callable[[], AbstractAsyncContextManager[Any]]
"""The method `lifespan` of middleware that has something open while it is in use."""


def lifespans_of(middleware: Iterable[object]) -> list[OpenLifespan]:
    """Return the methods `lifespan` of middleware, each once, however often it is in the list."""
    unique = {id(one): one for one in middleware}.values()
    found = (getattr(one, "lifespan", None) for one in unique)
    return [open_lifespan for open_lifespan in found if callable(open_lifespan)]


@asynccontextmanager
async def opened_around(
    middleware: Iterable[object], inner: AbstractAsyncContextManager[T]
) -> AsyncIterator[T]:
    """Open the lifespans of middleware, and within them another one."""
    async with AsyncExitStack() as stack:
        for open_lifespan in lifespans_of(middleware):
            await stack.enter_async_context(open_lifespan())
        yield await stack.enter_async_context(inner)


def chained(
    middleware: Sequence[Callable[[T, Any], Awaitable[Any]]],
    last: Callable[[T], Awaitable[Any]],
) -> Callable[[T], Awaitable[Any]]:
    """Put middleware around the last function. The first one given is outermost."""
    for one in reversed(middleware):
        last = partial(_around, one, last)
    return last


def _around(middleware: Any, call_next: Any, given: Any) -> Awaitable[Any]:
    found: Awaitable[Any] = middleware(given, call_next)
    return found


def check_handed_on(given: object, kind: type) -> None:
    """Raise `TypeError` unless `call_next` got what it needs."""
    if not isinstance(given, kind):
        raise TypeError(f"call_next needs the {kind.__name__}, not {type(given).__name__}")


def check_request(given: McpRequest, method: str) -> None:
    """Raise `TypeError` unless `call_next` got a request of the same method."""
    check_handed_on(given, McpRequest)
    if given.method != method or not isinstance(given.params, dict):
        raise TypeError("middleware can change the parameters of a request, and only to a dict")


def middleware_of(middleware: Any) -> tuple[Any, ...]:
    """Return a list of middleware as a tuple, or raise `TypeError` if it is none."""
    if isinstance(middleware, str) or not isinstance(middleware, Iterable):
        raise TypeError("middleware must be a list, even of one function: put it in brackets")
    for one in middleware:
        if not (callable(one) and (isinstance(one, type) or is_async(one))):
            raise TypeError(
                "middleware must be async functions that take a request or a call and call_next, "
                f"not {one!r:.100}"
            )
        if isinstance(one, type) or not takes(one, 2):
            raise TypeError(
                "middleware must be async functions that take two arguments, a request or a call "
                f"and call_next; {one!r:.100} does not"
            )
    return tuple(middleware)


def sorted_out(middleware: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return what goes around requests and what goes around calls, each in its order.

    Raises:
        TypeError: It is not a list of async functions, or one does not say what it goes around.
    """
    found: dict[Around, list[Any]] = {"requests": [], "calls": []}
    for one in middleware_of(middleware):
        found[_around_what(one)].append(one)
    return tuple(found["requests"]), tuple(found["calls"])


def _around_what(middleware: Callable[..., Any]) -> Around:
    around = getattr(middleware, "around", None)
    if around is None:
        around = _AROUND.get(_first_annotation(middleware))
    if around in get_args(Around):
        return cast("Around", around)
    raise TypeError(
        f"middleware must say what it goes around, and {middleware!r:.100} does not: annotate its "
        "first parameter with McpRequest or McpCall, or give it an attribute `around`, which is "
        "'requests' or 'calls'"
    )


_AROUND: Final[Mapping[str, Around]] = {"McpRequest": "requests", "McpCall": "calls"}


def _first_annotation(function: Callable[..., Any]) -> str:
    """Return the name of the class that a function's first parameter is annotated with."""
    try:
        seen = signature(function, eval_str=True)
    except Exception:  # what the text of an annotation names need not be there
        seen = signature(function)
    found = next(iter(seen.parameters.values())).annotation
    if isinstance(found, str):
        return found.rpartition(".")[2] if _DOTTED.fullmatch(found) else ""
    known = (McpRequest, McpCall)
    return next((kind.__name__ for kind in known if kind in getattr(found, "__mro__", ())), "")


_DOTTED: Final = re.compile(r"[\w.]+")


def is_around(_: object, attribute: Any, value: object) -> None:
    """Validate an attribute `around`."""
    if value not in get_args(Around):
        raise ValueError(f"{attribute.name} must be 'requests' or 'calls', not {value!r:.100}")
