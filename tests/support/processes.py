"""Servers as their clients meet them: separate processes on real pipes, sockets and files.

Every process has a time limit and is killed when its block ends, however it ends. Its stderr is
read all the time, so that it never blocks, and tests wait for what it says instead of sleeping.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio

import trio_mcp
from tests.support.client import RawClient

ROOT = Path(trio_mcp.__file__).parents[1]
PROGRAMS = ROOT / "tests" / "end_to_end" / "programs"
EXAMPLES = ROOT / "docs" / "examples"
WORKSHOP = PROGRAMS / "workshop.py"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
SYSTEM_PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"])
"""Where servers are that not everybody has on their PATH."""
TIME_LIMIT = 300  # seconds, for a process that hangs


def python(program: Path, *arguments: str) -> list[str]:
    """The command that runs a Python program."""
    return [sys.executable, str(program), *arguments]


def workshop(**limits: float) -> list[str]:
    """The command that runs the workshop server with these limits."""
    return python(WORKSHOP, json.dumps(limits))


class Server:
    """A running server process."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.stderr = bytearray()
        self._more_stderr = trio.Condition()
        self._stderr_ended = process.stderr is None
        if process.stdin is not None and process.stdout is not None:
            self.client = RawClient(trio.StapledStream(process.stdin, process.stdout))

    async def collect_stderr(self) -> None:
        """Read what the process and its children say on stderr, to the end."""
        if self.process.stderr is not None:
            async for chunk in self.process.stderr:
                await self._heard(chunk)
        self._stderr_ended = True
        await self._heard(b"")

    async def _heard(self, chunk: bytes | bytearray) -> None:
        async with self._more_stderr:
            self.stderr += chunk
            self._more_stderr.notify_all()

    async def said(self, text: bytes, times: int = 1) -> None:
        """Wait until stderr contains a text so often."""
        async with self._more_stderr:
            while self.stderr.count(text) < times:
                assert not self._stderr_ended, f"{text!r} is not in {bytes(self.stderr)!r}"
                await self._more_stderr.wait()

    async def exit(self) -> int:
        """Wait for the process to exit, and for all of its stderr; return its status."""
        status = await self.process.wait()
        async with self._more_stderr:
            while not self._stderr_ended:
                await self._more_stderr.wait()
        return status

    async def finish(self) -> int:
        """End the input and wait for the exit."""
        await self.client.send_eof()
        return await self.exit()

    async def hang_up(self) -> None:
        """Close both ends, as a client that went away does."""
        await self.client.stream.aclose()

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        self.process.send_signal(signal.Signals(number))

    def memory(self, field: str = "VmRSS") -> int:
        """Bytes of memory that the process has now, or at its peak (`VmHWM`)."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"/proc has no {field}")


@asynccontextmanager
async def running(
    command: list[str], *, time_limit: float = TIME_LIMIT, **options: Any
) -> AsyncIterator[Server]:
    """Run a server, on pipes unless the options say otherwise."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    settings = {"env": ENVIRONMENT, **streams, **options}
    process = await trio.lowlevel.open_process(command, **settings)
    try:
        server = Server(process)
        with trio.fail_after(time_limit):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.collect_stderr)
                yield server
                nursery.cancel_scope.cancel()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    await stream.aclose()


async def run(
    command: list[str], input: bytes = b"", **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, with all of its input there from the start."""
    settings = {"env": ENVIRONMENT, "stdin": input, "capture_stdout": True, **options}
    with trio.fail_after(TIME_LIMIT):
        return await trio.run_process(command, capture_stderr=True, check=False, **settings)


def lines(*messages: Any) -> bytes:
    """Write messages as a client sends them."""
    return b"".join(json.dumps(each).encode() + b"\n" for each in messages)


def parse(output: bytes) -> list[Any]:
    """Parse what a server wrote; every line must be a message."""
    assert output.endswith(b"\n") or not output, "the output ends within a line"
    return [json.loads(line) for line in output.splitlines()]


def call(id: Any, name: str, **arguments: Any) -> dict[str, Any]:
    """Make a request that calls a tool."""
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def ping(id: Any) -> dict[str, Any]:
    """Make a request that any server answers at once."""
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


def text_of(response: Any) -> str:
    """The text of the first block of a tool's result."""
    return response["result"]["content"][0]["text"]  # type: ignore[no-any-return]


def complaints(stderr: bytes) -> list[bytes]:
    """What a log on stderr says beyond what is usual: lines that are no information."""
    return [line for line in stderr.splitlines() if b" INFO " not in line]
