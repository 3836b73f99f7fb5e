"""A line without end: what it does to the memory of our server."""

import json

from attrs import frozen

from benchmarks.contest import Caller
from benchmarks.load import LoadError, write_all
from benchmarks.peers import Peer
from benchmarks.processes import Server, running

MIB = 1024 * 1024
LIMIT = 10 * MIB
"""The longest line that the server accepts by default, in bytes."""

_SENT = 200_000_000
_PIECE = b"x" * (1 << 16)
_LIFETIME = 60.0


@frozen
class Endless:
    """How the server's peak memory grew, in bytes."""

    sent: int = 0
    growth: int | None = None
    missing: str = ""
    """Why it could not be measured."""


def feed_endless_line(peer: Peer) -> Endless:
    """Send 200 MB without a newline, then end the line and see that the server still serves."""
    if peer.missing:
        return Endless(missing=peer.missing)
    with running(peer.command, lifetime=_LIFETIME) as server:
        try:
            return _feed(server, Caller(server, peer.era))
        except (LoadError, OSError, ValueError, LookupError) as error:
            return Endless(missing=server.last_words() or str(error))


def _feed(server: Server, caller: Caller) -> Endless:
    caller.open()
    caller.check()
    before = server.peak_memory()
    sent = 0
    while sent < _SENT:
        write_all(server.writer, _PIECE)
        sent += len(_PIECE)
    write_all(server.writer, b"\n")
    if "error" not in json.loads(server.lines.read()):
        raise LoadError("the line was not answered with an error")
    caller.check()
    after = server.peak_memory()
    return Endless(sent, None if before is None or after is None else after - before)
