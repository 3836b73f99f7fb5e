"""Count what clients see when something goes wrong, and write it down for the documentation.

    python -m tests.faults.run --record docs/measured/faults.json

Three instances share a Redis behind an nginx that sends each request to the next of them. Clients
with sessions and without call as fast as they are answered, and send nothing twice. A session is
used for some calls, then its client begins another. Each fault strikes after a quarter of its time.
"""

from __future__ import annotations

import tempfile
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio
from attrs import frozen

from benchmarks.records import provenance, write
from benchmarks.tables import table
from tests.faults.faults import FAULTS, Fault
from tests.faults.fleet import SIZE, Fleet, running
from tests.faults.load import OUTCOMES, Caller, Outcome, Tally

CALLERS: Final = 8
"""Of each era."""

_UNDER_WAY: Final = 200
"""Answers after which all clients have connections, and call without a pause."""

_AT_MOST: Final = 120.0
"""Seconds after which something is wrong for good."""


@frozen
class Result:
    """What was counted."""

    fault: Fault
    sent: int
    outcomes: Counter[Outcome]
    twice: int
    """Calls that were carried out more than once."""
    unknown: int
    """Calls that were carried out, and of which nobody got the result."""
    longest: float
    recovered: bool
    """Whether every client is served once it is over."""


async def try_out(fault: Fault, seconds: float, folder: Path) -> Result:
    """Have something go wrong while clients call."""
    folder.mkdir()
    async with running(folder, relayed=fault.relayed) as fleet:
        tally = Tally()
        over = trio.Event()
        async with trio.open_nursery() as nursery:
            callers = _callers(fleet)
            for caller in callers:
                nursery.start_soon(caller.run, tally, over)
            with trio.fail_after(_AT_MOST):
                while tally.outcomes["answered"] < _UNDER_WAY:
                    await trio.sleep(0.01)
            await trio.sleep(seconds / 4)
            await fault.strike(fleet)
            await trio.sleep(seconds / 2)
            over.set()
        recovered = await _all_served(callers, tally.answered)
        marks = Counter(fleet.marks.read_text().split())
    return Result(
        fault,
        tally.sent,
        tally.outcomes,
        sum(1 for number in marks.values() if number > 1),
        len(marks.keys() - tally.answered),
        tally.longest,
        recovered,
    )


def _callers(fleet: Fleet) -> list[Caller]:
    return [
        *(Caller(fleet.url, f"l{number}", "legacy") for number in range(CALLERS)),
        *(Caller(fleet.url, f"m{number}", "modern") for number in range(CALLERS)),
    ]


async def _all_served(callers: Sequence[Caller], answered: set[str]) -> bool:
    """Let each client call until all of them are answered for a moment, if that comes to pass."""
    with trio.move_on_after(_AT_MOST):
        while True:
            tally = await _again(callers)
            answered |= tally.answered
            if tally.outcomes["answered"] == tally.sent:
                return True
    return False


async def _again(callers: Sequence[Caller]) -> Tally:
    tally, over = Tally(), trio.Event()
    async with trio.open_nursery() as nursery:
        for caller in callers:
            nursery.start_soon(caller.run, tally, over)
        await trio.sleep(0.5)
        over.set()
    return tally


# -- how it is shown ---------------------------------------------------------------------------------

_TITLES: Final = ("what happens", "requests", *OUTCOMES, "lost results", "done twice", "longest")


def row_of(result: Result) -> list[str]:
    """Write a result as a row of the table."""
    counts = (f"{result.outcomes[each]:,}" for each in OUTCOMES)
    last = f"{result.unknown:,}", f"{result.twice:,}", f"{result.longest:.1f} s"
    return [result.fault.name, f"{result.sent:,}", *counts, *last]


def record_of(results: Sequence[Result], seconds: float) -> dict[str, Any]:
    """Make the record of a run."""
    return {
        "made": provenance(),
        "instances": SIZE,
        "clients": 2 * CALLERS,
        "seconds": seconds,
        "counted": {"headers": list(_TITLES), "rows": [row_of(each) for each in results]},
    }


async def _run(faults: Sequence[Fault], seconds: float, folder: Path) -> list[Result]:
    results = []
    for number, fault in enumerate(faults):
        results.append(await try_out(fault, seconds, folder / str(number)))
        print(table(_TITLES, [row_of(results[-1])]), flush=True)
    return results


def main() -> None:
    """Try all faults out."""
    parser = ArgumentParser(prog="python -m tests.faults.run")
    parser.add_argument("--seconds", type=float, default=12.0, help="for each fault, beside it")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the figures there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = partial(_run, FAULTS, options.seconds, Path(folder))
        results = trio.run(run)
    print("\n" + table(_TITLES, [row_of(each) for each in results]))
    if options.record:
        write(options.record, record_of(results, options.seconds))


if __name__ == "__main__":
    main()
