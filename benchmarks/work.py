"""Servers that do something: FastMCP, the official SDKs, and programs in Go and Rust.

Six servers have the same tools: an echo, one that keeps the processor busy, one that waits, and
one that returns much. The others are other people's programs, and offer what they do: of each, one
cheap tool is called, and beside it a tool of ours that does the same.
"""

import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from statistics import median
from typing import Any

from attrs import evolve, field, frozen

from benchmarks.chart import Panel
from benchmarks.columns import Column, bars, measurements, ratio, row, table_beside
from benchmarks.contest import WINDOW, Caller, Outcome, in_rounds
from benchmarks.endless import MIB
from benchmarks.eras import TEXT, Calls, Era
from benchmarks.figures import Target, spread, targets_table
from benchmarks.load import LoadError, write_all
from benchmarks.packages import (
    FOLDER,
    SYSTEM,
    NpmPackage,
    Package,
    PythonPackage,
    find,
    find_compiled,
    find_fastmcp,
)
from benchmarks.peers import OURS, Peer, find_python, find_typescript, python_server
from benchmarks.processes import Command, running
from benchmarks.report import Report, measuring, run_alone
from benchmarks.tables import table

_LIFETIME = 60.0
_WAIT, _ROWS = 10, 4096
_NOT_COUNTED = 0.2
"""Seconds of calls that come first. Cheap tools get longer to warm up."""


@frozen
class Tool:
    """A tool, the arguments that it gets, and what has to be in the text of its result."""

    name: str
    arguments: Mapping[str, Any]
    answer: str

    def calls(self, era: Era, count: int, first_id: int) -> Calls:
        """Make so many calls of it."""
        params = {"name": self.name, "arguments": self.arguments}
        return era.requests("tools/call", params, count, first_id)


ECHO = "echo"
TOOLS = {
    ECHO: Tool("echo", {"text": TEXT}, TEXT),
    "cpu": Tool("digest", {}, sha256(bytes(MIB)).hexdigest()),
    "wait": Tool("wait", {"milliseconds": _WAIT}, "done"),
    "large": Tool("rows", {"count": _ROWS}, "\nA line of a large result"),
}
"""By kind."""

_NOON, _TOKYO = "2026-01-01T12:00:00Z", "Asia/Tokyo"
_GRAFANA = "http://127.0.0.1:9"
_DASHBOARD = {"resourceType": "dashboard", "dashboardUid": "abc"}
LINK, ZONE = "link", "zone"
ALIKE = {
    LINK: Tool("generate_deeplink", _DASHBOARD, f"{_GRAFANA}/d/abc"),
    ZONE: Tool("convert_timezone", {"time": _NOON, "output_timezone": _TOKYO}, "T21:00:00"),
}
"""By kind, the tools of ours that do the same as one of a guest."""


@frozen
class Guest:
    """Another project's program.

    Args:
        name: Of the library that it is made with, and its own.
        package: Where it is from.
        program: Where it is in the folder of the package.
        kind: Which tool of ours does the same.
        tool: Which of its tools is called.
        environment: What else it wants.
    """

    name: str
    package: Package
    program: str
    kind: str
    tool: Tool
    environment: Mapping[str, str] = field(factory=dict)

    def peer(self, *, install: bool) -> Peer:
        """Return it as one who takes part, or would."""
        folder = self.package.folder
        home = {"HOME": str(folder), **self.environment}
        command = Command([str(folder / self.program)], home)
        return find(Peer(self.name, command), self.package, install=install)


_GO = FOLDER / "go"
_NPM = FOLDER / "company"
_TIME = f"mcp-time-{SYSTEM}"
_CORTEX = f"@temporal-cortex/cortex-mcp-{SYSTEM}"

GUESTS = (
    Guest(
        "Go SDK, mcp-grafana",
        PythonPackage("mcp-grafana", ">=2,<3", _GO),
        "bin/mcp-grafana",
        LINK,
        ALIKE[LINK],
        {"GRAFANA_URL": _GRAFANA},
    ),
    Guest(
        "mcp-go, mcp-time",
        NpmPackage(_TIME, "0.4", _NPM),
        f"node_modules/{_TIME}/bin/mcp-time",
        ZONE,
        ALIKE[ZONE],
    ),
    Guest(
        "rmcp for Rust, cortex-mcp",
        NpmPackage(_CORTEX, "0.9", _NPM),
        f"node_modules/{_CORTEX}/bin/cortex-mcp",
        ZONE,
        evolve(ALIKE[ZONE], arguments={"datetime": _NOON, "target_timezone": _TOKYO}),
        {"TEMPORAL_CORTEX_TELEMETRY": "off"},
    ),
)


