"""`python -m trio_mcp`: the command line, as `python -m trio_mcp.cli`."""

from trio_mcp.cli import main

main()
