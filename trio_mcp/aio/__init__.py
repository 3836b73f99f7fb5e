"""The same library for programs on asyncio: clients, and registries that are served there.

As in `trio_mcp`, each name is imported when it is first asked for.
"""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import by_name, lazily

if TYPE_CHECKING:
    from trio_mcp.aio.client import ChangeStream as ChangeStream
    from trio_mcp.aio.client import Client as Client
    from trio_mcp.aio.client import ClientConnection as ClientConnection
    from trio_mcp.aio.client import connect as connect
    from trio_mcp.aio.fastapi import from_fastapi as from_fastapi
    from trio_mcp.aio.group import GroupConnection as GroupConnection
    from trio_mcp.aio.group import ServerGroup as ServerGroup
    from trio_mcp.aio.group import connect_all as connect_all
    from trio_mcp.aio.handlers import on_asyncio as on_asyncio
    from trio_mcp.aio.http import http_app as http_app
    from trio_mcp.aio.registry import Registry as Registry
    from trio_mcp.aio.stdio import serve as serve

_MODULES: Final = by_name(
    {
        "aio.client": "ChangeStream Client ClientConnection connect",
        "aio.fastapi": "from_fastapi",
        "aio.group": "GroupConnection ServerGroup connect_all",
        "aio.handlers": "on_asyncio",
        "aio.http": "http_app",
        "aio.registry": "Registry",
        "aio.stdio": "serve",
    }
)

_EXTRAS: Final = {"aio.fastapi": "openapi", "aio.http": "http"}

__all__ = sorted(name for name, module in _MODULES.items() if module not in _EXTRAS)

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(globals(), _MODULES, extras=_EXTRAS, own=True)
