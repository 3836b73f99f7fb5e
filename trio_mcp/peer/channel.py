"""The way back to the sender of a request: the one thing that transports differ in."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from trio_mcp.wire.errors import INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import Json


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

    async def send_response(self, line: bytes | None, *, overdue: bool = False) -> None:
        """Send the response, once there is room. It is the last thing that is sent.

        Args:
            line: The response; `None` if the request has none.
            overdue: Whether the call goes on all the same, in the task that it was started in.
        """
        raise NotImplementedError

    def send_response_nowait(self, line: bytes | None) -> bool:
        """Send the response, if that takes no waiting. Returns whether it did."""
        return False

    async def send_notification(self, line: bytes) -> None:
        """Send a notification, once there is room. Cancelled while it waits, it is not sent."""

    def send_notification_nowait(self, line: bytes) -> None:
        """Send a notification, whether there is room or not."""

    async def send_request(self, method: str, params: dict[str, Json], deadline: float) -> Json:
        """Send a request, and return its result. Raises as `OutgoingRequests.send` does."""
        raise McpError(INVALID_REQUEST, self.cannot_ask or "")

    async def send_keep_alive(self) -> None:
        """Show whoever is on the way that it is still in use."""

    def close_sse_stream(self) -> None:
        """Have the other side come back for the rest, where there is a way to do so."""


class ResponseOnly(ReplyChannel):
    """Keeps the response, for whoever sends it; nothing else can be sent."""

    carries_messages: ClassVar[bool] = False

    def __init__(self) -> None:
        self.line: bytes | None = None
        """The response. Of a batch, only the last one that is answered has one."""

    async def send_response(self, line: bytes | None, *, overdue: bool = False) -> None:
        """Keep the line."""
        self.line = line or self.line
