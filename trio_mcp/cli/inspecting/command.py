"""`trio-mcp inspect`: connect, and let a person try things out."""

from __future__ import annotations

from functools import partial

import trio

from trio_mcp.cli.failures import OK
from trio_mcp.cli.inspecting.lines import Lines, PipedLines, TypedLines
from trio_mcp.cli.inspecting.session import Inspection
from trio_mcp.cli.options import NO_OPTIONS, ConnectionOptions, TargetWord
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.session import connected
from trio_mcp.cli.target import Target, parse_target


def inspect(target: TargetWord, /, *, options: ConnectionOptions = NO_OPTIONS) -> int:
    """Try a server out in an interactive session.

    Ctrl-C cancels the call that runs, quit or Ctrl-D leaves, Tab completes, and the arrow keys
    recall what was typed before. Where stdin is no terminal, commands are read from it.
    """
    current: list[Inspection] = []

    def interrupt() -> bool:
        return bool(current) and current[0].interrupt()

    work = partial(_inspect, parse_target(target), options, current)
    return run_async(work, on_interrupt=interrupt)


async def _inspect(target: Target, options: ConnectionOptions, current: list[Inspection]) -> int:
    screen = Screen()
    async with connected(target, options, screen) as session:
        async with trio.open_nursery() as nursery:
            inspection = Inspection(session, nursery)
            current.append(inspection)
            lines: Lines = PipedLines()
            if screen.can_ask:  # then the person has seen what failed
                lines = TypedLines(screen, inspection.suggestions)
            status = await inspection.run(lines)
            nursery.cancel_scope.cancel()
    return OK if screen.can_ask else status
