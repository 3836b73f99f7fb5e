"""One JSON-RPC connection over a byte stream, whichever side of it we are.

It knows requests, notifications, answers and cancellation; it knows nothing of MCP's methods.
"""
