"""Loading a server process: one task that writes and reads, so that little is measured but it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import trio

from trio_mcp.cli.bench.load import Run, outcome
from trio_mcp.cli.failures import Failure
from trio_mcp.peer.lines import StreamLines

_LAST_ANSWERS: Final = 10.0
"""Seconds to wait for the answers that are still due."""


async def load_stdio(
    lines: StreamLines,
    calls: Iterator[tuple[int, bytes]],
    in_flight: int,
    seconds: float,
) -> Run:
    """Keep so many calls in flight for so long.

    Raises:
        Failure: The server goes away.
    """
    sent: dict[int, float] = {}
    times: list[float] = []
    failed = 0
    began = trio.current_time()
    end = began + seconds

    async def send(number: int) -> None:
        batch = [next(calls) for _ in range(number)]
        now = trio.current_time()
        sent.update((id, now) for id, _ in batch)
        try:
            await lines.send([line for _, line in batch])
        except trio.BrokenResourceError:
            raise Failure("the server takes no more input") from None

    await send(in_flight)
    with trio.move_on_after(seconds + _LAST_ANSWERS):
        while sent:
            received = await lines.receive()
            if not received:
                raise Failure("the server went away under the load")
            now = trio.current_time()
            answered = 0
            for line in received:
                found = outcome(line) if isinstance(line, bytes) else None
                if found is None or found[0] not in sent:
                    continue
                answered += 1
                id, success = found
                times.append(now - sent.pop(id))
                failed += not success
            if answered and now < end:
                await send(answered)
    return Run(in_flight, trio.current_time() - began, sorted(times), failed + len(sent))
