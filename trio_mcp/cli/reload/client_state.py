"""What a client has told a server that a new server has to hear as well, without I/O.

A legacy client shakes hands once. So its handshake is kept, with its log level and subscriptions,
and said again to each new server, whose answers the client never sees. Requests that a server
leaves behind unanswered are answered with an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

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
        """The requests that are not answered yet."""
        self.repeating: set[Id] = set()
        """Those of ours that a new server has not answered yet."""

    def heard(self, line: bytes) -> None:
        """Take note of what the client says."""
        for message in _singles(decode(line)):
            if isinstance(message, Request):
                self.open[message.id] = None
                self._keep(message)
            elif isinstance(message, Notification):
                if message.method == "notifications/initialized":
                    self._initialized = True
                elif message.method == "notifications/cancelled":
                    self._forget(message.params.get("requestId"))

    def said(self, line: bytes) -> bytes | None:
        """Take note of what the server says; return what the client shall hear of it."""
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
        """What a new server has to hear first, line by line."""
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
        """What the client has to hear of a new server: that its lists may be other ones."""
        for kind in dict.fromkeys(kind for kind, _ in LISTS.values()):
            declared = self._capabilities.get(kind)
            if self._initialized and isinstance(declared, dict) and declared.get("listChanged"):
                method = f"notifications/{kind}/list_changed"
                yield encode({"jsonrpc": "2.0", "method": method})

    def unanswered(self, why: str) -> Iterator[bytes]:
        """The answers to requests that a server has left behind."""
        self.repeating.clear()
        for id in list(self.open):
            del self.open[id]
            yield error_line(id, McpError(INTERNAL_ERROR, why))

    def _keep(self, request: Request) -> None:
        if "_meta" in request.params and request.method != "initialize":
            return  # a modern request stands for itself
        if request.method == "initialize":
            self._initialize_id, self._handshake = request.id, request.params
        else:
            self._settings.note(request.method, request.params)

    def _forget(self, id: Json) -> None:
        if isinstance(id, str | int):
            self.open.pop(id, None)


def _singles(message: Message | None) -> list[Single]:
    if message is None:
        return []
    return list(message.messages) if isinstance(message, Batch) else [message]
