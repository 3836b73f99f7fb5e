"""The server that is soaked: `python -m tests.soak.server stdio`, or `http`, which prints its port."""

from __future__ import annotations

import sys
import threading

import trio

from trio_mcp import Registry, http_app, serve
from trio_mcp.transports.http.server import serve_asgi

registry = Registry("soaked", version="1.0")


@registry.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@registry.tool
async def sleep() -> str:
    """Wait until cancelled."""
    await trio.sleep_forever()
    return "never"


@registry.tool
async def tell() -> str:
    """Tell of a change, to those who subscribe."""
    registry.notify_resource_updated("soak://it")
    return "told"


@registry.tool
async def holdings() -> dict[str, int]:
    """Return how many tasks and threads there are."""
    tasks = trio.lowlevel.current_statistics().tasks_living
    return {"tasks": tasks, "threads": threading.active_count()}


@registry.resource("soak://it")
async def it() -> str:
    """Return a text."""
    return "it"


async def over_http() -> None:
    """Serve on a free port."""
    app = http_app(registry)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    print(listeners[0].socket.getsockname()[1], flush=True)
    async with app.running():
        await serve_asgi(app, listeners)


if __name__ == "__main__":
    trio.run(over_http) if sys.argv[1] == "http" else trio.run(serve, registry)
