"""What several processes share: entries, logs, leases and news, in memory or in a file.

`open_store` opens one, `Store` says what all of them do, and `changes` has what can be written.
The room knows nothing of MCP.
"""
