"""A request that runs a function of the author's: the only place where its exceptions are caught.

| what happens | what the caller gets |
|---|---|
| it returns | its result |
| it returns what cannot be sent | `-32603` with its type; the log says where it is wrong |
| `McpError` | that JSON-RPC error |
| `ToolError` | its text |
| `ResourceNotFound` | the error that the caller's revision has for that |
| any other exception | no detail; all of it goes to the log |
| it outruns its deadline | its name and the limit |
| it asks a caller of a modern revision | the question, as an `input_required` result |
| the caller cancels it | nothing |
| the server shuts down | `-32603`, "Request cancelled" |

A tool's failures are results for the model to read; those of other handlers are JSON-RPC errors.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import trio

from trio_mcp.peer.inbound import Cause, InboundRequest, Scope
from trio_mcp.registry import Context
from trio_mcp.registry.converting import converted
from trio_mcp.registry.handlers import (
    Forwarded,
    Handler,
    InputRequired,
    Keywords,
    Origin,
    RefusedArguments,
    Unbound,
)
from trio_mcp.registry.invalid import InvalidResult, invalid_result
from trio_mcp.registry.results import Prepared
from trio_mcp.schema import ArgumentError
from trio_mcp.server.calllog import fields_of, log_call, logger
from trio_mcp.server.request import RequestContext
from trio_mcp.wire.collector import collector_spared
from trio_mcp.wire.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    McpError,
    ResourceNotFound,
    ToolError,
)
from trio_mcp.wire.jsonrpc import Json, result_line, sendable_text
from trio_mcp.wire.revisions import META_SERVER_INFO, Revision

if TYPE_CHECKING:
    from trio_mcp.registry.conversation import OpenConversation
    from trio_mcp.registry.log_bridge import LogBridge

CANCELLED: Final = McpError(INTERNAL_ERROR, "Request cancelled")


_MAY_BE_MUCH: Final[frozenset[type[Any]]] = frozenset({Forwarded, Prepared})


class HandlerCall(InboundRequest):
    """A checked request, ready to run. A subclass says how its results are written."""

    __slots__ = (
        "_bound",
        "context",
        "conversation",
        "handler",
        "keywords",
        "label",
        "outcome",
        "timeout",
    )
    kind: ClassVar[str] = "Handler"
    label: str
    timeout: float

    def __init__(
        self, context: RequestContext, handler: Handler, keywords: Keywords | Unbound
    ) -> None:
        self.context = context
        self.handler: Any = handler  # the subclass knows which
        self.keywords = keywords
        self.label = handler.label
        timeout = handler.timeout
        self.timeout = context.server.usual_timeout if timeout is None else timeout
        self.conversation: OpenConversation | None = None
        """What was said and asked; `None` until the handler gets a context."""
        self.outcome = "cancelled"
        """How it ended, once it has."""

    # -- for subclasses -------------------------------------------------------------------

    def wire(self, value: Any) -> dict[str, Json]:
        """Turn what the function returned into a result.

        Raises:
            McpError: It is not one.
        """
        raise NotImplementedError

    def members(self, value: Any) -> dict[str, Json]:
        """Turn what the function returned, which may be a mounted part's, into a result.

        Raises:
            McpError: It is not one.
        """
        origin: Origin | None = self.handler.origin
        if origin is None:
            return self.wire(value)
        if isinstance(value, Forwarded):
            return self._passed_on(origin.outward(value.result))
        return origin.outward(self.wire(value))

    def _passed_on(self, result: dict[str, Json]) -> dict[str, Json]:
        """Leave a result as it came, but for what is between this server and its caller."""
        if result.get("resultType") == "input_required":
            return self._converse().pass_on(result)
        if not self.context.caller.revision.modern:
            from trio_mcp.server.forwarded import for_legacy  # few registries pass anything on

            result = for_legacy(result, self.context.caller.revision)
        told = result.get("_meta")
        if isinstance(told, dict) and META_SERVER_INFO in told:  # this server gives its own
            result["_meta"] = own = {key: told[key] for key in told if key != META_SERVER_INFO}
            if not own:
                del result["_meta"]
        return result

    def refused(self, error: RefusedArguments) -> bytes:
        """Make the line that tells of arguments which were checked late, and do not fit."""
        data = refusal_data(self.context, self.kind.lower(), self.handler.name, error)
        return self.context.write(McpError(INVALID_PARAMS, str(error), data))

    def failed(self, text: str) -> bytes:
        """Make the line that tells of a failure in words."""
        return self.context.write(McpError(INTERNAL_ERROR, text))

    @property
    def target(self) -> str:
        """What was asked for."""
        name: str = self.handler.name
        return name

    # -- a call ---------------------------------------------------------------------------

    @property
    def may_notify(self) -> bool:
        """Whether the function has anything to send by."""
        return self.handler.gets_context or bool(self.log_bridges())

    def run(self, scope: Scope) -> Coroutine[Any, Any, bytes | None]:
        """Run the function inside the scope and return the line that answers the call."""
        if "requestState" in self.context.params:
            return self._run_bound(scope)
        observe = self.context.server.observe
        return self._run(scope) if observe is None else self._observed(scope)

    async def _run_bound(self, scope: Scope) -> bytes | None:
        """Run it with a state, once it is clear what that would have to be good for."""
        from trio_mcp.registry.sealing import Bound

        with suppress(TypeError):  # which is told where the state is opened
            self._bound = await converted(Bound.of, self.binding())
        return await (self._run if self.context.server.observe is None else self._observed)(scope)

    async def _observed(self, scope: Scope) -> bytes | None:
        assert self.context.server.observe is not None
        with self.context.server.observe(self):
            return await self._run(scope)

    async def _run(self, scope: Scope) -> bytes | None:
        try:
            try:
                with scope:
                    value = await self._start()
                    much = value.__class__ in _MAY_BE_MUCH and value.is_much
                    made = await self._line_aside(value) if much else None
                if scope.cancel_called and not self._finished_in_time(scope):
                    return self._cut_short()
                line = made or self._line(value)
            except (trio.Cancelled, KeyboardInterrupt):
                raise
            except BaseException as error:
                if scope.cancel_called:
                    self._report_leftover(error)
                    return self._cut_short()
                line = self._failure(unwrapped(error))
            if self.conversation is not None:
                self.conversation.finish()
            if logger.isEnabledFor(logging.INFO):
                self._log()
            return line
        finally:  # it knows us: a cycle would wait for the garbage collector
            self.conversation = None

    def _start(self) -> Awaitable[Any]:
        handler, keywords, server = self.handler, self.keywords, self.context.server
        running: Awaitable[Any]
        if server.registry.log_bridge is not None:
            running = self.work_bridged(self.log_bridges())
        elif handler.is_direct and keywords.__class__ is dict:  # not `Unbound`
            running = handler.function(**keywords)
        elif handler.origin is not None and (bridges := self.log_bridges()):
            running = self.work_bridged(bridges)
        elif server.use_state is not None and handler.gets_context and self.brings_state:
            running = self.work_bridged([])
        elif handler.forward is not None and keywords.__class__ is dict:
            running = self._forwarded(keywords["arguments"])
        else:
            running = handler.run(keywords, self.make_context, server.threads)
        return running

    def _forwarded(self, arguments: Json) -> Awaitable[Any]:
        """Have a part answer, which may need nothing of the caller's context."""
        server, origin = self.context.server, self.handler.origin
        state = server.state if origin is None else server.opened.state_of(origin.part)
        running: Awaitable[Any] = self.handler.forward(
            self.context.params, arguments, state, self.make_context
        )
        return running

    def log_bridges(self) -> list[LogBridge]:
        """Return those that forward what the function logs: the registry's, and its parts'."""
        own, origin = self.context.server.registry.log_bridge, self.handler.origin
        found = [] if own is None else [own]
        return found if origin is None else [*found, *origin.log_bridges()]

    @property
    def brings_state(self) -> bool:
        """Whether it goes on from a state that others have to know of as used, before it does."""
        shared = self.context.server.use_state is not None and self.conversation is None
        return shared and "requestState" in self.context.params

    async def work_bridged(self, bridges: list[LogBridge]) -> Any:
        """Do the work, and send the caller what is logged meanwhile."""
        from trio_mcp.registry.log_bridge import serving

        if self.brings_state:
            await self._converse().use_state()
        with serving(bridges, self._converse()):
            return await self.work()

    def work(self) -> Awaitable[Any]:
        """Run the function."""
        running: Awaitable[Any] = self.handler.run(
            self.keywords, self.make_context, self.context.server.threads
        )
        return running

    def _finished_in_time(self, scope: Scope) -> bool:
        """Whether it did its work although it was told to stop, and that still counts."""
        unwound = self.conversation is not None and self.conversation.unwinding
        return self.cause is Cause.SHUTDOWN and not scope.cancelled_caught and not unwound

    def _line(self, value: Any) -> bytes:
        context = self.context
        try:
            result = self.wire(value) if self.handler.origin is None else self.members(value)
            self.outcome = "error" if result.get("isError") else "ok"
            if context.caller.revision.modern:
                result = context.complete(result)
            try:
                if context.is_inner:
                    context.blame_later(partial(self._blamed, value))
                    return context.write(result)
                return result_line(context.id, result, value.__class__ is str)
            except (TypeError, ValueError):
                raise invalid_result(value, self._whose) from None
        except McpError as error:
            self.log_unsendable(error)
            raise

    async def _line_aside(self, value: Any) -> bytes:
        """Make the line that tells of a large result in a worker thread; of a question, here."""
        if isinstance(value, Forwarded) and value.asks:
            await self._converse().take_in()
            return self._line(value)

        def make() -> bytes:
            with collector_spared():
                return self._line(value)

        return await trio.to_thread.run_sync(make, abandon_on_cancel=True)

    @property
    def _whose(self) -> str:
        return f"{self.kind.lower()} {self.handler.name}"

    def _blamed(self, value: Any) -> McpError:
        """Make the error for a result of which is seen only later that it cannot be sent."""
        error = invalid_result(value, self._whose)
        self.log_unsendable(error)
        return error

    def log_unsendable(self, error: McpError) -> None:
        """Say for the author what is wrong with a result."""
        reason = error.reason if isinstance(error, InvalidResult) else error.message
        message = "%s: its result cannot be sent: %s"
        logger.error(message, self.label, reason, extra=self._fields())

    def _cut_short(self) -> bytes | None:
        """Return the answer to a call that has ended by its cancellation."""
        conversation = self.conversation
        if conversation is None:
            return self.unfinished()
        conversation.close()
        if self.answered or self.cause is not None or not conversation.unwinding:
            return self.unfinished()
        self.outcome = "input required"
        if logger.isEnabledFor(logging.INFO):
            self._log()
        return self._ask(conversation)

    def unfinished(self) -> bytes | None:
        """Return the answer to a cancelled call; without a cause it was the deadline.

        That is also so for one that has asked something and does not end.
        """
        if self.answered:  # while it went on
            return None
        cause = self.cause
        self.outcome = _OUTCOMES[cause]
        if logger.isEnabledFor(logging.INFO):
            self._log()
        if cause is Cause.PEER:
            return None
        if cause is Cause.SHUTDOWN:
            return self.context.write(CANCELLED)
        return self.failed(f"{self.kind} {self.handler.name} timed out after {self.timeout:g} s")

    def _ask(self, conversation: OpenConversation) -> bytes:
        try:
            result = conversation.input_required()
        except (ValueError, TypeError) as error:  # more answers than a state can hold
            logger.error("%s: %s", self.label, error, extra=self._fields())
            return self.failed(f"{self.kind} {self.handler.name} failed: too much was asked")
        return self.context.write(self.context.complete(result))

    def _failure(self, error: BaseException) -> bytes:
        self.outcome = "error"
        if isinstance(error, McpError):
            return self.context.write(error)
        if isinstance(error, ResourceNotFound):
            return self.context.write(not_found(self.context.revision, str(error)))
        if isinstance(error, RefusedArguments):
            return self.refused(error)
        if isinstance(error, ToolError):
            text = _words(error) or f"{self.kind} {self.handler.name} failed"
            return self.failed(sendable_text(text))
        self.outcome = "exception"
        if type(error) is RuntimeError:
            for words, note in _WRONG_LOOP.items():
                if error.args == (words,):
                    error.add_note(note)
        logger.error("%s failed", self.label, exc_info=error, extra=self._fields())
        text = f"{self.kind} {self.handler.name} failed: internal error (see the server's log)"
        return self.failed(text)

    def _report_leftover(self, error: BaseException) -> None:
        error = unwrapped(error)
        if not isinstance(error, ToolError | McpError | InputRequired):
            message = "%s failed while it was cancelled"
            logger.error(message, self.label, exc_info=error, extra=self._fields())

    # -- its context ----------------------------------------------------------------------

    def make_context(self) -> Context:
        """Make what the handler meets its caller through."""
        origin = self.handler.origin
        if origin is None or self.handler.middleware:  # which is the registry's own, at first
            return self.context.make_context(self.target, self._converse())
        return self.context.make_context(origin.target(self.target), self._converse(), origin.part)

    def _converse(self) -> OpenConversation:
        """Begin the conversation with the caller, or return it."""
        from trio_mcp.server.conversation import RequestConversation  # not before it is needed

        if self.conversation is None:
            binding = getattr(self, "_bound", None) or self.binding()
            self.conversation = RequestConversation(self.context, self, binding)
        return self.conversation

    def binding(self) -> Json:
        """What a sealed state of this request is good for."""
        context = self.context
        about = {name: context.params.get(name) for name in ("name", "uri", "arguments")}
        about["arguments"] = about["arguments"] or {}  # none at all are no others
        registry, principal = context.server.registry, context.session.principal
        return [registry.name, context.method, about, principal]

    # -- the log --------------------------------------------------------------------------

    def _log(self) -> None:
        waited = self.scope is None  # it never ran
        duration = 0.0 if waited else trio.current_time() - self.started
        log_call(self.label, self.outcome, duration, self._fields())

    def _fields(self) -> dict[str, Json]:
        return fields_of(self.kind, self.handler.name, self.context)


