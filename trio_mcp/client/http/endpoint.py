"""One HTTP request and its reply: the endpoint of a server, over httpx2.

All that httpx2 can raise is turned into errors of ours here, and all that it leaves behind is
cleaned up here. A reply is read in pieces and never decompressed, so that no more is kept of it
than was asked for. However its block is left, its connection is either given back or closed.

Nothing that may be a secret gets into a message: of a URL only the origin is shown, and where a
server refuses it, the path without what is too long for a name.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, unquote, unquote_plus, urljoin, urlsplit

import trio
from attrs import define

from trio_mcp.client.http.options import HttpOptions
from trio_mcp.errors import (
    CannotReach,
    ClientError,
    ConnectionLost,
    HttpError,
    ProtocolError,
    ResponseTooLarge,
)
from trio_mcp.system.certificates import trusted
from trio_mcp.system.responses import SHOWN, Body, shown_urls
from trio_mcp.telemetry import HTTP
from trio_mcp.wire.sse import Event, EventParser, EventTooLarge

if TYPE_CHECKING:
    import httpx2

_MOST_REDIRECTS: Final = 5
_KEEPS_METHOD: Final = (307, 308)
_PERMANENT: Final = 308
_SECRET_BYTES: Final = 6
"""A value that is shorter is not a secret, and taking it out would garble texts."""
_NAME_CHARS: Final = 20
"""Part of a path that is longer may be a key: some servers have it there."""


class Endpoint:
    """The URL of a server, and the HTTP client that reaches it.

    Raises:
        ValueError: It is not a URL of a server.
        RuntimeError: httpx2 is not installed.
    """

    def __init__(self, url: str, options: HttpOptions) -> None:
        self._http = _httpx2()
        self._options = options
        self._url, self.where = self._parsed(url)
        """Where that is, for messages."""
        merged = self._http.Headers({"User-Agent": "trio-mcp", "Accept-Encoding": "identity"})
        credentials = _credentials(self._url)
        if credentials is not None:
            merged["Authorization"] = credentials
        merged.update(options.headers)
        self._headers = [(name.decode(), value.decode()) for name, value in merged.raw]
        """Those of every request."""
        self._timeout = self._http.Timeout(None, connect=options.connect_timeout)
        self._url = self._url._replace(netloc=self._url.netloc.rpartition("@")[2], fragment="")
        self._secrets = [
            secret
            for value in [credentials or "", *options.headers.values(), *_private(self._url)]
            for secret in (value, value.partition(" ")[2])
            if len(secret) >= _SECRET_BYTES
        ]
        self._client: Any = None
        self._target = self._url, self._http.URL(self._url.geturl())
        """The URL that a request went to last, and what httpx2 makes of it."""

    def at(self, reference: str) -> Endpoint:
        """Return the endpoint at a URL that the server names. It shares connections and headers.

        Raises:
            ProtocolError: It is none, or leads to another server.
        """
        try:
            url, where = self._joined(self._url, reference)
        except ValueError:
            raise ProtocolError(f"{self.where} names an endpoint that is not a URL") from None
        if where != self.where:
            raise ProtocolError(f"{self.where} names an endpoint of another server, {where}")
        other = copy(self)
        other._url = url
        return other

    def _joined(self, base: SplitResult, reference: str) -> tuple[SplitResult, str]:
        url, where = self._parsed(urljoin(base.geturl(), reference))
        return url._replace(netloc=base.netloc, fragment=""), where

    @property
    def network(self) -> Mapping[str, Any]:
        """What its requests travel by, and where to, as attributes of OpenTelemetry."""
        port = self._url.port or _PORTS[self._url.scheme]
        return {**HTTP, "server.address": self._url.hostname, "server.port": port}

    def _parsed(self, url: str) -> tuple[SplitResult, str]:
        """Parse a URL, and say where it leads (`parse_url`), if httpx2 takes it, too."""
        parts, origin = parse_url(url)
        try:
            self._http.URL(url)
        except self._http.InvalidURL:
            raise ValueError(_NO_URL) from None
        return parts, "{}://{}:{}".format(*origin)

    @property
    def place(self) -> str:
        """The whole URL without secrets, for messages about this path."""
        return self.where + self.redacted(_without_keys(self._url.path))

    def redacted(self, text: str) -> str:
        """Remove our secrets from a server's text, put it on one line and shorten it."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = "".join(char if char.isprintable() else " " for char in text).strip()
        return text if len(text) <= 200 else f"{text[:200]}…"

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Endpoint]:
        """Open the HTTP client for the length of the block."""
        self._client = self._make_client()
        with shown_urls():
            async with self._client:
                yield self

    def _make_client(self) -> httpx2.AsyncClient:
        client: httpx2.AsyncClient
        options = self._options
        if options.client_factory is not None:
            return options.client_factory()
        verify = options.verify
        if verify is True and self._url.scheme == "http":
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts none, and is quickly made
        elif verify is True:
            verify = trusted(trust_env=options.trust_env)
        connections = options.max_connections
        limits = self._http.Limits(
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=options.keep_alive,
        )
        if options.unix_socket is not None:
            transport = self._http.AsyncHTTPTransport(
                verify=verify, limits=limits, uds=options.unix_socket
            )
            client = self._http.AsyncClient(transport=transport)
        else:
            client = self._http.AsyncClient(
                proxy=options.proxy, verify=verify, trust_env=options.trust_env, limits=limits
            )
        return client

    @asynccontextmanager
    async def exchange(
        self, method: str, headers: Mapping[str, str | bytes], content: bytes | None = None
    ) -> AsyncIterator[Reply]:
        """Send a request, and keep its reply open for the length of the block.

        Raises:
            CannotReach: It could not be sent.
            ConnectionLost: It may have been sent, but there was no reply.
            HttpError: It was redirected, and that must not be followed.

        Cancelled, or left before the end of the reply, it closes the connection.
        """
        reply = await self._send_following(method, headers, content)
        try:
            yield reply
        finally:
            if not reply.handed_over:
                await reply.aclose()

    async def _send_following(
        self, method: str, headers: Mapping[str, str | bytes], content: bytes | None
    ) -> Reply:
        url = self._url
        for _ in range(_MOST_REDIRECTS):
            reply = Reply(await self._send(url, method, headers, content), self.where)
            if not 300 <= reply.status < 400:
                return reply
            await reply.aclose()
            url = self._redirected(url, reply)
            if reply.status == _PERMANENT:
                self._url = url
        raise HttpError(reply.status, f"{self.where} redirects from one URL to the next, endlessly")

    def _redirected(self, url: SplitResult, reply: Reply) -> SplitResult:
        """Return the URL to follow, if it is the same server's and the method stays the same."""
        refused = f"{self.where} redirects ({reply.status})"
        try:
            new, where = self._joined(url, reply.header("location") or "")
        except ValueError:
            raise HttpError(reply.status, f"{refused} to no URL") from None
        if where != self.where:
            why = f"{refused} to {where}, where it is not followed; connect to that if you trust it"
            raise HttpError(reply.status, why)
        if reply.status not in _KEEPS_METHOD:
            why = f"{refused} to {new.path:.80}, which is not followed; connect to that URL"
            raise HttpError(reply.status, why)
        return new

    async def _send(
        self,
        url: SplitResult,
        method: str,
        headers: Mapping[str, str | bytes],
        content: bytes | None,
    ) -> httpx2.Response:
        http = self._http
        if self._target[0] is not url:
            self._target = url, http.URL(url.geturl())
        names = {name.lower() for name in headers}
        fixed = [header for header in self._headers if header[0].lower() not in names]
        auth = self._options.auth or http.USE_CLIENT_DEFAULT
        shown = SHOWN.set(_shown)
        try:
            request = self._client.build_request(
                method,
                self._target[1],
                headers=[*fixed, *headers.items()],
                content=content,
                extensions={"trace": _TlsWatch()},
                timeout=self._timeout,
            )
            response: httpx2.Response = await self._client.send(
                request, stream=True, follow_redirects=False, auth=auth
            )
        except http.ProxyError as error:
            why = self.redacted(str(error))
            raise CannotReach(f"cannot reach {self.where}: the proxy refuses: {why}") from None
        except (http.ConnectError, http.ConnectTimeout) as error:
            socket = self._options.unix_socket
            place = self.where if socket is None else f"{self.where} at the Unix socket {socket}"
            raise CannotReach(f"cannot reach {place}: {_reason(error)}") from None
        except http.TransportError as error:
            raise ConnectionLost(_lost(self.where, error)) from None
        finally:
            SHOWN.reset(shown)
        return response


