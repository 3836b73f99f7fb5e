"""Instances that share a Redis behind a balancer, each of which can be hurt."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio
from attrs import define, field

from tests.store.redis_server import RedisServer, free_port, redis_server
from tests.support.fleet import balanced
from tests.support.processes import ENVIRONMENT, ROOT
from tests.support.relay import Relay

SIZE = 3


@define
class Instance:
    """One process of the server.

    Args:
        port: Where it serves.
        store: The URL of its store.
        process: It.
    """

    port: int
    store: str
    process: trio.Process

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"


@define
class Fleet:
    """All of it."""

    url: str
    redis: RedisServer
    marks: Path
    """Has the key of each call that was carried out, as often as it was."""
    nursery: trio.Nursery
    relays: list[Relay]
    """The network between the first instances and Redis, one for each. The others have their own."""
    instances: list[Instance] = field(factory=list)

    async def start(self, number: int) -> None:
        """Start an instance in place of one that has ended, and wait until it listens."""
        old = self.instances[number]
        await old.process.wait()
        old.process = await self._run(old.port, old.store)

    async def add(self, port: int) -> None:
        """Start one more."""
        place = self.redis.port
        if len(self.instances) < len(self.relays):
            place = self.relays[len(self.instances)].port
        store = f"redis://127.0.0.1:{place}/0"
        self.instances.append(Instance(port, store, await self._run(port, store)))

    async def _run(self, port: int, store: str) -> trio.Process:
        command = [sys.executable, "-m", "tests.faults.server", str(port), store]
        with (self.marks.parent / "instances.log").open("ab") as log:
            run = partial(
                trio.run_process,
                [*command, str(self.marks)],
                cwd=ROOT,
                env=ENVIRONMENT,
                stdout=subprocess.PIPE,
                stderr=log,
                check=False,
                deliver_cancel=_kill,
            )
            process: trio.Process = await self.nursery.start(run)
        assert process.stdout is not None
        said = b""
        while said != b"ready\n":
            chunk = await process.stdout.receive_some()
            assert chunk, (self.marks.parent / "instances.log").read_text()
            said += chunk
        return process


async def _kill(process: trio.Process) -> None:
    process.kill()


@asynccontextmanager
async def running(folder: Path, *, relayed: int = 0) -> AsyncIterator[Fleet]:
    """Run a fleet during the block.

    Args:
        folder: For all its files.
        relayed: How many of its instances have a network that can be cut.
    """
    ports = [free_port() for _ in range(SIZE)]
    with redis_server(folder) as redis, balanced(folder / "nginx", ports) as port:
        async with trio.open_nursery() as nursery:
            marks = folder / "marks"
            marks.touch()
            relays = [Relay(redis.port) for _ in range(relayed)]
            for relay in relays:
                await nursery.start(relay.run)
            fleet = Fleet(f"http://127.0.0.1:{port}/mcp", redis, marks, nursery, relays)
            for each in ports:
                await fleet.add(each)
            yield fleet
            nursery.cancel_scope.cancel()