_WRONG_LOOP: Final = {
    "must be called from async context": (
        "This function runs on asyncio, where Trio's functions do not work. Use asyncio's, or "
        "register it with a trio_mcp.Registry, whose functions run on Trio."
    ),
    "no running event loop": (
        "This function runs on Trio, where asyncio's functions do not work. Use Trio's, or have it "
        "run on asyncio: with a trio_mcp.aio.Registry, or by @trio_mcp.aio.on_asyncio."
    ),
}
"""What Trio and asyncio say where the other one runs, and what to do about it."""

OUTCOMES: Final = ("ok", "error", "exception", "timeout", "cancelled", "input required")
"""How a call that ran may end."""

_OUTCOMES: Final[dict[Cause | None, str]] = {
    None: "timeout",
    Cause.PEER: "cancelled",
    Cause.SHUTDOWN: "cancelled",
}


def refusal_data(
    context: RequestContext, kind: str, name: str, error: ArgumentError | RefusedArguments
) -> dict[str, Json]:
    """Say for programs what was refused: which tool or prompt, and which argument of it."""
    data: dict[str, Json] = {kind: name, "requestId": context.id}
    return data if error.argument is None else {**data, "argument": error.argument[:200]}


def not_found(revision: Revision, uri: str) -> McpError:
    """Make the error for a resource that does not exist, as a revision has it."""
    code = revision.resource_not_found
    return McpError(code, f"Resource not found: {uri[:500]}", {"uri": uri[:500]})


def _words(error: ToolError) -> str:
    try:
        return str(error)
    except Exception:  # a class of the user's
        return ""


def unwrapped(error: BaseException) -> BaseException:
    """Find what is behind an exception group: one exception, or the one meant for the caller.

    Raises:
        BaseException: The part of the group that is nobody's to swallow: cancellation and
            interrupts.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    passing, _ = error.split((trio.Cancelled, KeyboardInterrupt))
    if passing is not None:
        raise passing
    leaves = _leaves(error)
    for leaf in leaves:
        if isinstance(leaf, ToolError | McpError | ResourceNotFound | InputRequired):
            return leaf
    return leaves[0] if len(leaves) == 1 else error


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for each in group.exceptions:
        leaves += _leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return leaves
