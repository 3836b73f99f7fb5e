"""The calls that are open on one connection to a server, and to whom its words belong.

A legacy server asks and logs without saying during which call. If all calls that are open just now
are of one caller, it is that one who is meant. If not, that is not known, and no caller gets it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, Final

import trio
from attrs import define, frozen

from trio_mcp.client.handlers import Handlers
from trio_mcp.client.notifications import elicitations_of
from trio_mcp.loggers import logger_of
from trio_mcp.registry import Context
from trio_mcp.wire.errors import INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.payloads import LoggingLevel

logger = logger_of("trio_mcp.compose")

_MOST: Final = 256
"""Messages that wait for a caller who does not read; then the oldest ones go."""
_MOST_BYTES: Final = 1024 * 1024
"""Bytes of one log message that are passed on."""


def owner_of(context: Context) -> str:
    """Return to whose share a call counts: a principal's, or else an address's or connection's."""
    return context.principal or context.client_address or context.connection_id or ""


class Relay:
    """Passes progress and log messages to a caller, in their order.

    A task for that is started with the first message, as most calls have none.
    """

    __slots__ = ("_idle", "_is_running", "_nursery", "_said", "context")

    def __init__(self, context: Context, nursery: trio.Nursery) -> None:
        self.context = context
        """The caller; another one when the same call is asked for again."""
        self._nursery = nursery
        self._is_running = False
        self._said: deque[Callable[[Context], Awaitable[None]]] | None = None

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._add(lambda context: context.progress(progress, total, message))

    def log(self, level: LoggingLevel, data: Json, source: str | None) -> None:
        if len(encode(data, is_encodable=True)) > _MOST_BYTES:
            logger.warning("A log message of more than %d bytes is not passed on", _MOST_BYTES)
            return
        self._add(lambda context: context.log(level, data, logger=source))

    def completed(self, id: str) -> None:
        """Pass on that what the caller was asked to do at a page is done."""
        self._add(lambda context: context.complete_elicitation(id))

    def _add(self, say: Callable[[Context], Awaitable[None]]) -> None:
        if self._said is None:
            self._said = deque(maxlen=_MOST)
            self._idle = trio.lowlevel.ParkingLot()
        self._said.append(say)
        if not self._is_running:
            self._is_running = True
            self._nursery.start_soon(partial(self._pass_on, self._said))

    async def _pass_on(self, said: deque[Callable[[Context], Awaitable[None]]]) -> None:
        try:
            while said:
                try:
                    await said.popleft()(self.context)
                except (TypeError, ValueError) as error:  # what the server says is its own affair
                    logger.debug("A message of a server is not passed on: %s", error)
        finally:
            self._is_running = False
            self._idle.unpark_all()

    async def drained(self) -> None:
        """Wait until everything has been passed on: the result must not overtake it."""
        while self._is_running:
            await self._idle.park()


_MOST_ELICITATIONS: Final = 1000
_LONGEST_ID: Final = 1024

Ask = Callable[[str, dict[str, Json]], Awaitable[Json]]


@define(eq=False)
class OpenCall:
    """A call that is under way."""

    owner: Hashable
    """Whose it is."""
    relay: Relay
    ask: Ask
    """Puts a question to the caller."""


class OpenCalls:
    """The calls that are open on one connection."""

    def __init__(self) -> None:
        self.calls: Final[dict[OpenCall, None]] = {}
        # Who was asked to do something at a page, which may be done after the call has ended.
        self._elicitations: dict[str, Relay] = {}

    def __bool__(self) -> bool:
        return bool(self.calls)

    def on_log(self, level: LoggingLevel, data: Json, source: str | None) -> None:
        """Pass a log message to the caller, if there is only one."""
        call = self._only_caller()
        if call is None:
            logger.debug("A log message of a server is not passed on: it is not clear to whom")
        else:
            call.relay.log(level, data, source)

    async def ask(self, method: str, params: dict[str, Json]) -> dict[str, Json]:
        """Pass a question to the caller.

        Raises:
            McpError: It is not clear to whom, or the caller cannot or does not want to answer.
        """
        while True:
            call = self._only_caller()
            if call is None:
                why = "It is not clear whom this question is for: no call of one caller is open"
                raise McpError(INVALID_REQUEST, why)
            self._note_elicitation(params, call.relay)
            try:
                answer: Any = await call.ask(method, params)
                return answer if isinstance(answer, dict) else {}
            except McpError:
                if call in self.calls:
                    raise
                # It has ended, so the question was another's: which one's, the server did not say.

    def note_error(self, error: McpError, relay: Relay) -> None:
        """Take note of what a caller is asked to do at pages, if an error asks for that."""
        for params in elicitations_of(error):
            self._note_elicitation(params, relay)

    def _note_elicitation(self, params: dict[str, Json], relay: Relay) -> None:
        id = params.get("elicitationId")
        if isinstance(id, str) and len(id) <= _LONGEST_ID:
            self._elicitations[id] = relay
            if len(self._elicitations) > _MOST_ELICITATIONS:
                del self._elicitations[next(iter(self._elicitations))]

    def on_elicitation_complete(self, id: str) -> None:
        """Pass on to the caller that what it was asked to do at a page is done."""
        relay = self._elicitations.pop(id, None)
        if relay is not None:
            relay.completed(id)

    def _only_caller(self) -> OpenCall | None:
        """Return the latest call, if all are of the same caller."""
        if len({call.owner for call in self.calls}) != 1:
            return None
        return next(reversed(self.calls))


@frozen(kw_only=True)
class ProxiedHandlers(Handlers):
    """Answers a server's questions by asking the caller of the open call."""

    declared: dict[str, Json]
    calls: OpenCalls

    @property
    def capabilities(self) -> dict[str, Json]:
        return self.declared

    async def answer(self, method: str, params: dict[str, Json]) -> dict[str, Json]:
        return await self.calls.ask(method, params)
