"""What can be said to any server, and what can come back."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final, Literal

from attrs import frozen

from trio_mcp.wire.jsonrpc import Id, Json
from trio_mcp.wire.revisions import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_VERSION,
    NEWEST,
)

Era = Literal["modern", "legacy"]

CLIENT: Final[dict[str, Json]] = {"name": "trio-mcp", "version": "0.1.0"}


@frozen(kw_only=True)
class Waits:
    """How long a server is waited for, in seconds."""

    answer: float = 10.0
    """For an answer to a request."""
    reaction: float = 1.0
    """For whatever it has to say to something that is no message."""


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
    def code(self) -> Json:
        """The code of the error."""
        return self.error.get("code") if isinstance(self.error, dict) else None

    @property
    def message(self) -> str:
        """The error's own words."""
        return str(self.error.get("message")) if isinstance(self.error, dict) else ""


class Probe(ABC):
    """A way to say anything to one server.

    Args:
        era: Whether requests get the `_meta` of a modern revision.
        waits: How long the server is waited for.
    """

    def __init__(self, era: Era, waits: Waits) -> None:
        self.era: Final = era
        self.waits: Final = waits
        self.noise: Final[list[bytes]] = []
        """What came that is no message."""
        self.questions: Final[list[str]] = []
        """The methods of requests that came."""
        self.strays: Final[list[Json]] = []
        """The ids of answers that came although nobody waits for them."""
        self._ids: Iterator[int] = itertools.count(1)

    @property
    @abstractmethod
    def gone(self) -> str | None:
        """How the server ended, if it has."""

    @abstractmethod
    async def ask(
        self, method: str, params: dict[str, Json] | None = None, *, patience: float | None = None
    ) -> Answer | None:
        """Send a request; `None` if there is no answer in time, or will never be one.

        Args:
            method: The method.
            params: Its parameters.
            patience: Seconds to wait, in place of `Waits.answer`.
        """

    @abstractmethod
    async def tell(self, method: str, params: dict[str, Json] | None = None) -> Answer | None:
        """Send a notification; over HTTP, there is something of a reply."""

    @abstractmethod
    async def throw(self, data: bytes) -> Answer | None:
        """Send something that is no message, and see what comes back."""

    def next_id(self) -> Id:
        """An id that is new: strings and integers by turns, as both are allowed."""
        number = next(self._ids)
        return number if number % 2 else f"request-{number}"

    def request(self, method: str, params: dict[str, Json] | None, id: Id) -> dict[str, Json]:
        """Make a request, as its era has it."""
        full = dict(params or {})
        if self.era == "modern":
            full["_meta"] = {**modern_meta(), **full.get("_meta", {})}
            full["_meta"] = {key: each for key, each in full["_meta"].items() if each is not None}
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": full}


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
