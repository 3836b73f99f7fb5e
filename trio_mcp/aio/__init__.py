"""The same library for programs on asyncio: clients, and registries that are served there."""

from trio_mcp.aio.client import ChangeStream, Client, ClientConnection, connect

__all__ = ["ChangeStream", "Client", "ClientConnection", "connect"]

for _each in (ChangeStream, Client, ClientConnection, connect):
    _each.__module__ = __name__  # wherever in this room it stands
