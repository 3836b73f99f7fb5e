"""What tools, resources, prompts and completions have in common: a function that is run."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol

import trio
from attrs import field, frozen

from trio_mcp.registry.context import Context
from trio_mcp.registry.functions import is_async
from trio_mcp.registry.slots import Slots, ThreadSlots
from trio_mcp.schema import ArgumentError, FunctionSchema, compile_validator
from trio_mcp.wire.collector import collector_spared
from trio_mcp.wire.errors import ToolError
from trio_mcp.wire.jsonrpc import Json

if TYPE_CHECKING:
    from trio_mcp.registry.log_bridge import LogBridge

Keywords = dict[str, Any]

NO_EXTENSIONS: Final[Mapping[str, Any]] = MappingProxyType({})


class RefusedArguments(ToolError):
    """Arguments that were found not to fit when the call was running already.

    Args:
        text: A sentence for the caller.
        argument: Which one it was; `None` if it was not one alone.
    """

    def __init__(self, text: str, argument: str | None = None) -> None:
        super().__init__(text)
        self.argument = argument


class InputRequired(Exception):
    """This run of a handler ends here: it is run again once its question has been answered."""

    def __init__(self) -> None:
        super().__init__("the handler is run again once its question has been answered")


@frozen(eq=False, repr=False)
class Unbound:
    """Arguments that would take long to check: `Handler.run` has that done in a worker thread.

    Args:
        handler: Whose they are, such as `tool add`.
        check: Turns them into keyword arguments, or raises `ArgumentError`.
    """

    handler: str
    check: Callable[[], Keywords]

    async def bind(self) -> Keywords:
        """Check them. Cancelled, the thread is left to itself: it only looks and builds.

        Raises:
            RefusedArguments: They do not fit.
        """
        try:
            return await trio.to_thread.run_sync(self._check, abandon_on_cancel=True)
        except ArgumentError as error:
            text = f"Invalid arguments for {self.handler}: {error}"
            raise RefusedArguments(text, error.argument) from None

    def _check(self) -> Keywords:
        with collector_spared():
            return self.check()


class Texts(Protocol):
    """Says what becomes of arguments that travel as text (`TextArguments`)."""

    def takes_long(self, texts: dict[str, Json]) -> bool:
        """Whether `bind` would hold up an event loop."""

    def bind(self, texts: dict[str, Json]) -> Keywords:
        """Turn texts into keyword arguments.

        Raises:
            ArgumentError: They do not fit; the message is for the caller.
        """


_LISTS: Final = ("content", "contents", "messages")
_MANY: Final = 1000


@frozen(eq=False, repr=False)
class Forwarded:
    """The members of a result that is passed on as it came."""

    result: dict[str, Json]

    @property
    def asks(self) -> bool:
        """Whether it is a question, which takes a state that is good for the same request."""
        return self.result.get("resultType") == "input_required"

    @property
    def is_much(self) -> bool:
        """Whether what is to be done with it might hold up an event loop."""
        return self.asks or any(
            isinstance(each, list) and len(each) > _MANY for each in map(self.result.get, _LISTS)
        )


class Origin(Protocol):
    """Where an entry comes from that stands in a registry because a part is mounted there."""

    @property
    def part(self) -> Any:
        """Whose function it is: its lifespan says what `Context.state` is."""

    def target(self, called: str) -> str:
        """Return what the part itself calls what was asked for."""

    def log_bridges(self) -> list[LogBridge]:
        """Return those of the parts that it comes through."""

    def completer(self, kind: Any, target: str, argument: str) -> Any:
        """Return who completes an argument of it.

        Raises:
            McpError: There is no such argument (`-32602`).
        """

    def outward(self, result: dict[str, Json]) -> dict[str, Json]:
        """Have a result name resources as they are to be found where the part is mounted."""


@frozen(eq=False, kw_only=True, repr=False)
class Handler:
    """A function of the author's that answers requests."""

    kind: ClassVar[Literal["tool", "resource", "prompt", "completion"]]
    name: str
    """What it is asked for by: a name, or a URI."""
    label: str
    """What it is, for the log and for its tasks."""
    function: Callable[..., Any]
    timeout: float | None = None
    """Seconds that it may run; `None` for the registry's or the server's default."""
    context_parameter: str | None = None
    slots: Slots | None = None
    """Bounds how many run at the same time; `None` for any number."""
    scopes: frozenset[str] = frozenset()
    """What a caller's access token must allow, where callers have one."""
    extensions: Mapping[str, Any] = NO_EXTENSIONS
    """By identifier, what it was registered with for extensions, as each of them has checked it."""
    visible: tuple[Callable[[Context], bool], ...] = ()
    """Say which callers see it: those whom all of them let."""
    foreign: Mapping[str, Json] = NO_EXTENSIONS
    """Of something of a server elsewhere: members of its description that this library does not
    know, to be listed as they are."""
    middleware: tuple[Any, ...] = ()
    """What runs around its calls, the first one outermost."""
    origin: Origin | None = None
    """Where it comes from; `None` for what was registered in the registry itself."""
    is_async: bool = field(init=False)
    is_direct: bool = field(init=False)
    """Whether a call is nothing but a call of the function, if the keywords are bound."""
    gets_context: bool = field(init=False)
    """Whether anything gets a context, and so may say something before the result."""
    forward: Callable[..., Awaitable[Any]] | None = field(init=False)
    """The function, where it can do without a context (`ForwardedCall.forward`)."""
    _is_bare: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look once at what every call would have to look at."""
        runs_async = is_async(self.function)
        is_bare = self.slots is None and not self.middleware
        looks = {
            "is_async": runs_async,
            "is_direct": runs_async and is_bare and not self.context_parameter and not self.origin,
            "gets_context": self.context_parameter is not None or bool(self.middleware),
            "forward": getattr(self.function, "forward", None) if is_bare else None,
            "_is_bare": is_bare,
        }
        for name, seen in looks.items():
            object.__setattr__(self, name, seen)

    def run(
        self,
        keywords: Keywords | Unbound,
        make_context: Callable[[], Context],
        limiter: trio.CapacityLimiter | None = None,
    ) -> Awaitable[Any]:
        """Run the function: on the Trio thread if it is async, in a worker thread if it is not.

        Cancelled, a worker thread is left to itself, so blocking code does not hold up its
        caller; it goes on until it returns, and its result is dropped. Till then it keeps its
        slot.

        Raises:
            RefusedArguments: What had not been checked does not fit.
        """
        if isinstance(keywords, Unbound):
            return self._bind_and_run(keywords, make_context, limiter)
        if self._is_bare:
            return self._run(keywords, make_context, limiter)
        if self.middleware:
            return self._run_inside(keywords, make_context, limiter)
        return self._run_in_slot(keywords, make_context, limiter)

    def _run_inside(
        self,
        keywords: Keywords,
        make_context: Callable[[], Context],
        limiter: trio.CapacityLimiter | None,
    ) -> Awaitable[Any]:
        """Run the middleware, and the function as often as that wants it to be run."""
        from trio_mcp.registry.middleware import McpCall, chained, check_handed_on  # if any

        def run(call: McpCall) -> Awaitable[Any]:
            check_handed_on(call, McpCall)
            return self._run_in_slot(dict(call.arguments), lambda: call.context, limiter)

        call = McpCall(
            kind=self.kind,
            name=self.name,
            arguments=keywords,
            context=make_context,
            description=getattr(self, "description", None),
        )
        return chained(self.middleware, run)(call)

    def _run_in_slot(
        self,
        keywords: Keywords,
        make_context: Callable[[], Context],
        limiter: trio.CapacityLimiter | None,
    ) -> Awaitable[Any]:
        if self.slots is None:
            return self._run(keywords, make_context, limiter)
        if self.is_async:
            return self.slots.run(partial(self._run, keywords, make_context, limiter))
        return self._run(keywords, make_context, self.slots.with_threads(limiter))

    async def _bind_and_run(
        self,
        unbound: Unbound,
        make_context: Callable[[], Context],
        limiter: trio.CapacityLimiter | None,
    ) -> Any:
        return await self.run(await unbound.bind(), make_context, limiter)

    def _run(
        self,
        keywords: Keywords,
        make_context: Callable[[], Context],
        limiter: trio.CapacityLimiter | ThreadSlots | None,
    ) -> Awaitable[Any]:
        if self.context_parameter is not None:
            keywords = {**keywords, self.context_parameter: make_context()}
        if self.is_async:
            running: Awaitable[Any] = self.function(**keywords)
            return running
        call = partial(self.function, **keywords)
        return trio.to_thread.run_sync(
            call,
            abandon_on_cancel=True,  # a thread cannot be stopped; its caller need not wait for it
            limiter=limiter,  # type: ignore[arg-type]  # anything with its two methods will do
        )


_LONG: Final = 20_000
"""So many characters of text are read as JSON at once."""


class TextArguments:
    """Typed arguments that travel as text: those of prompts, and the variables of templates.

    A text that the parameter takes as it is stays as it is; any other is read as JSON. So `"3"` is
    a number to an `int` and a string to a `str`.
    """

    def __init__(self, described: FunctionSchema) -> None:
        schema = described.input_schema
        rest = {key: value for key, value in schema.items() if key == "$defs"}
        self._takes = {
            name: compile_validator({**rest, **each}, inferred=True)
            for name, each in schema.get("properties", {}).items()
        }
        self._validate = compile_validator(described.checked_schema, inferred=True)
        self._structure = described.structure

    def takes_long(self, texts: dict[str, Json]) -> bool:
        """Whether `bind` would hold up an event loop: any text may be the JSON of a large value."""
        return sum(len(each) for each in texts.values() if isinstance(each, str)) > _LONG

    def bind(self, texts: dict[str, Json]) -> Keywords:
        """Turn texts into keyword arguments.

        Raises:
            ArgumentError: They do not fit; the message is for the caller.
        """
        arguments = {name: self._value(name, text) for name, text in texts.items()}
        problem = self._validate(arguments)
        if problem is not None:
            raise ArgumentError(problem)
        return self._structure(arguments)

    def _value(self, name: str, text: Json) -> Json:
        takes = self._takes.get(name)
        if not isinstance(text, str) or takes is None or takes(text) is None:
            return text
        try:
            return json.loads(text, parse_constant=_refuse)  # exact, however long a number is
        except (ValueError, RecursionError):
            return text


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
