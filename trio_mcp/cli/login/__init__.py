"""Getting in at servers that want to know who we are: `trio-mcp login`, `logout`, `whoami`."""
