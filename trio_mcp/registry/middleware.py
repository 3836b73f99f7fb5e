"""Middleware: functions of the author's that run around requests, and around calls.

There are two levels, and one shape for both: an async function that gets what comes, and
`call_next`, which does the rest and returns the result.

    client ──▶ around the request (JSON)  ──▶ checks ──▶ around the call (Python) ──▶ function

The first one given is outermost. What is handed on is a value: to change something, hand on a
changed copy (`attrs.evolve`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final, Literal, TypeVar

from attrs import field, frozen

from trio_mcp.public import public
from trio_mcp.registry.context import Context
from trio_mcp.registry.functions import is_async, takes
from trio_mcp.wire.jsonrpc import Json

T = TypeVar("T")

Description = Any
"""What lists show: a `ToolDescription`, `ResourceDescription`, `PromptDescription`, …"""


def _unknown(request: McpRequest) -> Description | None:
    return None


class _HasContext:
    """Has a context that is made when somebody wants to see it."""

    __slots__ = ()
    _context: Any

    def _made(self) -> Any:
        context = self._context
        if callable(context):
            context = context()
            object.__setattr__(self, "_context", context)
        return context


@public
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
    _describe: Callable[[McpRequest], Description | None] = field(default=_unknown, repr=False)
    _news: Callable[[], int] = field(default=int, repr=False)

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
    def news(self) -> int:
        """A number that is another one when the server has told that a resource has changed."""
        return self._news()


@public
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
        return METHOD_OF[self.kind]

    @property
    def target(self) -> str:
        """What was asked for: the name; of a URI template, the URI."""
        return self.context.tool


METHOD_OF: Final[Mapping[str, str]] = {
    "tool": "tools/call",
    "resource": "resources/read",
    "prompt": "prompts/get",
    "completion": "completion/complete",
}
"""By its kind, the request that runs a function of the author's."""

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
    """Find what middleware has to have open, each once, however often it is in the list."""
    unique = {id(each): each for each in middleware}.values()
    found = (getattr(each, "lifespan", None) for each in unique)
    return [each for each in found if callable(each)]


@asynccontextmanager
async def opened_around(
    middleware: Iterable[object], inner: AbstractAsyncContextManager[T]
) -> AsyncIterator[T]:
    """Open what middleware has to have open, and within that something else."""
    async with AsyncExitStack() as stack:
        for each in lifespans_of(middleware):
            await stack.enter_async_context(each())
        yield await stack.enter_async_context(inner)


def chained(
    middleware: Sequence[Callable[[T, Any], Awaitable[Any]]],
    last: Callable[[T], Awaitable[Any]],
) -> Callable[[T], Awaitable[Any]]:
    """Put middleware around what comes last. The first one given is outermost."""
    for each in reversed(middleware):
        last = _around(each, last)
    return last


def _around(
    middleware: Callable[[T, Any], Awaitable[Any]], call_next: Callable[[T], Awaitable[Any]]
) -> Callable[[T], Awaitable[Any]]:
    def run(given: T) -> Awaitable[Any]:
        return middleware(given, call_next)

    return run


def check_handed_on(given: object, kind: type) -> None:
    """Make sure that `call_next` got what it needs.

    Raises:
        TypeError: It did not.
    """
    if not isinstance(given, kind):
        raise TypeError(f"call_next needs the {kind.__name__}, not {type(given).__name__}")


def check_request(given: McpRequest, method: str) -> None:
    """Make sure that `call_next` got a request of the same method.

    Raises:
        TypeError: It did not.
    """
    check_handed_on(given, McpRequest)
    if given.method != method or not isinstance(given.params, dict):
        raise TypeError("middleware can change the parameters of a request, and only to a dict")


def middleware_of(name: str, middleware: Any) -> tuple[Any, ...]:
    """Check a list of middleware.

    Args:
        name: The parameter.
        middleware: What was given.

    Raises:
        TypeError: It is no list of async functions.
    """
    if isinstance(middleware, str) or not isinstance(middleware, Iterable):
        raise TypeError(f"{name} must be a list, even of one function: put it in brackets")
    for each in middleware:
        if getattr(each, "around", None) == "requests" and name == "call_middleware":
            raise TypeError(
                f"{type(each).__name__} goes around requests: give it to middleware=[…]"
            )
        if not (callable(each) and is_async(each)):
            raise TypeError(
                f"{name} must be async functions that take a request and call_next, "
                f"not {each!r:.100}"
            )
        if isinstance(each, type) or not takes(each, 2):
            raise TypeError(
                f"{name} must be async functions that take two arguments, a request or a call and "
                f"call_next; {each!r:.100} does not"
            )
    return tuple(middleware)
