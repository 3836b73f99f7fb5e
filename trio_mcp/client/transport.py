"""How a client's requests reach a server, and who deals with what the server sends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, Protocol

from attrs import define, field

from trio_mcp.client.handlers import Handlers
from trio_mcp.client.notifications import Notifications, RawLines
from trio_mcp.peer.connection import Connection
from trio_mcp.peer.inbound import Cause, InboundRequest, Scope
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError
from trio_mcp.wire.jsonrpc import (
    Id,
    Json,
    Malformed,
    Notification,
    Request,
    Response,
    error_line,
    result_line,
)

logger = logging.getLogger("trio_mcp.client")

Params = dict[str, Json]


class ClientTransport(Protocol):
    """What a `Client` sends through."""

    @property
    def always_responds(self) -> bool:
        """Whether silence means that an answer is still to come, whatever was asked."""

    async def learn_tools(self, tools: Mapping[str, dict[str, Json]]) -> Mapping[str, str]:
        """Take note of the server's tools; tell which ones cannot be called this way, and why."""

    def next_id(self) -> Id:
        """Reserve the id of a request."""

    async def request(
        self,
        method: str,
        params: Params | None = None,
        limit: TimeLimit | None = None,
        id: Id | None = None,
    ) -> Json:
        """Send a request and return its result, if it comes within a time limit.

        Raises:
            McpError: The server answered with an error.
            ClientError: It could not be asked, where each request has a way of its own.
            ConnectionEnded: The connection ended.
            DeadlinePassed: It was not answered in time. The server has been told to stop.
        """

    async def notify(self, method: str, params: Params | None = None) -> None:
        """Send a notification, before any later request. After the end nothing happens.

        Raises:
            TypeError: The parameters are not JSON.
        """


class StreamTransport:
    """Requests over a connection."""

    always_responds: ClassVar[bool] = False

    def __init__(self, connection: Connection) -> None:
        self.next_id = connection.requests.next_id
        self.request = connection.requests.send
        self.notify = connection.requests.notify

    async def learn_tools(self, tools: Mapping[str, dict[str, Json]]) -> Mapping[str, str]:
        """Do nothing: there is nothing to know of them, and none is left out."""
        return {}


@define(eq=False)
class InboundHandler:
    """Deals with what a server sends over a stream (a `Handler` of its connection)."""

    handlers: Handlers
    timeout: float
    notifications: Notifications
    lines: RawLines
    answered: Callable[[Response], object] = field(default=lambda response: None, init=False)
    """Takes an answer for the request that it belongs to."""
    paused: Callable[[], AbstractContextManager[None]] = field(default=nullcontext, init=False)
    """Holds the client's own deadlines while a question is open."""

    @property
    def takes_batches(self) -> bool:
        """Whatever was agreed on: nobody would be told of what is refused."""
        return True

    def begin(self, request: Request, in_batch: bool) -> bytes | InboundRequest:
        """Answer a ping at once; let a handler answer the rest."""
        if request.method == "ping":
            return result_line(request.id, {})
        return ServerRequestCall(request, self.handlers, self.timeout, self.paused)

    def notified(self, notification: Notification) -> None:
        """Pass a notification on."""
        self.notifications.take(notification)

    def malformed(self, message: Malformed, line: bytes) -> None:
        """Report what is no message; a server gets no answer to its noise.

        If it shows whose answer it was meant to be, that request fails at once.
        """
        self.lines.take_noise(line)
        method, result = line.find(b'"method"'), line.find(b'"result"')
        if method < 0 or 0 <= result < method:  # it may be in the result, too
            why = f"The server's answer cannot be read: {message.error.message}"
            error = McpError(message.error.code, why, message.error.data)
            self.answered(Response(message.id, None, error))


@define(eq=False)
class ServerRequestCall(InboundRequest):
    """A server's request that a handler answers, while no deadline of ours passes."""

    request: Request
    handlers: Handlers
    timeout: float
    paused: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    def label(self) -> str:
        """What it is, for the log."""
        return f"Handler of {self.request.method}"

    async def run(self, scope: Scope) -> bytes | None:
        """Let the handler answer."""
        request = self.request
        try:
            with scope, self.paused():
                result = await self.handlers.answer(request.method, request.params)
                return result_line(request.id, result)
        except McpError as error:
            return error_line(request.id, error)
        except Exception:
            logger.exception("%s failed", self.label)
            return error_line(request.id, McpError(INTERNAL_ERROR, f"{request.method} failed"))
        return self.unfinished()

    def unfinished(self) -> bytes | None:
        """Return the answer to a question whose handler was cancelled."""
        if self.answered or self.cause is Cause.PEER:
            return None
        message = f"{self.request.method} was cancelled"
        return error_line(self.request.id, McpError(INTERNAL_ERROR, message))
