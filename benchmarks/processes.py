"""Servers as processes: started, watched, measured, and always reaped.

A server that hangs is killed by a watchdog, which ends whatever read waits for it. With two
processors the server has one to itself and the load generator the other.
"""

import os
import random
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import IO

from attrs import frozen

from benchmarks.load import Lines, LoadError

_TICKS = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 120.0


@frozen
class Command:
    """How a server is started."""

    arguments: Sequence[str]
    environment: Mapping[str, str]


@frozen
class Server:
    """A running server."""

    process: subprocess.Popen[bytes]
    started: float
    """When it was started, on the clock of `perf_counter`."""
    writer: int
    lines: Lines
    _errors: IO[bytes]

    def peak_memory(self) -> int | None:
        """Return the most memory it ever had resident, as `peak_memory` does."""
        return peak_memory(self.process.pid)

    def cpu_seconds(self) -> float | None:
        """Return the processor time it has used, as `cpu_seconds` does."""
        return cpu_seconds(self.process.pid)

    def last_words(self) -> str:
        """Return the line on its stderr that tells best why it failed, or nothing."""
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").splitlines()
        lines = [line.strip() for line in said if line.strip()]
        errors = [line for line in lines if "Error" in line]
        return (errors or lines or [""])[-1]


def peak_memory(pid: int) -> int | None:
    """Return the most memory a process ever had resident, in bytes; None where nobody tells."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


def cpu_seconds(pid: int) -> float | None:
    """Return the processor time that a process has used, all threads together.

    Processes that it has started count as well. None where nobody tells.
    """
    try:
        return sum(map(_cpu_seconds, _with_children(pid)))
    except OSError:
        return None


def _with_children(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _with_children(int(child))


def _cpu_seconds(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat").read_text()
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS


def free_port() -> int:
    """Return a port of this machine that is free, and that the system gives to no one else."""
    for port in random.sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise LoadError("no port is free")


def wait_until_up(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until a process listens at a port of this machine.

    Raises:
        LoadError: It has ended, or does not listen in time.
    """
    end = monotonic() + _START_SECONDS
    while monotonic() < end:
        if process.poll() is not None:
            raise LoadError(f"it exited with {process.returncode}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        sleep(0.02)
    raise LoadError(f"it does not listen after {_START_SECONDS:.0f} s")


@contextmanager
def running(command: Command, *, lifetime: float, pinned: bool = True) -> Iterator[Server]:
    """Run a server.

    Args:
        command: How it is started.
        lifetime: Seconds after which it is killed if it is still there.
        pinned: Whether it gets a processor to itself, if there are two.
    """
    with tempfile.TemporaryFile() as errors:
        started = perf_counter()
        with _processor(1 if pinned else None):
            process = subprocess.Popen(
                command.arguments,
                env={**os.environ, **command.environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
            )
        watchdog = threading.Timer(lifetime, process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            lines = Lines(process.stdout.fileno())
            with _processor(0 if pinned else None):
                yield Server(process, started, process.stdin.fileno(), lines, errors)
        finally:
            watchdog.cancel()
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


@contextmanager
def _processor(index: int | None) -> Iterator[None]:
    """Keep to one processor, where there are two and the system lets us; children inherit it."""
    try:
        before = os.sched_getaffinity(0)
    except (AttributeError, OSError):
        before = set()
    if index is None or len(before) < 2:
        yield
        return
    try:
        with suppress(OSError):
            os.sched_setaffinity(0, {sorted(before)[index]})
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, before)
