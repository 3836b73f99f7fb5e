"""What is measured of a client, in the same way on every event loop.

A crowd of callers shares a number of calls; each makes one call after another. How a crowd is
run is all that differs between event loops.
"""

import json
import os
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter, time
from typing import Any

from benchmarks.eras import TEXT
from benchmarks.figures import percentile
from benchmarks.processes import cpu_seconds

WINDOW = 64
_PILOT = 200

Call = Callable[[], Awaitable[str]]
Caller = Callable[[], Coroutine[Any, Any, None]]
Crowd = Callable[[Caller, int], Awaitable[None]]
"""Runs one caller so many times at once, and waits for all of them."""


async def run_calls(call: Call, crowd: Crowd, count: int, window: int) -> list[float]:
    """Make so many calls, with at most `window` of them in flight.

    Returns:
        The seconds that each call took, shortest first.

    Raises:
        ValueError: An answer was wrong.
    """
    latencies: list[float] = []
    left = count

    async def caller() -> None:
        nonlocal left
        while left:
            left -= 1
            begin = perf_counter()
            text = await call()
            latencies.append(perf_counter() - begin)
            if text != TEXT:
                raise ValueError(f"the echo tool answered {text!r}")

    await crowd(caller, window)
    return sorted(latencies)


async def measure(
    call: Call, crowd: Crowd, *, seconds: float, started: float, begun: float
) -> None:
    """Measure a client that is connected, and print the figures.

    Args:
        call: Calls the echo tool and returns its text.
        crowd: Runs callers at once.
        seconds: How long each of the two runs lasts, about; 0 for the fewest calls.
        started: When the process was started, by the clock on the wall.
        begun: When the client began to connect, by `perf_counter`.
    """
    await call()
    figures = {"start": time() - started, "connect": perf_counter() - begun}
    for window, suffix in ((1, ""), (WINDOW, "_many")):
        begin = perf_counter()
        await run_calls(call, crowd, _PILOT, window)
        pilot = _PILOT / (perf_counter() - begin)
        count = max(_PILOT, int(pilot * seconds))
        begin, used = perf_counter(), _cpu_seconds()
        latencies = await run_calls(call, crowd, count, window)
        figures[f"rate{suffix}"] = count / (perf_counter() - begin)
        figures[f"cpu{suffix}"] = (_cpu_seconds() - used) / count
        figures[f"p50{suffix}"] = percentile(latencies, 50)
        figures[f"p99{suffix}"] = percentile(latencies, 99)
    print(json.dumps(figures))


def _cpu_seconds() -> float:
    """Return the processor time of this process and its server; 0 if the system does not tell."""
    return cpu_seconds(os.getpid()) or 0.0
