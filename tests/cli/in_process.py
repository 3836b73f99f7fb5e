"""The faulty server in this process, for the doctor to talk to: no pipes, and the clock may jump."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from tests.cli.programs.faulty import END, Faulty
from trio_mcp.cli.probing.base import Era, Waits
from trio_mcp.cli.probing.stdio import StdioProbe
from trio_mcp.transports.background import background_task


class FaultyInProcess:
    """What a probe sees of a server process, and of one that is watched."""

    def __init__(self, server: Faulty) -> None:
        self._server = server
        self._give, self._stdin = trio.open_memory_channel[str](1000)
        self._stdout, self._take = trio.open_memory_channel[bytes](1000)
        self.exited = trio.Event()
        self.returncode: int | None = None
        self.stderr_tail = ""

    @property
    def pid(self) -> int:
        raise AssertionError("only a process has an id, and takes signals")

    async def send_all(self, data: bytes) -> None:
        for line in data.decode().splitlines(keepends=True):
            await self._give.send(line)

    async def receive_some(self) -> bytes:
        try:
            return await self._take.receive()
        except trio.EndOfChannel:
            return b""

    async def aclose(self) -> None:
        self._give.close()

    async def wait_exited(self, patience: float) -> bool:
        with trio.move_on_after(patience):
            await self.exited.wait()
        return self.exited.is_set()

    async def survivors(self, patience: float) -> list[str]:
        return []

    async def run(self) -> None:
        """Run the server; its exit, however it comes, is that of a process."""
        with self._stdin, self._stdout:
            try:
                await self._steps()
                self.returncode = 0
            except SystemExit as end:
                self.returncode = end.code if isinstance(end.code, int) else 1
                self.stderr_tail = f"{end.code}\n"
            except Exception:
                self.returncode = 1
                self.stderr_tail = traceback.format_exc()
        self.exited.set()

    async def _steps(self) -> None:
        steps = self._server.steps()
        step = next(steps, END)
        while step is not END:
            told = None
            if step is None:
                told = await anext(self._stdin, END)
            elif isinstance(step, str):
                await self._stdout.send(step.encode())
            else:
                await trio.sleep(step)
            try:
                step = steps.send(told)
            except StopIteration:
                return


@asynccontextmanager
async def watch(server: Faulty) -> AsyncIterator[FaultyInProcess]:
    """Run a server for the length of a block, as `open_watched` does."""
    process = FaultyInProcess(server)
    async with background_task(process.run):
        yield process


@asynccontextmanager
async def probe(server: Faulty, waits: Waits, era: Era) -> AsyncIterator[StdioProbe]:
    """Run a server for the length of a block and talk to it, as `open_stdio_probe` does."""
    async with watch(server) as process:
        probe = StdioProbe(era, process, waits)
        async with background_task(probe.read):
            yield probe
