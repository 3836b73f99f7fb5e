"""What a legacy server asks, and the tasks that answer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import define, field

from trio_mcp.client.http.streams import Session
from trio_mcp.client.transport import InboundHandler
from trio_mcp.peer.exchange import Call, Cause, Exchange
from trio_mcp.wire.jsonrpc import Id, Json, Request

Post = Callable[[Session, bytes], Awaitable[None]]
"""Sends a line in a session."""


@define(eq=False)
class ServerRequests:
    """The questions of the server that are open.

    Args:
        inbound: Who answers.
        post: Sends the answers.
        nursery: Where that is done.
        most: How many are answered at the same time; streams that bring more are not read on.
    """

    _inbound: InboundHandler
    _post: Post
    _nursery: trio.Nursery
    most: int
    _open: dict[Id, Exchange | None] = field(factory=dict)  # None until it is being answered
    _slots: trio.Semaphore = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Take the bound."""
        self._slots = trio.Semaphore(self.most)

    async def ask(self, request: Request, session: Session) -> None:
        """Have a question answered; it returns once somebody is about to.

        One that is open already was sent again on a resumed stream, and is not asked again.
        """
        if request.id in self._open:
            return
        self._open[request.id] = None
        try:
            await self._slots.acquire()
        except trio.Cancelled:
            self._open.pop(request.id, None)
            raise
        if request.id in self._open:  # else it was called off meanwhile
            call = self._inbound.begin(request, False)
            self._nursery.start_soon(self._answer, request.id, call, session)
        else:
            self._slots.release()

    async def _answer(self, id: Id, call: bytes | Call, session: Session) -> None:
        try:
            line = call if isinstance(call, bytes) else await self._run(id, call)
            if line is not None:
                await self._post(session, line)
        finally:
            self._open.pop(id, None)
            self._slots.release()

    async def _run(self, id: Id, call: Call) -> bytes | None:
        if id not in self._open:  # it was called off before it began
            return None
        scope = trio.CancelScope(deadline=trio.current_time() + call.timeout)
        exchange = self._open[id] = Exchange(id, call, None, 0, scope=scope)
        return await call.run(exchange, scope)

    def cancel(self, id: Json) -> bool:
        """Stop answering a question. Returns whether it was open."""
        if not isinstance(id, str | int) or id not in self._open:
            return False
        exchange = self._open[id]
        if exchange is None:
            del self._open[id]
        else:
            exchange.cancel(Cause.PEER)
        return True
