"""One process and two on one port: our server, and the official SDK on uvicorn.

The load generator needs a processor as well. Where there are only two, two processes cannot serve
twice as much, and the processor time for each request says more than the requests per second.
"""

import shutil
import subprocess
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from time import monotonic, sleep

from attrs import evolve, frozen

from benchmarks.chart import Panel
from benchmarks.columns import Column, bars, measurements, ratio, table_beside
from benchmarks.contest import Outcome, in_rounds
from benchmarks.figures import Target, targets_table
from benchmarks.load import LoadError
from benchmarks.peers import Peer, find_python, python_server
from benchmarks.processes import cpu_seconds
from benchmarks.report import Report, measuring, run_alone
from benchmarks.wrk import CONNECTIONS, check, load, serving

OURS = {1: "trio-mcp, 1 process", 2: "trio-mcp, 2 processes"}
PYTHON = {1: "Python SDK on uvicorn, 1 process", 2: "Python SDK on uvicorn, 2 processes"}
_START_SECONDS = 120.0
_IDLE = 0.03
"""Seconds of processor time in half a second: who uses less is not starting."""


@frozen
class Sample:
    """What one round measured of one server."""

    rate: float
    p99: float
    """Seconds."""
    cpu: float | None
    """Seconds of processor time for each request, of all processes together."""


COLUMNS: Sequence[Column[Sample]] = (
    Column("rate", "req/s", lambda s: s.rate, 1, ",.0f"),
    Column("p99", "p99 ms", lambda s: s.p99, 1e3, ".1f"),
    Column("cpu", "CPU µs", lambda s: s.cpu, 1e6, ",.0f"),
)


def peers() -> list[Peer]:
    """Name what is compared."""
    python = find_python()
    ours, theirs = "http_trio_mcp_workers.py", "http_python_sdk_workers.py"
    return [
        *(Peer(name, python_server(ours, str(number))) for number, name in OURS.items()),
        *(
            evolve(python, name=name, command=python_server(theirs, str(number)))
            for number, name in PYTHON.items()
        ),
    ]


def take(peer: Peer, seconds: float) -> Sample:
    """Start a server, measure it, end it.

    Args:
        peer: What is measured.
        seconds: How long the load lasts, about; a second at least.

    Raises:
        LoadError: It did not start or did not answer properly, or there is no load generator.
    """
    if shutil.which("wrk") is None:
        raise LoadError("the load generator wrk is not installed")
    try:
        with serving(peer) as (port, pid):
            wait_for_an_answer(port)
            _wait_until_idle(pid)
            size = check(port, [])
            before = cpu_seconds(pid)
            found = load(port, seconds, [], size=size)
            after = cpu_seconds(pid)
    except (OSError, ValueError, HTTPException, subprocess.SubprocessError) as error:
        raise LoadError(str(error)) from error
    cpu = None if before is None or after is None else (after - before) / found.count
    return Sample(found.rate, found.p99, cpu)


def wait_for_an_answer(port: int) -> None:
    """Wait until a process serves: the socket listens before there is one."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=_START_SECONDS)) as connection:
        connection.request("GET", "/")
        connection.getresponse().read()


def _wait_until_idle(pid: int) -> None:
    """Wait until none of the processes is still starting: one of them may answer before another."""
    end = monotonic() + _START_SECONDS
    used, now = 0.0, cpu_seconds(pid)
    while now is not None and now - used > _IDLE and monotonic() < end:
        sleep(0.5)
        used, now = now, cpu_seconds(pid)


def targets(outcomes: Sequence[Outcome[Sample]]) -> list[Target]:
    """Hold the figures against what was promised."""
    rate, _, cpu = COLUMNS
    found = []
    for number, name in OURS.items():
        figure, reason = ratio(outcomes, rate, name, PYTHON[number])
        found.append(Target(f"requests/s to {PYTHON[number]}", 3.2, figure, True, reason))
    for text, column, bound, is_least in (
        ("requests/s, 2 processes to one", rate, 1.9, True),
        ("processor time, 2 processes to one", cpu, 1.18, False),
    ):
        figure, reason = ratio(outcomes, column, OURS[2], OURS[1])
        found.append(Target(text, bound, figure, is_least, reason))
    return found


def workers_table(outcomes: Sequence[Outcome[Sample]]) -> str:
    """Lay out the medians, and the throughput beside ours in one process."""
    what = f"HTTP, echo tool, {CONNECTIONS} connections"
    return table_beside(what, outcomes, COLUMNS, COLUMNS[0], OURS[1], "× ours")


add_options = measuring(budget=True)


def run(options: Namespace) -> Report:
    """Measure, and return the report."""
    outcomes = in_rounds(
        peers(),
        take,
        rounds=options.rounds,
        seconds=options.seconds,
        budget=options.budget,
    )
    text = f"{workers_table(outcomes)}\n\n{targets_table(targets(outcomes))}"
    panel = Panel("calls per second, by the number of processes", bars(outcomes, COLUMNS[0]))
    return Report("workers", text, [panel], measurements(outcomes, COLUMNS))


def main(arguments: Sequence[str] | None = None) -> None:
    run_alone("workers", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    main()
