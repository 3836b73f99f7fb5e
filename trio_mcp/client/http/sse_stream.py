"""HTTP+SSE, the transport over HTTP that revision 2024-11-05 had, as a client speaks it.

Servers of that time are recognised by what they refuse: a POST of `initialize` to their URL, while
a GET of it opens a stream of events whose first one says where to POST (2025-11-25, "Backwards
Compatibility" of the transports). All messages of such a server are on
that stream, and all messages to it are POSTs: together they are an `SseStream`, for a connection
like any other.

Lines are POSTed one after the other, since their order matters, and each waits for as long as the
server does not take it. One that is refused fails its own request and nothing else; the connection
ends with the stream of events, which cannot be resumed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

import trio

from trio_mcp.client.http.endpoint import Endpoint, Reply
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.client.http.refusals import refusal
from trio_mcp.client.http.streams import EVENTS
from trio_mcp.errors import ClientError, ConnectionLost, ProtocolError, RateLimited, Unauthorized
from trio_mcp.loggers import logger_of
from trio_mcp.peer.requests import OpenRequests
from trio_mcp.peer.time_limits import Pause, TimeLimit, pausable
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Request, decode
from trio_mcp.wire.sse import Event, EventParser

logger = logger_of("trio_mcp.client")

_GET_HEADERS: Final = {"Accept": EVENTS}
_POST_HEADERS: Final = {"Accept": "*/*", "Content-Type": "application/json"}
_LINGER: Final = 1.0
"""Seconds that the unread body of an answer may take."""
_CONNECTIONS: Final = 2
"""What the transport needs: one for the events, and one for POSTs."""
_SAY_MORE: Final = (Unauthorized, RateLimited, ProtocolError)
"""Failures that say more than the refusal before them."""


class _NoEndpoint(ClientError):
    """The reply to the GET is not that of an HTTP+SSE server."""


class SseStream(trio.abc.Stream):
    """The messages of an HTTP+SSE session as a stream of lines. Made by `open_sse`.

    Raises:
        ClientError: The reply to the GET is not that of an HTTP+SSE server.
    """

    def __init__(self, endpoint: Endpoint, reply: Reply, max_bytes: int) -> None:
        if reply.media_type != EVENTS:
            raise _NoEndpoint("it gives no stream of events")
        self._endpoint = endpoint
        self._reply = reply
        self._parser = EventParser(max_bytes)
        self._received = bytearray()
        self._target = endpoint
        self._over = False
        self._posting = trio.CancelScope()
        self.on_refused: Callable[[bytes, Exception], None] = _log_refusal
        """Called with each line that could not be sent, and why."""
        self.pauses: Sequence[Pause] = ()
        """The time limits of those who wait for an answer to what is sent."""
        self.failure: Callable[[], ClientError] = partial(
            ConnectionLost, f"{endpoint.where} ended the stream of events, and with it the session"
        )
        """Tells how the stream ended."""

    async def open(self) -> None:
        """Wait for the first event, which says where to POST.

        Raises:
            ProtocolError: It says something that cannot be followed.
            ClientError: There is no such event.
        """
        events: list[Event] | None = []
        while events == []:
            events = await self._reply.read_events(self._parser)
        if events is None:
            raise _NoEndpoint("the stream ended")
        first, *others = events
        if first.event != "endpoint":
            raise _NoEndpoint("the first event is another one")
        self._target = self._endpoint.at(first.data.decode("utf-8", "replace"))
        self._take(others)

    def _take(self, events: list[Event]) -> None:
        for event in events:
            if event.event == "message" and event.data:
                self._received += event.data.replace(b"\n", b" ")
                self._received += b"\n"

    # -- for the connection (`trio.abc.Stream`) -------------------------------------------

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for messages, and return up to `max_bytes` of them.

        Raises:
            trio.BrokenResourceError: The stream of events broke; `failure` tells how.

        However it ends without a message, also when it is cancelled, the session has ended.
        """
        try:
            while not self._received:
                events = await self._reply.read_events(self._parser)
                if events is None:
                    return b""
                self._take(events)
        except ClientError as error:
            self.failure = partial(type(error), str(error))
            raise trio.BrokenResourceError(str(error)) from error
        finally:
            if not self._received:  # httpx2 has closed the stream, so the server ends the session
                self._over = True
                self._posting.cancel()
        chunk = bytes(self._received[:max_bytes])
        del self._received[:max_bytes]
        return chunk

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """POST each line.

        Raises:
            trio.BrokenResourceError: The session has ended.

        Cancelled, it leaves open whether the server has got the present line.
        """
        with trio.CancelScope() as self._posting, pausable(*self.pauses):
            for line in bytes(data).split(b"\n"):
                if line and not self._over:
                    await self._post(line)
        if self._over:
            raise trio.BrokenResourceError("the session has ended")

    async def _post(self, line: bytes) -> None:
        try:
            async with self._target.exchange("POST", _POST_HEADERS, line) as reply:
                if not reply.is_success:
                    raise await refusal(self._target, reply, id=None, in_session=True)
                reply.handed_over = True
                await reply.finish(_LINGER)
        except (ClientError, McpError) as error:
            self.on_refused(line, error)

    async def wait_send_all_might_not_block(self) -> None:
        """Return at once: only `send_all` knows."""
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Do nothing: the stream of events is closed with the block of `open_sse`."""
        await trio.lowlevel.checkpoint()


def _log_refusal(line: bytes, error: Exception) -> None:
    logger.warning("A message could not be sent to the server: %s", error)


@asynccontextmanager
async def open_sse(
    endpoint: Endpoint, options: HttpOptions, max_bytes: int, refused: ClientError, limit: TimeLimit
) -> AsyncIterator[SseStream]:
    """Open a stream to a server of HTTP+SSE for the length of the block.

    Raises:
        ClientError: It does not speak HTTP+SSE either: then this is `refused`, unless it wants
            credentials (`Unauthorized`) or has had too many requests (`RateLimited`).
        ProtocolError: It wants messages to be sent to another server.
        ValueError: The options allow for a single connection.
    """
    if options.max_connections < _CONNECTIONS:
        raise ValueError("HTTP+SSE needs two connections: HttpOptions(max_connections=2), at least")
    async with AsyncExitStack() as stack:
        try:
            enough = TimeLimit.after(options.connect_timeout)
            with limit.scope() as connecting, enough.scope() as opening:
                reply = await stack.enter_async_context(endpoint.exchange("GET", _GET_HEADERS))
                if not reply.is_success:
                    raise await refusal(endpoint, reply, id=None, in_session=False)
                stream = SseStream(endpoint, reply, max_bytes)
                await stream.open()
        except _SAY_MORE:
            raise
        except (ClientError, McpError):
            raise refused from None
        if connecting.cancelled_caught or opening.cancelled_caught:
            raise refused
        yield stream


def fail_unsent(requests: OpenRequests, line: bytes, error: Exception) -> None:
    """Fail the request that could not be sent; log any other message."""
    message = decode(line)
    if isinstance(message, Request):
        requests.fail(message.id, error)
    else:
        _log_refusal(line, error)
