"""Legacy sessions, and streams of events that can be resumed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import trio
from attrs import define, field

from trio_mcp.client.http.options import HttpOptions
from trio_mcp.errors import ProtocolError
from trio_mcp.peer.outbound import OutgoingRequest
from trio_mcp.wire.headers import LAST_EVENT_HEADER, SESSION_HEADER, VERSION_HEADER
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.settings import SessionSettings
from trio_mcp.wire.sse import EventParser

_SESSION_ID: Final = re.compile(r"[!-~]+")
_EVENT_ID: Final = re.compile(rb"[!-~\x80-\xff](?:[ -~\x80-\xff]{0,4094}[!-~\x80-\xff])?")
_LONGEST_DELAY: Final = 30.0

Headers = Mapping[str, str | bytes]

EVENTS: Final = "text/event-stream"


@define
class Cursor:
    """How far a stream of events has been read."""

    last_event_id: str | None = None
    retry: int | None = None
    """Milliseconds that the server wants us to wait before we resume."""
    opened: bool = False
    """Whether the stream was ever open."""
    moved: bool = False
    """Whether anything was received since it was opened last."""

    def note(self, parser: EventParser, events: int) -> None:
        if parser.retry is not None:
            self.retry = parser.retry
        if events or parser.last_event_id not in (None, self.last_event_id):
            self.moved = True
        if parser.last_event_id is not None:
            self.last_event_id = parser.last_event_id

    @property
    def can_resume(self) -> bool:
        """Whether the server has given a usable event id."""
        return self.last_event_id is not None and bool(
            _EVENT_ID.fullmatch(self.last_event_id.encode())
        )

    @property
    def headers(self) -> Headers:
        if self.last_event_id is None or not self.can_resume:
            return {}
        return {LAST_EVENT_HEADER: self.last_event_id.encode()}

    def delay(self, options: HttpOptions, failures: int) -> float:
        """Return the seconds to wait before the stream is requested again.

        It is what the server says. But a stream that brings nothing is not asked for more often
        than every `reconnect_delay`, and one that fails less and less often.
        """
        if not self.opened and not failures:
            return 0.0
        told = options.reconnect_delay if self.retry is None else self.retry / 1000
        if failures:
            longer = options.reconnect_delay * 2.0 ** min(failures - 1, 16)
            return max(told, min(longer, _LONGEST_DELAY))
        return told if self.moved else max(told, options.reconnect_delay)


@define(eq=False)
class Session:
    """What client and legacy server agreed on, from one `initialize` to the next.

    A server without sessions has one too; it just has no id.
    """

    id: str | None
    opening: dict[str, Json]
    """The parameters of `initialize`."""
    version: str | None = None
    listening: trio.CancelScope = field(factory=trio.CancelScope)
    """In which the stream of the server's own messages is read."""
    settings: SessionSettings = field(factory=SessionSettings)
    """What its requests have made of it."""

    @property
    def headers(self) -> Headers:
        headers: dict[str, str | bytes] = {}
        if self.id is not None:
            headers[SESSION_HEADER] = self.id
        if self.version is not None:
            headers[VERSION_HEADER] = self.version
        return headers


def session_id(value: str | None) -> str | None:
    """Check a session's id, or raise `ProtocolError` for characters that it must not have."""
    if value is not None and not _SESSION_ID.fullmatch(value):
        raise ProtocolError("the server gave the session an id that is not visible ASCII")
    return value


@define(eq=False, kw_only=True)
class PendingRequest(OutgoingRequest):
    """A request of ours that travels in a POST of its own."""

    modern: bool
    headers: Headers = field(repr=False)
    session: Session | None
    """What it belongs to, in legacy revisions; for `initialize`, what it has begun."""
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    """Cancelled once there is nothing more to wait for."""
    sent: bool = False
    delivered: bool = False
    """Whether the server has taken it."""
    reads_on: bool = False
    """Whether it ends with its stream, and not with its response."""

    def wake(self) -> None:
        if not self.reads_on:
            self.scope.cancel()
