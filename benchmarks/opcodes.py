"""How many opcodes of Python a call takes at the server, and whose code they are in.

python -m benchmarks.opcodes

They are counted, not timed, so a busy machine changes the figures only as far as more or fewer
requests are read together. What C extensions and the system do is not in them.
"""

import json
import os
import signal
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep

from attrs import evolve

from benchmarks import http
from benchmarks.contest import PILOT, WINDOW, Caller
from benchmarks.eras import FIRST_ID, MODERN
from benchmarks.load import LoadError
from benchmarks.peers import OURS, OURS_MODERN, OURS_WAITS, Peer, peers, python_server
from benchmarks.processes import Command, running
from benchmarks.records import recording, show
from benchmarks.wrk import MODERN_HEADERS, serving

CALLS = 2000
_LIFETIME = 120.0
_PATIENCE = 30.0
_POLL = 0.01
_OWNERS = ("Trio", "trio-mcp", "others")

Counts = Mapping[str, float]
"""Opcodes of one call, by whose code it is."""


def counted(command: Command, file: Path) -> Command:
    """Have a program count its opcodes into a file."""
    _, *program = command.arguments
    return evolve(command, arguments=[*python_server("counted.py", str(file)).arguments, *program])


def counts_of(pid: int, file: Path, work: Callable[[], int]) -> Counts:
    """Return what a program counts for each call while some are made."""
    _read(pid, file)
    calls = work()
    return {name: count / calls for name, count in _read(pid, file).items()}


def _read(pid: int, file: Path) -> Mapping[str, int]:
    os.kill(pid, signal.SIGUSR1)
    end = monotonic() + _PATIENCE
    while not file.exists():
        if monotonic() > end:
            raise LoadError("the server does not say what it has counted")
        sleep(_POLL)
    found: Mapping[str, int] = json.loads(file.read_text())
    file.unlink()
    return found


def on_stdio(peer: Peer, window: int, file: Path) -> Counts:
    """Count for calls of a server on stdio, with so many in flight."""
    with running(counted(peer.command, file), lifetime=_LIFETIME, pinned=False) as server:
        caller = Caller(server, peer.era)
        caller.open()
        caller.run(PILOT, window)
        return counts_of(server.process.pid, file, lambda: caller.run(CALLS, window).count)


def over_http(peer: Peer, file: Path) -> Counts:
    """Count for calls of a server over HTTP, one at a time on one connection."""
    headers = {**MODERN_HEADERS, **(next(http.ISSUER.bearers()) if peer.name == http.JWT else {})}
    with (
        serving(evolve(peer, command=counted(peer.command, file))) as (port, pid),
        closing(HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)) as connection,
    ):

        def call(count: int) -> int:
            for id in range(count):
                line = MODERN.calls(1, FIRST_ID + id).blob
                connection.request("POST", "/mcp", line, headers)
                if json.loads(connection.getresponse().read())["id"] != FIRST_ID + id:
                    raise LoadError("an answer was not asked for")
            return count

        call(PILOT)
        return counts_of(pid, file, partial(call, CALLS))


def measure() -> list[list[str]]:
    """Count all of it; return the rows of the table."""
    stdio = {peer.name: peer for peer in peers(install=False)}
    served = {peer.name: peer for peer in http.peers(install=False)}
    kinds: dict[str, Callable[[Path], Counts]] = {
        "on stdio, one at a time": partial(on_stdio, stdio[OURS], 1),
        f"on stdio, @{WINDOW}": partial(on_stdio, stdio[OURS], WINDOW),
        f"on stdio, @{WINDOW}, that waits once": partial(on_stdio, stdio[OURS_WAITS], WINDOW),
        f"on stdio, @{WINDOW}, modern": partial(on_stdio, stdio[OURS_MODERN], WINDOW),
        "over HTTP, one at a time, modern": partial(over_http, served[http.OURS]),
        "over HTTP, one at a time, modern, with a JWT": partial(over_http, served[http.JWT]),
    }
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, count in kinds.items():
            counts = count(Path(folder, "counts"))
            figures = [sum(counts.values()), *(counts.get(owner, 0) for owner in _OWNERS)]
            rows.append([kind, *(f"{figure:,.0f}" for figure in figures)])
    return rows


def main() -> None:
    options = recording("opcodes", __doc__)
    headers = ["A call of an echo", "opcodes", *(f"in {owner}" for owner in _OWNERS)]
    show(headers, measure(), options.record)


if __name__ == "__main__":
    main()
