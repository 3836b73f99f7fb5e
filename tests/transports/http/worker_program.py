"""A server in several processes, as its user would write it.

    python -m tests.transports.http.worker_program PLACE NUMBER [STATUS]

It listens at a port, or on the Unix socket of that path. Its tools tell which process answers. With
a status, each worker exits with it at once. With IMPATIENT in the environment, its time limits are
as short as they can be.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from functools import partial

import trio

from trio_mcp import Context, Limits, Registry, serve_http
from trio_mcp.extensions.tasks import Tasks
from trio_mcp.transports.http.workers.channel import ENVIRONMENT

registry = Registry("shop", extensions=[Tasks()])


@registry.tool
async def who() -> int:
    """Tell which process this is."""
    return os.getpid()


@registry.tool
async def work(seconds: float) -> int:
    """Take some time."""
    logging.info("working")
    await trio.sleep(seconds)
    return os.getpid()


@registry.tool
async def wait_for(file: str) -> int:
    """Take until there is such a file."""
    logging.info("working")
    while not await trio.Path(file).exists():
        await trio.sleep(0.01)
    return os.getpid()


@registry.tool(task=True)
async def job() -> int:
    """Tell which process this is, later."""
    return os.getpid()


@registry.tool
async def die() -> None:
    """End this process."""
    os._exit(9)


@registry.tool
async def block() -> None:
    """Block the loop, as code does that is not meant for one."""
    logging.info("blocking")
    time.sleep(3600)


@registry.tool
async def agree(context: Context) -> str:
    """Ask a question."""
    return (await context.elicit("Really?", bool)).action


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    place, number, *more = sys.argv[1:]
    if more and ENVIRONMENT in os.environ:
        sys.exit(int(more[0]))
    where = {"port": int(place)} if place.isdecimal() else {"unix_socket": place}
    brief = dict.fromkeys(("cancel_timeout", "flush_timeout", "lifespan_timeout"), 0.01)
    brief["lifespan_timeout"] = float(os.environ.get("LIFESPAN_TIMEOUT", "0.01"))
    limits = Limits(shutdown_grace=0, **brief) if "IMPATIENT" in os.environ else Limits()
    how = {
        "limits": limits,
        "workers": int(number),
        "own_process": True,
        "sse_path": "/sse",
        **where,
    }
    trio.run(partial(serve_http, registry, **how))
