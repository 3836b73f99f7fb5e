"""Converting what a peer sent, however much it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from trio_mcp.registry.invalid import holds_many
from trio_mcp.wire.collector import collector_spared
from trio_mcp.wire.jsonrpc import Json

T = TypeVar("T")


async def converted(convert: Callable[[Json], T], wire: Json) -> T:
    """Convert what a peer sent, in a worker thread if that is much.

    No checkpoint if it is not. Cancelled, it leaves the thread behind, which ends by itself.
    """
    if not holds_many(wire):
        return convert(wire)

    def work() -> T:
        with collector_spared():
            return convert(wire)

    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)
