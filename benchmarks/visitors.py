"""Load over HTTP by users who come and go: each in turn asks, reads the answer, and asks again.

A user is a generator: it yields a request and gets the answer. Each has a connection of its own,
which is kept. One thread serves them all, so that what is left of the machine is the server's.
"""

import selectors
import socket
from collections.abc import Generator, Mapping, Sequence
from statistics import fmean
from time import perf_counter

import httptools
from attrs import define, field, frozen

from benchmarks.figures import percentile
from benchmarks.load import LoadError

_CHUNK = 1 << 16
_PATIENCE = 20.0


@frozen
class Request:
    """What a user sends.

    Args:
        method: Of HTTP.
        headers: Beside those of every request.
        body: What it carries.
        kind: What it counts as; empty if it is not counted.
    """

    method: str
    headers: Mapping[str, str]
    body: bytes = b""
    kind: str = ""

    def encoded(self, port: int) -> bytes:
        """Return its bytes, for a server on that port."""
        fields = {
            "Host": f"127.0.0.1:{port}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Content-Length": str(len(self.body)),
            **self.headers,
        }
        lines = [
            f"{self.method} /mcp HTTP/1.1",
            *(f"{name}: {value}" for name, value in fields.items()),
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


@define
class Answer:
    """What a server answers, as the parser tells it."""

    headers: dict[str, str] = field(factory=dict)
    body: bytes = b""
    complete: bool = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode().lower()] = value.decode()

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        self.complete = True


User = Generator[Request, Answer, None]


@frozen
class Visits:
    """What all users together have seen."""

    seconds: float
    counted: int
    """Requests that were answered, without those that are not counted."""
    latencies: Mapping[str, Sequence[float]]
    """By kind, the seconds from a request to its answer."""

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.counted / self.seconds

    def mean(self, kinds: Sequence[str]) -> float:
        """Return the mean latency of some kinds, in seconds."""
        return fmean(each for kind in kinds for each in self.latencies[kind])

    def p99(self, kinds: Sequence[str]) -> float:
        """Return the latency that one request in a hundred of some kinds exceeds, in seconds."""
        return percentile(sorted(each for kind in kinds for each in self.latencies[kind]), 99)


@define
class _Connection:
    """One user's connection, and the request that is under way on it."""

    port: int
    socket: socket.socket
    user: User
    request: Request
    sent: float = 0.0
    answer: Answer = field(factory=Answer)
    parser: httptools.HttpResponseParser = field(init=False)

    def send(self) -> None:
        """Send the request, and expect its answer."""
        self.answer = Answer()
        self.parser = httptools.HttpResponseParser(self.answer)
        self.sent = perf_counter()
        self.socket.sendall(self.request.encoded(self.port))


def visit(port: int, users: Sequence[User], seconds: float) -> Visits:
    """Let users visit a server for so long.

    Args:
        port: Where it listens.
        users: What each of them does; an answer that is wrong is theirs to find.
        seconds: For how long; requests that are under way then are not counted.

    Raises:
        LoadError: The server closed a connection or does not answer.
    """
    latencies: dict[str, list[float]] = {}
    with selectors.DefaultSelector() as selector:
        connections = [_connect(port, user) for user in users]
        try:
            for each in connections:
                selector.register(each.socket, selectors.EVENT_READ, each)
                each.send()
            began = perf_counter()
            while perf_counter() < began + seconds:
                ready = selector.select(_PATIENCE)
                if not ready:
                    raise LoadError(f"no answer in {_PATIENCE:.0f} s")
                for key, _ in ready:
                    _read(key.data, latencies)
            took = perf_counter() - began
        finally:
            for each in connections:
                each.socket.close()
    return Visits(took, sum(map(len, latencies.values())), latencies)


def _connect(port: int, user: User) -> _Connection:
    there = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
    return _Connection(port, there, user, next(user))


def _read(connection: _Connection, latencies: dict[str, list[float]]) -> None:
    """Take what has arrived; when the answer is whole, send the next request."""
    data = connection.socket.recv(_CHUNK)
    if not data:
        raise LoadError("the server closed a connection")
    connection.parser.feed_data(data)
    if not connection.answer.complete:
        return
    if connection.request.kind:
        took = perf_counter() - connection.sent
        latencies.setdefault(connection.request.kind, []).append(took)
    status = connection.parser.get_status_code()
    if status >= 400:
        raise LoadError(f"status {status}: {connection.answer.body.decode(errors='replace')}")
    connection.request = connection.user.send(connection.answer)
    connection.send()
