"""The stores that are measured: in memory, in a file of SQLite, in a Redis server of our own."""

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from attrs import frozen

from benchmarks.load import LoadError

MEMORY, SQLITE, REDIS = KINDS = ("memory", "SQLite", "Redis")
_REDIS_SECONDS = 10.0


@frozen
class Backend:
    """A store that nobody has used yet."""

    url: str
    pid: int | None = None
    """The process that it is in, if that is not ours."""


def missing(kind: str) -> str:
    """Say why there cannot be such a store; nothing if there can."""
    lacking = kind == REDIS and shutil.which("redis-server") is None
    return "redis-server is not installed" if lacking else ""


@contextmanager
def backend(kind: str) -> Iterator[Backend]:
    """Have a store for the length of the block.

    Raises:
        LoadError: Redis does not start.
    """
    with tempfile.TemporaryDirectory() as folder:
        if kind == REDIS:
            with redis(folder) as found:
                yield found
        else:
            yield Backend("memory:" if kind == MEMORY else str(Path(folder, "store.db")))


@contextmanager
def redis(folder: str) -> Iterator[Backend]:
    """Run a Redis server that writes nothing to disk.

    Raises:
        LoadError: It does not start.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--bind", "127.0.0.1", "--save", "", "--dir", folder, "--loglevel", "warning"]
    command = ["redis-server", "--port", str(port), *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            _wait_until_up(port, process)
            yield Backend(f"redis://127.0.0.1:{port}/0", process.pid)
        finally:
            process.kill()


def _wait_until_up(port: int, process: "subprocess.Popen[bytes]") -> None:
    end = monotonic() + _REDIS_SECONDS
    while monotonic() < end and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        sleep(0.02)
    raise LoadError("redis-server does not start")
