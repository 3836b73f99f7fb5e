"""The same library for programs on asyncio: clients, and registries that are served there.

As in `trio_mcp`, each name is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trio_mcp.aio.client import ChangeStream as ChangeStream
    from trio_mcp.aio.client import Client as Client
    from trio_mcp.aio.client import ClientConnection as ClientConnection
    from trio_mcp.aio.client import connect as connect
    from trio_mcp.aio.group import GroupConnection as GroupConnection
    from trio_mcp.aio.group import ServerGroup as ServerGroup
    from trio_mcp.aio.group import connect_all as connect_all
    from trio_mcp.aio.handlers import on_asyncio as on_asyncio
    from trio_mcp.aio.http import http_app as http_app
    from trio_mcp.aio.registry import Registry as Registry
    from trio_mcp.aio.stdio import serve as serve

_MODULES: Final = {
    "ChangeStream": "client",
    "Client": "client",
    "ClientConnection": "client",
    "GroupConnection": "group",
    "Registry": "registry",
    "ServerGroup": "group",
    "connect": "client",
    "connect_all": "group",
    "http_app": "http",
    "on_asyncio": "handlers",
    "serve": "stdio",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        if error.name != "httptools":
            raise
        why = f"{name} needs more packages: pip install 'trio-mcp[http]'"
        raise ModuleNotFoundError(why, name=error.name) from None
    value = getattr(module, name)
    value.__module__ = __name__  # wherever in this room it stands
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
