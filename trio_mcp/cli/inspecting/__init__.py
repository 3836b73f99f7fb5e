"""`trio-mcp inspect`: one connection, and a person who tries things out."""
