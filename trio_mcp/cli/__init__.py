"""The command line, `trio-mcp`. It needs the extra `cli`."""

import sys


def main() -> None:
    """Run the command line with the process's arguments, and exit with its status."""
    try:
        from trio_mcp.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("cyclopts", "rich"):
            raise
        sys.exit("trio-mcp: the command line needs more packages: pip install 'trio-mcp[cli]'")
    sys.exit(run(sys.argv[1:]))
