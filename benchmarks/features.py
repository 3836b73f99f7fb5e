"""What a server offers beside tools: reading, prompts, progress, one update to many listeners.

All of it in revision 2026-07-28, the only one that has many subscriptions on one connection.
"""

import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

from attrs import frozen

from benchmarks.chart import Panel
from benchmarks.columns import Column, bars, measurements, plain_table, ratio
from benchmarks.contest import WINDOW, Caller, Outcome, in_rounds
from benchmarks.eras import TEXT, Calls, Era
from benchmarks.load import Load, LoadError, write_all
from benchmarks.peers import OURS, Peer, feature_peers
from benchmarks.processes import Server, running
from benchmarks.report import Report, measuring, run_alone
from benchmarks.tables import table

LISTENERS = 1000
URI = "bench://text"

_LIFETIME = 60.0
_STEPS = 200
_UPDATES = 5
PROGRESS = b'"notifications/progress"'
_ACKNOWLEDGED = b'"notifications/subscriptions/acknowledged"'
_UPDATED = b'"notifications/resources/updated"'
_RESULT = b'"result":'
_ERROR = b'"error":'


@frozen
class Sample:
    """What one round measured of one server."""

    read: Load
    read_many: Load
    prompt: Load
    prompt_many: Load
    progress: float
    """Notifications per second of one call."""
    fan_out: float
    """Seconds from the call that updates a resource to the last of all notifications."""


COLUMNS: Sequence[Column[Sample]] = (
    Column("read", "read/s", lambda s: s.read.rate, 1, ",.0f"),
    Column("read_many", f"read/s @{WINDOW}", lambda s: s.read_many.rate, 1, ",.0f"),
    Column("prompt", "prompt/s", lambda s: s.prompt.rate, 1, ",.0f"),
    Column("prompt_many", f"prompt/s @{WINDOW}", lambda s: s.prompt_many.rate, 1, ",.0f"),
    Column("progress", "progress/s", lambda s: s.progress, 1, ",.0f"),
    Column("fan_out", f"1 to {LISTENERS:,} ms", lambda s: s.fan_out, 1e3, ",.1f"),
)

# -- one server -----------------------------------------------------------------------------------


def reads(era: Era, count: int, first_id: int) -> Calls:
    """Make so many requests for the resource."""
    return era.requests("resources/read", {"uri": URI}, count, first_id)


def prompts(era: Era, count: int, first_id: int) -> Calls:
    """Make so many requests for the prompt."""
    params = {"name": "say", "arguments": {"text": TEXT}}
    return era.requests("prompts/get", params, count, first_id)


def take(peer: Peer, seconds: float, *, pinned: bool) -> Sample:
    """Start a server, measure it, end it.

    Args:
        peer: Who is measured.
        seconds: How long each of the runs lasts, about; 0 for the least that can be measured.
        pinned: Whether the server has one processor and the load generator the other.

    Raises:
        LoadError: It did not start or did not answer properly.
    """
    with running(peer.command, lifetime=_LIFETIME, pinned=pinned) as server:
        try:
            return _take(Caller(server, peer.era), seconds)
        except (LoadError, OSError, ValueError, LookupError) as error:
            raise LoadError(server.last_words() or str(error)) from error


def _take(caller: Caller, seconds: float) -> Sample:
    caller.open()
    loads = []
    for make, text_of in ((reads, _text_read), (prompts, _text_said)):
        caller.make = partial(make, caller.era)
        check(caller, text_of)
        rate = caller.warm_up() if seconds else 0
        loads.append(caller.run_for(seconds, 1))
        loads.append(caller.run(int(rate * seconds), WINDOW))
    read, read_many, prompt, prompt_many = loads
    pilot = progress_rate(caller, _STEPS)
    progress = progress_rate(caller, max(_STEPS, int(pilot * seconds)))
    listen(caller, LISTENERS)
    updates = [update(caller, LISTENERS) for _ in range(_UPDATES if seconds else 1)]
    return Sample(read, read_many, prompt, prompt_many, progress, median(updates))


def check(caller: Caller, text_of: Callable[[Any], Any]) -> None:
    """Send one request and look at the answer closely."""
    assert caller.make is not None
    write_all(caller.server.writer, caller.make(1, caller.take(1)).blob)
    answer = json.loads(caller.server.lines.read())
    if text_of(answer["result"]) != TEXT:
        raise LoadError("a wrong text came back")


def _text_read(result: Any) -> Any:
    return result["contents"][0]["text"]


def _text_said(result: Any) -> Any:
    return result["messages"][0]["content"]["text"]


