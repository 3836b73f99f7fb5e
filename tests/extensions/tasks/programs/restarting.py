"""A server that is killed and started again: `restarting.py STORE CLOCK FOLDER`, on stdio."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import trio

from tests.store.programs.process import SharedTime
from trio_mcp import Context, Limits, Registry, serve
from trio_mcp.extensions.tasks import TaskOptions, Tasks
from trio_mcp.store.protocol import Store
from trio_mcp.store.sqlite import SQLiteStore


def make(store: Store, folder: Path) -> Registry:
    """Make a registry whose tools hang when they run for the first time."""
    registry = Registry("restarting", extensions=[Tasks(store=store)])

    @registry.tool
    async def pid() -> int:
        """Which process is this?"""
        return os.getpid()

    async def work(name: str, context: Context) -> str:
        runs = folder / name
        with runs.open("a") as file:
            file.write(f"{os.getpid()}\n")
        if len(runs.read_text().splitlines()) == 1:
            await context.progress(1, message="running")
            await trio.sleep_forever()
        return f"run {len(runs.read_text().splitlines())}"

    @registry.tool(task=TaskOptions(on_restart="run again"))
    async def again(name: str, context: Context) -> str:
        """Hang once."""
        return await work(name, context)

    @registry.tool(task=TaskOptions(on_restart="fail"))
    async def once(name: str, context: Context) -> str:
        """Hang, and fail."""
        return await work(name, context)

    @registry.tool(task=TaskOptions(on_restart="run again"))
    async def ask(name: str, context: Context) -> str:
        """Ask, hang once, and ask again."""
        first = await context.elicit("Which colour?", str)
        ran = await work(name, context)
        second = await context.elicit("Which shade?", str)
        return f"{first.value} {second.value} {ran}"

    return registry


async def main(path: str, clock: str, folder: str) -> None:
    """Serve until the input ends."""
    async with SQLiteStore(path, clock=SharedTime(Path(clock))).open() as store:
        await serve(make(store, Path(folder)), limits=Limits(eof_grace=0.0))


if __name__ == "__main__":
    trio.run(partial(main, *sys.argv[1:]))
