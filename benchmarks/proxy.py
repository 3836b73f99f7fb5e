"""What a proxy costs: our server called directly, and through our proxy, on stdio.

The processor time is that of all processes on the server's side, per call: of the server alone, or
of the proxy and the server behind it. The load generator is not counted.
"""

from argparse import Namespace
from collections.abc import Sequence

from attrs import evolve

from benchmarks.chart import Panel
from benchmarks.columns import Column, bars, measurements, plain_table, ratio
from benchmarks.contest import WINDOW, Outcome, Sample, contest
from benchmarks.eras import MODERN
from benchmarks.figures import Target, targets_table
from benchmarks.peers import Peer, python_server
from benchmarks.report import Report, measuring, run_alone

DIRECT = "trio-mcp"
PROXIED = "trio-mcp through a proxy"
BOUND = 2.2

COLUMNS: Sequence[Column[Sample]] = (
    Column("p50", "p50 µs", lambda s: s.sequential.p50, 1e6, ",.0f"),
    Column("cpu_alone", "processor µs", lambda s: s.cpu_alone, 1e6, ",.0f"),
    Column("rate_many", f"calls/s @{WINDOW}", lambda s: s.windowed.rate, 1, ",.0f"),
    Column("cpu", f"processor µs @{WINDOW}", lambda s: s.cpu, 1e6, ",.0f"),
)


def peers() -> list[Peer]:
    """Name the two that are measured."""
    direct = python_server("trio_mcp_echo.py")
    through = python_server("trio_mcp_proxy.py", *direct.arguments)
    ours = Peer(DIRECT, direct, era=MODERN)
    return [ours, evolve(ours, name=PROXIED, command=through)]


def targets(outcomes: Sequence[Outcome[Sample]]) -> list[Target]:
    """Hold the cost of a proxied call against that of a direct one."""
    found = []
    for key, text, bound in (("cpu", f"processor time of a call @{WINDOW}", BOUND),):
        column = next(each for each in COLUMNS if each.key == key)
        figure, reason = ratio(outcomes, column, PROXIED, DIRECT)
        found.append(Target(f"{text}, through a proxy to directly", bound, figure, reason=reason))
    return found


def run(options: Namespace) -> Report:
    """Measure, and return the report."""
    outcomes = contest(
        peers(),
        rounds=options.rounds,
        seconds=options.seconds / 2,  # there are two runs of calls
        budget=options.budget,
        pinned=not options.unpinned,
    )
    what = "proxy, 2026-07-28"
    text = f"{plain_table(what, outcomes, COLUMNS)}\n\n{targets_table(targets(outcomes))}"
    panel = Panel(f"processor µs per call, {WINDOW} in flight", bars(outcomes, COLUMNS[-1]))
    return Report("proxy", text, [panel], measurements(outcomes, COLUMNS))


add_options = measuring(budget=True, pins=True)


def main(arguments: Sequence[str] | None = None) -> None:
    run_alone("proxy", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    main()
