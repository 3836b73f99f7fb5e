"""`trio-mcp port`: what a server for FastMCP or the official SDK uses, and what that is here."""
