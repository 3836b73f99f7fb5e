"""A conversation with a server, on its own pipes: what a client library would hide is seen."""

import json
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import trio
from attrs import define, field

from benchmarks.eras import LEGACY, Era
from benchmarks.processes import Command

START: float = 60.0
"""Seconds after which a server that has not started never will."""
_CHUNK = 65536

Answer = Mapping[str, Any] | None
"""A response; None if there was none in time."""


@define
class Session:
    """A server that was started, and what it has said so far."""

    process: trio.Process
    era: Era
    noise: list[bytes] = field(factory=list)
    """Lines that are no messages."""
    reading: trio.Event = field(factory=trio.Event)
    """While it is not set, nothing is read."""
    ended: trio.Event = field(factory=trio.Event)
    """Set at the end of what the server writes."""
    _answers: dict[object, Mapping[str, Any]] = field(factory=dict)
    _came: defaultdict[object, trio.Event] = field(factory=lambda: defaultdict(trio.Event))
    _last_id: int = 0

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(data)

    async def close(self) -> None:
        """End the server's input."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()

    async def begin(self, method: str, params: Mapping[str, Any]) -> int:
        """Send a request; return its id."""
        self._last_id += 1
        await self.write(self.era.request(self._last_id, method, dict(params)))
        return self._last_id

    async def begin_call(self, tool: str, **arguments: object) -> int:
        """Send a call; return its id."""
        return await self.begin("tools/call", {"name": tool, "arguments": arguments})

    async def answer(self, id: object, within: float) -> Answer:
        """Wait for an answer, or for the end of all answers."""
        with trio.move_on_after(within):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_first, self._came[id], nursery.cancel_scope)
                nursery.start_soon(_first, self.ended, nursery.cancel_scope)
        return self._answers.get(id)

    async def call(self, tool: str, *, within: float = 10.0, **arguments: object) -> Answer:
        """Call a tool, and wait for the answer."""
        return await self.answer(await self.begin_call(tool, **arguments), within)

    async def ping(self) -> Answer:
        """Ask whether it is still there."""
        return await self.answer(await self.begin("ping", {}), 10.0)

    async def read(self) -> None:
        """Take apart what the server writes."""
        assert self.process.stdout is not None
        rest = b""
        while True:
            await self.reading.wait()
            chunk = await self.process.stdout.receive_some(_CHUNK)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._take(line)
        self.ended.set()

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            id = message.get("id")
        except (ValueError, AttributeError):
            self.noise.append(line)
            return
        if "method" not in message:
            self._answers[id] = message
            self._came[id].set()

    def memory(self) -> int:
        """Return the most bytes that the server ever had resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (each for each in status.splitlines() if each.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024


async def _first(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


@asynccontextmanager
async def talking(command: Command, era: Era = LEGACY) -> AsyncIterator[Session]:
    """Start a server and make the handshake; kill it at the end of the block.

    Raises:
        TimeoutError: It did not start.
    """
    process = await trio.lowlevel.open_process(
        list(command.arguments),
        env={**os.environ, **command.environment},
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
    )
    session = Session(process, era)
    session.reading.set()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.read)
            first, *others = era.opening
            with suppress(trio.BrokenResourceError):  # it has ended, and so does the wait
                await session.write(first)
            if await session.answer(0, START) is None:
                raise TimeoutError(f"{command.arguments} did not start")
            await session.write(b"".join(others))
            yield session
            nursery.cancel_scope.cancel()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
