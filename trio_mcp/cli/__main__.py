"""`python -m trio_mcp.cli`: the command line, wherever its script may be."""

from trio_mcp.cli import main

main()
