"""Logging in to servers: `trio-mcp login`, `logout`, `whoami`."""
