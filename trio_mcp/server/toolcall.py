"""One tool call: the only place where a handler's exceptions are caught.

| what happens | what the caller gets |
|---|---|
| it returns | its result |
| `ToolError` | a result with `isError: true` and its text |
| `McpError` | that JSON-RPC error |
| any other exception | `isError: true` and no detail; all of it goes to the log |
| it outruns its deadline | `isError: true`, naming tool and limit |
| the caller cancels it | nothing |
| the server shuts down | `-32603`, "Request cancelled" |
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import define

from trio_mcp.peer.exchange import Cause, Exchange
from trio_mcp.registry import Context, Tool
from trio_mcp.registry.results import invalid_result, result_to_wire
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError, ToolError
from trio_mcp.wire.jsonrpc import Json, Request, error_line, result_line, sendable_text

if TYPE_CHECKING:
    from trio_mcp.server.caller import Caller
    from trio_mcp.server.dispatcher import Dispatcher, Session

logger = logging.getLogger("trio_mcp.calls")

_CANCELLED: Final = McpError(INTERNAL_ERROR, "Request cancelled")


def tool_failure(text: str) -> dict[str, Json]:
    """Make the result of a tool that failed."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


@define(eq=False)
class ToolCall:
    """A checked call, ready to run."""

    dispatcher: Dispatcher
    request: Request
    tool: Tool
    keywords: dict[str, Any]
    caller: Caller
    session: Session

    timeout: float
    """Seconds that it may take."""

    @property
    def label(self) -> str:
        """What it is, for the log."""
        return self.tool.label

    async def run(self, exchange: Exchange, scope: trio.CancelScope) -> bytes | None:
        """Run the tool inside the scope and return the line that answers the call."""
        try:
            with scope:
                value = await self.tool.run(self.keywords, self._context, self.dispatcher.threads)
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
        if logger.isEnabledFor(logging.INFO):
            self._log(outcome, exchange)
        return line

    def _line(self, value: Any) -> tuple[bytes, str]:
        dispatcher, id, revision = self.dispatcher, self.request.id, self.caller.revision
        result = result_to_wire(self.tool, value, revision)
        outcome = "error" if result.get("isError") else "ok"
        if revision.modern:
            result = dispatcher.complete(result, revision)
        try:
            return result_line(id, result), outcome
        except (TypeError, ValueError):
            raise invalid_result(self.tool, value) from None

    def unfinished(self, exchange: Exchange) -> bytes | None:
        """Return the answer to a cancelled call; without a cause it was the deadline."""
        if exchange.answered:  # while it went on
            return None
        outcome = "timeout" if exchange.cause is None else "cancelled"
        if logger.isEnabledFor(logging.INFO):
            self._log(outcome, exchange)
        if exchange.cause is Cause.PEER:
            return None
        if exchange.cause is Cause.SHUTDOWN:
            return error_line(self.request.id, _CANCELLED)
        return self._error_result(f"Tool {self.tool.name} timed out after {self.timeout:g} s")

    def _failure(self, error: BaseException) -> tuple[bytes, str]:
        error = _unwrap(error)
        if isinstance(error, McpError):
            return error_line(self.request.id, error), "error"
        if isinstance(error, ToolError):
            return self._error_result(_words(error) or f"Tool {self.tool.name} failed"), "error"
        logger.error("Tool %s failed", self.tool.name, exc_info=error, extra=self._fields())
        text = f"Tool {self.tool.name} failed: internal error (see the server's log)"
        return self._error_result(text), "exception"

    def _report_leftover(self, error: BaseException) -> None:
        error = _unwrap(error)
        if not isinstance(error, ToolError | McpError):
            message = "Tool %s failed while it was cancelled"
            logger.error(message, self.tool.name, exc_info=error, extra=self._fields())

    def _error_result(self, text: str) -> bytes:
        result = tool_failure(sendable_text(text))
        return result_line(self.request.id, self.dispatcher.complete(result, self.caller.revision))

    def _context(self) -> Context:
        meta = self.request.params.get("_meta")
        return Context(
            tool=self.tool.name,
            state=self.dispatcher.state,
            request_id=self.request.id,
            connection_id=self.session.connection_id,
            revision=self.caller.revision.name,
            client=self.caller.identity(),
            meta=meta if isinstance(meta, dict) else None,
        )

    def _log(self, outcome: str, exchange: Exchange) -> None:
        waited = exchange.scope is None  # it never ran
        duration = 0.0 if waited else trio.current_time() - exchange.started
        fields = {**self._fields(), "outcome": outcome, "duration": duration}
        message = "Tool %s: %s in %.1f ms"
        logger.info(message, self.tool.name, outcome, duration * 1000, extra=fields)

    def _fields(self) -> dict[str, Json]:
        return {
            "tool": self.tool.name,
            "request_id": self.request.id,
            "connection_id": self.session.connection_id,
        }


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
        if isinstance(leaf, ToolError | McpError):
            return leaf
    return leaves[0] if len(leaves) == 1 else error


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for each in group.exceptions:
        leaves += _leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return leaves
