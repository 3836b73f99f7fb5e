"""`trio-mcp serve --reload`: the server is started again when its source changes."""
