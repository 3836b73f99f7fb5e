"""Requests to authorization servers, whom we know only by hearsay.

A server that wants credentials names an authorization server, which names endpoints: any of these
may be an attempt to send us somewhere, or to keep us busy. So a request goes over HTTPS (or stays
on this machine), to no address that is nearer to us than the server itself, follows a redirect
only within its origin, and takes bounded time and bytes. The address that was examined is the one
that is connected to: a name cannot mean something else the second time.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
import trio
from attrs import field, frozen

from trio_mcp.auth.urls import BadUrl, origin, parsed
from trio_mcp.errors import AuthorizationError
from trio_mcp.public import public

MOST_BYTES: Final = 1 << 20
"""Of a body."""
PATIENCE: Final = 30.0
"""Seconds for a request, its redirects included."""
_MOST_REDIRECTS: Final = 3
_MOST_DRAINED: Final = 65536
_DRAIN_TIME: Final = 1.0
_FOLLOWED: Final = (301, 302, 303, 307, 308)


@frozen
class Fetched:
    """An answer.

    Attributes:
        status: The HTTP status.
        headers: Its headers.
        body: Its body; `None` if that was too long.
    """

    status: int
    headers: httpx2.Headers = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def document(self) -> Any:
        """The JSON value in the body; `None` if it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


@public
@frozen(kw_only=True)
class Fetching:
    """How authorization servers are reached.

    Args:
        verify: An `ssl.SSLContext` for TLS; `False` to trust any certificate.
        trust_env: Whether the environment's proxies and certificates count.
        client_factory: Makes the `httpx2.AsyncClient`, which then decides about names, proxies
            and TLS. It is closed when the request is answered.
    """

    verify: ssl.SSLContext | bool = True
    trust_env: bool = True
    client_factory: Callable[[], httpx2.AsyncClient] | None = None

    async def get(self, url: str, *, near: str | None) -> Fetched:
        """Get a document.

        Args:
            url: Its URL.
            near: The URL of the server on whose word we go there; `None` if it is the user's own.

        Raises:
            AuthorizationError: It must not be asked for there, or there was no proper answer.
        """
        headers = {"Accept": "application/json"}
        with _bounded(url):
            for _ in range(_MOST_REDIRECTS + 1):
                fetched = await self._send("GET", url, headers, None, near)
                if fetched.status not in _FOLLOWED:
                    return fetched
                url = _redirected(url, fetched)
            raise AuthorizationError(f"{origin(url)} redirects from one URL to the next, endlessly")
        raise AssertionError  # a scope that has run out raises

    async def post(
        self, url: str, content: bytes, headers: Mapping[str, str], *, near: str | None
    ) -> Fetched:
        """Post something. A redirect is not followed: it may have a secret in it.

        Raises:
            AuthorizationError: As for `get`.
        """
        with _bounded(url):
            fetched = await self._send("POST", url, headers, content, near)
            if fetched.status in _FOLLOWED:
                why = f"{origin(url)} redirects a request that may have a secret in it: refused"
                raise AuthorizationError(why)
            return fetched
        raise AssertionError

    async def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        near: str | None,
    ) -> Fetched:
        try:
            parsed(url, "where we are to go")
            where = origin(url)
            address = await self._address(url, near)
            async with self._client() as client:
                request = _request(client, method, url, headers, content, address)
                response = await client.send(request, stream=True, follow_redirects=False)
                try:
                    return Fetched(response.status_code, response.headers, await _body(response))
                finally:
                    with trio.CancelScope(shield=True):
                        await response.aclose()
        except BadUrl as error:
            raise AuthorizationError(str(error)) from None
        except OSError as error:
            raise AuthorizationError(f"cannot reach {where}: {error.strerror}") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            # The last two are for names that no resolver or codec takes. Any text may have the URL.
            why = f"cannot reach {where} ({type(error).__name__})"
            raise AuthorizationError(why) from None

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[httpx2.AsyncClient]:
        if self.client_factory is not None:
            made = self.client_factory()
        else:
            made = httpx2.AsyncClient(verify=self.verify, trust_env=self.trust_env, timeout=None)
        async with made as client:
            yield client

    async def _address(self, url: str, near: str | None) -> str | None:
        """Find the address to connect to; `None` to leave that to the HTTP client.

        Raises:
            AuthorizationError: It is nearer to us than the server that sends us there.
        """
        if self.client_factory is not None or (self.trust_env and _has_proxy(url)):
            return None  # names are another's affair: there may be no resolver but the proxy's
        addresses = await _addresses(url)
        if near is not None:
            allowed = _REACHABLE[_widest(await _addresses(near))]
            refused = [each for each in addresses if _reach(each) not in allowed]
            if refused:
                why = f"{origin(url)} is on a {_reach(refused[0])} network, where {origin(near)}"
                raise AuthorizationError(f"{why} must not send us")
        return str(addresses[0])


