"""A call that another server answers: no task waits for the answer.

It is sent on in the task that has read it, and answered in the one that reads the other server's
answer. Whatever takes more than to hand a result on (an error, a question, progress, a large
result, a caller that does not read) is left to a task, which goes through all layers and finds
there what was sent, and mostly its answer.
"""

from __future__ import annotations

from collections.abc import Awaitable
from math import inf

from trio_mcp.peer.cancellation import PeerReason
from trio_mcp.peer.inbound import Carrier, Scope
from trio_mcp.peer.outbound import DeadlinePassed
from trio_mcp.peer.requests import RelayedRequest
from trio_mcp.server.handlercall import HandlerCall
from trio_mcp.threads import SHORT_JSON
from trio_mcp.wire.answers import Answer


class RelayedCall(HandlerCall):
    """A call of an entry that has a `relay`."""

    _carrier: Carrier | None = None
    """Where it is answered, while it is open without a task."""
    _began = 0.0

    def relay(self, carrier: Carrier) -> bool:
        context, arguments = self.context, self.arguments
        if self.size >= SHORT_JSON:  # it may be large, and is for a thread to encode
            return False
        if arguments.__class__ is not dict or not context.server.chains.are_bare(context.method):
            return False
        self.started = self._began = began = carrier.now()
        self.sent = self.entry.relay.send(self, arguments, began + self.timeout, self)
        if self.sent is None:
            return False
        self._carrier = carrier
        return True

    def run(self, scope: Scope) -> Awaitable[Answer | None]:
        if self.sent is not None:  # its time goes on, in the scope of its task
            self.started = self._began
            self.sent.limit.deadline = inf
            self.move_deadline(self._began + self.timeout)
        return super().run(scope)

    def withdraw(self, reason: PeerReason | None) -> None:
        carrier, sent = self._carrier, self.sent
        if carrier is not None:
            self._finish(carrier, self.unfinished())
            sent.withdraw(reason)

    def __call__(self, sent: RelayedRequest) -> None:
        """Answer it with what was returned, or have a task do whatever there is to do."""
        carrier = self._carrier
        if carrier is None:  # it was withdrawn, or it has a task
            return
        if isinstance(sent.failure, DeadlinePassed):
            self._finish(carrier, self.unfinished())
            return
        result = None if carrier.is_full else self.entry.relay.result(sent.response)
        if result is None:
            self._carrier = None
            carrier.run_in_task(self)
            return
        outcome = "error" if result.members.get("isError") else "ok"
        self._finish(carrier, self.ended(outcome, result))

    def _finish(self, carrier: Carrier, answer: Answer | None) -> None:
        self._carrier = self.sent = None  # which knows this call: a cycle
        carrier.finish(self, answer)
