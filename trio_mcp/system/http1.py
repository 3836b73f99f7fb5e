"""HTTP/1.1 for our own requests: a transport of httpx2 that does little for each of them.

Connections are kept, and have one request at a time. A request is written with one system call if
its body is there already. A reply that arrives whole is handed over whole, and its connection is
given back before anyone reads the body.
"""

from __future__ import annotations

import math
import re
import ssl
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.request import getproxies

import httptools
import httpx2
import trio
from attrs import define

from trio_mcp.public import public_in
from trio_mcp.system.certificates import trusted
from trio_mcp.system.pipe import Pipe, pipe_over

_MOST_FRAMING_BYTES: Final = 100 * 1024
"""Of what surrounds a body: interim replies, headers, the sizes of chunks, and trailers."""
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FRAMING: Final = (b"content-length", b"transfer-encoding")
_PORTS: Final = {"http": 80, "https": 443}
_LIMITS: Final = httpx2.Limits(  # those that httpx2 has itself
    max_connections=100, max_keepalive_connections=20, keepalive_expiry=5.0
)

_Origin = tuple[str, str, int]
_Timeouts = Mapping[str, float | None]


def new_client(
    *,
    verify: ssl.SSLContext | bool,
    limits: httpx2.Limits = _LIMITS,
    proxy: str | None = None,
    trust_env: bool = True,
    unix_socket: str | None = None,
    **options: Any,
) -> httpx2.AsyncClient:
    """Make a client that uses `Http1Transport`, unless there is a proxy on the way."""
    if unix_socket is None and (proxy is not None or (trust_env and getproxies())):
        return httpx2.AsyncClient(
            verify=verify, limits=limits, proxy=proxy, trust_env=trust_env, **options
        )
    transport = Http1Transport(verify=verify, limits=limits, unix_socket=unix_socket)
    return httpx2.AsyncClient(transport=transport, trust_env=trust_env, **options)


