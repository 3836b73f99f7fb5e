"""What a handler says while its request is open: progress, log messages, notifications.

How it asks is for the two eras to say: `legacy_conversation`, `modern_conversation`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf, isfinite
from typing import Any, ClassVar, Final

import trio

from trio_mcp.loggers import logger_of
from trio_mcp.peer.channel import ReplyChannel
from trio_mcp.peer.outbound import notification_line
from trio_mcp.server.request import RequestContext
from trio_mcp.wire.bucket import TokenBucket
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import INTERNAL_ERROR, INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import Json, is_id
from trio_mcp.wire.methods import has_question
from trio_mcp.wire.notifications import LogParams, ProgressParams
from trio_mcp.wire.payloads import LOGGING_LEVELS, LoggingLevel
from trio_mcp.wire.revisions import Era, Revision

logger = logger_of("trio_mcp.calls")

ENDED: Final = "The request has ended, so its client cannot be asked any more"

_PROGRESS_BURST: Final = 20


def declares(revision: Revision, declared: Json, capability: tuple[str, ...]) -> bool:
    """Whether a client declares a capability that its revision has a question for."""
    if not has_question(revision, capability):
        return False
    for place, name in enumerate(capability):
        if not isinstance(declared, dict):
            return False
        if capability[:place] == ("elicitation",) and name == "form" and not declared:
            return True  # what an empty object stands for
        if name not in declared:
            return False
        declared = declared[name]
    return True


class RequestConversation:
    """The way back to the caller of one request (a `Conversation`, which says the rest).

    Args:
        context: The request, and who sent it.
        call: The same, while it is open: its channel, its scope, and what a state is bound to.
    """

    era: ClassVar[Era]
    unwinding = False
    """Whether the handler was cancelled because of what it asked."""
    passes_questions = False

    def __init__(self, context: RequestContext, call: Any) -> None:
        self.revision: Final = context.revision
        self._context = context
        self._catalogue = context.server.catalogue
        self._limits = context.server.limits
        self._call = call
        self._meta: dict[str, Json] = context.meta or {}
        self._last_progress = -inf
        self._progress_bucket: TokenBucket | None = None
        self._held_back: bytes | None = None  # the last progress, if it was one too many
        self._sending = False  # progress is being sent
        self._over = False
        self._asking = 0  # questions that stop the handler's clock
        self._left = 0.0  # seconds that it had left when the first of them began

    # -- notifications ---------------------------------------------------------------------------

    @property
    def _channel(self) -> ReplyChannel | None:
        """The way back, while something may be sent."""
        channel = self._call.channel
        sends = channel.carries_messages and not (self.unwinding or self._has_ended)
        return channel if sends else None

    @property
    def _has_ended(self) -> bool:
        call = self._call
        return self._over or call.answered or call.cause is not None

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        await trio.lowlevel.checkpoint()
        if not _is_finite(progress) or not _is_finite(total or 0):
            raise ValueError("progress and total must be finite numbers")
        token: Any = self._meta.get("progressToken")
        channel = self._channel
        if channel is None or not is_id(token) or progress <= self._last_progress:
            return
        self._last_progress = progress
        params = ProgressParams(token, progress, total=total, message=message)
        line = notification_line("notifications/progress", to_wire(params, self.revision))
        if self._progress_bucket is None:
            rate = self._limits.progress_rate
            self._progress_bucket = TokenBucket(rate, max(_PROGRESS_BURST, rate))
        self._held_back = line
        if not self._sending and self._progress_bucket.take(trio.current_time()):
            await self._send_progress(channel, self._progress_bucket)

    async def _send_progress(self, channel: ReplyChannel, bucket: TokenBucket) -> None:
        """Send the progress, one after the other: tasks side by side must not overtake."""
        self._sending = True
        try:
            line = self._take_held_back()
            while line is not None:
                await channel.send_notification(line)
                more = self._held_back is not None and bucket.take(trio.current_time())
                line = self._take_held_back() if more else None
        finally:
            self._sending = False

    def _take_held_back(self) -> bytes | None:
        line, self._held_back = self._held_back, None
        return line

    def finish(self) -> None:
        """Send what was held back, and nothing more."""
        channel = self._channel
        if self._held_back is not None and channel is not None:
            channel.send_notification_nowait(self._held_back)
        self.close()

    def close(self) -> None:
        """Send and ask nothing more."""
        self._over = True

    @property
    def _wanted_log_level(self) -> Any:
        raise NotImplementedError

    @property
    def log_level(self) -> LoggingLevel | None:
        wanted = self._wanted_log_level
        return wanted if wanted in LOGGING_LEVELS else None

    def logs(self, level: LoggingLevel) -> bool:
        wanted, severity = self.log_level, LOGGING_LEVELS.get(level)
        if severity is None:
            raise ValueError(f"no log level {level!r}; there are: {', '.join(LOGGING_LEVELS)}")
        return wanted is not None and severity >= LOGGING_LEVELS[wanted]

    async def log(self, level: LoggingLevel, data: Json, source: str | None) -> None:
        await trio.lowlevel.checkpoint()
        channel = self._channel
        if self.logs(level) and channel is not None:
            await channel.send_notification(log_line(level, data, source))

    def log_nowait(self, level: LoggingLevel, data: Json, source: str | None) -> None:
        """Send a log message without waiting for room."""
        channel = self._channel
        if self.logs(level) and channel is not None:
            channel.send_notification_nowait(log_line(level, data, source))

    async def notify(self, method: str, params: dict[str, Json]) -> None:
        from trio_mcp.wire.extensions import declared_settings

        await trio.lowlevel.checkpoint()
        extensions, channel = self._catalogue.extensions, self._channel
        owner = None if extensions is None else extensions.sent.get(method)
        if owner is None:
            raise ValueError(f"no extension of the registry sends {method!r:.100}")
        settings = declared_settings(self._context.caller.capabilities, owner.identifier)
        if channel is not None and settings is not None and owner.era in (None, self.era):
            await channel.send_notification(notification_line(method, params))

    async def complete_elicitation(self, id: str) -> None:
        """Notify the caller that what it was asked to do at a page is done: only 2025-11-25 can."""
        await trio.lowlevel.checkpoint()

    def close_sse_stream(self) -> None:
        channel = self._channel
        if channel is not None:
            channel.close_sse_stream()

    # -- the request ---------------------------------------------------------------------------

    @property
    def params(self) -> dict[str, Json]:
        return self._context.params

    # -- questions ---------------------------------------------------------------------------

    @property
    def answers(self) -> dict[str, Json]:
        """What the caller has answered in earlier rounds, by the names of the questions."""
        return {}

    @property
    def cannot_ask(self) -> str | None:
        return None

    def supports(self, *capability: str) -> bool:
        able = self.cannot_ask is None
        return able and declares(self.revision, self._context.caller.capabilities, capability)

    async def send_request(self, method: str, params: dict[str, Json], key: str | None) -> Json:
        await trio.lowlevel.checkpoint()
        if self._has_ended:
            raise McpError(INVALID_REQUEST, ENDED)
        return await self._ask(method, params, key)

    async def _ask(self, method: str, params: dict[str, Json], key: str | None) -> Json:
        raise NotImplementedError

    @asynccontextmanager
    async def _waiting_for_caller(self, timeout: float = inf) -> AsyncIterator[None]:
        """A person's time to think is not the handler's: its deadline waits for so many seconds.

        Meanwhile others have its slots. At the end it waits for new ones.
        """
        call, now = self._call, trio.current_time()
        if not self._asking:
            self._left = call.scope.deadline - now
        self._asking += 1
        call.lending.lend(call)
        call.move_deadline(now + timeout + self._left)
        try:
            yield
        finally:
            try:
                if self._asking == 1:
                    await call.lending.take_back()
                    if self._asking > 1:  # since then
                        call.lending.lend(call)
            finally:
                self._asking -= 1
                if not self._asking:
                    call.move_deadline(trio.current_time() + self._left)

    async def consume_state(self) -> None:
        """Note that the state of the request is used, for all processes that share a store."""

    def input_required(self) -> dict[str, Json]:
        """Make the result that asks the caller what the handler has asked."""
        raise NotImplementedError

    def pass_on(self, question: dict[str, Json]) -> dict[str, Json]:
        """Make the result that passes on another server's question."""
        message = "A question cannot be the answer to this request; Context.ask can ask it"
        raise McpError(INTERNAL_ERROR, message)


def _is_finite(number: float) -> bool:
    try:
        return isfinite(number)
    except OverflowError:  # an integer that no float can hold
        return False


def log_line(level: LoggingLevel, data: Json, source: str | None) -> bytes:
    """Write a log message as a line; `TypeError` if the data is not JSON."""
    params = LogParams(level, data, logger=source)
    return notification_line("notifications/message", to_wire(params))
