"""Our own requests to the other side, until they are answered: a state machine without I/O.

The task that sends a request opens it here, with a way to be woken. It ends in one of four ways:
with a response, with the deadline, when its sender gives it up, or with the connection.
"""

from __future__ import annotations

import itertools
from math import inf
from weakref import WeakSet

from attrs import define, field

from trio_mcp.peer.cancellation import PeerReason, cancellation
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.wire.jsonrpc import Id, Json, Response, encode


class ConnectionEnded(Exception):
    """The connection ended before a request of ours was answered. The text says how it ended."""


class DeadlinePassed(Exception):
    """A request of ours was not answered by its deadline. The other side was asked to stop."""


@define(eq=False, repr=False)
class OutgoingRequest:
    """A request of ours that is open. A subclass knows how its sender waits."""

    id: Id
    method: str
    params: dict[str, Json] | None
    limit: TimeLimit
    """When it is given up."""
    response: Response | None = field(default=None, init=False)
    failure: Exception | None = field(default=None, init=False)
    """Why there will be no response."""
    reason: PeerReason | None = field(default=None, init=False)
    """Why it is withdrawn."""

    def wake(self) -> None:
        """Let its sender go on."""
        raise NotImplementedError

    def line(self, in_slices: bool = False) -> bytes:
        """Return the line that sends it; `TypeError` if the parameters are not JSON."""
        message: dict[str, Json] = {"jsonrpc": "2.0", "id": self.id, "method": self.method}
        if self.params is not None:
            message["params"] = self.params
        return encode(message, in_slices=in_slices)

    @property
    def cancellation(self) -> bytes | None:
        """The line that withdraws the request, where that is allowed."""
        if self.method == "initialize":  # "MUST NOT be cancelled" (2025-11-25, "Cancellation")
            return None
        withdrawn = cancellation(self.id, self.reason)
        return notification_line(withdrawn.method, withdrawn.params)

    @property
    def result(self) -> Json:
        """What it came to.

        Raises:
            McpError: The other side answered with an error.
            ConnectionEnded: The connection ended.
            DeadlinePassed: There was no answer in time.
            Exception: It could not be sent (`Outbound.fail`).
        """
        if self.response is not None and self.response.error is None:
            return self.response.result
        error = self.failure if self.response is None else self.response.error
        assert error is not None
        self.response = self.failure = None  # or frames that it is raised through refer to it
        try:
            raise error
        finally:
            del error


def notification_line(method: str, params: dict[str, Json] | None = None) -> bytes:
    """Write a notification as a line; `TypeError` if the parameters are not JSON."""
    message: dict[str, Json] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return encode(message)


class Outbound:
    """The requests of ours that one peer has not answered yet.

    Args:
        prefix: What their ids begin with, where others send requests to the same peer.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._ids = itertools.count(1)
        self._open: dict[Id, OutgoingRequest] = {}
        self.pauses = 0
        """How many there are at this time."""
        self.ended: str | None = None
        """How the connection ended; `None` while it has not."""

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def next_id(self) -> Id:
        """Reserve the id of a request."""
        return f"{self._prefix}{next(self._ids)}" if self._prefix else next(self._ids)

    def open(self, request: OutgoingRequest, now: float) -> None:
        """Wait for the response to a request; `ConnectionEnded` if there will be none."""
        if self.ended is not None:
            raise ConnectionEnded(self.ended)
        self._open[request.id] = request
        if self.pauses:
            self._pause(request.limit, now)

    def get(self, id: Id) -> OutgoingRequest | None:
        """The open request with that id."""
        return self._open.get(id)

    def renumber(self, request: OutgoingRequest, id: Id) -> None:
        """Give an open request another id, because it is sent again."""
        del self._open[request.id]
        request.id = id
        self._open[id] = request

    def respond(self, response: Response) -> OutgoingRequest | None:
        """Hand a response to its request, wake the sender, and return that request, if open."""
        request = self._open.pop(response.id, None)
        if request is not None:
            request.response = response
            request.wake()
        return request

    def fail(self, id: Id, error: Exception) -> None:
        """Let a request that could not be sent fail, and wake its sender."""
        request = self._open.pop(id, None)
        if request is not None:
            request.failure = error
            request.wake()

    def give_up(self, request: OutgoingRequest) -> bool:
        """Wait for a response no longer. Returns whether it was waited for."""
        return self._open.pop(request.id, None) is not None

    def end(self, how: str) -> None:
        """There will be no more responses: wake everybody who waits for one."""
        self.ended = how
        while self._open:
            _, request = self._open.popitem()
            request.failure = ConnectionEnded(how)
            request.wake()

    # -- deadlines ------------------------------------------------------------------------

    @property
    def next_deadline(self) -> float:
        """When the first of them is overdue."""
        return min((request.limit.deadline for request in self._open.values()), default=inf)

    def overdue(self, now: float) -> list[OutgoingRequest]:
        """Give up those whose deadline has passed, and wake their senders."""
        late = [request for request in self._open.values() if request.limit.deadline <= now]
        for request in late:
            del self._open[request.id]
            request.failure = DeadlinePassed()
            request.wake()
        return late

    def pause(self, now: float) -> None:
        """Let no deadline pass until `resume`: the other side waits for us. Pauses may nest."""
        self.pauses += 1
        if self.pauses == 1:
            # Apart from what is open, since a limit outlives its request where another follows;
            # weakly, since far more may be asked and answered meanwhile than is open at any time.
            self._paused = WeakSet[TimeLimit]()
            for request in self._open.values():
                self._pause(request.limit, now)

    def _pause(self, limit: TimeLimit, now: float) -> None:
        if limit not in self._paused:
            self._paused.add(limit)
            limit.pause(now)

    def resume(self, now: float) -> None:
        """Let deadlines pass again, as late as the pause was long."""
        self.pauses -= 1
        if not self.pauses:
            for limit in self._paused:
                limit.resume(now)
            del self._paused
