"""What several processes share: entries, logs, leases and news, in memory, a file or Redis.

`open_store` opens a store, `Store` is its interface, and `changes` has what can be written.
The package knows nothing of MCP.
"""
