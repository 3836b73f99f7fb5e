"""What a task costs: the echo tool as a call, and as a task in memory and in a file of SQLite.

A task counts once its result has been fetched: it is a call, and at least one `tasks/get`.
"""

import json
import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from attrs import evolve, frozen

from benchmarks.chart import Panel
from benchmarks.columns import Column, bars, measurements, table_beside
from benchmarks.contest import WINDOW, Caller, Outcome, in_rounds
from benchmarks.eras import MODERN, TEXT
from benchmarks.figures import Target, targets_table
from benchmarks.load import LoadError, write_all
from benchmarks.peers import Peer, python_server
from benchmarks.processes import running
from benchmarks.report import Report, measuring, run_alone

CALL, MEMORY, SQLITE = (
    "trio-mcp, a call",
    "trio-mcp, a task in memory",
    "trio-mcp, a task in SQLite",
)
_LIFETIME = 60.0
_FEWEST = 20
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_ERA = evolve(
    MODERN,
    meta={
        "_meta": {
            **MODERN.meta["_meta"],
            _CAPABILITIES: {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        }
    },
)


@frozen
class Sample:
    """What one round measured of one kind."""

    rate: float
    """Results per second, one at a time."""
    rate_many: float
    cpu: float | None
    """Seconds of processor time for each result, with many in flight."""


COLUMNS: Sequence[Column[Sample]] = (
    Column("rate", "results/s", lambda s: s.rate, 1, ",.0f"),
    Column("rate_many", f"results/s @{WINDOW}", lambda s: s.rate_many, 1, ",.0f"),
    Column("cpu", f"processor µs @{WINDOW}", lambda s: s.cpu, 1e6, ",.0f"),
)


def peers() -> list[Peer]:
    """Name what is compared."""
    kinds = {CALL: "memory:", MEMORY: "memory:", SQLITE: "tasks.db"}
    return [
        Peer(name, python_server("trio_mcp_tasks.py", store), _ERA) for name, store in kinds.items()
    ]


def take(peer: Peer, seconds: float, *, pinned: bool) -> Sample:
    """Start a server, measure it, end it.

    Args:
        peer: What is measured.
        seconds: How long each of the two runs lasts, about; 0 for the least.
        pinned: Whether the server has one processor and the load generator the other.

    Raises:
        LoadError: It did not start or did not answer properly.
    """
    with tempfile.TemporaryDirectory() as folder:
        *program, store = peer.command.arguments
        store = str(Path(folder, store)) if store.endswith(".db") else store
        command = evolve(peer.command, arguments=[*program, store])
        with running(command, lifetime=_LIFETIME, pinned=pinned) as server:
            try:
                return _take(Caller(server, peer.era), peer.name != CALL, seconds)
            except (LoadError, OSError, ValueError, LookupError) as error:
                raise LoadError(server.last_words() or str(error)) from error


def _take(caller: Caller, tasks: bool, seconds: float) -> Sample:
    caller.open()
    results(caller, tasks, _FEWEST, WINDOW)
    pilot = results(caller, tasks, _FEWEST, 1)
    rate = results(caller, tasks, max(_FEWEST, int(pilot * seconds)), 1)
    pilot = results(caller, tasks, 4 * WINDOW, WINDOW)
    count = max(WINDOW, int(pilot * seconds))
    before = caller.server.cpu_seconds()
    rate_many = results(caller, tasks, count, WINDOW)
    after = caller.server.cpu_seconds()
    cpu = None if before is None or after is None else (after - before) / count
    return Sample(rate, rate_many, cpu)


def results(caller: Caller, tasks: bool, count: int, window: int) -> float:
    """Have so many results made and fetched; return how many there were per second.

    Args:
        caller: Whose server makes them.
        tasks: Whether each is that of a task.
        count: How many.
        window: How many are asked for at once; the next follow when all of them are there.

    Raises:
        LoadError: A result was wrong.
    """
    params = {"name": "job" if tasks else "echo", "arguments": {"text": TEXT}}
    begin = perf_counter()
    for first in range(0, count, window):
        found = ask(caller, "tools/call", [params] * min(window, count - first))
        if tasks:
            found = fetch(caller, [each["taskId"] for each in found])
        if any(each["content"][0]["text"] != TEXT for each in found):
            raise LoadError("a wrong text came back")
    return count / (perf_counter() - begin)


def fetch(caller: Caller, tasks: Sequence[str]) -> list[Any]:
    """Ask for tasks until all of them are completed; return their results.

    Raises:
        LoadError: One of them failed.
    """
    while ask(caller, "tasks/get", [{"taskId": tasks[-1]}])[0]["status"] == "working":
        pass  # the others are older, and so done by then: few requests ask in vain
    done: list[Any] = []
    waiting = list(tasks)
    while waiting:
        told = ask(caller, "tasks/get", [{"taskId": each} for each in waiting])
        if any(each["status"] not in ("working", "completed") for each in told):
            raise LoadError("a task was not completed")
        done += [each["result"] for each in told if each["status"] == "completed"]
        waiting = [each["taskId"] for each in told if each["status"] == "working"]
    return done


def ask(caller: Caller, method: str, params: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Send requests in one piece; return their results, in the order in which they came.

    Raises:
        LoadError: One of them was refused.
    """
    first = caller.take(len(params))
    lines = [
        caller.era.request(first + number, method, {**each}) for number, each in enumerate(params)
    ]
    write_all(caller.server.writer, b"".join(lines))
    answers: list[Any] = []
    while len(answers) < len(params):
        answers += map(json.loads, caller.server.lines.read().splitlines())
    if any("result" not in each for each in answers):
        raise LoadError(f"{method} was refused")
    return [each["result"] for each in answers]


def tasks_table(outcomes: Sequence[Outcome[Sample]]) -> str:
    """Lay out the medians, and the throughput beside that of calls; who is missing is named."""
    what = "tasks, 2026-07-28"
    return table_beside(what, outcomes, COLUMNS, COLUMNS[1], CALL, "× a call")


def targets(outcomes: Sequence[Outcome[Sample]]) -> list[Target]:
    """Hold the figures against what was promised."""
    by_name = {outcome.peer.name: outcome for outcome in outcomes}
    found = []
    for name, bound in ((MEMORY, 0.3), (SQLITE, 1.0)):
        values = by_name[name].values(COLUMNS[2].pick)
        figure = median(values) * 1000 if values else None
        text = f"ms of processor time for {name.partition(', ')[2]}"
        found.append(Target(text, bound, figure, reason=f"{name} is missing"))
    return found


add_options = measuring(budget=True, pins=True)


def run(options: Namespace) -> Report:
    """Measure, and return the report."""
    outcomes = in_rounds(
        peers(),
        partial(take, pinned=not options.unpinned),
        rounds=options.rounds,
        seconds=options.seconds / 2,  # there are two runs
        budget=options.budget,
    )
    panel = Panel(f"results per second, {WINDOW} in flight", bars(outcomes, COLUMNS[1]))
    text = "\n\n".join([tasks_table(outcomes), targets_table(targets(outcomes))])
    return Report("tasks", text, [panel], measurements(outcomes, COLUMNS))


def main(arguments: Sequence[str] | None = None) -> None:
    run_alone("tasks", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    main()
