"""The calls that are open on one connection to a server, and to whom its words belong.

A legacy server asks and logs without saying during which call. If all calls that are open just now
are of one caller, it is that one who is meant. If not, that is not known, and no caller gets it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final

from attrs import define, frozen

from trio_mcp.client.handlers import Handlers
from trio_mcp.client.notifications import elicitations_of
from trio_mcp.compose.relay import Relay
from trio_mcp.loggers import logger_of
from trio_mcp.wire.errors import INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.payloads import LoggingLevel

logger = logger_of("trio_mcp.compose")

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
        call = self._only_caller()
        if call is None:
            why = "It is not clear whom this question is for: no call of one caller alone is open"
            raise McpError(INVALID_REQUEST, why)
        self._note_elicitation(params, call.relay)
        answer: Any = await call.ask(method, params)
        return answer if isinstance(answer, dict) else {}

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