def _call(caller: Caller, tool: str, **more: Any) -> bytes:
    id = caller.take(1)
    return caller.era.request(id, "tools/call", {"name": tool, "arguments": {}, **more})


def hear(
    server: Server, wanted: bytes, count: int, *, results: int, in_order: bool = False
) -> float:
    """Read so many notifications and results; return when the last notification came.

    Args:
        server: Who says it.
        wanted: How the notifications are told.
        count: How many of them are awaited.
        results: How many answers are awaited.
        in_order: Whether all notifications have to be there when the answers are.

    Raises:
        LoadError: There was an error, too much, or too little.
    """
    told = answered = 0
    last = 0.0
    while told < count or answered < results:
        data = server.lines.read()
        now = perf_counter()
        if _ERROR in data:
            raise LoadError("the server answered with an error")
        answered += data.count(_RESULT)
        more = data.count(wanted)
        if more:
            told += more
            last = now
        missing = in_order and answered == results and told < count
        if told > count or answered > results or missing:
            raise LoadError(f"{told} notifications came, and {answered} answers")
    return last


def progress_rate(caller: Caller, count: int) -> float:
    """Let a call report progress so many times, and return the notifications per second."""
    meta = {"progressToken": "p"}
    line = _call(caller, "steps", arguments={"count": count}, _meta=meta)
    begin = perf_counter()
    write_all(caller.server.writer, line)
    end = hear(caller.server, PROGRESS, count, results=1, in_order=True)
    return count / (end - begin)


def listen(caller: Caller, count: int) -> None:
    """Open so many subscriptions to the resource, and wait for their acknowledgements."""
    params = {"notifications": {"resourceSubscriptions": [URI]}}
    for start in range(0, count, WINDOW):  # few at a time: nobody reads while we write
        some = min(WINDOW, count - start)
        requests = caller.era.requests("subscriptions/listen", params, some, caller.take(some))
        write_all(caller.server.writer, requests.blob)
        hear(caller.server, _ACKNOWLEDGED, some, results=0)


def update(caller: Caller, listeners: int) -> float:
    """Have the resource updated; return the seconds until all subscriptions have heard of it."""
    line = _call(caller, "update")
    begin = perf_counter()
    write_all(caller.server.writer, line)
    return hear(caller.server, _UPDATED, listeners, results=1) - begin


# -- all servers ----------------------------------------------------------------------------------


def features_table(outcomes: Sequence[Outcome[Sample]]) -> str:
    """Lay out the medians; who is missing is named."""
    return plain_table("features, 2026-07-28", outcomes, COLUMNS)


def ratios_table(outcomes: Sequence[Outcome[Sample]]) -> str:
    """Lay out how many times better we are than each of the others, measured side by side."""
    headers = ["times better, in this run", *(column.title for column in COLUMNS)]
    rows = []
    for outcome in outcomes:
        name = outcome.peer.name
        if name != OURS:
            figures = [_times_better(outcomes, column, name) for column in COLUMNS]
            texts = ["-" if each is None else f"{each:.1f}" for each in figures]
            rows.append([f"{OURS} than {name}", *texts])
    return table(headers, rows)


def _times_better(
    outcomes: Sequence[Outcome[Sample]], column: Column[Sample], name: str
) -> float | None:
    if column.key == "fan_out":  # a time: the shorter the better
        return ratio(outcomes, column, name, OURS)[0]
    return ratio(outcomes, column, OURS, name)[0]


def panels(outcomes: Sequence[Outcome[Sample]]) -> list[Panel]:
    """Draw one panel per figure that a reader compares."""
    titles = {
        "read_many": f"resources read per second, {WINDOW} in flight",
        "prompt_many": f"prompts per second, {WINDOW} in flight",
        "progress": "progress notifications per second, one call",
        "fan_out": f"one update to {LISTENERS:,} subscriptions in ms",
    }
    columns = {column.key: column for column in COLUMNS}
    return [Panel(title, bars(outcomes, columns[key])) for key, title in titles.items()]


add_options = measuring(budget=True, installs=True, pins=True)


def run(options: Namespace) -> Report:
    """Measure, and return the report."""
    outcomes = in_rounds(
        feature_peers(install=not options.no_install),
        partial(take, pinned=not options.unpinned),
        rounds=options.rounds,
        seconds=options.seconds / 4,  # there are four runs of requests
        budget=options.budget,
    )
    text = f"{features_table(outcomes)}\n\n{ratios_table(outcomes)}"
    return Report("features", text, panels(outcomes), measurements(outcomes, COLUMNS))


def main(arguments: Sequence[str] | None = None) -> None:
    run_alone("features", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    main()
