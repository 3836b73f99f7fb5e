"""Tests that run in asyncio, and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import trio

from trio_mcp import Context, Registry

TIME_LIMIT = 120  # seconds, for what must not hang


def in_asyncio(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own, and see to it that no thread of ours is left."""

    @wraps(test)
    def run(*args: Any, **options: Any) -> None:
        async def main() -> None:
            async with asyncio.timeout(TIME_LIMIT):
                await test(*args, **options)

        asyncio.run(main())
        assert our_threads() == []

    return run


def our_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "trio-mcp"]


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


class Workshop(Registry):
    """A registry whose tools tell a test what happens to them."""

    def __init__(self) -> None:
        super().__init__("workshop")
        self.events: list[str] = []
        self.add_tool(self.echo)
        self.add_tool(self.wait)
        self.add_tool(self.count)
        self.add_tool(self.confirm)
        self.add_tool(self.warn)

    async def echo(self, text: str) -> str:
        """Return the text."""
        return text

    async def wait(self) -> None:
        """Wait to be cancelled."""
        self.events.append("began")
        try:
            await trio.sleep_forever()
        finally:
            self.events.append("ended")

    async def count(self, to: int, context: Context) -> int:
        """Count, with progress."""
        for number in range(to):
            await context.progress(number, total=to)
        return to

    async def confirm(self, context: Context) -> bool:
        """Ask the user."""
        return (await context.elicit("Really?", bool)).value

    async def warn(self, context: Context) -> None:
        """Write to the client's log."""
        await context.warning("hot")


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so. What is waited for happens in another thread."""
    while not condition():
        await asyncio.sleep(0.001)
