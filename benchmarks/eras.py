"""What is said to a server: how a conversation opens, how the echo tool is called, and the rest.

Calls are bytes that are ready before the clock starts. All of them have the same length, since
their ids have the same number of digits, so that a run of calls is one slice of one blob.
"""

import json
from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

TEXT = "thirty-two characters of a text."
FIRST_ID = 1_000_000
MAX_CALLS = 9 * FIRST_ID
"""With more of them the ids would have another digit."""

_CLIENT = {"name": "benchmark", "version": "1.0"}


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


@frozen
class Era:
    """One way to speak to a server."""

    name: str
    opening: Sequence[bytes]
    """The first line is a request and its answer is awaited; the others are notifications."""
    meta: dict[str, Any] = field(factory=dict)

    def request(self, id: int, method: str, params: dict[str, Any]) -> bytes:
        """Make one request; a `_meta` of its own is added to that of the era."""
        meta = {**self.meta.get("_meta", {}), **params.get("_meta", {})}
        whole = {**params, "_meta": meta} if meta else params
        return _line({"id": id, "method": method, "params": whole})

    def notification(self, method: str, params: dict[str, Any]) -> bytes:
        """Make one notification."""
        return _line({"method": method, "params": {**params, **self.meta}})

    def calls(self, count: int, first_id: int = FIRST_ID, tool: str = "echo") -> "Calls":
        """Make `count` calls with consecutive ids."""
        params = {"name": tool, "arguments": {"text": TEXT}}
        return self.requests("tools/call", params, count, first_id)

    def requests(
        self, method: str, params: dict[str, Any], count: int, first_id: int = FIRST_ID
    ) -> "Calls":
        """Make `count` requests of a kind with consecutive ids."""
        if first_id < FIRST_ID or first_id + count > FIRST_ID + MAX_CALLS:
            raise ValueError("the ids would differ in length")
        head, tail = self.request(0, method, params).split(b'"id":0', 1)
        numbers = range(first_id, first_id + count)
        blob = b"".join([b'%b"id":%d%b' % (head, number, tail) for number in numbers])
        return Calls(blob, first_id, count)


@frozen
class Calls:
    """Calls with consecutive ids, as the bytes that go to the server."""

    blob: bytes
    first_id: int
    count: int

    @property
    def size(self) -> int:
        """Bytes of one call."""
        return len(self.blob) // self.count


_META = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": _CLIENT,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}
_INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": _CLIENT}

LEGACY = Era(
    "2025-06-18",
    [
        _line({"id": 0, "method": "initialize", "params": _INITIALIZE}),
        _line({"method": "notifications/initialized"}),
    ],
)
MODERN = Era(
    "2026-07-28",
    [_line({"id": 0, "method": "server/discover", "params": _META})],
    _META,
)
