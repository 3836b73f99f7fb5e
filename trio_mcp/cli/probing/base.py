"""What can be said to any server, and what can come back."""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final

from attrs import frozen

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


@frozen(kw_only=True)
class Timeouts:
    """How long a server is waited for, in seconds."""

    answer: float = 10.0
    """For an answer to a request."""
    reaction: float = 0.3
    """For whatever it has to say to something that is no message, after it has answered what came
    after that."""
    exit: float = 1.0
    """For its exit, after it has closed a pipe."""


@frozen
class Noise:
    """What a server wrote that is no message."""

    line: bytes
    fault: str | None = None
    """What is wrong with it, if it was meant to be one."""


@frozen(kw_only=True)
class Answer:
    """What a server answered to a request: a result or an error, as they came."""

    result: Json = None
    error: Json = None
    status: int | None = None
    """Over HTTP, the status of the reply."""
    headers: dict[str, str] | None = None
    """Over HTTP, some of the headers of the reply."""
    seconds: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether there is an error or a result in it."""
        return self.error is not None or self.result is not None

    @property
    def code(self) -> Json:
        """The code of the error."""
        return self.error.get("code") if isinstance(self.error, dict) else None

    @property
    def message(self) -> str:
        """The error's own words."""
        message = self.error.get("message") if isinstance(self.error, dict) else None
        return "" if message is None else str(message)


@frozen
class Reaction:
    """What became of something that is no proper message."""

    answer: Answer | None
    """What was said to it."""
    alive: Answer | None
    """What was answered to the request behind it."""


class Probe(ABC):
    """A way to say anything to one server.

    Args:
        era: Whether requests get the `_meta` of a modern revision.
        timeouts: How long the server is waited for.
    """

    on_lines: bool
    """Whether a message is a line (or else a body)."""

    def __init__(self, era: Era, timeouts: Timeouts) -> None:
        self.era: Final = era
        self.timeouts: Final = timeouts
        self.noise: Final[list[Noise]] = []
        """What came that is no message."""
        self.requests_received: Final[list[str]] = []
        """The methods of requests that came."""
        self.stray_answers: Final[list[Json]] = []
        """The ids of answers that came although nobody has asked."""
        self.repeated_answers: Final[list[Json]] = []
        """The ids of answers that came although there had been one."""
        self.version: str | None = None
        """The revision that was agreed on in a handshake."""
        self._ids: Iterator[int] = itertools.count(1)

    @property
    @abstractmethod
    def gone(self) -> str | None:
        """How the server ended, if it has."""

    async def send_request(
        self, method: str, params: dict[str, Json] | None = None, *, patience: float | None = None
    ) -> Answer | None:
        """Send a request; `None` if there is no answer in time, or will never be one.

        Args:
            method: The method.
            params: Its parameters.
            patience: Seconds to wait, in place of `Timeouts.answer`.
        """
        return await self.send(self.make_request(method, params), patience)

    async def send_notification(
        self, method: str, params: dict[str, Json] | None = None
    ) -> Answer | None:
        """Send a notification; over HTTP, there is something of a reply."""
        message: dict[str, Json] = {"jsonrpc": "2.0", "method": method}
        return await self.send(message if params is None else {**message, "params": params})

    @abstractmethod
    async def send(self, message: dict[str, Json], patience: float | None = None) -> Answer | None:
        """Send a message, and wait for what answers it."""

    @abstractmethod
    async def send_malformed(self, data: bytes, then: str, id: Id | None = None) -> Reaction:
        """Send something that is no proper message, and a request right behind it.

        A server that answers the request has seen what came before it; from then on it has
        `Timeouts.reaction` for that.

        Args:
            data: What to send.
            then: The method of the request.
            id: The id in the data, if there is one.
        """

    def next_id(self) -> Id:
        """An id that is new: strings and integers by turns, as both are allowed."""
        number = next(self._ids)
        return number if number % 2 else f"request-{number}"

    def make_request(self, method: str, params: dict[str, Json] | None) -> dict[str, Json]:
        """Make a request, as its era has it, with an id of its own."""
        full = dict(params or {})
        if self.era == "modern":
            full["_meta"] = {**modern_meta(), **full.get("_meta", {})}
            full["_meta"] = {key: each for key, each in full["_meta"].items() if each is not None}
        return {"jsonrpc": "2.0", "id": self.next_id(), "method": method, "params": full}


def read_message(line: bytes) -> tuple[dict[str, Json] | None, Noise | None]:
    """Read a message: as well as it goes, and what the strictest client has against it."""
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
    """The `_meta` of a modern request."""
    return {
        META_VERSION: version,
        META_CLIENT_INFO: CLIENT,
        META_CLIENT_CAPABILITIES: {},
    }


def initialize_params(version: str) -> dict[str, Json]:
    """The parameters of a legacy handshake."""
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
