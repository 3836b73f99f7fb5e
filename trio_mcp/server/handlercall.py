"""A request that runs a function of the author's: the only place where its exceptions are caught.

| what happens | what the caller gets |
|---|---|
| it returns | its result |
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
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, ClassVar, Final

import trio
from attrs import define

from trio_mcp.peer.exchange import Cause, Exchange
from trio_mcp.registry import Context
from trio_mcp.registry.handlers import Handler
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError, ResourceNotFound, ToolError
from trio_mcp.wire.jsonrpc import Json, Request, error_line, result_line, sendable_text

if TYPE_CHECKING:
    from trio_mcp.server.caller import Caller
    from trio_mcp.server.conversation import RequestConversation
    from trio_mcp.server.dispatcher import Dispatcher, Session

logger = logging.getLogger("trio_mcp.calls")

_CANCELLED: Final = McpError(INTERNAL_ERROR, "Request cancelled")


@define(eq=False)
class HandlerCall:
    """A checked request, ready to run. A subclass says how its results are written."""

    dispatcher: Dispatcher
    request: Request
    handler: Any  # a Handler: the subclass knows which
    keywords: dict[str, Any]
    caller: Caller
    session: Session

    timeout: float
    """Seconds that it may take."""
    conversation: RequestConversation | None = None
    """What was said and asked; `None` until the handler gets a context."""
    exchange: Exchange | None = None

    kind: ClassVar[str] = "Handler"
    long_lived: ClassVar[bool] = False

    # -- for subclasses -------------------------------------------------------------------

    def wire(self, value: Any) -> dict[str, Json]:
        """Turn what the function returned into a result.

        Raises:
            McpError: It is not one.
        """
        raise NotImplementedError

    def failed(self, text: str) -> bytes:
        """Make the line that tells of a failure in words."""
        return error_line(self.request.id, McpError(INTERNAL_ERROR, text))

    @property
    def target(self) -> str:
        """What was asked for."""
        name: str = self.handler.name
        return name

    # -- a call ---------------------------------------------------------------------------

    @property
    def label(self) -> str:
        """What it is, for the log."""
        handler: Handler = self.handler
        return handler.label

    async def run(self, exchange: Exchange, scope: trio.CancelScope) -> bytes | None:
        """Run the function inside the scope and return the line that answers the call."""
        self.exchange = exchange
        try:
            with scope:
                value = await self._start()
            if scope.cancel_called and (
                scope.cancelled_caught or exchange.cause is not Cause.SHUTDOWN
            ):
                return self.unfinished(exchange)
            line, outcome = self._line(value)
        except (trio.Cancelled, KeyboardInterrupt):
            raise
        except BaseException as error:
            if scope.cancel_called:
                self._report_leftover(error)
                return self.unfinished(exchange)
            line, outcome = self._failure(error)
        if self.conversation is not None:
            self.conversation.finish()
        if logger.isEnabledFor(logging.INFO):
            self._log(outcome, exchange)
        return line

    def _start(self) -> Awaitable[Any]:
        running: Awaitable[Any] = self.handler.run(
            self.keywords, self.context, self.dispatcher.threads
        )
        return running

    def _line(self, value: Any) -> tuple[bytes, str]:
        dispatcher, revision = self.dispatcher, self.caller.revision
        result = self.wire(value)
        outcome = "error" if result.get("isError") else "ok"
        if revision.modern:
            result = dispatcher.complete(result, revision)
        try:
            return result_line(self.request.id, result), outcome
        except (TypeError, ValueError):
            raise self._not_sendable(value) from None

    def _not_sendable(self, value: Any) -> McpError:
        kind = type(value).__name__
        what = f"({self.kind.lower()} {self.handler.name})"
        return McpError(INTERNAL_ERROR, f"Invalid handler result type: {kind} {what}")

    def unfinished(self, exchange: Exchange) -> bytes | None:
        """Return the answer to a cancelled call; without a cause it was the deadline."""
        if exchange.answered:  # while it went on
            return None
        outcome = _OUTCOMES[exchange.cause]
        if logger.isEnabledFor(logging.INFO):
            self._log(outcome, exchange)
        if exchange.cause is Cause.PEER:
            return None
        if exchange.cause is Cause.SHUTDOWN:
            return error_line(self.request.id, _CANCELLED)
        if exchange.cause is Cause.INPUT and self.conversation is not None:
            return self._ask(self.conversation)
        return self.failed(f"{self.kind} {self.handler.name} timed out after {self.timeout:g} s")

    def _ask(self, conversation: RequestConversation) -> bytes:
        try:
            result = conversation.input_required()
        except ValueError as error:  # more answers than a state can hold
            logger.error("%s: %s", self.label, error, extra=self._fields())
            return self.failed(f"{self.kind} {self.handler.name} failed: too much was asked")
        complete = self.dispatcher.complete(result, self.caller.revision)
        return result_line(self.request.id, complete)

    def _failure(self, error: BaseException) -> tuple[bytes, str]:
        error = _unwrap(error)
        if isinstance(error, McpError):
            return error_line(self.request.id, error), "error"
        if isinstance(error, ResourceNotFound):
            return error_line(self.request.id, not_found(self.caller, str(error))), "error"
        if isinstance(error, ToolError):
            text = _words(error) or f"{self.kind} {self.handler.name} failed"
            return self.failed(sendable_text(text)), "error"
        logger.error("%s failed", self.label, exc_info=error, extra=self._fields())
        text = f"{self.kind} {self.handler.name} failed: internal error (see the server's log)"
        return self.failed(text), "exception"

    def _report_leftover(self, error: BaseException) -> None:
        error = _unwrap(error)
        if not isinstance(error, ToolError | McpError):
            message = "%s failed while it was cancelled"
            logger.error(message, self.label, exc_info=error, extra=self._fields())

    # -- its context ----------------------------------------------------------------------

    def context(self) -> Context:
        """Make what the handler meets its caller through."""
        from trio_mcp.server.conversation import RequestConversation

        assert self.exchange is not None
        self.conversation = RequestConversation(
            self.dispatcher, self.request, self.caller, self.session, self.exchange, self.binding()
        )
        meta = self.request.params.get("_meta")
        return Context(
            tool=self.target,
            state=self.dispatcher.state,
            request_id=self.request.id,
            connection_id=self.session.connection_id,
            revision=self.caller.revision.name,
            client=self.caller.identity(),
            meta=meta if isinstance(meta, dict) else None,
            conversation=self.conversation,
        )

    def binding(self) -> Json:
        """What a sealed state of this request is good for."""
        params = self.request.params
        about = {name: params.get(name) for name in ("name", "uri", "arguments")}
        return [self.dispatcher.registry.name, self.request.method, about, self.session.principal]

    # -- the log --------------------------------------------------------------------------

    def _log(self, outcome: str, exchange: Exchange) -> None:
        waited = exchange.scope is None  # it never ran
        duration = 0.0 if waited else trio.current_time() - exchange.started
        fields = {**self._fields(), "outcome": outcome, "duration": duration}
        message = "%s: %s in %.1f ms"
        logger.info(message, self.label, outcome, duration * 1000, extra=fields)

    def _fields(self) -> dict[str, Json]:
        return {
            self.kind.lower(): self.handler.name,
            "request_id": self.request.id,
            "connection_id": self.session.connection_id,
        }


_OUTCOMES: Final[dict[Cause | None, str]] = {
    None: "timeout",
    Cause.PEER: "cancelled",
    Cause.SHUTDOWN: "cancelled",
    Cause.INPUT: "input required",
}


def not_found(caller: Caller, uri: str) -> McpError:
    """Make the error for a resource that does not exist, as the caller's revision has it."""
    code = caller.revision.resource_not_found
    return McpError(code, f"Resource not found: {uri[:500]}", {"uri": uri[:500]})


def _words(error: ToolError) -> str:
    try:
        return str(error)
    except Exception:  # a class of the user's
        return ""


def _unwrap(error: BaseException) -> BaseException:
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
        if isinstance(leaf, ToolError | McpError | ResourceNotFound):
            return leaf
    return leaves[0] if len(leaves) == 1 else error


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for each in group.exceptions:
        leaves += _leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return leaves
