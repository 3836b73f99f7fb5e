"""What a store costs: beginning a legacy session, and its calls, with no store and with each kind.

Without a store, a session is known to its process only. With one, every instance that has the same
store can serve it. The load is that of the HTTP benchmark.
"""

import shutil
import socket
import subprocess
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path
from time import monotonic, perf_counter, sleep

from attrs import evolve, frozen

from benchmarks.chart import Panel
from benchmarks.columns import Column, bars, measurements, table_beside
from benchmarks.contest import Outcome, in_rounds
from benchmarks.load import LoadError
from benchmarks.peers import Peer, python_server
from benchmarks.processes import cpu_seconds
from benchmarks.report import Report, run_alone
from benchmarks.wrk import CONNECTIONS, LoadFailed, load, new_sessions, serving

NONE, MEMORY, SQLITE, REDIS = (
    f"trio-mcp, {each}" for each in ("no store", "memory", "SQLite", "Redis")
)
_MOST_ROUNDS = 2
_REDIS_SECONDS = 10.0
_BEGUN = 200


@frozen
class Sample:
    """What one round measured with one store."""

    rate: float
    p99: float
    """Seconds."""
    cpu: float | None
    """Seconds of the server's processor time for each request."""
    begin: float
    """Seconds that it takes to begin a session."""


COLUMNS: Sequence[Column[Sample]] = (
    Column("rate", "req/s", lambda s: s.rate, 1, ",.0f"),
    Column("p99", "p99 ms", lambda s: s.p99, 1e3, ".1f"),
    Column("cpu", "CPU µs", lambda s: s.cpu, 1e6, ",.0f"),
    Column("begin", "new session ms", lambda s: s.begin, 1e3, ",.2f"),
)


def peers() -> list[Peer]:
    """Name what is compared."""
    script = "http_trio_mcp_shared.py"
    found = [Peer(NONE, python_server(script))]
    found += [Peer(name, python_server(script, "memory:")) for name in (MEMORY, SQLITE, REDIS)]
    if shutil.which("redis-server") is None:
        found[-1] = found[-1].lacking("redis-server is not installed")
    return found


@contextmanager
def store_of(peer: Peer) -> Iterator[Peer]:
    """Give a server that wants one a store that nobody has used yet."""
    with tempfile.TemporaryDirectory() as folder:
        if peer.name == REDIS:
            with redis(folder) as url:
                yield _with_store(peer, url)
        elif peer.name == SQLITE:
            yield _with_store(peer, str(Path(folder, "store.db")))
        else:
            yield peer


def _with_store(peer: Peer, url: str) -> Peer:
    arguments = [*peer.command.arguments[:-1], url]
    return evolve(peer, command=evolve(peer.command, arguments=arguments))


@contextmanager
def redis(folder: str) -> Iterator[str]:
    """Run a Redis server that writes nothing to disk; yields its URL.

    Raises:
        LoadError: It does not start.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--bind", "127.0.0.1", "--save", "", "--dir", folder, "--loglevel", "warning"]
    command = ["redis-server", "--port", str(port), *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            _wait_until_up(port, process)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.kill()


def _wait_until_up(port: int, process: "subprocess.Popen[bytes]") -> None:
    end = monotonic() + _REDIS_SECONDS
    while monotonic() < end and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        sleep(0.02)
    raise LoadError("redis-server does not start")


def take(peer: Peer, seconds: float) -> Sample:
    """Start a server and what it stores in, measure it, end it.

    Args:
        peer: What is measured.
        seconds: How long the load lasts, about; a second at least.

    Raises:
        LoadError: It did not start or did not answer properly, or there is no load generator.
    """
    if shutil.which("wrk") is None:
        raise LoadError("the load generator wrk is not installed")
    try:
        with store_of(peer) as ready, serving(ready) as (port, pid):
            senders = new_sessions(port, repeat({}, 1))
            begun = perf_counter()
            new_sessions(port, repeat({}, _BEGUN))
            begin = (perf_counter() - begun) / _BEGUN
            if seconds:
                load(port, 1, senders, legacy=True)
            before = cpu_seconds(pid)
            found = load(port, seconds, senders, legacy=True)
            after = cpu_seconds(pid)
    except (LoadFailed, OSError, ValueError, subprocess.SubprocessError) as error:
        raise LoadError(str(error)) from error
    cpu = None if before is None or after is None else (after - before) / found.count
    return Sample(found.rate, found.p99, cpu, begin)


def stores_table(outcomes: Sequence[Outcome[Sample]]) -> str:
    """Lay out the medians, and the throughput beside that without a store."""
    what = f"a session's calls, {CONNECTIONS} connections"
    return table_beside(what, outcomes, COLUMNS, COLUMNS[0], NONE, "× without")


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=2, help="how often each is measured")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--budget", type=float, default=30.0, help="seconds; no round starts later")


def run(options: Namespace) -> Report:
    """Measure, and return the report."""
    outcomes = in_rounds(
        peers(),
        take,
        rounds=min(options.rounds, _MOST_ROUNDS),
        seconds=options.seconds,
        budget=options.budget,
    )
    panel = Panel("calls of a session per second, by its store", bars(outcomes, COLUMNS[0]))
    return Report("stores", stores_table(outcomes), [panel], measurements(outcomes, COLUMNS))


def main(arguments: Sequence[str] | None = None) -> None:
    run_alone("stores", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    main()
