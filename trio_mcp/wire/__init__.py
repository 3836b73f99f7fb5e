"""What travels: framing, JSON-RPC, MCP payloads, revisions, errors. No I/O and no Trio."""
