"""`trio-mcp new`: a starter project."""
