"""The OAuth proxy: an authorization server for MCP clients in front of a provider of logins."""
