"""The requests of ours that are open, each with its cancel scope."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from trio_mcp.client.transport import Params
from trio_mcp.wire.jsonrpc import Id, Json, Response, encode

if TYPE_CHECKING:
    from trio_mcp.client.http.streams import Session

logger = logging.getLogger("trio_mcp.client")

Headers = Mapping[str, str | bytes]


@define(eq=False, kw_only=True)
class PendingRequest:
    """A request of ours."""

    id: Id
    method: str
    params: Params | None
    deadline: float
    """When it is given up, unless a question is open."""
    modern: bool
    headers: Headers
    session: Session | None
    """What it belongs to, in legacy revisions; for `initialize`, what it has begun."""
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    response: Response | None = None
    sent: bool = False
    delivered: bool = False
    """Whether the server has taken it."""
    ended: bool = False
    """Whether the connection was left meanwhile."""

    @property
    def body(self) -> bytes:
        """The message."""
        message: dict[str, Json] = {"jsonrpc": "2.0", "id": self.id, "method": self.method}
        if self.params is not None:
            message["params"] = self.params
        return encode(message)[:-1]

    @property
    def result(self) -> Json:
        """The result.

        Raises:
            McpError: The server answered with an error.
        """
        assert self.response is not None
        if self.response.error is not None:
            raise self.response.error
        return self.response.result


@define(eq=False)
class PendingRequests:
    """The requests of ours that are open."""

    _open: dict[Id, PendingRequest] = field(factory=dict)
    _idle: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)
    _pauses: int = 0
    _paused_since: float = 0.0

    @contextmanager
    def held(self, pending: PendingRequest) -> Iterator[None]:
        """Let a request be answered during the block, in its cancel scope."""
        if self._pauses:
            pending.deadline -= trio.current_time() - self._paused_since
        else:
            pending.scope.deadline = pending.deadline
        self._open[pending.id] = pending
        try:
            with pending.scope:
                yield
        finally:
            del self._open[pending.id]
            if not self._open:
                self._idle.unpark_all()

    def renumber(self, pending: PendingRequest, id: Id) -> None:
        """Give an open request another id."""
        del self._open[pending.id]
        pending.id = id
        self._open[id] = pending

    def answered(self, response: Response, reader: PendingRequest | None = None) -> None:
        """Hand an answer to the request that it belongs to.

        Args:
            response: The answer.
            reader: On whose stream it came. Another request stops reading its own.
        """
        pending = self._open.get(response.id)
        if pending is None or pending.response is not None:
            logger.debug("An answer came to no request of ours")
            return
        pending.response = response
        if pending is not reader:
            pending.scope.cancel()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let no deadline pass during the block: the server waits for us."""
        if not self._pauses:
            self._paused_since = trio.current_time()
            for each in self._open.values():
                each.scope.deadline = inf
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                for each in self._open.values():
                    each.deadline += trio.current_time() - self._paused_since
                    each.scope.deadline = each.deadline

    async def end(self) -> None:
        """End all of them, and wait until they have."""
        for pending in self._open.values():
            pending.ended = True
            pending.scope.cancel()
        while self._open:
            await self._idle.park()
