"""A Redis server of the tests' own, on a free port."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import define

PROGRAM = shutil.which("redis-server") or "redis-server"


def _ports_of_this_worker() -> Iterator[int]:
    """Ports for one process of pytest-xdist, each as seldom as can be."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 12_000 + worker % 8 * 1250
    return itertools.cycle(random.sample(range(first, first + 1250), 1250))


_PORTS = _ports_of_this_worker()


def free_port() -> int:
    """A port that nobody uses, and that nobody else is given until it is used.

    The system gives it to nobody who asks for any. The bus of a Redis cluster has the port 10,000
    above, which is not one of those either.
    """
    for port in _PORTS:
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("they never end")


@define
class RedisServer:
    """A server that a test can stop, pause and start again."""

    folder: Path
    port: int
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = [PROGRAM, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", str(self.folder), "--loglevel", "warning", *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                assert self.process.poll() is None, "redis-server has ended"
                time.sleep(0.01)

    def send_signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def command(self, *words: str) -> bytes:
        """Have the server do something; return what it says, as it says it."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            parts = [f"${len(word)}\r\n{word}\r\n" for word in words]
            connection.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
            return connection.recv(65536)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[RedisServer]:
    server = RedisServer(folder, free_port(), options)
    server.start()
    try:
        yield server
    finally:
        server.kill()


_SLOTS = 16384


@contextmanager
def redis_cluster(folder: Path, size: int = 3) -> Iterator[str]:
    """Start servers that share the slots among them, and yield the URL of the cluster."""
    servers: list[RedisServer] = []
    try:
        for number in range(size):
            place = folder / str(number)
            place.mkdir()
            servers.append(RedisServer(place, free_port(), ("--cluster-enabled", "yes")))
            servers[-1].start()
        for number, server in enumerate(servers):
            first, last = number * _SLOTS // size, (number + 1) * _SLOTS // size - 1
            server.command("CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
            server.command("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
            servers[0].command("CLUSTER", "MEET", "127.0.0.1", str(server.port))
        for server in servers:
            while not _knows_all(server, size):
                time.sleep(0.02)
        yield f"redis+cluster://127.0.0.1:{servers[0].port}"
    finally:
        for server in servers:
            server.kill()


def _knows_all(server: RedisServer, size: int) -> bool:
    info = server.command("CLUSTER", "INFO")
    return b"cluster_state:ok" in info and b"cluster_known_nodes:%d" % size in info
