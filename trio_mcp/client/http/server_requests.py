"""What a legacy server asks, and the tasks that answer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import frozen

from trio_mcp.client.http.streams import Session
from trio_mcp.peer.channel import ReplyChannel
from trio_mcp.peer.inbound import Handler, Inbound, Slots
from trio_mcp.peer.runner import Runner, wait_for_slots
from trio_mcp.wire.jsonrpc import Notification, Request
from trio_mcp.wire.limits import Limits

Post = Callable[[Session, bytes], Awaitable[None]]
"""Sends a line in a session."""


@frozen(eq=False)
class _PostChannel(ReplyChannel):
    """Sends the response in a POST of its own."""

    post: Post
    session: Session

    async def send_response(self, line: bytes | None, *, overdue: bool = False) -> None:
        """Send the response, if there is one."""
        if line is not None:
            await self.post(self.session, line)


class ServerRequests:
    """The server's requests that are open.

    Args:
        handler: Who answers.
        post: Sends the answers.
        nursery: Where that is done.
        limits: How many are answered at the same time, and how long that may take.
    """

    def __init__(self, handler: Handler, post: Post, nursery: trio.Nursery, limits: Limits) -> None:
        self._inbound = Inbound(handler, Slots(limits.max_concurrent_calls))
        self._runner = Runner(limits.cancel_patience)
        self._post = post
        self._nursery = nursery
        nursery.start_soon(self._runner.watch)

    async def answer(self, request: Request, session: Session) -> None:
        """Have a request answered; it returns once somebody is about to.

        One that is open already was sent again on a resumed stream, and is not answered again.
        """
        if request.id in self._inbound:
            return
        opened = self._inbound.admit(request, _PostChannel(self._post, session))
        if isinstance(opened, bytes):
            self._nursery.start_soon(self._post, session, opened)
            return
        try:  # a stream that brings more than there are slots for is not read on
            await wait_for_slots(opened)
        except trio.Cancelled:
            self._inbound.close(opened)
            raise
        self._nursery.start_soon(self._runner.run, opened)

    def note(self, notification: Notification) -> None:
        """Take note of a notification, such as that a request is cancelled."""
        self._inbound.note(notification)
