"""`trio-mcp doctor`: what is wrong with a server, and what to do about it."""
