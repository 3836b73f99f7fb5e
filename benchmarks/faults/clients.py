"""What goes wrong at a server, and what its client makes of it."""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE

import trio
from attrs import frozen

from benchmarks.faults.servers import PATIENCE
from benchmarks.peers import python_server
from benchmarks.processes import Command

_TO_LEAVE = 30.0
_SOON = 1.0


@frozen
class Fault:
    """A fault of a server.

    Args:
        name: As `faulty.py` has it.
        leaving: Whether it is seen when the client leaves, not at its call.
    """

    name: str
    leaving: bool = False


FAULTS: Mapping[str, Fault] = {
    "The server exits during a call": Fault("exits"),
    "The server never answers a call": Fault("is silent"),
    "The server prints lines that are no messages: a call": Fault("prints"),
    "The server ignores the end of its input, and SIGTERM: when the client has left": Fault(
        "stays", leaving=True
    ),
}
"""By what happens."""
ONCE = {"The server never answers a call"}


async def seen(client: Command, fault: Fault) -> str:
    """Have a client meet a server with a fault; say what became of the call, or of the server."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pids"
        server = python_server("faulty.py", fault.name, str(file)).arguments
        process = await trio.lowlevel.open_process(
            [*client.arguments, *server],
            env={**os.environ, **client.environment},
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
        )
        try:
            told = await _first_line(process)
            if fault.leaving:
                with trio.move_on_after(_TO_LEAVE):
                    await process.wait()
                return _left(file.read_text())
            return told
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            _kill(file)


async def _first_line(process: trio.Process) -> str:
    assert process.stdout is not None
    line = b""
    with trio.move_on_after(PATIENCE):
        while not line.endswith(b"\n"):
            chunk = await process.stdout.receive_some()
            if not chunk:
                return "the client fails"
            line += chunk
    if not line:
        return f"no end in {PATIENCE:.0f} s"
    told = json.loads(line)
    if told["became"] == "the result":
        return "gets its result"
    after = "at once" if told["seconds"] < _SOON else f"after {told['seconds']:.0f} s"
    return f"{told['became']} {after}"


def _left(pids: str) -> str:
    """Say which of the server's two processes are still there."""
    there = [_runs(int(pid)) for pid in pids.split()]
    names = [name for name, runs in zip(("it", "its child"), there, strict=True) if runs]
    return (
        f"{' and '.join(names)} still run{'s' if len(names) == 1 else ''}"
        if names
        else ("it and its child have ended")
    )


def _runs(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def _kill(file: Path) -> None:
    """Kill what has stayed."""
    if file.exists():
        for pid in file.read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def python_client(script: str) -> Command:
    """Start one of our scripts with the Python that runs this."""
    root = Path(__file__).parents[2]
    path = root / "benchmarks" / "clients" / script
    return Command([sys.executable, str(path)], {"PYTHONPATH": str(root)})
