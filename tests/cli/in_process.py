"""The faulty server in this process, for the doctor to talk to: no pipes, and the clock may jump."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from tests.cli.programs.faulty import END, Faulty
from trio_mcp.background import background_nursery
from trio_mcp.cli.probing.base import Era, Timeouts
from trio_mcp.cli.probing.stdio import StdioProbe


class FaultyInProcess:
    """What a probe sees of a server process."""

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

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        try:
            return await self._take.receive()
        except trio.EndOfChannel:
            return b""

    async def aclose(self) -> None:
        self._give.close()

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
async def probe(
    server: Faulty, timeouts: Timeouts, era: Era, is_last: bool
) -> AsyncIterator[StdioProbe]:
    """Run a server for the length of a block and talk to it, as `open_stdio_probe` does."""
    process = FaultyInProcess(server)
    probe = StdioProbe(era, process, timeouts)  # type: ignore[arg-type]
    async with background_nursery(process.run), background_nursery(probe.read):
        yield probe


async def no_orphans(probe: StdioProbe, patience: float) -> list[str]:
    """Nothing is left behind by what is no process."""
    await trio.lowlevel.checkpoint()
    return []
