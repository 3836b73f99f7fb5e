"""Calls that belong to no connection: an extension has them answered, and hears what they say.

Such a call is admitted, run and answered like any other. What its handler reports, logs and asks
goes to the extension's channel instead of a client.
"""

from __future__ import annotations

from math import inf
from typing import Final

import trio
from attrs import Factory, define, field

from trio_mcp.peer.channel import ResponseOnly
from trio_mcp.peer.inbound import Inbound, InboundRequest, Slots
from trio_mcp.peer.runner import Runner
from trio_mcp.public import public_in
from trio_mcp.registry.extension import ExtensionRequest
from trio_mcp.server.caller import Caller
from trio_mcp.server.conversation import declares
from trio_mcp.server.dispatcher import Dispatcher
from trio_mcp.server.handlercall import HandlerCall
from trio_mcp.server.modern_conversation import QuestionNames
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session
from trio_mcp.wire.answers import Answer, Result
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import Json, Request
from trio_mcp.wire.payloads import LOGGING_LEVELS, LoggingLevel
from trio_mcp.wire.revisions import BY_NAME, Revision

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
    server: Server, request: ExtensionRequest, channel: CallChannel | None, timeout: float | None
) -> dict[str, Json]:
    """Have a request answered (`ExtensionServing.call`)."""
    await trio.lowlevel.checkpoint()
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
    call.conversation = BackgroundConversation(
        channel or CallChannel(), caller, call, request.params
    )
    await Runner(server.limits.cancel_timeout).run(call)
    if isinstance(reply.reply, Result | McpError):
        return _members_of(reply.reply)
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


@define(eq=False)
class BackgroundConversation:
    """The way back to the extension that hears of a call in the background (a `Conversation`)."""

    _channel: CallChannel
    _caller: Caller
    _inbound: InboundRequest
    _params: dict[str, Json]
    revision: Revision = Factory(lambda self: self._caller.revision, takes_self=True)
    _names: QuestionNames = field(factory=QuestionNames)
    _last_progress: float = -inf
    _asking: int = 0
    _left: float = inf
    """Seconds that the handler had left when it asked."""
    unwinding: bool = False
    """Never: it waits for its answers where it is."""

    passes_questions: bool = False
    """Never likewise."""

    @property
    def params(self) -> dict[str, Json]:
        """The parameters of the request."""
        return self._params

    @property
    def capabilities(self) -> dict[str, Json]:
        """What the caller has declared."""
        return self._caller.capabilities

    @property
    def answers(self) -> dict[str, Json]:
        """None: it waits for its answers where it is."""
        return {}

    @property
    def cannot_ask(self) -> str | None:
        """Why no question can be asked."""
        return None if self._channel.can_ask else _NO_CLIENT

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell how far the work is."""
        await trio.lowlevel.checkpoint()
        if progress > self._last_progress:
            self._last_progress = progress
            await self._channel.progress(progress, total, message)

    @property
    def log_level(self) -> LoggingLevel | None:
        """The least severe level of log messages that are wanted; `None` for no messages."""
        return self._channel.log_level

    def logs(self, level: LoggingLevel) -> bool:
        """Whether messages of this level are wanted."""
        wanted = self.log_level
        return wanted is not None and LOGGING_LEVELS[level] >= LOGGING_LEVELS[wanted]

    async def log(self, level: LoggingLevel, data: Json, source: str | None) -> None:
        """Pass a log message on."""
        await trio.lowlevel.checkpoint()
        if self.logs(level):
            await self._channel.log(level, data, source)

    async def consume_state(self) -> None:
        """Do nothing: that was done when the request came."""

    def log_nowait(self, level: LoggingLevel, data: Json, source: str | None) -> None:
        """Do nothing: what is forwarded from the standard library's log cannot wait here."""

    async def notify(self, method: str, params: dict[str, Json]) -> None:
        """Do nothing: there is no client that hears it."""
        await trio.lowlevel.checkpoint()

    def close_sse_stream(self) -> None:
        """Do nothing: there is none."""

    def supports(self, *capability: str) -> bool:
        """Whether the caller has declared a capability, and can be asked."""
        able = self.cannot_ask is None
        return able and declares(self.revision, self._caller.capabilities, capability)

    async def send_request(self, method: str, params: dict[str, Json], key: str | None) -> Json:
        """Ask. Meanwhile the handler's clock stands still."""
        name = self._names.name_of({"method": method, "params": params}, key)
        scope = self._inbound.scope
        assert scope is not None
        if not self._asking:
            self._left = scope.deadline - trio.current_time()
            self._inbound.move_deadline(inf)
        self._asking += 1
        try:
            return await self._channel.ask(name, method, params)
        finally:
            self._asking -= 1
            if not self._asking:
                self._inbound.move_deadline(trio.current_time() + self._left)

    def pass_on(self, question: dict[str, Json]) -> dict[str, Json]:
        """Refuse: no client would send the request again."""
        raise McpError(INTERNAL_ERROR, "A call in the background cannot be answered by a question")

    def finish(self) -> None:
        """Do nothing: nothing is held back."""

    def close(self) -> None:
        """Do nothing likewise."""

    def input_required(self) -> dict[str, Json]:
        """Not called: nothing is unwound."""
        raise NotImplementedError
