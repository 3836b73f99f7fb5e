"""Calls that belong to no connection: an extension has them answered, and hears what they say.

Such a call is admitted, run and answered like any other. What its handler reports, logs and asks
goes to the extension's channel instead of a client.
"""

from __future__ import annotations

from typing import Final

import trio

from trio_mcp.peer.channel import ResponseOnly
from trio_mcp.peer.inbound import Inbound, InboundRequest, Slots
from trio_mcp.peer.runner import Runner
from trio_mcp.public import public_in
from trio_mcp.registry.extension import ExtensionRequest
from trio_mcp.server.caller import Caller
from trio_mcp.server.conversation import RequestConversation
from trio_mcp.server.dispatcher import Dispatcher
from trio_mcp.server.handlercall import HandlerCall
from trio_mcp.server.modern_conversation import QuestionNames
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session
from trio_mcp.wire.answers import Answer, Result
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import INVALID_PARAMS, INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import Json, Request
from trio_mcp.wire.payloads import LoggingLevel
from trio_mcp.wire.revisions import BY_NAME

_NO_CLIENT: Final = "There is no client that could be asked: the call runs in the background"


@public_in("trio_mcp.extending")
class CallChannel:
    """Takes what a call in the background says and asks (see `ExtensionServing.call`).

    Derive from it; without more, nothing is heard, and nothing can be asked.
    """

    log_level: LoggingLevel | None = None
    """The least severe level of log messages that are wanted; `None` for none."""

    can_ask: bool = False
    """Whether `ask` answers."""

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Take note of how far the call is."""

    async def log(self, level: LoggingLevel, data: Json, logger: str | None) -> None:
        """Take a log message of the level that is wanted, or of a more severe one."""

    async def ask(self, key: str, method: str, params: dict[str, Json]) -> Json:
        """Answer a question.

        Args:
            key: Names it: the same one each time that the handler runs, and no other question's.
            method: Such as `elicitation/create`.
            params: Its parameters.

        Returns:
            The result that the client gives.

        Raises:
            McpError: The client refuses.
        """
        raise McpError(INVALID_REQUEST, _NO_CLIENT)


async def answer_in_background(
    server: Server,
    runner: Runner,
    request: ExtensionRequest,
    channel: CallChannel | None,
    timeout: float | None,
) -> dict[str, Json]:
    """Have a request answered (`ExtensionServing.call`)."""
    caller = _caller_of(request)
    session = Session(
        request.connection_id,
        caller=caller,
        principal=request.principal,
        authorization=request.authorization,
    )
    inbound = Inbound(Dispatcher(server, session), Slots(1))
    reply = ResponseOnly()
    id = 0 if request.request_id is None else request.request_id
    call = inbound.admit(Request(id, request.method, request.params), reply)
    if not isinstance(call, InboundRequest):
        return _members_of(call)
    if not isinstance(call, HandlerCall):
        inbound.close(call)
        raise McpError(INVALID_REQUEST, f"{request.method} cannot be answered in the background")
    if timeout is not None:
        call.timeout = timeout
    call.conversation = BackgroundConversation(call, channel or CallChannel())
    await runner.run(call)
    answer = reply.take()
    if isinstance(answer, Result | McpError):
        return _members_of(answer)
    raise McpError(INVALID_REQUEST, f"{request.method} was cancelled")


def _caller_of(request: ExtensionRequest) -> Caller:
    revision = BY_NAME.get(request.revision)
    if revision is None:
        raise McpError(INVALID_PARAMS, f"There is no revision {request.revision!r:.40}")
    info = None if request.client is None else to_wire(request.client, revision)
    return Caller(revision, request.capabilities, info)


def _members_of(answer: Answer) -> dict[str, Json]:
    """Return the members of a result that is known to be JSON."""
    if isinstance(answer, Result):
        answer = answer.encode() or answer  # what is large was encoded when the call ended
    if isinstance(answer, McpError):
        raise answer
    return answer.members


class BackgroundConversation(RequestConversation):
    """The way back to the extension that hears of a call in the background.

    It waits for its answers where it is, so the handler is never unwound.
    """

    def __init__(self, call: HandlerCall, listener: CallChannel) -> None:
        super().__init__(call.context, call)
        self._listener = listener
        self._names = QuestionNames()

    @property
    def _wanted_log_level(self) -> LoggingLevel | None:
        return self._listener.log_level

    @property
    def cannot_ask(self) -> str | None:
        return None if self._listener.can_ask else _NO_CLIENT

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        await trio.lowlevel.checkpoint()
        if progress > self._last_progress:
            self._last_progress = progress
            await self._listener.progress(progress, total, message)

    async def log(self, level: LoggingLevel, data: Json, source: str | None) -> None:
        await trio.lowlevel.checkpoint()
        if self.logs(level):
            await self._listener.log(level, data, source)

    async def _ask(self, method: str, params: dict[str, Json], key: str | None) -> Json:
        name = self._names.name_of({"method": method, "params": params}, key)
        async with self._waiting_for_caller():
            return await self._listener.ask(name, method, params)
