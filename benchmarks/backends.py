"""The stores that are measured: in memory, in a file of SQLite, in a Redis server of our own."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from benchmarks.processes import free_port, wait_until_up

MEMORY, SQLITE, REDIS = KINDS = ("memory", "SQLite", "Redis")


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
    port = free_port()
    options = ["--bind", "127.0.0.1", "--save", "", "--dir", folder, "--loglevel", "warning"]
    command = ["redis-server", "--port", str(port), *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until_up(port, process)
            yield Backend(f"redis://127.0.0.1:{port}/0", process.pid)
        finally:
            process.kill()
