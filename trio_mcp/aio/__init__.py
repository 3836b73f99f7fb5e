"""The same library for programs on asyncio: clients, and registries that are served there."""

from trio_mcp.aio.client import ChangeStream, Client, ClientConnection, connect
from trio_mcp.aio.group import GroupConnection, ServerGroup, connect_all
from trio_mcp.aio.handlers import on_asyncio
from trio_mcp.aio.http import http_app
from trio_mcp.aio.registry import Registry
from trio_mcp.aio.serve import serve

__all__ = [
    "ChangeStream",
    "Client",
    "ClientConnection",
    "GroupConnection",
    "Registry",
    "ServerGroup",
    "connect",
    "connect_all",
    "http_app",
    "on_asyncio",
    "serve",
]

for _name in __all__:
    globals()[_name].__module__ = __name__  # wherever in this room it stands
