"""What a legacy server asks, and the tasks that answer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import define, field

from trio_mcp.client.http.streams import Session
from trio_mcp.client.links import ClientSide
from trio_mcp.peer.exchange import Call, Cause, Exchange
from trio_mcp.wire.jsonrpc import Id, Json, Request

Post = Callable[[Session, bytes], Awaitable[None]]
"""Sends a line in a session."""


@define(eq=False)
class Questions:
    """The questions of the server that are open.

    Args:
        side: Who answers.
        post: Sends the answers.
        nursery: Where that is done.
        most: How many are answered at the same time; streams that bring more are not read on.
    """

    _side: ClientSide
    _post: Post
    _nursery: trio.Nursery
    most: int
    _open: dict[Id, Exchange | None] = field(factory=dict)
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
            del self._open[request.id]
            raise
        call = self._side.begin(request, False)
        self._nursery.start_soon(self._answer, request.id, call, session)

    async def _answer(self, id: Id, call: bytes | Call, session: Session) -> None:
        try:
            line: bytes | None
            if isinstance(call, bytes):
                line = call
            else:
                scope = trio.CancelScope(deadline=trio.current_time() + call.timeout)
                exchange = self._open[id] = Exchange(id, call, None, 0, scope=scope)
                line = await call.run(exchange, scope)
            if line is not None:
                await self._post(session, line)
        finally:
            del self._open[id]
            self._slots.release()

    def call_off(self, id: Json) -> bool:
        """Stop answering a question. Returns whether it was open."""
        exchange = self._open.get(id) if isinstance(id, str | int) else None
        if exchange is None:
            return False
        exchange.cancel(Cause.PEER)
        return True
