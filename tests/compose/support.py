"""Servers that come and go, in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import trio
from attrs import define, field
from trio.testing import memory_stream_pair

from trio_mcp import Registry, Remote, connect, connect_all, serve_stream
from trio_mcp.client.connect import ClientConnection
from trio_mcp.compose import open_gateway
from trio_mcp.errors import CannotReach


@define(eq=False)
class Mortal:
    """A server that can be killed, and that is there again when it may be."""

    nursery: trio.Nursery
    registry: Registry
    may_live: bool = True
    starts: int = 0
    times: list[float] = field(factory=list)
    _life: trio.CancelScope = field(factory=trio.CancelScope)

    def open(self, **options: Any) -> ClientConnection:
        """Begin a connection to it, as `connect` does."""
        self.starts += 1
        self.times.append(trio.current_time())
        if not self.may_live:
            raise CannotReach("it is down")
        ours, theirs = memory_stream_pair()
        self._life = trio.CancelScope()
        self.nursery.start_soon(self._serve, theirs, self._life)
        return connect(ours, **options)

    async def _serve(self, stream: trio.abc.Stream, life: trio.CancelScope) -> None:
        with life:
            await serve_stream(self.registry, stream)
        await stream.aclose()

    def die(self) -> None:
        """End at once."""
        self._life.cancel()


def named(name: str, *functions: Callable[..., Any]) -> Registry:
    """A registry with some tools."""
    registry = Registry(name)
    for each in functions:
        registry.add_tool(each)
    return registry


# Where a test is not about servers that are slow: none is, but the machine may be.
remote_to = partial(Remote, wait=60)
group_of = partial(connect_all, wait=60)
gateway_of = partial(open_gateway, wait=60)
