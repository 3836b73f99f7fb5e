"""A connection on which anything can be sent, and what a server may answer."""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Final

from attrs import field, frozen

from trio_mcp.cli.schemas import member
from trio_mcp.version import __version__
from trio_mcp.wire.jsonrpc import Id, Json
from trio_mcp.wire.revisions import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_VERSION,
    NEWEST,
    Era,
)

CLIENT: Final[dict[str, Json]] = {"name": "trio-mcp", "version": __version__}
_MAX_KEPT: Final = 64 * 1024
_MAX_REQUESTS: Final = 100


@frozen(kw_only=True)
class Timeouts:
    """How long to wait for a server, in seconds."""

    answer: float = 10.0
    """For an answer to a request."""
    reaction: float = 0.3
    """For its reaction to malformed data, once it has answered the request behind it."""
    exit: float = 1.0
    """For its exit, once it has closed a pipe."""


def _beginning(line: bytes) -> bytes:
    return line[:_MAX_KEPT]


@frozen
class Noise:
    """A line or body of a server that is not a valid message, or its beginning."""

    line: bytes = field(converter=_beginning)
    fault: str | None = None
    """What is wrong with it, if it was meant to be one."""


@frozen(kw_only=True)
class Answer:
    """The answer to a request: a result or an error, unchecked."""

    result: Json = None
    error: Json = None
    status: int | None = None
    headers: dict[str, str] | None = field(default=None, repr=False)
    """Over HTTP, some of the headers of the reply."""
    seconds: float = 0.0

    @property
    def is_complete(self) -> bool:
        return self.error is not None or self.result is not None

    @property
    def code(self) -> Json:
        return self.error.get("code") if isinstance(self.error, dict) else None

    @property
    def message(self) -> str:
        return member(self.error, "message", str)


@frozen
class Reaction:
    """What a server did about malformed data."""

    answer: Answer | None
    alive: Answer | None
    """The answer to the request behind it."""


class Probe(ABC):
    """Sends anything to one server."""

    on_lines: bool
    """Whether a message is a line (or else a body)."""

    def __init__(self, era: Era, timeouts: Timeouts) -> None:
        self.era: Final = era
        self.timeouts: Final = timeouts
        self.stray: Final[list[Noise]] = []
        self.requests_received: Final[deque[str]] = deque(maxlen=_MAX_REQUESTS)
        """The methods of the last ones."""
        self.stuck = False
        """Whether the server does not read what it is sent."""
        self.stray_answers: Final[list[Json]] = []
        """The ids of answers to no request."""
        self.repeated_answers: Final[list[Json]] = []
        """The ids of second answers."""
        self.version: str | None = None
        """The revision that a handshake agreed on."""
        self._ids: Iterator[int] = itertools.count(1)

    @property
    @abstractmethod
    def gone(self) -> str | None:
        """How the server ended, if it has."""

    async def send_request(
        self, method: str, params: dict[str, Json] | None = None, *, timeout: float | None = None
    ) -> Answer | None:
        """Send a request; return `None` if no answer arrives in time."""
        return await self.send(self.make_request(method, params), timeout)

    async def send_notification(self, method: str) -> Answer | None:
        """Send a notification; over HTTP, return the reply."""
        return await self.send({"jsonrpc": "2.0", "method": method})

    @abstractmethod
    async def send(self, message: dict[str, Json], timeout: float | None = None) -> Answer | None:
        """Send a message, and wait for its answer."""

    @abstractmethod
    async def send_malformed(self, data: bytes, then: str, id: Id | None = None) -> Reaction:
        """Send malformed data, and a request right behind it: who answers that has read both."""

    def next_id(self) -> Id:
        """Return a new id: strings and integers in turn, as both are allowed."""
        number = next(self._ids)
        return number if number % 2 else f"request-{number}"

    def make_request(self, method: str, params: dict[str, Json] | None) -> dict[str, Json]:
        full = dict(params or {})
        if self.era == "modern":
            full["_meta"] = {**modern_meta(), **full.get("_meta", {})}
            full["_meta"] = {key: each for key, each in full["_meta"].items() if each is not None}
        return {"jsonrpc": "2.0", "id": self.next_id(), "method": method, "params": full}


def read_message(line: bytes) -> tuple[dict[str, Json] | None, Noise | None]:
    """Parse a message leniently, and note what a strict client would refuse."""
    faults = []
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = line.decode("utf-8", "replace")
        faults.append("it is not UTF-8")
    if text.startswith("\ufeff"):
        faults.append("it begins with a byte order mark")
    try:
        message = json.loads(
            text.removeprefix("\ufeff"),
            parse_constant=lambda name: faults.append(f"JSON has no {name}"),
        )
    except (ValueError, RecursionError):
        return None, Noise(line)
    if not isinstance(message, dict) or not message.keys() & {"method", "result", "error"}:
        return None, Noise(line)
    if message.get("jsonrpc") != "2.0":
        faults.append('it has no "jsonrpc": "2.0"')
    return message, Noise(line, faults[0]) if faults else None


def modern_meta(version: str = NEWEST.name) -> dict[str, Json]:
    return {META_VERSION: version, META_CLIENT_INFO: CLIENT, META_CLIENT_CAPABILITIES: {}}


def initialize_params(version: str) -> dict[str, Json]:
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