def _shown(url: httpx2.URL) -> httpx2.URL:
    """Keep secrets of a URL out of what httpx2 writes to its log."""
    path = url.raw_path.partition(b"?")[0].decode()
    return url.copy_with(raw_path=_without_keys(path).encode())


class Reply:
    """The reply to one request: status, headers, and a body in pieces."""

    def __init__(self, response: httpx2.Response, where: str) -> None:
        self._response = response
        self._where = where
        self._body = Body(response)
        self.status: Final = response.status_code
        self.handed_over = False
        """Whether another task closes it."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def media_type(self) -> str:
        """The media type of the body, such as `text/event-stream`."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    def header(self, name: str) -> str | None:
        value: str | None = self._response.headers.get(name)
        return value

    async def read_some(self) -> bytes:
        """Read a piece of the body, as soon as there is one; nothing at its end.

        Raises:
            ConnectionLost: The connection broke.
            ProtocolError: The body is compressed, although we asked for a plain one.
        """
        if self.header("content-encoding") not in (None, "identity"):
            raise ProtocolError(f"{self._where} sends a compressed body, which was not asked for")
        try:
            return await self._body.read_some()
        except _httpx2().TransportError as error:
            raise ConnectionLost(_lost(self._where, error)) from None

    async def read_events(self, parser: EventParser) -> list[Event] | None:
        """Read a piece of a stream of events; return those that it completes, or `None` at the end.

        Raises:
            ResponseTooLarge: An event is longer than the parser takes.
            ClientError: As for `read_some`.
        """
        piece = await self.read_some()
        try:
            return parser.feed(piece) if piece else None
        except EventTooLarge:
            raise _too_large(self._where, parser.max_event_bytes) from None

    async def read_all(self, limit: int) -> bytes:
        """Read the whole body.

        Raises:
            ResponseTooLarge: It is longer than `limit` bytes.
            ClientError: As for `read_some`.
        """
        body = bytearray()
        length = self.header("content-length") or ""
        if length.isdigit() and int(length[:20]) > limit:
            raise _too_large(self._where, limit)
        while piece := await self.read_some():
            body += piece
            if len(body) > limit:
                raise _too_large(self._where, limit)
        return bytes(body)

    async def finish(self, timeout: float) -> None:
        """Wait a little for the end of the body, so that the connection can be used again."""
        try:
            with trio.move_on_after(timeout):
                while await self.read_some():
                    pass
        except ClientError:
            pass  # the answer is here already: how the connection ends does not matter
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Give the connection back if the body was read to its end, else close it."""
        await self._body.aclose()


_HALF_OPEN: Final = (".start_tls.failed", ".setup_socks5_connection.failed")


@define
class _TlsWatch:
    """Closes the socket of a TLS handshake that is cancelled, which httpcore2 does not.

    Called for each step of a request (httpcore2, "trace" extension).
    """

    _stream: Any = None

    async def __call__(self, step: str, info: Mapping[str, Any]) -> None:
        if step.endswith(".connect_tcp.complete"):
            self._stream = info["return_value"]
        elif self._stream is not None and step.endswith(_HALF_OPEN):
            # Cancelled already, or it would not be here; and to close a socket takes no time.
            with trio.CancelScope(shield=True):
                await self._stream.aclose()


def _too_large(where: str, limit: int) -> ResponseTooLarge:
    return ResponseTooLarge(f"{where} answered with more than {limit} bytes")


def _httpx2() -> Any:
    import httpx2  # an extra, and not before it is needed

    return httpx2


_PORTS: Final = {"http": 80, "https": 443}
_NO_URL: Final = "this is not a URL of an HTTP server, such as https://example.com/mcp"


def parse_url(url: str) -> tuple[SplitResult, tuple[str, str, int]]:
    """Parse a URL, and find its origin, which makes two URLs lead to the same server.

    Raises:
        ValueError: It is not a URL of an HTTP server. The message says why, in words that a person
            may read: those of the standard library may show a password.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(_NO_URL) from None
    if parts.scheme not in _PORTS:
        raise ValueError(_NO_URL)
    if not parts.hostname:
        raise ValueError("the URL has no host; it should look like https://example.com/mcp")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return parts, (parts.scheme, host, _port(parts))


