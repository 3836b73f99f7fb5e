"""`trio-mcp bench`: how many calls a server answers in a second, and how long one takes."""
