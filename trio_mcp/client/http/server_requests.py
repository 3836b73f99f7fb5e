"""The tasks that answer a legacy server's requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import frozen

from trio_mcp.client.http.streams import Session
from trio_mcp.peer.channel import ReplyChannel
from trio_mcp.peer.inbound import Handler, Inbound, InboundRequest, Slots
from trio_mcp.peer.runner import Runner, wait_for_slots
from trio_mcp.wire.answers import Reply, reply_line
from trio_mcp.wire.jsonrpc import Id, Notification, Request
from trio_mcp.wire.limits import Limits

Post = Callable[[Session, bytes], Awaitable[None]]
"""Sends a line in a session."""


@frozen(eq=False)
class _PostChannel(ReplyChannel):
    """Sends the response in a POST of its own."""

    post: Post
    session: Session

    async def respond(self, id: Id, reply: Reply | None, *, overdue: bool = False) -> None:
        if reply is not None:
            await self.post(self.session, reply_line(id, reply))


class ServerRequests:
    """Runs the handlers of a legacy server's requests, and posts their answers."""

    def __init__(self, handler: Handler, post: Post, nursery: trio.Nursery, limits: Limits) -> None:
        self._inbound = Inbound(handler, Slots(limits.max_concurrent_calls))
        self._posts = trio.Semaphore(limits.max_concurrent_calls)  # of what is answered at once
        self._runner = Runner(limits.cancel_timeout)
        self._post = post
        self._nursery = nursery
        nursery.start_soon(self._runner.watch)

    async def answer(self, request: Request, session: Session) -> None:
        """Start to answer a request, once there is a slot for it, or for the POST of its answer.

        One that is open already was sent again on a resumed stream, and is not answered again.
        """
        if request.id in self._inbound:
            return
        opened = self._inbound.admit(request, _PostChannel(self._post, session))
        if not isinstance(opened, InboundRequest):
            line = reply_line(request.id, opened)
            await self._posts.acquire()
            self._nursery.start_soon(self._post_at_once, session, line)
            return
        try:  # a stream that brings more than there are slots for is not read on
            await wait_for_slots(opened)
        except trio.Cancelled:
            self._inbound.close(opened)
            raise
        self._nursery.start_soon(self._runner.run, opened)

    async def _post_at_once(self, session: Session, line: bytes) -> None:
        try:
            await self._post(session, line)
        finally:
            self._posts.release()

    def note(self, notification: Notification) -> None:
        self._inbound.note(notification)
