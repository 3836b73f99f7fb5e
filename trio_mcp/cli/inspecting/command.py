"""`trio-mcp inspect`: connect, and let a person try things out."""

from __future__ import annotations

import trio

from trio_mcp.cli.failures import OK
from trio_mcp.cli.inspecting.lines import Lines, PipedLines, TypedLines
from trio_mcp.cli.inspecting.session import Inspection
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.session import Connecting, connected
from trio_mcp.cli.target import Target, parse_target

_DEFAULT = Connecting()


def inspect(target: str, /, *, connecting: Connecting = _DEFAULT) -> int:
    """Try a server out in an interactive session.

    Ctrl-C cancels the call that runs, quit or Ctrl-D leaves, Tab completes, and the arrow keys
    recall what was typed before. Where stdin is no terminal, commands are read from it.

    Args:
        target: FILE.py:REGISTRY, MODULE:REGISTRY or a URL; or else a command, last, after --.
        connecting: How the server is reached.
    """
    place = parse_target(target)
    current: list[Inspection] = []

    def interrupt() -> bool:
        return bool(current) and current[0].interrupt()

    async def main() -> int:
        return await _inspect(place, connecting, current)

    return run_async(main, on_interrupt=interrupt)


async def _inspect(target: Target, options: Connecting, current: list[Inspection]) -> int:
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