_GUESTS = {guest.name for guest in GUESTS}


@frozen
class Work:
    """What one kind of call took."""

    rate: float
    cpu: float | None
    """Seconds of processor time per call."""


@frozen
class Sample:
    """What one round measured of one server."""

    start: float
    work: Mapping[str, Work]
    """By the kind of tool."""
    memory: int | None


def _rate(kind: str, sample: Sample) -> float | None:
    return sample.work[kind].rate if kind in sample.work else None


def _cpu(kind: str, sample: Sample) -> float | None:
    return sample.work[kind].cpu if kind in sample.work else None


_RATES: Sequence[Column[Sample]] = tuple(
    Column(kind, f"{kind}/s", partial(_rate, kind), 1, ",.0f") for kind in (*TOOLS, *ALIKE)
)
_TIMES: Sequence[Column[Sample]] = tuple(
    Column(f"{kind}_cpu", f"{kind} CPU µs", partial(_cpu, kind), 1e6, ",.0f")
    for kind in (*TOOLS, *ALIKE)
)
_COLUMNS: Sequence[Column[Sample]] = (
    Column("start", "start ms", lambda s: s.start, 1e3, ".0f"),
    *_RATES,
    *_TIMES,
    Column("memory", "peak MiB", lambda s: s.memory, 1 / MIB, ".1f"),
)
COLUMNS = {column.key: column for column in _COLUMNS}
_OF_ALL = [column for column in _COLUMNS if column.key.removesuffix("_cpu") not in ALIKE]

# -- one server -----------------------------------------------------------------------------------


def peers(*, install: bool) -> list[Peer]:
    """Name everybody who takes part, in the order of a round.

    Args:
        install: Whether packages that are not there yet are installed.
    """
    return [
        Peer(OURS, python_server("trio_mcp_work.py")),
        find_typescript(install=install, script="typescript_sdk_work.mjs"),
        find_python(script="python_sdk_work.py"),
        find_fastmcp("fastmcp_work.py", install=install),
        *find_compiled("work", install=install),
        *(guest.peer(install=install) for guest in GUESTS),
    ]


def tools_of(peer: Peer) -> Mapping[str, Tool]:
    """Return which tools of a server are called, by kind."""
    if peer.name == OURS:
        return {**TOOLS, **ALIKE}
    return next(({each.kind: each.tool} for each in GUESTS if each.name == peer.name), TOOLS)


def take(peer: Peer, seconds: float, *, pinned: bool) -> Sample:
    """Start a server, measure it, end it.

    Args:
        peer: Who is measured.
        seconds: How long the calls of each tool last, about; 0 for the fewest.
        pinned: Whether the server has one processor and the load generator the other.

    Raises:
        LoadError: It did not start or did not answer properly.
    """
    with running(peer.command, lifetime=_LIFETIME, pinned=pinned) as server:
        try:
            caller = Caller(server, peer.era)
            start = caller.open()
            work = {
                kind: _work(caller, kind, tool, seconds) for kind, tool in tools_of(peer).items()
            }
            return Sample(start, work, server.peak_memory())
        except (LoadError, OSError, ValueError, LookupError) as error:
            raise LoadError(server.last_words() or str(error)) from error


def _work(caller: Caller, kind: str, tool: Tool, seconds: float) -> Work:
    caller.make = partial(tool.calls, caller.era)
    check(caller, tool)
    rate = 0.0
    if seconds:
        first = kind == ECHO or kind in ALIKE
        rate = caller.warm_up() if first else caller.run_for(_NOT_COUNTED, WINDOW).rate
    load, cpu = caller.run_timed(int(rate * seconds), WINDOW)
    return Work(load.rate, cpu)


def check(caller: Caller, tool: Tool) -> None:
    """Call a tool once and look at the answer closely.

    Raises:
        LoadError: It is wrong.
    """
    write_all(caller.server.writer, tool.calls(caller.era, 1, caller.take(1)).blob)
    result = json.loads(caller.server.lines.read())["result"]
    if result.get("isError") or tool.answer not in result["content"][0]["text"]:
        raise LoadError(f"the tool {tool.name} gave a wrong answer")


