"""Calls of connections that share one bound with all other calls of an app.

A connection bounds its own calls. Where there are many, each of their calls waits for one of the
app's slots as well, and its time begins when it has got one.
"""

from __future__ import annotations

from math import inf
from typing import ClassVar

import trio
from attrs import define

from trio_mcp.peer.exchange import Call, Exchange
from trio_mcp.server.dispatcher import Session
from trio_mcp.server.running import CallRunner
from trio_mcp.wire.jsonrpc import Malformed, Notification, Request


@define(eq=False)
class LimitedSession:
    """What a session answers, in slots that it shares with others (a connection's `Handler`)."""

    session: Session
    runner: CallRunner

    def begin(self, request: Request, in_batch: bool) -> bytes | Call:
        """Answer a request at once, or return the call that will."""
        answer = self.session.begin(request, in_batch)
        if isinstance(answer, bytes) or answer.long_lived:
            return answer
        return _LimitedCall(answer, self.runner)

    def notified(self, notification: Notification) -> None:
        """Take note of a notification."""
        self.session.notified(notification)

    def malformed(self, message: Malformed, line: bytes) -> bytes:
        """Answer what is no message."""
        return self.session.malformed(message, line)


@define(eq=False)
class _LimitedCall:
    """A call that needs a slot."""

    call: Call
    runner: CallRunner
    long_lived: ClassVar[bool] = False

    @property
    def timeout(self) -> float:
        """Seconds that it may take."""
        return self.call.timeout

    @property
    def label(self) -> str:
        """What it is, for the log."""
        return self.call.label

    def unfinished(self, exchange: Exchange) -> bytes | None:
        """The line that answers it when it was cancelled."""
        return self.call.unfinished(exchange)

    async def run(self, exchange: Exchange, scope: trio.CancelScope) -> bytes | None:
        """Wait for a slot, and run in it."""
        if not self.runner.free:
            exchange.move_deadline(inf)
            with scope:
                await self.runner.wait_for_place()
            exchange.scope = None
            if scope.cancelled_caught:
                return self.call.unfinished(exchange)
            exchange.started = trio.current_time()
            exchange.scope = scope = trio.CancelScope()
            exchange.move_deadline(exchange.started + self.call.timeout)
        with self.runner.place():
            return await self.call.run(exchange, scope)
