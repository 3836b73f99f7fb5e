"""Two instances that share a store: one of them is hurt, and the other one is idle."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import trio
from attrs import define, field

from tests.store.redis_server import RedisServer, free_port, redis_server
from tests.support.processes import ROOT, Server, running
from tests.support.relay import Relay


@define
class Pair:
    """The instances, and what is between them."""

    program: str
    """The module that each of them runs: `program PORT STORE FOLDER`. It says when it is ready."""
    folder: Path
    stack: AsyncExitStack
    store: str
    near: str
    """The store as the first one reaches it."""
    redis: RedisServer | None = None
    relay: Relay | None = None
    """The network between the first one and Redis."""
    ports: list[int] = field(factory=list)
    servers: list[Server] = field(factory=list)

    @property
    def file(self) -> Path:
        """The store of the kind `sqlite`."""
        return self.folder / "store.db"

    async def start(self) -> None:
        """Start another instance."""
        port, store = free_port(), self.store if self.servers else self.near
        command = [sys.executable, "-m", self.program, str(port), store, str(self.folder)]
        server = await self.stack.enter_async_context(running(command, cwd=ROOT))
        await server.said(b"ready\n")
        self.servers.append(server)
        self.ports.append(port)

    def url(self, number: int) -> str:
        return f"http://127.0.0.1:{self.ports[number]}/mcp"


@asynccontextmanager
async def pair_of(program: str, kind: str, folder: Path, size: int = 2) -> AsyncIterator[Pair]:
    """Start instances that share a store: `sqlite`, or a `redis` that keeps its data."""
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        store = near = f"sqlite:///{folder / 'store.db'}"
        redis = relay = None
        if kind == "redis":
            options = "--appendonly", "yes", "--appendfsync", "always"
            redis = stack.enter_context(redis_server(folder, *options))
            relay = Relay(redis.port)
            await nursery.start(relay.run)
            store, near = redis.url, f"redis://127.0.0.1:{relay.port}/0"
        pair = Pair(program, folder, stack, store, near, redis, relay)
        for _ in range(size):
            await pair.start()
        yield pair
        nursery.cancel_scope.cancel()