@public_in("trio_mcp.transports")
class Http1Transport(httpx2.AsyncBaseTransport):
    """Sends the requests of an `httpx2.AsyncClient` that runs on Trio.

    A request and its body are written at once, and a reply that arrives whole is handed over whole.
    It speaks HTTP/1.1, with TLS or without. It knows neither proxies, nor HTTP/2, nor upgrades; of
    the extensions of a request, only `timeout` and `sni_hostname`. It sends no request twice. It is
    stricter than httpx2: a reply that gives its length twice is an error, and so is one with lines
    that end without a carriage return.

    Args:
        verify: For TLS, as httpx2 has it. A context of yours is changed to offer HTTP/1.1 alone.
        limits: How many connections there are at a time, how many of them are kept without a
            request, and for how many seconds.
        unix_socket: The path of a socket that all requests go to, whatever their host.

    Example:
        >>> client = httpx2.AsyncClient(transport=Http1Transport())
    """

    def __init__(
        self,
        *,
        verify: ssl.SSLContext | bool = True,
        limits: httpx2.Limits = _LIMITS,
        unix_socket: str | None = None,
    ) -> None:
        self._tls = trusted() if verify is True else httpx2.create_ssl_context(verify=verify)
        self._tls.set_alpn_protocols(["http/1.1"])
        self._unix_socket = unix_socket
        most, most_kept = limits.max_connections, limits.max_keepalive_connections
        self._slots = trio.Semaphore(sys.maxsize if most is None else most)
        self._most_kept = sys.maxsize if most_kept is None else most_kept
        self._keep_alive = math.inf if limits.keepalive_expiry is None else limits.keepalive_expiry
        self._kept: list[_Connection] = []
        """Those that have no request, longest first."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and return the response as soon as its headers are there.

        Raises:
            httpx2.TransportError: There is no connection, it broke, or a timeout was exceeded.

        Cancelled, it closes the connection.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        head, origin = _head(request), _origin(request)
        timeouts: _Timeouts = request.extensions.get("timeout", {})
        await self._take_slot(timeouts.get("pool"))
        try:
            connection = await self._take(origin) or await self._connect(request, origin, timeouts)
        except BaseException:
            self._slots.release()
            raise
        reply = _Reply(self, connection, request.method, timeouts.get("read"))
        try:
            await connection.send(head, request, timeouts.get("write"))
            await reply.receive_head()
            return await reply.response()
        except BaseException:
            await reply.aclose()
            raise

    async def aclose(self) -> None:
        """Close the connections; those that have a request, when its reply is closed."""
        kept, self._kept, self._most_kept = self._kept, [], 0
        for connection in kept:
            await _close(connection.stream)

    # -- connections ---------------------------------------------------------------------------

    async def _take_slot(self, timeout: float | None) -> None:
        try:
            self._slots.acquire_nowait()
        except trio.WouldBlock:
            with _within(timeout, httpx2.PoolTimeout):
                await self._slots.acquire()

    async def _take(self, origin: _Origin) -> _Connection | None:
        """Return the connection to a server that was used last, of those that still work."""
        while (connection := self._last_kept(origin)) is not None:
            # If there is something to read before we ask, it is an end, or not for us.
            if not self._is_old(connection) and not connection.pipe.has_input():
                return connection
            await _close(connection.stream)
        if len(self._kept) > self._slots.value:  # one of those, or ours would be one too many
            await _close(self._kept.pop(0).stream)
        return None

    def _last_kept(self, origin: _Origin) -> _Connection | None:
        for index in reversed(range(len(self._kept))):
            if self._kept[index].origin == origin:
                return self._kept.pop(index)
        return None

    async def give_back(self, connection: _Connection, *, usable: bool) -> None:
        """Keep a connection for a further request, or close it."""
        while self._kept and self._is_old(self._kept[0]):
            await _close(self._kept.pop(0).stream)
        if usable and len(self._kept) < self._most_kept:
            connection.kept_since = trio.current_time()
            self._kept.append(connection)
        else:
            await _close(connection.stream)
        self._slots.release()

    def _is_old(self, connection: _Connection) -> bool:
        return trio.current_time() - connection.kept_since >= self._keep_alive

    async def _connect(
        self, request: httpx2.Request, origin: _Origin, timeouts: _Timeouts
    ) -> _Connection:
        scheme, host, port = origin
        stream: Any = None
        try:
            with _within(timeouts.get("connect"), httpx2.ConnectTimeout):
                stream = await self._open(host, port)
                if scheme == "https":
                    name = request.extensions.get("sni_hostname") or host
                    stream = trio.SSLStream(
                        stream, self._tls, server_hostname=name, https_compatible=True
                    )
                pipe = pipe_over(stream)
                await pipe.open()
                peer = pipe.peer
        except BaseException as error:
            if stream is not None:
                await _close(stream)
            if isinstance(error, OSError | trio.BrokenResourceError):
                raise httpx2.ConnectError(_why(error)) from error
            raise
        return _Connection(origin, stream, pipe, peer)

    async def _open(self, host: str, port: int) -> trio.abc.Stream:
        if self._unix_socket is not None:
            return await trio.open_unix_socket(self._unix_socket)
        return await trio.open_tcp_stream(host, port)


async def _close(stream: trio.abc.Stream) -> None:
    """Close a stream at once, even if the task is cancelled."""
    with trio.CancelScope(shield=True):
        await trio.aclose_forcefully(stream)


@define(eq=False)
class _Connection:
    """A connection to a server."""

    origin: _Origin
    stream: trio.abc.Stream
    pipe: Pipe
    _peer: object
    works: bool = True
    kept_since: float = 0.0

    async def send(self, head: bytes, request: httpx2.Request, timeout: float | None) -> None:
        """Send a request. A server that does not read to its end may have answered already."""
        length = _body_length(request)
        try:
            if isinstance(request.stream, httpx2.ByteStream) and length is not None:
                body = b"".join(request.stream)
                _check_length(length, len(body))
                await self._write(head + body, timeout)
            else:
                await self._send_pieces(head, request.stream, length, timeout)
        except httpx2.WriteError:
            self.works = False

    async def _send_pieces(
        self, head: bytes, body: Any, length: int | None, timeout: float | None
    ) -> None:
        """Send a body as it comes, in chunks if its length is not known."""
        pieces, count = aiter(body), 0
        await self._write(head, timeout)
        try:
            async for piece in pieces:
                count += len(piece)
                if length is not None and count > length:
                    break
                if piece:
                    framed = b"%x\r\n%b\r\n" % (len(piece), piece) if length is None else piece
                    await self._write(framed, timeout)
                    await trio.lowlevel.checkpoint()  # a fast server may take all without a wait
        finally:
            if hasattr(pieces, "aclose"):  # a generator, which may not be at its end
                await pieces.aclose()
        if length is None:
            await self._write(b"0\r\n\r\n", timeout)
        else:
            _check_length(length, count)

    async def _write(self, data: bytes, timeout: float | None) -> None:
        try:
            sent = self.pipe.send_nowait(data)
            if sent < len(data):
                with _within(timeout, httpx2.WriteTimeout):
                    await self.pipe.send(memoryview(data)[sent:])
        except trio.BrokenResourceError as error:
            raise httpx2.WriteError(_why(error)) from error

    def get_extra_info(self, name: str) -> Any:
        """Return the `server_addr`, as a network stream of httpcore2 does."""
        return self._peer if name == "server_addr" else None


class _Reply(httpx2.AsyncByteStream):
    """A reply, as the parser tells it, and its body in pieces."""

    def __init__(
        self, pool: Http1Transport, connection: _Connection, method: str, timeout: float | None
    ) -> None:
        self._pool = pool
        self._connection: _Connection | None = connection
        self._pipe = connection.pipe
        self._has_body = method != "HEAD"
        self._timeout = timeout
        self._parser = httptools.HttpResponseParser(self)
        self._reason = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._has_head = self._is_complete = self._keeps_alive = False
        self._framing = 0
        """How many bytes were received since the last piece of the body."""
        self._failure: Exception | None = None

    # -- what the parser calls; an error here is one of what it reads ----------------------------

    def on_message_begin(self) -> None:
        if self._is_complete:
            raise ValueError("a reply to no request")
        self._reason, self._headers = b"", []  # those of an interim reply

    def on_status(self, text: bytes) -> None:
        self._reason += text

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # else it is a trailer
            self._headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() >= 200:
            self._has_head, self._framing = True, 0
            self._keeps_alive = self._parser.should_keep_alive()
            self._is_complete = not self._has_body

    def on_body(self, piece: bytes) -> None:
        if self._is_complete:
            raise ValueError("a body where there can be none")
        self._pieces.append(piece)
        self._framing = 0

    def on_message_complete(self) -> None:
        self._is_complete = self._has_head

    # -- what is read ----------------------------------------------------------------------------

    async def receive_head(self) -> None:
        """Receive the status and the headers, and what arrives with them."""
        while not self._has_head:
            await self._receive()

    async def response(self) -> httpx2.Response:
        """Return the response, with the whole body if that is here already."""
        stream: httpx2.AsyncByteStream = self
        extensions = {
            "http_version": b"HTTP/" + self._parser.get_http_version().encode(),
            "reason_phrase": self._reason,
            "network_stream": self._connection,
        }
        if self._is_complete:
            stream = httpx2.ByteStream(b"".join(self._pieces))
            await self.aclose()
        status = self._parser.get_status_code()
        return httpx2.Response(status, headers=self._headers, stream=stream, extensions=extensions)

    async def _receive(self) -> None:
        """Have the parser read what arrives."""
        if self._failure is not None:
            raise httpx2.RemoteProtocolError(str(self._failure)) from self._failure
        if self._connection is None:
            raise httpx2.ReadError("the reply is closed")
        try:
            if self._timeout is None:
                data = await self._pipe.receive()
            else:
                with _within(self._timeout, httpx2.ReadTimeout):
                    data = await self._pipe.receive()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpx2.ReadError(_why(error)) from error
        if not data:
            self._end()
        self._framing += len(data)  # unless the parser finds otherwise
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            why = "the server changes to another protocol"
            raise httpx2.RemoteProtocolError(why) from None
        except httptools.HttpParserError as error:
            if not self._has_head:
                raise httpx2.RemoteProtocolError(str(error)) from error
            self._failure, self._keeps_alive = error, False  # for what follows; see what came first
        if self._framing > _MOST_FRAMING_BYTES:
            raise httpx2.RemoteProtocolError("the headers of the reply are too long")

    def _end(self) -> None:
        """Take the end of the connection as that of the body, where that has no other."""
        if not self._has_head:
            raise httpx2.RemoteProtocolError("the server closed the connection without a reply")
        names = {name.lower() for name, _ in self._headers}
        if not names.isdisjoint(_FRAMING):
            raise httpx2.RemoteProtocolError("the connection ended before the reply did")
        self._is_complete, self._keeps_alive = True, False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._pieces:
            if self._is_complete:
                raise StopAsyncIteration
            await self._receive()
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    async def aclose(self) -> None:
        """Give the connection back, once; to be closed if the reply is not complete."""
        connection, self._connection = self._connection, None
        if connection is not None:
            usable = self._is_complete and self._keeps_alive and connection.works
            await self._pool.give_back(connection, usable=usable)


@contextmanager
def _within(timeout: float | None, error: type[httpx2.TimeoutException]) -> Iterator[None]:
    try:
        with trio.fail_after(math.inf if timeout is None else timeout):
            yield
    except trio.TooSlowError as cause:
        raise error(str(cause)) from cause


def _why(error: BaseException) -> str:
    """Return what is wrong; an error of a `trio.SSLStream` has that in its cause alone."""
    return str(error) or str(error.__cause__ or "")


def _head(request: httpx2.Request) -> bytes:
    """Encode what comes before the body of a request."""
    method, headers = request.method.encode(), request.headers.raw
    first = b"%b %b HTTP/1.1\r\n" % (method, request.url.raw_path)
    head = first + b"".join([b"%b: %b\r\n" % header for header in headers])
    names = [method, *(name for name, _ in headers)]
    # As many lines as there should be: a value with the end of a line in it would bring others.
    if not (head.count(b"\r") == head.count(b"\n") == len(names) and b"\0" not in head):
        raise httpx2.LocalProtocolError("a header has characters that no header may have")
    if not all(map(_NAME.fullmatch, names)):
        raise httpx2.LocalProtocolError("the method, or the name of a header, is not a name")
    return head + b"\r\n"


def _body_length(request: httpx2.Request) -> int | None:
    """Return how many bytes the headers say that the body has; `None` if it is sent in chunks."""
    headers = [(name.lower(), value) for name, value in request.headers.raw]
    match [header for header in headers if header[0] in _FRAMING]:
        case []:
            return 0
        case [(b"transfer-encoding", coding)] if coding.lower() == b"chunked":
            return None
        case [(b"content-length", length)] if length.isdigit():
            return int(length)
    raise httpx2.LocalProtocolError("the headers have to say in one way how long the body is")


def _check_length(length: int, count: int) -> None:
    """Raise if a body has another length: the server would take its end for another request."""
    if count != length:
        raise httpx2.LocalProtocolError("the body is not as long as its Content-Length")


def _origin(request: httpx2.Request) -> _Origin:
    url = request.url
    if url.scheme not in _PORTS:
        raise httpx2.UnsupportedProtocol(f"a URL has to begin with http or https, not {url.scheme}")
    return url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]
