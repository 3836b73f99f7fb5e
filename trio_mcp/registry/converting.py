"""Converting what a peer sent, however much it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from trio_mcp.public import public
from trio_mcp.registry.invalid import holds_many
from trio_mcp.wire.collector import collector_spared
from trio_mcp.wire.jsonrpc import Json

T = TypeVar("T")


@public
async def converted(convert: Callable[[Json], T], wire: Json) -> T:
    """Convert what a peer sent, in a worker thread if it is much.

    An extension does well to make its objects of results so: a peer may send a million of what is
    expected to be ten, and other tasks would wait while they are converted.

    Args:
        convert: Makes something of the value. It must not use Trio, since it may run in a thread.
        wire: The value, as JSON.

    Returns:
        What `convert` returns. What it raises comes out as it is. If the value is small, this is no
        checkpoint. If this is cancelled, a thread goes on until `convert` returns, and what it
        returns is dropped.

    Example:
        >>> async def colours(client: Client) -> list[str]:
        ...     result = await client.request("colours/list", {})
        ...     return await converted(lambda wire: list(map(str, wire)), result["colours"])
    """
    if not holds_many(wire):
        return convert(wire)

    def work() -> T:
        with collector_spared():
            return convert(wire)

    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)
