"""Our client beside the official Python one, both calling our server; and without any pipe.

Every measurement is a process of its own, which starts its server, if it needs one. The official
client runs on either of its event loops, and the faster of the two counts.
"""

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import monotonic, time

from attrs import evolve, field, frozen

from benchmarks.chart import Bar, Panel
from benchmarks.clients.measure import WINDOW
from benchmarks.figures import Target, paired_ratio, spread, targets_table
from benchmarks.peers import Peer, find_python, python_server
from benchmarks.processes import Command
from benchmarks.report import Report, measuring, run_alone
from benchmarks.tables import table

_ROOT = Path(__file__).parent.parent
_LIFETIME = 60.0
_STARTED, _SECONDS = "{started}", "{seconds}"
"""Blanks in a command."""

OURS = "trio-mcp"
IN_PROCESS = "trio-mcp, in process"
ASYNCIO = "trio-mcp on asyncio"
OFFICIAL = ("Python SDK, asyncio", "Python SDK, Trio")

Sample = dict[str, float]
"""The figures of one measurement, in seconds and calls per second."""
Measure = Callable[[Peer, float], Sample]


class ClientFailed(Exception):
    """A client's process did not give its figures."""


@frozen
class Outcome:
    """A client and its samples, one per round; none if it is missing."""

    peer: Peer
    samples: Sequence[Sample] = field(factory=list)

    def values(self, key: str) -> list[float]:
        """Return one figure of every sample."""
        return [sample[key] for sample in self.samples]


@frozen
class Column:
    """One figure: its key in a sample, its title, and how it is written."""

    key: str
    title: str
    scale: float
    form: str

    def text(self, value: float) -> str:
        return format(value * self.scale, self.form)


COLUMNS = {
    column.key: column
    for column in (
        Column("start", "start ms", 1e3, ",.0f"),
        Column("connect", "connect ms", 1e3, ",.0f"),
        Column("p50", "p50 µs", 1e6, ",.0f"),
        Column("p99", "p99 µs", 1e6, ",.0f"),
        Column("rate", "calls/s", 1, ",.0f"),
        Column("cpu", "CPU µs", 1e6, ",.0f"),
        Column("p50_many", f"p50 µs @{WINDOW}", 1e6, ",.0f"),
        Column("p99_many", f"p99 µs @{WINDOW}", 1e6, ",.0f"),
        Column("rate_many", f"calls/s @{WINDOW}", 1, ",.0f"),
        Column("cpu_many", f"CPU µs @{WINDOW}", 1e6, ",.1f"),
    )
}


def clients() -> list[Peer]:
    """Name everybody who takes part, in the order of a round."""
    server = python_server("trio_mcp_echo.py").arguments
    python = find_python()
    return [
        Peer(OURS, _program("trio_mcp_client", server)),
        *(
            evolve(python, name=name, command=_program("python_sdk_client", server, loop))
            for name, loop in zip(OFFICIAL, ("asyncio", "trio"), strict=True)
        ),
        Peer(ASYNCIO, _program("trio_mcp_asyncio_client", server)),
        Peer(IN_PROCESS, _program("trio_mcp_client", [])),
    ]


def _program(name: str, server: Sequence[str], *options: str) -> Command:
    """One of our programs; `measure` fills in the blanks."""
    module = ["-m", f"benchmarks.clients.{name}"]
    command = [sys.executable, *module, *options, _STARTED, _SECONDS, *server]
    return Command(command, {"PYTHONPATH": str(_ROOT)})


def measure(peer: Peer, seconds: float) -> Sample:
    """Run a client's program and read its figures.

    Raises:
        ClientFailed: It failed, took too long, or did not print them.
    """
    blanks = {_STARTED: str(time()), _SECONDS: str(seconds)}
    command = [blanks.get(each, each) for each in peer.command.arguments]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **peer.command.environment},
            capture_output=True,
            text=True,
            timeout=_LIFETIME,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ClientFailed(f"no end after {_LIFETIME:.0f} s") from None
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise ClientFailed(said[-1] if said else f"exit code {done.returncode}")
    sample: Sample = json.loads(done.stdout)
    if sample.keys() != COLUMNS.keys():
        raise ClientFailed("its figures are not those that were asked for")
    return sample


def contest(
    peers: Sequence[Peer],
    *,
    rounds: int,
    seconds: float,
    budget: float,
    measure: Measure = measure,
) -> list[Outcome]:
    """Measure everybody in rounds; who cannot take part is in the outcome with the reason.

    Args:
        peers: Who takes part, in the order of a round.
        rounds: How often.
        seconds: How long a run of calls lasts, about.
        budget: Seconds after which no further round begins; one round there is always.
        measure: What takes a sample.
    """
    end = monotonic() + budget
    outcomes = [Outcome(peer) for peer in peers]
    for number in range(rounds):
        if number and monotonic() > end:
            break
        outcomes = [_attempt(outcome, seconds, measure) for outcome in outcomes]
    return outcomes


