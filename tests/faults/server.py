"""A server whose calls leave a mark for each time that they are carried out.

    python -m tests.faults.server PORT STORE FILE

It serves at a port of this machine, shares a store with others of its kind, and appends the key of
each call to a file.
"""

from __future__ import annotations

import os
import sys
from functools import partial

import trio

from trio_mcp import Context, Registry, serve_http

registry = Registry("marks")
_marks = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

WORK = 0.02
"""Seconds that a call takes."""


@registry.tool
async def mark(key: str) -> str:
    """Leave a mark, and take a moment."""
    os.write(_marks, f"{key}\n".encode())
    await trio.sleep(WORK)
    return key


@registry.tool
async def mark_slowly(key: str, context: Context) -> str:
    """Leave a mark, and say how far it is."""
    os.write(_marks, f"{key}\n".encode())
    for part in range(4):
        await context.progress(part + 1, 4)
        await trio.sleep(WORK)
    return key


async def main() -> None:
    """Serve until told to stop."""
    async with trio.open_nursery() as nursery:
        serve = partial(serve_http, store=sys.argv[2], own_process=True)
        await nursery.start(serve, registry, "127.0.0.1", int(sys.argv[1]))
        print("ready", flush=True)


if __name__ == "__main__":
    trio.run(main)