def _request(
    client: httpx2.AsyncClient,
    method: str,
    url: str,
    headers: Mapping[str, str],
    content: bytes | None,
    address: str | None,
) -> httpx2.Request:
    sent = {"User-Agent": "trio-mcp", "Accept-Encoding": "identity", **headers}
    target = httpx2.URL(url)
    extensions = {}
    if address is not None:
        sent["Host"] = target.netloc.decode()
        extensions["sni_hostname"] = target.host
        target = target.copy_with(host=address)
    return client.build_request(
        method, target, headers=sent, content=content, extensions=extensions
    )


async def _body(response: httpx2.Response) -> bytes:
    if response.headers.get("content-encoding", "identity") != "identity":
        where = origin(str(response.request.url))
        raise AuthorizationError(f"{where} sends a compressed body, which was not asked for")
    body = await _read(response, MOST_BYTES)
    if len(body) > MOST_BYTES:
        where = response.request.headers["Host"]
        raise AuthorizationError(f"{where} answers with more than {MOST_BYTES} bytes")
    return body


async def _read(response: httpx2.Response, most: int) -> bytes:
    """Read a body, or a little more than `most` bytes of it."""
    body = bytearray()
    with trio.CancelScope() as scope:
        async for piece in response.stream:  # type: ignore[union-attr]
            body += piece
            if len(body) > most:
                # Not `break`: an exception from within is what ends httpx2's generators.
                scope.cancel()
    return bytes(body)


def _redirected(url: str, fetched: Fetched) -> str:
    try:
        new = urljoin(url, fetched.headers.get("location", ""))
        there = origin(new)
    except ValueError:
        raise AuthorizationError(f"{origin(url)} redirects to no URL") from None
    if there != origin(url):
        why = f"{origin(url)} redirects to {there}, where it is not followed"
        raise AuthorizationError(why)
    return new.partition("#")[0]


class _bounded:
    """Ends a request that takes too long, with an error that says where it went."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._scope = trio.move_on_after(PATIENCE)

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(self, *ending: Any) -> bool | None:
        swallowed = self._scope.__exit__(*ending)
        if swallowed and self._scope.cancelled_caught:
            raise AuthorizationError(f"{origin(self._url)} did not answer within {PATIENCE:g} s")
        return swallowed


async def drain(response: httpx2.Response) -> None:
    """Have done with a response whose request is sent again.

    httpx2 reads such a body to its end, however long it is. Here a little is read, so that the
    connection can be used again; a body that goes on is cut off.
    """
    with trio.move_on_after(_DRAIN_TIME):
        await _read(response, _MOST_DRAINED)
    with trio.CancelScope(shield=True):
        await response.stream.aclose()  # type: ignore[union-attr]
    response.stream = httpx2.ByteStream(b"")


# -- addresses -------------------------------------------------------------------------------------

Address = IPv4Address | IPv6Address

_REACHABLE: Final[dict[str, frozenset[str]]] = {
    "public": frozenset({"public"}),
    "private": frozenset({"public", "private"}),
    "local": frozenset({"public", "private", "local"}),
}
"""Where a server may send us, by where it is itself."""


_NAT64: Final = ip_network("64:ff9b::/96")
_GLOBAL: Final = (ip_network("0.0.0.0/0"), ip_network("2000::/3"))
"""What may be public. All other IPv6 addresses are for some network's own use."""


def _reach(address: Address) -> str:
    address = _translated(address)
    if address.is_loopback or address.is_link_local or address.is_unspecified:
        return "local"
    may_be = address.is_global and not address.is_multicast
    return "public" if may_be and any(address in each for each in _GLOBAL) else "private"


def _translated(address: Address) -> Address:
    """The IPv4 address that a gateway on the way makes of an IPv6 one, if there is one in it."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _widest(addresses: list[Address]) -> str:
    """How near a server is. One with addresses of several kinds is taken for the farthest."""
    kinds = {_reach(each) for each in addresses}
    return next(each for each in _REACHABLE if each in kinds)


async def _addresses(url: str) -> list[Address]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        return [ip_address(host)]
    except ValueError:
        pass
    port = parts.port or (80 if parts.scheme == "http" else 443)
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    return [ip_address(str(each[4][0]).partition("%")[0]) for each in found]


def _has_proxy(url: str) -> bool:
    parts = urlsplit(url)
    proxies = getproxies()
    return bool(proxies.get(parts.scheme) or proxies.get("all")) and not proxy_bypass(
        parts.hostname or ""
    )
