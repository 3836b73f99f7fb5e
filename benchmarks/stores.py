"""What a store costs: each of its operations, requests over HTTP, an update told to many clients.

Without a store, a session is known to its process only. With one, every instance that has the same
store can serve it. The load is that of the HTTP benchmark.
"""

import shutil
import subprocess
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from time import perf_counter

from attrs import evolve, frozen

from benchmarks import fan_out, operations
from benchmarks.backends import KINDS, backend, missing
from benchmarks.chart import Panel
from benchmarks.columns import Column, bars, measurements, table_beside
from benchmarks.contest import Outcome, in_rounds
from benchmarks.figures import targets_table
from benchmarks.load import LoadError
from benchmarks.peers import Peer, python_server
from benchmarks.processes import cpu_seconds
from benchmarks.report import Report, measuring, run_alone
from benchmarks.tokens import Headers
from benchmarks.wrk import CONNECTIONS, call, check, load, new_sessions, serving

NONE = "trio-mcp, no store"
_STORES = {f"trio-mcp, {kind}": kind for kind in KINDS}
_BEGUN = 200


@frozen
class Requests:
    """What requests of one kind cost with one store."""

    rate: float
    p99: float
    """Seconds."""
    cpu: float | None
    """Seconds of the server's processor time for each."""
    operations: float
    """Of the store, for each."""


@frozen
class Sample:
    """What one round measured with one store."""

    session: Requests
    """Calls of a session of revision 2025-11-25."""
    modern: Requests
    begin: float
    """Seconds that it takes to begin a session."""
    begin_operations: float


SESSION: Sequence[Column[Sample]] = (
    Column("rate", "req/s", lambda s: s.session.rate, 1, ",.0f"),
    Column("p99", "p99 ms", lambda s: s.session.p99, 1e3, ".1f"),
    Column("cpu", "CPU µs", lambda s: s.session.cpu, 1e6, ",.0f"),
    Column("operations", "store ops", lambda s: s.session.operations, 1, ".1f"),
    Column("begin", "new session ms", lambda s: s.begin, 1e3, ",.2f"),
    Column("begin_operations", "store ops for it", lambda s: s.begin_operations, 1, ".1f"),
)
MODERN: Sequence[Column[Sample]] = (
    Column("modern_rate", "req/s", lambda s: s.modern.rate, 1, ",.0f"),
    Column("modern_p99", "p99 ms", lambda s: s.modern.p99, 1e3, ".1f"),
    Column("modern_cpu", "CPU µs", lambda s: s.modern.cpu, 1e6, ",.0f"),
    Column("modern_operations", "store ops", lambda s: s.modern.operations, 1, ".1f"),
)
COLUMNS = (*SESSION, *MODERN)


def peers() -> list[Peer]:
    """Name what is compared."""
    command = python_server("http_trio_mcp_shared.py")
    found = [Peer(NONE, command)]
    return [*found, *(Peer(name, command, missing=missing(_STORES[name])) for name in _STORES)]


@contextmanager
def store_of(peer: Peer) -> Iterator[Peer]:
    """Give a server that wants one a store that nobody has used yet."""
    if peer.name == NONE:
        yield peer
        return
    with backend(_STORES[peer.name]) as there:
        arguments = [*peer.command.arguments, there.url]
        yield evolve(peer, command=evolve(peer.command, arguments=arguments))


def take(peer: Peer, seconds: float) -> Sample:
    """Start a server and what it stores in, measure it, end it.

    Args:
        peer: What is measured.
        seconds: How long the load of each kind lasts, about; a second at least.

    Raises:
        LoadError: It did not start or did not answer properly, or there is no load generator.
    """
    if shutil.which("wrk") is None:
        raise LoadError("the load generator wrk is not installed")
    try:
        with store_of(peer) as ready, serving(ready) as (port, pid):
            senders = new_sessions(port, repeat({}, 1))
            before, begun = _operations(port), perf_counter()
            new_sessions(port, repeat({}, _BEGUN))
            begin = (perf_counter() - begun) / _BEGUN
            begin_operations = (_operations(port) - before) / _BEGUN
            session = _requests(port, pid, seconds, senders)
            modern = _requests(port, pid, seconds, [])
    except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        raise LoadError(str(error)) from error
    return Sample(session, modern, begin, begin_operations)


def _requests(port: int, pid: int, seconds: float, senders: Sequence[Headers]) -> Requests:
    """Measure calls: of sessions if there are any, modern ones if not."""
    size = check(port, senders, legacy=bool(senders))
    operations, before = _operations(port), cpu_seconds(pid)
    found = load(port, seconds, senders, size=size, legacy=bool(senders))
    after = cpu_seconds(pid)
    cpu = None if before is None or after is None else (after - before) / found.count
    asked = (_operations(port) - operations) / found.count
    return Requests(found.rate, found.p99, cpu, asked)


def _operations(port: int) -> int:
    """Ask a server how many operations of its store there were."""
    return int(call(port, "operations")["content"][0]["text"])


def stores_table(outcomes: Sequence[Outcome[Sample]]) -> str:
    """Lay out the medians, and the throughput beside that without a store."""
    kinds = {"a session's calls": SESSION, "modern calls": MODERN}
    return "\n\n".join(
        table_beside(
            f"{what}, {CONNECTIONS} connections", outcomes, columns, columns[0], NONE, "× without"
        )
        for what, columns in kinds.items()
    )


add_options = measuring(budget=True)


def run(options: Namespace) -> Report:
    """Measure, and return the report."""
    how = {"rounds": options.rounds, "budget": options.budget}
    single = in_rounds(operations.peers(), operations.take, seconds=options.seconds / 10, **how)
    outcomes = in_rounds(peers(), take, seconds=options.seconds / 2, **how)  # two kinds of calls
    told = in_rounds(fan_out.peers(), fan_out.take, seconds=options.seconds, **how)
    tables = [
        stores_table(outcomes),
        operations.operations_tables(single),
        fan_out.fan_out_table(told),
        targets_table(fan_out.targets(told)),
    ]
    figures = {
        **measurements(outcomes, COLUMNS),
        "operations": measurements(single, operations.COLUMNS),
        "fan out": measurements(told, fan_out.COLUMNS),
    }
    panel = Panel("calls of a session per second, by its store", bars(outcomes, SESSION[0]))
    return Report("stores", "\n\n".join(tables), [panel], figures)


def main(arguments: Sequence[str] | None = None) -> None:
    run_alone("stores", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    main()
