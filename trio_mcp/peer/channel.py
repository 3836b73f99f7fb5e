"""The way back to the sender of a request: the one thing that transports differ in."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from trio_mcp.threads import convert
from trio_mcp.wire.answers import Answer, Reply, Result
from trio_mcp.wire.errors import INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import Id, Json


class ReplyChannel:
    """The way back to the sender of a request.

    What a transport cannot do is inherited: nothing is sent, and nothing can be asked.
    """

    carries_messages: ClassVar[bool] = True
    """Whether anything but the response can be sent."""

    cannot_ask: ClassVar[str | None] = (
        "The client cannot be asked anything: "
        "its request is served without a session, or in a batch"
    )
    """Why no request can be sent; `None` if one can."""

    keep_alive: float = inf
    """Seconds of silence after which `send_keep_alive` is due."""

    async def prepare(self, id: Id, answer: Answer | None) -> Answer | None:
        """Encode a large result in a worker thread, while the request may still be cancelled.

        Returns:
            What to answer with: the same, or the error for a result that is not JSON.
        """
        if not (isinstance(answer, Result) and answer.is_large):
            return answer
        return await convert(answer.encode, id) or answer

    async def respond(self, id: Id, reply: Reply | None, *, overdue: bool = False) -> None:
        """Answer the request, once there is room. It is the last thing that is sent.

        Args:
            id: The request's id.
            reply: The answer; `None` if the request has none.
            overdue: Whether the call goes on all the same, in the task that it was started in.
        """
        raise NotImplementedError

    def respond_nowait(self, id: Id, reply: Reply | None) -> bool:
        """Answer the request, if that takes no waiting. Returns whether it did."""
        return False

    async def send_notification(self, line: bytes) -> None:
        """Send a notification, once there is room. Cancelled while it waits, it is not sent."""

    def offer_notification(self, line: bytes) -> bool:
        """Send a notification, if that takes no waiting. Returns whether it did."""
        return False

    def send_notification_nowait(self, line: bytes) -> None:
        """Send a notification, whether there is room or not."""

    async def send_request(self, method: str, params: dict[str, Json], deadline: float) -> Json:
        """Send a request, and return its result. Raises as `OpenRequests.send_on` does."""
        raise McpError(INVALID_REQUEST, self.cannot_ask or "")

    async def send_keep_alive(self) -> None:
        """Show proxies on the way that the connection is still in use."""

    def close_sse_stream(self) -> None:
        """Have the other side come back for the rest, where there is a way to do so."""


class ResponseOnly(ReplyChannel):
    """Keeps the answer for the task that sends it; nothing else can be sent."""

    carries_messages: ClassVar[bool] = False

    def __init__(self) -> None:
        self.reply: Reply | None = None
        """The answer. Of a batch, only the last one that is answered has one."""

    async def respond(self, id: Id, reply: Reply | None, *, overdue: bool = False) -> None:
        self.reply = reply or self.reply

    def respond_nowait(self, id: Id, reply: Reply | None) -> bool:
        self.reply = reply or self.reply
        return True

    def take(self) -> Reply | None:
        """Return the answer, and forget it: it may refer to what refers to this channel."""
        reply, self.reply = self.reply, None
        return reply
