"""The transport of a client's requests, and the handler of what the server sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, Protocol

from attrs import define, field

from trio_mcp.client.handlers import Handlers
from trio_mcp.client.notifications import Notifications, RawLines
from trio_mcp.loggers import logger_of
from trio_mcp.peer.connection import Connection
from trio_mcp.peer.inbound import Cause, InboundRequest, Scope
from trio_mcp.peer.requests import RelayedRequest
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.threads import is_large
from trio_mcp.wire.answers import Answer, Result
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError
from trio_mcp.wire.jsonrpc import Id, Json, Malformed, Notification, Request, Response
from trio_mcp.wire.methods import ELICIT

logger = logger_of("trio_mcp.client")

Params = dict[str, Json]

AnswerQuestion = Callable[[str, Params], Awaitable[Params]]
"""Answers a question of the server: its method, and its parameters."""


class Begin(Protocol):
    """Sends a request that no task waits for, as `OutgoingRequests.begin` does."""

    def __call__(
        self,
        method: str,
        params: Params,
        limit: TimeLimit,
        on_end: Callable[[RelayedRequest], object],
        owner: object,
        is_encodable: bool = False,
    ) -> RelayedRequest | None: ...


class ClientTransport(Protocol):
    """Sends the requests and notifications of a session."""

    @property
    def always_responds(self) -> bool:
        """Whether every request gets an answer sooner or later."""

    async def learn_tools(self, tools: Mapping[str, dict[str, Json]]) -> Mapping[str, str]:
        """Learn the server's tools; return those that cannot be called this way, and why."""

    @property
    def begin(self) -> Begin | None:
        """Sends a request that no task waits for; `None` where each request has a task."""

    def next_id(self) -> Id:
        """Reserve the id of a request."""

    async def request(
        self,
        method: str,
        params: Params | None = None,
        limit: TimeLimit | None = None,
        id: Id | None = None,
    ) -> Json:
        """Send a request and return its result, within a time limit.

        Raises:
            McpError: The server answered with an error.
            ClientError: It could not be asked, where each request has a way of its own.
            ConnectionEnded: The connection ended.
            DeadlinePassed: It was not answered in time. It was cancelled.
        """

    async def notify(self, method: str, params: Params | None = None) -> None:
        """Send a notification, before any later request. After the end, do nothing.

        Raises:
            TypeError: The parameters are not JSON.
        """


class StreamTransport:
    """Requests over a connection."""

    always_responds: ClassVar[bool] = False

    def __init__(self, connection: Connection) -> None:
        self.next_id = connection.requests.next_id
        self.begin: Begin | None = connection.requests.begin
        self.request = connection.requests.send
        self.notify = connection.requests.notify

    async def learn_tools(self, tools: Mapping[str, dict[str, Json]]) -> Mapping[str, str]:
        return {}


@define(eq=False)
class InboundHandler:
    """Handles what a server sends over a stream (a `Handler` of its connection)."""

    handlers: Handlers
    timeout: float
    notifications: Notifications
    lines: RawLines
    answered: Callable[[Response], object] = field(default=lambda response: None, init=False)
    """Takes an answer for the request that it belongs to."""
    paused: Callable[[], AbstractContextManager[None]] = field(default=nullcontext, init=False)
    """Holds the client's own deadlines while a question is open."""
    answer: AnswerQuestion = field(init=False)
    """Answers a question of the server, by its handler."""

    @answer.default
    def _by_handler(self) -> AnswerQuestion:
        return lambda method, params: self.handlers.answer(method, params)

    @property
    def takes_batches(self) -> bool:
        """Always true: a client has no way to refuse a batch."""
        return True

    def begin(self, request: Request, in_batch: bool) -> Answer | InboundRequest:
        """Answer a ping at once; leave the rest to a handler."""
        if request.method == "ping":
            return Result({})
        if request.method == ELICIT.name:
            self.notifications.note_elicitation(request.params)
        return ServerRequestCall(request, self.answer, self.timeout, self.paused)

    def notified(self, notification: Notification) -> None:
        self.notifications.take(notification)

    def malformed(self, message: Malformed, line: bytes) -> None:
        """Report a line that is not a message. The server gets no answer.

        If it shows whose answer it was meant to be, that request fails at once.
        """
        self.lines.take_stray(line)
        method, result = line.find(b'"method"'), line.find(b'"result"')
        if method < 0 or 0 <= result < method:  # it may be in the result, too
            why = f"The server's answer cannot be read: {message.error.message}"
            error = McpError(message.error.code, why, message.error.data)
            self.answered(Response(message.id, None, error))


@define(eq=False)
class ServerRequestCall(InboundRequest):
    """A server's request that a handler answers. Our own deadlines stand still meanwhile."""

    request: Request
    answer: AnswerQuestion
    timeout: float
    paused: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    def label(self) -> str:
        return f"Handler of {self.request.method}"

    async def run(self, scope: Scope) -> Answer | None:
        request = self.request
        try:
            with scope, self.paused():
                result = await self.answer(request.method, request.params)
                large = is_large(result)
                return Result(result, is_large=large, on_encode_error=self._unsendable)
        except McpError as error:
            return error
        except Exception:
            logger.exception("%s failed", self.label)
            return self._failed()
        return self.unfinished()

    def _unsendable(self, result: Json) -> McpError:
        logger.error("%s failed: its answer cannot be encoded", self.label)
        return self._failed()

    def _failed(self) -> McpError:
        return McpError(INTERNAL_ERROR, f"{self.request.method} failed")

    def unfinished(self) -> Answer | None:
        """Return the answer to a question whose handler was cancelled."""
        if self.answered or self.cause is Cause.PEER:
            return None
        message = f"{self.request.method} was cancelled"
        return McpError(INTERNAL_ERROR, message)
