"""`trio-mcp inspect`: connect, and let a person try things out."""

from __future__ import annotations

from trio_mcp.cli.inspecting.session import Inspection
from trio_mcp.cli.options import NO_OPTIONS, ConnectionOptions, TargetWord
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.target import parse_target


def inspect(target: TargetWord, /, *, options: ConnectionOptions = NO_OPTIONS) -> int:
    """Try a server out in an interactive session.

    Ctrl-C cancels the call that runs, quit or Ctrl-D leaves, Tab completes, and the arrow keys
    recall what was typed before. Where stdin is no terminal, commands are read from it.
    """
    inspection = Inspection(parse_target(target), options, Screen())
    return run_async(inspection.run, on_interrupt=inspection.interrupt)
