"""An update told to 10,000 subscriptions, at four instances of a server that share a Redis.

Each subscription is a request of its own, in revision 2026-07-28, over a connection of its own. A
resource is updated at one of the instances, and all subscriptions hear of it. The first update is
not counted.
"""

import json
import resource
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from selectors import EVENT_READ, DefaultSelector
from time import monotonic, perf_counter

from attrs import evolve, frozen

from benchmarks.backends import REDIS, backend, missing
from benchmarks.columns import Column, plain_table
from benchmarks.contest import Outcome
from benchmarks.figures import Target
from benchmarks.load import LoadError
from benchmarks.peers import Peer, python_server
from benchmarks.processes import cpu_seconds
from benchmarks.wrk import META, headers_of, serving

URI = "bench://text"
INSTANCES = 4
SUBSCRIPTIONS = 10_000
_FEW = 40
_UPDATES = 5
_AT_ONCE = 100
"""Subscriptions that are opened at a time."""
_OTHER_FILES = 100
_PATIENCE = 30.0
_ACKNOWLEDGED = b'"notifications/subscriptions/acknowledged"'
_UPDATED = b'"notifications/resources/updated"'


@frozen
class Sample:
    """What one round measured."""

    seconds: float
    """From the request that updates the resource to the last of all notifications."""
    cpu: float
    """Seconds of processor time of all instances, for one update."""


COLUMNS: Sequence[Column[Sample]] = (
    Column("seconds", "until all are told ms", lambda s: s.seconds, 1e3, ",.0f"),
    Column("cpu", "CPU ms of all instances", lambda s: s.cpu, 1e3, ",.0f"),
    Column("each", "CPU µs each", lambda s: s.cpu / SUBSCRIPTIONS, 1e6, ",.0f"),
)


def peers() -> list[Peer]:
    """Name what is measured."""
    name = f"trio-mcp, {INSTANCES} instances, Redis"
    found = Peer(name, python_server("http_trio_mcp_shared.py"))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if resource.RLIM_INFINITY != most < SUBSCRIPTIONS + _OTHER_FILES:
        return [found.lacking(f"a process may have no more than {most:,} files open")]
    return [found.lacking(missing(REDIS))]


def request(method: str, params: dict[str, object], name: str = "") -> bytes:
    """Make a request as it travels."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    body = json.dumps(message).encode()
    fields = {"Host": "localhost", **headers_of(method, name), "Content-Length": str(len(body))}
    head = "".join(f"{key}: {value}\r\n" for key, value in fields.items() if value)
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


def take(peer: Peer, seconds: float) -> Sample:
    """Start the instances, open the subscriptions, measure, end all.

    Args:
        peer: What is measured.
        seconds: 0 for few subscriptions.

    Raises:
        LoadError: It did not start or did not answer properly.
    """
    count = SUBSCRIPTIONS if seconds else _FEW
    try:
        with ExitStack() as stack:
            arguments = [*peer.command.arguments, stack.enter_context(backend(REDIS)).url]
            ready = evolve(peer, command=evolve(peer.command, arguments=arguments))
            servers = [stack.enter_context(serving(ready)) for _ in range(INSTANCES)]
            ports, pids = zip(*servers, strict=True)
            with _many_files():
                each = count // INSTANCES
                streams = [stream for port in ports for stream in _listen(stack, port, each)]
                return _measure(ports[0], pids, streams)
    except OSError as error:
        raise LoadError(str(error)) from error


@contextmanager
def _many_files() -> Iterator[None]:
    """Let this process have as many files open as it may."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _listen(stack: ExitStack, port: int, count: int) -> Iterator[socket.socket]:
    """Open subscriptions, and wait for their acknowledgements."""
    wanted = request("subscriptions/listen", {"notifications": {"resourceSubscriptions": [URI]}})
    for start in range(0, count, _AT_ONCE):
        address = ("127.0.0.1", port)
        some = [
            stack.enter_context(socket.create_connection(address, timeout=_PATIENCE))
            for _ in range(min(_AT_ONCE, count - start))
        ]
        for each in some:
            each.sendall(wanted)
        for each in some:
            received = b""
            while _ACKNOWLEDGED not in received:
                received += _received(each)
            each.setblocking(False)
        yield from some


def _received(stream: socket.socket) -> bytes:
    received = stream.recv(65536)
    if not received:
        raise LoadError("a subscription has ended")
    return received


def _measure(port: int, pids: Sequence[int], streams: Sequence[socket.socket]) -> Sample:
    _update(port, streams)
    before = _cpu_seconds(pids)
    seconds = [_update(port, streams) for _ in range(_UPDATES)]
    cpu = _cpu_seconds(pids) - before
    return Sample(sum(seconds) / _UPDATES, cpu / _UPDATES)


def _cpu_seconds(pids: Sequence[int]) -> float:
    found = [cpu_seconds(pid) for pid in pids]
    if None in found:
        raise LoadError("this system does not tell the processor time of processes")
    return sum(filter(None, found))


def _update(port: int, streams: Sequence[socket.socket]) -> float:
    """Have the resource updated; return the seconds until all subscriptions have heard of it."""
    call = request("tools/call", {"name": "update", "arguments": {}}, "update")
    with DefaultSelector() as selector, socket.create_connection(("127.0.0.1", port)) as sender:
        for each in streams:
            selector.register(each, EVENT_READ)
        begin, told = perf_counter(), 0
        end = monotonic() + _PATIENCE
        sender.sendall(call)
        while told < len(streams):
            for key, _ in selector.select(1.0):
                assert isinstance(key.fileobj, socket.socket)
                told += _received(key.fileobj).count(_UPDATED)
            if told > len(streams) or monotonic() > end:
                raise LoadError(f"{told} notifications came, of {len(streams)}")
        elapsed = perf_counter() - begin
        sender.settimeout(_PATIENCE)
        sender.recv(65536)
    return elapsed


def targets(outcomes: Sequence[Outcome[Sample]]) -> list[Target]:
    """Hold the figure against what was promised."""
    (outcome,) = outcomes
    found = outcome.values(lambda sample: sample.cpu)
    what = f"seconds of processor time for one update to {SUBSCRIPTIONS:,} subscriptions"
    return [Target(what, 1.0, max(found, default=None), reason=outcome.peer.missing)]


def fan_out_table(outcomes: Sequence[Outcome[Sample]]) -> str:
    """Lay out the medians."""
    return plain_table(f"one update, {SUBSCRIPTIONS:,} subscriptions", outcomes, COLUMNS)
