"""Loads: one call repeated with new ids, and the results.

One task writes to a process and reads from it, so that little else is measured. To a URL there are
as many connections as calls in flight. Requests are made beforehand, and replies are read only as
far as it takes to find their ends and errors.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import trio
from attrs import frozen

from trio_mcp.cli.failures import Failure
from trio_mcp.peer.lines import StreamLines
from trio_mcp.wire import codec
from trio_mcp.wire.jsonrpc import Json, encode

_FIRST_ID: Final = 1_000_000_000
"""Ids have the same number of digits, so that all requests have the same length."""
_LAST_ANSWERS: Final = 10.0
"""Seconds to wait for the answers that are still due."""


def calls_of(params: dict[str, Json]) -> Iterator[tuple[int, bytes]]:
    line = encode({"id": 0, "jsonrpc": "2.0", "method": "tools/call", "params": params})
    tail = line.removeprefix(b'{"id":0')
    for id in itertools.count(_FIRST_ID):
        yield id, b'{"id":%d%b' % (id, tail)


def outcome(line: bytes) -> tuple[Json, bool] | None:
    """Return the id that a line answers, and whether it succeeded; `None` for any other message."""
    try:
        message = codec.loads(line)
    except ValueError:
        return None
    if not isinstance(message, dict) or "method" in message:
        return None
    result = message.get("result")
    return message.get("id"), isinstance(result, dict) and not result.get("isError", False)


@frozen
class Run:
    """The measurements with this many calls in flight."""

    in_flight: int
    seconds: float
    times: Sequence[float]
    """The seconds that each call took, sorted."""
    failed: int
    """Calls that got an error, or no answer."""

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds if self.seconds else 0.0

    def percentile(self, percent: int) -> float:
        """Return the milliseconds that this share of the calls did not exceed."""
        if not self.times:
            return 0.0
        rank = -(-len(self.times) * percent // 100)  # rounded up
        return self.times[max(rank, 1) - 1] * 1e3

    def as_row(self) -> tuple[str, ...]:
        times = (f"{self.percentile(percent):,.3f}" for percent in (50, 99))
        return (str(self.in_flight), f"{self.rate:,.0f}", *times, str(self.failed))

    def as_json(self) -> dict[str, Json]:
        return {
            "inFlight": self.in_flight,
            "calls": len(self.times),
            "failed": self.failed,
            "seconds": round(self.seconds, 3),
            "callsPerSecond": round(self.rate, 1),
            "p50Ms": round(self.percentile(50), 4),
            "p99Ms": round(self.percentile(99), 4),
        }


async def load_stdio(
    lines: StreamLines, calls: Iterator[tuple[int, bytes]], in_flight: int, seconds: float
) -> Run:
    sent: dict[int, float] = {}
    times: list[float] = []
    failed = 0
    began = trio.current_time()
    end = began + seconds

    async def send(number: int) -> None:
        batch = [next(calls) for _ in range(number)]
        now = trio.current_time()
        sent.update((id, now) for id, _ in batch)
        try:
            await lines.send([line for _, line in batch])
        except trio.BrokenResourceError:
            raise Failure("the server takes no more input") from None

    await send(in_flight)
    with trio.move_on_after(seconds + _LAST_ANSWERS):
        while sent:
            received = await lines.receive()
            if not received:
                raise Failure("the server went away under the load")
            now = trio.current_time()
            answered = 0
            for line in received:
                found = outcome(line) if isinstance(line, bytes) else None
                if found is None or found[0] not in sent:
                    continue
                answered += 1
                id, success = found
                times.append(now - sent.pop(id))
                failed += not success
            if answered and now < end:
                await send(answered)
    return Run(in_flight, trio.current_time() - began, sorted(times), failed + len(sent))


_CHUNK_BYTES: Final = 65536
_PORTS: Final = {"http": 80, "https": 443}
_REPLY_SECONDS: Final = 30.0
_ERRORS: Final = (b'"isError":true', b'"isError": true', b'"error":')


class Connection:
    """A connection for one request at a time."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url = urlsplit(url)
        self._stream: trio.abc.Stream | None = None
        self._head = _head(self._url, headers)
        self._body = bytearray()
        self._complete = False
        self._parser: Any = None

    async def call(self, body: bytes) -> bool:
        """Send a call and wait for its reply; return whether it succeeded."""
        if self._stream is None:
            await self._connect()
        assert self._stream is not None
        self._body.clear()
        self._complete = False
        try:
            await self._stream.send_all(self._head % len(body) + body)
            while not self._complete:
                chunk = await self._stream.receive_some(_CHUNK_BYTES)
                if not chunk:
                    await self.aclose()
                    return False
                self._parser.feed_data(chunk)
        except (trio.BrokenResourceError, self._error):
            await self.aclose()
            return False
        good = self._parser.get_status_code() == 200 and not any(e in self._body for e in _ERRORS)
        if not self._parser.should_keep_alive():
            await self.aclose()
        return good

    async def aclose(self) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await trio.aclose_forcefully(stream)

    async def _connect(self) -> None:
        import httptools

        self._error = httptools.HttpParserError
        self._parser = httptools.HttpResponseParser(self)
        host = self._url.hostname or ""
        port = self._url.port or _PORTS[self._url.scheme]
        if self._url.scheme == "https":
            self._stream = await trio.open_ssl_over_tcp_stream(host, port, https_compatible=True)
        else:
            self._stream = await trio.open_tcp_stream(host, port)

    # -- the parser's callbacks -----------------------------------------------------------

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        self._complete = True


async def load_http(
    url: str,
    headers: Mapping[str, str],
    calls: Iterator[tuple[int, bytes]],
    in_flight: int,
    seconds: float,
) -> Run:
    times: list[float] = []
    failed = 0
    began = trio.current_time()
    end = began + seconds

    async def work() -> None:
        nonlocal failed
        connection = Connection(url, headers)
        try:
            while (now := trio.current_time()) < end:
                _, body = next(calls)
                with trio.fail_after(_REPLY_SECONDS):
                    success = await connection.call(body[:-1])
                times.append(trio.current_time() - now)
                failed += not success
        except (OSError, trio.TooSlowError):
            failed += 1
        finally:
            with trio.CancelScope(shield=True):
                await connection.aclose()

    async with trio.open_nursery() as nursery:
        for _ in range(in_flight):
            nursery.start_soon(work)
    if not times:
        raise Failure("the server cannot be reached any more")
    return Run(in_flight, trio.current_time() - began, sorted(times), failed)


def _head(url: SplitResult, headers: Mapping[str, str]) -> bytes:
    """Make the head of each request, with a `%d` for the length of its body."""
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    host = url.netloc.rpartition("@")[2]
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    text = "\r\n".join(lines).replace("%", "%%")
    return f"{text}\r\nContent-Length: %d\r\n\r\n".encode()
