"""`trio-mcp serve --reload`: the server starts anew whenever its source changes."""
