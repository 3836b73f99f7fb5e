"""`trio-mcp bundle` and `trio-mcp publish`: passing a server on to others."""