def _attempt(outcome: Outcome, seconds: float, measure: Measure) -> Outcome:
    if outcome.peer.missing:
        return outcome
    try:
        sample = measure(outcome.peer, seconds)
    except (ClientFailed, OSError, ValueError) as error:
        return Outcome(outcome.peer.lacking(str(error)))
    return evolve(outcome, samples=[*outcome.samples, sample])


def official(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the official client on the event loop where it makes more calls per second."""
    found = [outcome for outcome in outcomes if outcome.peer.name in OFFICIAL]
    return max(found, key=lambda o: median(o.values("rate_many")) if o.samples else 0.0)


def ratio(ours: Outcome, theirs: Outcome, key: str) -> tuple[float | None, str]:
    """Return the ratio of one figure of two clients, or why there is none."""
    for outcome in (ours, theirs):
        if not outcome.samples:
            return None, f"{outcome.peer.name} is missing"
    if not all(theirs.values(key)):
        return None, "the system does not tell"
    return paired_ratio(ours.values(key), theirs.values(key)), ""


def targets(outcomes: Sequence[Outcome]) -> list[Target]:
    """Hold the figures against what was promised."""
    by_name = {outcome.peer.name: outcome for outcome in outcomes}
    ours, in_process, theirs = by_name[OURS], by_name[IN_PROCESS], official(outcomes)
    rate, cpu = f"client calls/s @{WINDOW}", f"client and server, processor time @{WINDOW}"
    promises = (
        (f"{rate} to the Python SDK", ours, theirs, "rate_many", 8, True),
        (f"{rate}, in process to stdio", in_process, ours, "rate_many", 1, True),
        (f"{cpu}, in process to stdio", in_process, ours, "cpu_many", 1, False),
    )
    found = []
    for text, one, other, key, bound, is_least in promises:
        figure, reason = ratio(one, other, key)
        found.append(Target(text, bound, figure, is_least, reason))
    return found


def clients_table(outcomes: Sequence[Outcome]) -> str:
    """Lay out the medians, and the throughput beside ours; who is missing is named.

    Until the first result, a process loads its modules and connects ("start"); some clients load
    modules only once they need them, while they connect ("connect", which is a part of "start").
    """
    headers = [
        "client, echo tool",
        *(column.title for column in COLUMNS.values()),
        "spread",
        "× ours",
    ]
    return table(headers, [_row(outcome, outcomes[0]) for outcome in outcomes])


def _row(outcome: Outcome, ours: Outcome) -> list[str]:
    if outcome.peer.missing:
        return [f"{_title(outcome)}  missing: {outcome.peer.missing}"]
    cells = [column.text(median(outcome.values(key))) for key, column in COLUMNS.items()]
    figure, _ = ratio(outcome, ours, "rate_many")
    differed = f"{spread(outcome.values('rate_many')):.2f}"
    return [_title(outcome), *cells, differed, "-" if figure is None else f"{figure:.2f}"]


def _title(outcome: Outcome) -> str:
    return " ".join(filter(None, [outcome.peer.name, outcome.peer.version]))


def panels(outcomes: Sequence[Outcome]) -> list[Panel]:
    """Draw one panel per figure that a reader compares."""
    titles = {
        "rate_many": f"client: calls per second, {WINDOW} in flight",
        "rate": "client: calls per second, one at a time",
        "start": "client: start of the process to the first result in ms",
    }
    return [Panel(title, _bars(outcomes, COLUMNS[key])) for key, title in titles.items()]


def _bars(outcomes: Sequence[Outcome], column: Column) -> list[Bar]:
    bars = []
    for outcome in outcomes:
        if outcome.samples:
            middle = median(outcome.values(column.key))
            ours = outcome.peer.name.startswith(OURS)
            bars.append(Bar(_title(outcome), middle, column.text(middle), ours))
    return bars


add_options = measuring(budget=True)


def run(options: Namespace) -> Report:
    """Measure, and return the report."""
    outcomes = contest(
        clients(),
        rounds=options.rounds,
        seconds=options.seconds / 2,  # there are two runs of calls
        budget=options.budget,
    )
    text = [clients_table(outcomes), "", targets_table(targets(outcomes))]
    figures = {
        outcome.peer.name: {
            "version": outcome.peer.version,
            "missing": outcome.peer.missing,
            **{key: outcome.values(key) for key in COLUMNS},
        }
        for outcome in outcomes
    }
    return Report("client", "\n".join(text), panels(outcomes), figures)


def main(arguments: Sequence[str] | None = None) -> None:
    run_alone("client", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    main()
