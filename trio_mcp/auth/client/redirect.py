"""A server on loopback for the redirect that ends a login in a browser.

It accepts the one request that has our `state`, and closes. Anything else (another path, another
state, half a request, or thousands of requests) is refused and disturbs nothing. PKCE (RFC 7636)
lets only the client that asked for a code redeem it.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import httptools
import trio
from attrs import define, field, frozen

from trio_mcp.auth.digests import digest_of, same
from trio_mcp.background import background_nursery
from trio_mcp.errors import AuthorizationError

METHOD: Final = "S256"
"""The only method of PKCE: `plain` proves nothing to an attacker who can read the request."""
PATH: Final = "/callback"
_MOST_BYTES: Final = 16384
_PATIENCE: Final = 10.0
"""Seconds for a connection to send its request, and to take the answer."""
MAX_CONNECTIONS: Final = 128
_MOST_PARAMETERS: Final = 32

_WORDS: Final = {
    HTTPStatus.OK: "You can close this page and go back to the program.",
    HTTPStatus.BAD_REQUEST: "This does not belong to a login that is under way.",
    HTTPStatus.NOT_FOUND: "There is nothing here.",
    HTTPStatus.METHOD_NOT_ALLOWED: "Only GET is answered here.",
}


def _random() -> str:
    return secrets.token_urlsafe(32)  # 43 characters, the fewest that a verifier may have


@frozen
class Pkce:
    """The secrets of one authorization request."""

    verifier: str = field(factory=_random, repr=False)
    state: str = field(factory=_random, repr=False)

    @property
    def challenge(self) -> str:
        """The digest of the verifier, for the authorization request."""
        return digest_of(self.verifier)

    def is_ours(self, state: str | None) -> bool:
        """Whether a redirect answers this request, in constant time."""
        return same(state, self.state)


@define(eq=False)
class Redirect:
    """A redirect to `uri` that is awaited."""

    uri: str
    _pkce: Pkce = field(repr=False)
    _answer: dict[str, str] | None = field(default=None, init=False, repr=False)
    _arrived: trio.Event = field(factory=trio.Event, init=False)
    _open: dict[trio.CancelScope, None] = field(factory=dict, init=False, repr=False)

    async def answer(self) -> Mapping[str, str]:
        """Wait for the redirect. Of its parameters, only `state` has been checked."""
        await self._arrived.wait()
        assert self._answer is not None
        return self._answer

    async def serve(self, stream: trio.SocketStream) -> None:
        with trio.move_on_after(_PATIENCE) as scope, suppress(trio.BrokenResourceError):
            self._make_room()
            self._open[scope] = None
            async with stream:
                request = await _read(stream)
                if request is not None:
                    await stream.send_all(_page(self._status(request)))
        self._open.pop(scope, None)
        if self._answer is not None:  # only now, so that the person has seen the page
            self._arrived.set()

    def _make_room(self) -> None:
        """Close the oldest connection if there are too many.

        A browser sends its request at once. Connections that send nothing must not keep it out.
        """
        if len(self._open) >= MAX_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.cancel()

    def _status(self, request: _Request) -> HTTPStatus:
        path, _, query = request.target.partition("?")  # a browser sends nothing before the path
        if path != PATH:
            return HTTPStatus.NOT_FOUND
        if request.method != b"GET":
            return HTTPStatus.METHOD_NOT_ALLOWED
        port = urlsplit(self.uri).port
        ours = f"127.0.0.1:{port}", f"localhost:{port}"  # any other would be DNS rebinding
        if self._answer is not None or request.host not in ours:
            return HTTPStatus.BAD_REQUEST
        try:
            pairs = parse_qsl(query, True, True, max_num_fields=_MOST_PARAMETERS)
        except ValueError:
            return HTTPStatus.BAD_REQUEST
        parameters = dict(pairs)
        twice = len(parameters) != len(pairs)
        if twice or not self._pkce.is_ours(parameters.get("state")):
            return HTTPStatus.BAD_REQUEST
        self._answer = parameters
        return HTTPStatus.OK


@asynccontextmanager
async def receiving(pkce: Pkce, *, port: int, host: str) -> AsyncIterator[Redirect]:
    """Receive the redirect of a request, for the length of the block.

    It goes to a port, or with 0 to any that is free, by the name of `127.0.0.1` or `localhost`.

    Raises:
        AuthorizationError: The port is taken.
    """
    try:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    except OSError as error:
        raise AuthorizationError(f"cannot listen on port {port}: {error.strerror}") from None
    bound = listeners[0].socket.getsockname()[1]
    redirect = Redirect(f"http://{host}:{bound}{PATH}", pkce)
    async with background_nursery(partial(trio.serve_listeners, redirect.serve, listeners)):
        yield redirect


class _Request:
    """One request, as httptools reads it."""

    def __init__(self) -> None:
        self.target = ""
        self.host = ""
        self.method = b""
        self.complete = False
        self._hosts = 0

    def on_url(self, url: bytes) -> None:
        self.target += url.decode("ascii", "replace")

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"host":
            self._hosts += 1
            self.host = value.decode("ascii", "replace").lower() if self._hosts == 1 else ""

    def on_headers_complete(self) -> None:
        self.complete = True


async def _read(stream: trio.SocketStream) -> _Request | None:
    """Read the head of a request; return `None` if it is not valid, or too long."""
    request = _Request()
    parser = httptools.HttpRequestParser(request)
    left = _MOST_BYTES
    while left > 0 and not request.complete:
        data = await stream.receive_some(left)
        left -= len(data)
        if not data:
            return None
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return None
    if not request.complete:
        return None
    request.method = parser.get_method()
    return request


def _page(status: HTTPStatus) -> bytes:
    body = f"<!doctype html><title>trio-mcp</title><p>{_WORDS[status]}</p>\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\n"
        # The address has a code in it: it must not be cached, nor sent as a referrer.
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
        "Content-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
