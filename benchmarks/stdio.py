"""The stdio server beside its peers: start, latency, throughput, memory, processor time."""

from argparse import Namespace
from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks.chart import Panel
from benchmarks.columns import Column, bars, measurements, ratio, table_beside
from benchmarks.contest import WINDOW, Outcome, Sample, contest
from benchmarks.endless import LIMIT, MIB, Endless, feed_endless_line
from benchmarks.figures import Target, targets_table
from benchmarks.peers import BARE, OURS, OURS_1000, PYTHON, TYPESCRIPT, YARDSTICK, peers
from benchmarks.report import Report, measuring, run_alone

_SLACK = 1.1
"""An endless line may cost the limit, and a tenth of it for what is being read."""


_COLUMNS: Sequence[Column[Sample]] = (
    Column("start", "start ms", lambda s: s.start, 1e3, ".0f"),
    Column("p50", "p50 µs", lambda s: s.sequential.p50, 1e6, ".0f"),
    Column("p99", "p99 µs", lambda s: s.sequential.p99, 1e6, ".0f"),
    Column("rate", "req/s", lambda s: s.sequential.rate, 1, ",.0f"),
    Column("cpu_alone", "CPU µs", lambda s: s.cpu_alone, 1e6, ".1f"),
    Column("p50_many", f"p50 µs @{WINDOW}", lambda s: s.windowed.p50, 1e6, ",.0f"),
    Column("p99_many", f"p99 µs @{WINDOW}", lambda s: s.windowed.p99, 1e6, ",.0f"),
    Column("rate_many", f"req/s @{WINDOW}", lambda s: s.windowed.rate, 1, ",.0f"),
    Column("cpu", f"CPU µs @{WINDOW}", lambda s: s.cpu, 1e6, ".1f"),
    Column("memory", "peak MiB", lambda s: s.memory, 1 / MIB, ".1f"),
)
COLUMNS = {column.key: column for column in _COLUMNS}


def servers_table(outcomes: Sequence[Outcome[Sample]]) -> str:
    """Lay out the medians, and the throughput beside ours; who is missing is named."""
    rate = COLUMNS["rate_many"]
    return table_beside("stdio, echo tool", outcomes, _COLUMNS, rate, OURS, "× ours")


_TARGETS: Sequence[tuple[str, str, str, str, float, bool]] = (
    (f"requests/s @{WINDOW} to the TypeScript SDK", "rate_many", OURS, TYPESCRIPT, 1.25, True),
    (f"requests/s @{WINDOW} to the Python SDK", "rate_many", OURS, PYTHON, 25, True),
    ("processor time, one at a time, to the bare shape", "cpu_alone", OURS, BARE, 1.1, False),
    (f"processor time @{WINDOW} to the bare shape", "cpu", OURS, BARE, 1.1, False),
    ("p50, one at a time, to the bare shape", "p50", OURS, BARE, 1.2, False),
    ("p50, one at a time, to the TypeScript SDK", "p50", OURS, TYPESCRIPT, 1, False),
    ("start to initialized to the bare shape", "start", OURS, BARE, 1.5, False),
    ("start to initialized to the Python SDK", "start", OURS, PYTHON, 0.33, False),
    ("peak memory to the Python SDK", "memory", OURS, PYTHON, 0.6, False),
    (f"requests/s @{WINDOW}, 1,000 tools to one", "rate_many", OURS_1000, OURS, 0.9, True),
)


def targets(outcomes: Sequence[Outcome[Sample]], endless: Endless) -> list[Target]:
    """Hold the figures against what was promised."""
    found = []
    for text, key, name, other, bound, at_least in _TARGETS:
        figure, reason = ratio(outcomes, COLUMNS[key], name, other)
        found.append(Target(text, bound, figure, at_least, reason))
    growth = None if endless.growth is None else endless.growth / LIMIT
    reason = f"{OURS} is missing" if endless.missing else "the system does not tell"
    found.append(
        Target("memory growth by an endless line to its limit", _SLACK, growth, False, reason)
    )
    return found


def remarks(outcomes: Sequence[Outcome[Sample]], endless: Endless) -> list[str]:
    """Say in words how far the figures can be trusted."""
    said = []
    rates = {o.peer.name: o.values(COLUMNS["rate_many"].pick) for o in outcomes}
    ceiling = rates.pop(YARDSTICK, [])
    fastest = max((median(values) for values in rates.values() if values), default=0.0)
    if ceiling and fastest:
        said.append(
            f"The load generator reaches {median(ceiling) / fastest:.1f} times the requests/s "
            f"@{WINDOW} of the fastest server."
        )
    spreads = [max(values) / min(values) for values in rates.values() if values]
    if spreads:
        said.append(
            f"Between rounds, requests/s @{WINDOW} of one and the same server differed by up to "
            f"{max(spreads):.1f} times: the nearer to 1, the quieter was the machine."
        )
    if endless.growth is not None:
        said.append(
            f"An endless line, {endless.sent / 1e6:.0f} MB sent: peak memory grew by "
            f"{endless.growth / MIB:.1f} MiB, the limit is {LIMIT / MIB:.0f} MiB."
        )
    return said


def panels(outcomes: Sequence[Outcome[Sample]]) -> list[Panel]:
    """Draw one panel per figure that a reader compares."""
    titles = {
        "rate_many": f"requests per second, {WINDOW} in flight",
        "rate": "requests per second, one at a time",
        "p50": "p50 in µs, one at a time",
        "start": "start to initialized in ms",
        "memory": "peak memory in MiB",
        "cpu": f"processor time per request in µs, {WINDOW} in flight",
    }
    return [
        Panel(title, bars(outcomes, COLUMNS[key], leave_out=[YARDSTICK]))
        for key, title in titles.items()
    ]


def figures(outcomes: Sequence[Outcome[Sample]], endless: Endless) -> dict[str, Any]:
    """Return everything measured, as JSON values, in seconds and bytes."""
    servers = measurements(outcomes, _COLUMNS)
    line = {"sent": endless.sent, "growth": endless.growth, "missing": endless.missing}
    return {"servers": servers, "endless_line": line}


add_options = measuring(budget=True, installs=True, pins=True)


def run(options: Namespace) -> Report:
    """Measure, and return the report."""
    outcomes = contest(
        peers(install=not options.no_install),
        rounds=options.rounds,
        seconds=options.seconds / 2,  # there are two runs of calls
        budget=options.budget,
        pinned=not options.unpinned,
    )
    endless = feed_endless_line(next(o.peer for o in outcomes if o.peer.name == OURS))
    verdicts = targets_table(targets(outcomes, endless))
    text = [servers_table(outcomes), *remarks(outcomes, endless), "", verdicts]
    return Report("stdio", "\n".join(text), panels(outcomes), figures(outcomes, endless))


def main(arguments: Sequence[str] | None = None) -> None:
    run_alone("stdio", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    main()
