"""Loading a server at a URL: as many connections as there are calls in flight.

To measure the server and not the client, requests are made beforehand, and replies are read only as
far as it takes to find their ends and errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import trio

from trio_mcp.cli.bench.load import Run
from trio_mcp.cli.failures import Failure

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
