"""The calls that a load consists of: the same one over and over, but for its id."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
from attrs import define, field, frozen

from trio_mcp.wire.jsonrpc import Json, encode

_FIRST_ID = 1_000_000_000
"""Ids have the same number of digits, so that all requests have the same length."""


@frozen
class Meeting:
    """What is known of a server after the handshake."""

    modern: bool
    tool: str
    arguments: dict[str, Json]
    meta: dict[str, Json] | None
    """The `_meta` of each request."""
    start_seconds: float | None = None
    """From the start of the process to its first answer."""

    @property
    def params(self) -> dict[str, Json]:
        """The parameters of each call."""
        params: dict[str, Json] = {"name": self.tool, "arguments": self.arguments}
        return params if self.meta is None else {**params, "_meta": self.meta}


@define
class Calls:
    """Makes the lines of calls, each with an id of its own."""

    _head: bytes
    _tail: bytes
    _next: int = field(default=_FIRST_ID, init=False)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Never ends."""
        return self

    def __next__(self) -> tuple[int, bytes]:
        """The next id, and its line."""
        id, self._next = self._next, self._next + 1
        return id, b"%b%d%b" % (self._head, id, self._tail)


def calls_of(meeting: Meeting) -> Calls:
    """Make the calls."""
    line = encode({"id": 0, "jsonrpc": "2.0", "method": "tools/call", "params": meeting.params})
    return Calls(b'{"id":', line.removeprefix(b'{"id":0'))


def outcome(line: bytes) -> tuple[Json, bool] | None:
    """The id that a line answers, and whether it is a success; `None` if it answers nothing."""
    try:
        message = orjson.loads(line)
    except ValueError:
        return None
    if not isinstance(message, dict) or "method" in message:
        return None
    result = message.get("result")
    return message.get("id"), isinstance(result, dict) and not result.get("isError", False)
