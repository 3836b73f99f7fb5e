"""What a new server needs to know of a client, without I/O.

A legacy client shakes hands once. Its handshake, log level and subscriptions are kept and repeated
to each new server, whose answers the client does not get. Requests that a server leaves unanswered
get an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from trio_mcp.peer.cancellation import read_cancellation
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError
from trio_mcp.wire.jsonrpc import (
    Batch,
    Id,
    Json,
    Message,
    Notification,
    Request,
    Response,
    Single,
    decode,
    encode,
    error_line,
)
from trio_mcp.wire.methods import LISTS
from trio_mcp.wire.settings import SessionSettings

_OURS: Final = "trio-mcp reload "


class ClientState:
    """One client, as far as a new server has to know it."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._handshake: dict[str, Json] | None = None
        self._settings = SessionSettings()
        self._initialized = False
        self._capabilities: dict[str, Json] = {}
        self._initialize_id: Id | None = None
        self.open: dict[Id, None] = {}
        """Unanswered requests."""
        self.repeating: set[Id] = set()
        """Our own unanswered requests."""

    def heard(self, line: bytes) -> None:
        """Note a message of the client."""
        for message in _singles(decode(line)):
            if isinstance(message, Request):
                self.open[message.id] = None
                if message.method == "initialize":
                    self._initialize_id, self._handshake = message.id, message.params
                elif "_meta" not in message.params:  # a modern request stands for itself
                    self._settings.note(message.method, message.params)
            elif isinstance(message, Notification):
                if message.method == "notifications/initialized":
                    self._initialized = True
                elif (params := read_cancellation(message)) is not None:
                    self.open.pop(params.request_id, None)

    def said(self, line: bytes) -> bytes | None:
        """Note a line of the server; return it if it is for the client."""
        for message in _singles(decode(line)):
            if not isinstance(message, Response):
                continue
            if message.id in self.repeating:
                self.repeating.discard(message.id)
                return None
            self.open.pop(message.id, None)
            if message.id == self._initialize_id and isinstance(message.result, dict):
                self._capabilities = message.result.get("capabilities") or {}
        return line

    def handshake(self) -> Iterator[bytes]:
        """Yield the lines that a new server needs first."""
        if self._handshake is not None:
            yield self._again("initialize", self._handshake)
            if self._initialized:
                yield encode({"jsonrpc": "2.0", "method": "notifications/initialized"})
        for method, params in self._settings:
            yield self._again(method, params)

    def _again(self, method: str, params: dict[str, Json]) -> bytes:
        id = f"{_OURS}{next(self._numbers)}"
        self.repeating.add(id)
        return encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def changes(self) -> Iterator[bytes]:
        """Yield notifications that the lists may have changed."""
        for kind in dict.fromkeys(kind for kind, _ in LISTS.values()):
            declared = self._capabilities.get(kind)
            if self._initialized and isinstance(declared, dict) and declared.get("listChanged"):
                method = f"notifications/{kind}/list_changed"
                yield encode({"jsonrpc": "2.0", "method": method})

    def unanswered(self, why: str) -> Iterator[bytes]:
        """Yield errors for the requests that a server left unanswered."""
        self.repeating.clear()
        for id in list(self.open):
            del self.open[id]
            yield error_line(id, McpError(INTERNAL_ERROR, why))


def _singles(message: Message | None) -> list[Single]:
    if message is None:
        return []
    return list(message.messages) if isinstance(message, Batch) else [message]
