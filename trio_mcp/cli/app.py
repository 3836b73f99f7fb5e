"""The commands of `trio-mcp`."""

import sys

from cyclopts import App

from trio_mcp.cli.serve import serve
from trio_mcp.cli.target import TargetError

app = App(
    name="trio-mcp",
    help="The Model Context Protocol for Trio.",
    result_action="return_value",
)
app.command(serve)


def run() -> None:
    """Run a command; what a person can put right is told in one line."""
    try:
        app()
    except TargetError as error:
        sys.exit(f"trio-mcp: {error}")
