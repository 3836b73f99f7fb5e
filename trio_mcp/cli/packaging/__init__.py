"""`trio-mcp bundle` and `trio-mcp publish`: publishing a server."""
