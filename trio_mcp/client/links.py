"""How a client's requests reach a server: over a stream, or by a call within the process."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Protocol

import trio
from attrs import define, field

from trio_mcp.client.handlers import Handlers
from trio_mcp.peer.asking import ConnectionEnded, DeadlinePassed
from trio_mcp.peer.connection import Connection
from trio_mcp.peer.exchange import Call, Cause, Exchange
from trio_mcp.transports.memory import Embedded
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError
from trio_mcp.wire.jsonrpc import (
    Json,
    Malformed,
    Notification,
    Request,
    Response,
    decode,
    encode,
    error_line,
    result_line,
)

if TYPE_CHECKING:
    from trio_mcp.client.client import Client

logger = logging.getLogger("trio_mcp.client")

Params = dict[str, Json]


class Link(Protocol):
    """What a `Client` sends through."""

    async def request(
        self, method: str, params: Params | None = None, deadline: float = inf
    ) -> Json:
        """Send a request and return its result.

        Raises:
            McpError: The server answered with an error.
            ConnectionEnded: The connection ended.
            DeadlinePassed: It was not answered in time. The server has been told to stop.
        """

    def notify(self, method: str, params: Params | None = None) -> None:
        """Send a notification."""


class StreamLink:
    """Requests over a connection."""

    def __init__(self, connection: Connection) -> None:
        self.request = connection.asking.ask
        self.notify = connection.asking.notify


class MemoryLink:
    """Requests to a registry in the same process.

    A request runs in the task that asks. Its parameters are copied, and its result is parsed from
    the line that any client would get, so neither side can change what the other one holds.
    """

    def __init__(self, embedded: Embedded) -> None:
        self._embedded = embedded
        self._ids = itertools.count(1)

    async def request(
        self, method: str, params: Params | None = None, deadline: float = inf
    ) -> Json:
        """Answer a request here and now."""
        await trio.lowlevel.checkpoint()  # a tool need not have one of its own
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        request = decode(encode(message)[:-1])
        assert isinstance(request, Request)
        line = await self._embedded.answer_request(request, deadline=deadline)
        if self._embedded.closed:
            raise ConnectionEnded("closed")
        if line is None:
            raise DeadlinePassed
        response = decode(line[:-1])
        assert isinstance(response, Response)
        if response.error is not None:
            raise response.error
        return response.result

    def notify(self, method: str, params: Params | None = None) -> None:
        """Do nothing: a registry in the same process needs no telling."""


@define(eq=False)
class ClientSide:
    """Deals with what a server sends over a stream (a `Handler` of its connection)."""

    handlers: Handlers
    timeout: float
    tap: Callable[[bytes], None] | None
    """Shown each raw line, from the first one on."""
    client: Client = field(init=False)
    answered: Callable[[Response], object] = field(init=False)
    """Takes an answer for the request that it belongs to."""

    def on_line(self, line: bytes) -> None:
        """Show a raw line to those who want to see it."""
        if self.tap is not None:
            self.tap(line)
        self.client.on_line(line)

    def begin(self, request: Request, in_batch: bool) -> bytes | Call:
        """Answer a ping at once; let a handler answer the rest."""
        if request.method == "ping":
            return result_line(request.id, {})
        return Question(request, self.handlers, self.timeout)

    def notified(self, notification: Notification) -> None:
        """Pass a notification on."""
        self.client.on_notification(notification)

    def malformed(self, message: Malformed, line: bytes) -> None:
        """Report what is no message; a server gets no answer to its noise.

        If it shows whose answer it was meant to be, that request fails at once.
        """
        self.client.on_noise(line)
        if b'"method"' not in line:
            why = f"The server's answer cannot be read: {message.error.message}"
            error = McpError(message.error.code, why, message.error.data)
            self.answered(Response(message.id, None, error))


@define(eq=False)
class Question:
    """A server's request that a handler answers."""

    request: Request
    handlers: Handlers
    timeout: float

    @property
    def label(self) -> str:
        """What it is, for the log."""
        return f"Handler of {self.request.method}"

    async def run(self, exchange: Exchange, scope: trio.CancelScope) -> bytes | None:
        """Let the handler answer."""
        request = self.request
        try:
            with scope:
                result = await self.handlers.answer(request.method, request.params)
                return result_line(request.id, result)
        except McpError as error:
            return error_line(request.id, error)
        except Exception:
            logger.exception("%s failed", self.label)
            return error_line(request.id, McpError(INTERNAL_ERROR, f"{request.method} failed"))
        return self.unfinished(exchange)

    def unfinished(self, exchange: Exchange) -> bytes | None:
        """Return the answer to a question whose handler was cancelled."""
        if exchange.answered or exchange.cause is Cause.PEER:
            return None
        message = f"{self.request.method} was cancelled"
        return error_line(self.request.id, McpError(INTERNAL_ERROR, message))