# -- all servers ----------------------------------------------------------------------------------


def servers_table(outcomes: Sequence[Outcome[Sample]]) -> str:
    """Lay out the medians, and the throughput beside ours; who is missing is named."""
    alike = [each for each in outcomes if each.peer.name not in _GUESTS]
    what = f"servers on stdio, @{WINDOW}"
    return table_beside(what, alike, _OF_ALL, COLUMNS[ECHO], OURS, "× ours")


def guests_table(outcomes: Sequence[Outcome[Sample]]) -> str:
    """Lay out what guests do, each beside ours doing the same; who is missing is named."""
    by_name = {outcome.peer.name: outcome for outcome in outcomes}
    headers = [f"one cheap tool, @{WINDOW}", "tool", "calls/s", "CPU µs", "spread", "× ours"]
    rows = []
    for guest in GUESTS:
        figure, _ = ratio(outcomes, COLUMNS[guest.kind], guest.name, OURS)
        beside = "-" if figure is None else f"{figure:.2f}"
        columns = (COLUMNS[guest.kind], COLUMNS[f"{guest.kind}_cpu"])
        for outcome, times in ((by_name[guest.name], beside), (by_name[OURS], "1.00")):
            title, *cells = row(outcome, columns)
            if cells:
                cells.append(f"{spread(outcome.values(columns[0].pick)):.2f}")
            rows.append([title, guest.tool.name, *cells, times] if cells else [title])
    return table(headers, rows, left=(0, 1))


def targets(outcomes: Sequence[Outcome[Sample]]) -> list[Target]:
    """Hold our throughput against that of the fastest other server with the same echo."""
    rates = {
        outcome.peer.name: median(values)
        for outcome in outcomes
        if outcome.peer.name != OURS and (values := outcome.values(COLUMNS[ECHO].pick))
    }
    if not rates:
        return []
    fastest = max(rates, key=rates.__getitem__)
    figure, reason = ratio(outcomes, COLUMNS[ECHO], OURS, fastest)
    return [Target(f"echo/s @{WINDOW} to {fastest}", 1, figure, True, reason)]


def remarks() -> list[str]:
    """Say what bounds a figure."""
    most = WINDOW * 1000 // _WAIT
    return [f"No server can make more than {most:,} calls per second that wait {_WAIT} ms."]


def panels(outcomes: Sequence[Outcome[Sample]]) -> list[Panel]:
    """Draw one panel per figure that a reader compares."""
    titles = {
        ECHO: f"an echo, calls per second, {WINDOW} in flight",
        "cpu": f"a tool that hashes 1 MiB, calls per second, {WINDOW} in flight",
        "wait": f"a tool that waits {_WAIT} ms, calls per second, {WINDOW} in flight",
        "large": f"a tool that returns 256 KiB, calls per second, {WINDOW} in flight",
        LINK: f"a tool that makes an address, calls per second, {WINDOW} in flight",
        ZONE: f"a tool that converts a time to another zone, calls per second, {WINDOW} in flight",
    }
    return [Panel(title, bars(outcomes, COLUMNS[key])) for key, title in titles.items()]


def figures(outcomes: Sequence[Outcome[Sample]]) -> dict[str, Any]:
    """Return everything measured, as JSON values; what a server does not have is left out."""
    return {
        name: {key: value for key, value in entry.items() if value != []}
        for name, entry in measurements(outcomes, _COLUMNS).items()
    }


add_options = measuring(budget=True, installs=True, pins=True)


def run(options: Namespace) -> Report:
    """Measure, and return the report."""
    outcomes = in_rounds(
        peers(install=not options.no_install),
        partial(take, pinned=not options.unpinned),
        rounds=options.rounds,
        seconds=options.seconds / 4,  # there are four tools
        budget=options.budget,
    )
    tables = [guests_table(outcomes), "", targets_table(targets(outcomes))]
    text = [servers_table(outcomes), *remarks(), "", *tables]
    return Report("work", "\n".join(text), panels(outcomes), figures(outcomes))


def main(arguments: Sequence[str] | None = None) -> None:
    run_alone("work", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    main()
