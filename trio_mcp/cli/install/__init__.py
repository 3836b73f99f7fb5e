"""`trio-mcp install`: adding a server to the configuration of a host."""
