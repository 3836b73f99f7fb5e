"""Calls that are passed on to a server elsewhere, without a task of their own.

A task and a cancel scope are most of what a call costs. A call that only waits for somebody else's
answer, and during which nothing can be said or asked, needs neither. It is an entry in the table of
requests that came in (`Inbound`) and one in the table of those that went out (`Outbound`), and each
knows of the other. The response is written as soon as the answer has been read.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import trio

from trio_mcp.peer.inbound import Finish, Later, PassedOnScope
from trio_mcp.registry.forwarding import Cancel
from trio_mcp.registry.handlers import Forwarded
from trio_mcp.server.toolcall import ToolCall
from trio_mcp.wire.jsonrpc import Json


class ForwardedCall(ToolCall):
    """A call of a tool of a server elsewhere, which may need no task."""

    __slots__ = ()
    may_need_no_task: ClassVar[bool] = True

    def pass_on(self, finish: Finish) -> bool:
        """Pass it on without a task, if nothing has to run around it."""
        return PassedCall(self, finish).begin()


class PassedCall(PassedOnScope):
    """What a passed-on call has in place of a scope.

    Args:
        call: The call (a `HandlerCall`).
        finish: Takes the line that answers it.
    """

    __slots__ = ("_call", "_cancel", "_finish", "_is_over")

    def __init__(self, call: Any, finish: Finish) -> None:
        self._call = call
        self._finish = finish
        self._cancel: Cancel | None = None
        self._is_over = False

    def begin(self) -> bool:
        """Begin it, if that can be done without a task."""
        call = self._call
        context, handler = call.context, call.handler
        server = context.server
        origin = handler.origin
        bridged = server.registry.log_bridge is not None or (origin and origin.log_bridges())
        if server.observe is not None or bridged:
            return False
        state = server.state if origin is None else server.opened.state_of(origin.part)
        arguments = call.keywords["arguments"]
        cancel = handler.begin(context.params, arguments, state, call.timeout, self._done)
        if cancel is None:
            return False
        self._cancel = cancel
        call.started = trio.current_time()
        call.scope = self
        return True

    @property
    def cancel_called(self) -> bool:
        """Whether it is over."""
        return self._is_over

    def cancel(self) -> None:
        """End it, and answer as the call says."""
        if not self._is_over:
            self.abandon()
            self._answer(self._call.unfinished())

    def abandon(self) -> None:
        """End it without an answer."""
        self._is_over = True
        if self._cancel is not None:
            self._cancel()

    def _done(self, outcome: dict[str, Json] | Exception) -> None:
        self._is_over = True
        call = self._call
        line: bytes | Later | None
        if not isinstance(outcome, Exception):
            result = Forwarded(outcome)
            line = partial(call.late_line_for, result) if result.is_much else call.line_for(result)
        elif isinstance(outcome, TimeoutError):
            line = call.unfinished()
        else:
            line = call.line_for(outcome)
        self._answer(line)

    def _answer(self, line: bytes | Later | None) -> None:
        call = self._call
        self._finish(call, line)
        call.scope = None  # a cycle would wait for the garbage collector
