"""Our server over HTTP with a store; the arguments are its URL, if any, and the port."""

import resource
import sys
from typing import Any, cast

import trio

from trio_mcp import HttpLimits, HttpPolicy, Registry, serve_http
from trio_mcp.store.opening import open_store
from trio_mcp.store.protocol import Store

URI = "bench://text"
MOST_CONNECTIONS = 16_000
OPERATIONS = ("commit", "get", "scan", "claim", "read")

registry = Registry("echo", version="1.0")


class Counting:
    """A store that counts its operations: each looks its method up once."""

    count = 0

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        Counting.count += name in OPERATIONS
        return getattr(self._store, name)


@registry.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@registry.tool
async def operations() -> int:
    """Tell how often the store was asked so far."""
    return Counting.count


@registry.resource(URI)
async def text() -> str:
    """Something to subscribe to."""
    return "text"


@registry.tool
async def update() -> None:
    """Have the resource updated."""
    registry.notify_resource_updated(URI)


async def main() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    *urls, port = sys.argv[1:]
    options: dict[str, Any] = {
        "port": int(port),
        # Nothing but what is measured is sent, and one client has all connections.
        "policy": HttpPolicy(keep_alive=3600.0, max_concurrent_each=MOST_CONNECTIONS),
        "http_limits": HttpLimits(max_connections=MOST_CONNECTIONS),
    }
    if not urls:
        await serve_http(registry, **options)
        return
    async with open_store(urls[0]) as store:
        await serve_http(registry, store=cast(Store, Counting(store)), **options)


trio.run(main)