def _port(url: SplitResult) -> int:
    try:
        port = _PORTS[url.scheme] if url.port is None else url.port
    except ValueError:
        port = 0
    if port:
        return port
    given = url.netloc.rpartition(":")[2]
    which = f"port {given:.20}" if given.isdecimal() else "a port that is not a number"
    raise ValueError(f"the URL has {which}; the port of a server is from 1 to 65535")


def _credentials(url: SplitResult) -> str | None:
    """Make an `Authorization` header of a user and password in a URL."""
    if url.username is None and url.password is None:
        return None
    pair = f"{unquote(url.username or '')}:{unquote(url.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _without_keys(path: str) -> str:
    """Replace the parts of a path that may be keys by stars."""
    return "/".join(
        segment if len(segment) <= _NAME_CHARS else "***" for segment in path.split("/")
    )


def _private(url: SplitResult) -> Iterator[str]:
    """Yield the parts of a URL that may be secrets, quoted and unquoted."""
    for pair in url.query.split("&"):
        value = pair.partition("=")[2]
        yield from (value, unquote_plus(value))
    for segment in url.path.split("/"):
        if len(segment) > _NAME_CHARS:
            yield from (segment, unquote(segment))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, outermost first."""
    following: BaseException | None = error
    for _ in range(20):
        if following is None:
            return
        yield following
        if isinstance(following, BaseExceptionGroup):
            following = following.exceptions[0]
        else:
            following = following.__cause__ or following.__context__


def _reason(error: Exception) -> str:
    """Say in a few words why a server cannot be reached."""
    reason = "no connection"
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed: {cause.reason or 'the handshake was broken off'}"
        if isinstance(cause, trio.TooSlowError):
            return "it does not answer in time"
        if isinstance(cause, trio.BrokenResourceError):
            reason = "the TLS handshake was broken off"
        elif isinstance(cause, OSError) and cause.strerror:
            reason = cause.strerror.partition(": ")[2] or cause.strerror
    return reason


def _lost(where: str, error: Exception) -> str:
    return f"the connection to {where} broke ({type(error).__name__})"
