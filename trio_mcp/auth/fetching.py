"""Requests to authorization servers, which other servers name to us.

A server that wants credentials names an authorization server, which names endpoints: any of these
may be an attempt to send us somewhere, or to keep us busy. So a request goes over HTTPS (or stays
on this machine), to no address that is nearer to us than the server itself, follows a redirect
only within its origin, and takes bounded time and bytes. We connect to the very address that was
examined: the name could resolve to another one the second time.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
import trio
from attrs import field, frozen, validators

from trio_mcp.auth.addresses import addresses_from
from trio_mcp.auth.urls import BadUrl, origin, parsed
from trio_mcp.errors import AuthorizationError
from trio_mcp.public import public_in
from trio_mcp.system.certificates import trusted
from trio_mcp.system.responses import Body
from trio_mcp.wire import codec
from trio_mcp.wire.weight import is_heavier

FORM: Final = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
"""Headers of a form that asks for JSON."""
MOST_BYTES: Final = 1 << 20
"""Bytes of a body at most."""
MAX_REDIRECTS: Final = 3
_MOST_VALUES: Final = 500_000  # as they are weighed: some ten thousand keys have fewer
_FOLLOWED: Final = (301, 302, 303, 307, 308)


@frozen
class Fetched:
    """The response to a request."""

    status: int
    headers: httpx2.Headers = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def document(self) -> Any:
        """The JSON value in the body; `None` if there is none, or it has very many values."""
        if is_heavier(self.body, _MOST_VALUES):
            return None
        try:
            return codec.loads(self.body)
        except ValueError:
            return None


@public_in("trio_mcp.auth")
@frozen(kw_only=True)
class Fetching:
    """How authorization servers are reached.

    Args:
        verify: An `ssl.SSLContext` for TLS; `False` to trust any certificate.
        trust_env: Whether to use the environment's proxies and certificates.
        client_factory: Makes the `httpx2.AsyncClient`, which then decides about names, proxies
            and TLS. A client uses one for each request, a server one as long as it runs.
        timeout: Seconds that a request may take, with its redirects and the whole response.
        answered_from: The address of the server that sends us there, once it has answered. A login
            sets it.
    """

    verify: ssl.SSLContext | bool = True
    trust_env: bool = True
    client_factory: Callable[[], httpx2.AsyncClient] | None = None
    timeout: float = field(default=30.0, validator=validators.gt(0))
    answered_from: str | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Fetcher]:
        """Open a `Fetcher`, which keeps its connections for the length of the block."""
        if self.client_factory is not None:
            made = self.client_factory()
        else:
            verify = trusted(trust_env=self.trust_env) if self.verify is True else self.verify
            made = httpx2.AsyncClient(verify=verify, trust_env=self.trust_env, timeout=None)
        async with made as client:
            yield Fetcher(self, client)

    async def get(
        self, url: str, *, near: str, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        async with self.opened() as fetcher:
            return await fetcher.get(url, near=near, headers=headers)

    async def post(
        self, url: str, content: bytes, headers: Mapping[str, str], *, near: str | None
    ) -> Fetched:
        async with self.opened() as fetcher:
            return await fetcher.post(url, content, headers, near=near)


@frozen(eq=False)
class Fetcher:
    """Makes requests, for as long as its connections are open."""

    how: Fetching
    _client: httpx2.AsyncClient

    async def get(
        self, url: str, *, near: str | None, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        """Get a document.

        The server at the URL `near` sends us there; or with `None` the user, who may send us
        anywhere.

        Raises:
            AuthorizationError: We must not go there, or there was no proper response.
        """
        headers = {"Accept": "application/json", **(headers or {})}
        with self._in_time(url):
            for _ in range(MAX_REDIRECTS + 1):
                fetched = await self._send("GET", url, headers, None, near)
                if fetched.status not in _FOLLOWED:
                    return fetched
                url = _redirected(url, fetched)
            raise AuthorizationError(f"{origin(url)} redirects from one URL to the next, endlessly")

    async def post(
        self, url: str, content: bytes, headers: Mapping[str, str], *, near: str | None
    ) -> Fetched:
        """Post a body (as `get`). Redirects are not followed: the body may have a secret in it."""
        with self._in_time(url):
            fetched = await self._send("POST", url, headers, content, near)
            if fetched.status in _FOLLOWED:
                why = f"{origin(url)} redirects a request that may have a secret in it: refused"
                raise AuthorizationError(why)
            return fetched

    @contextmanager
    def _in_time(self, url: str) -> Iterator[None]:
        with trio.move_on_after(self.how.timeout) as scope:
            yield
        if scope.cancelled_caught:
            why = f"{origin(url)} did not answer within {self.how.timeout:g} s"
            raise AuthorizationError(why)

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
            for address in await self._addresses(url, near):
                request = _request(self._client, method, url, headers, content, address)
                try:
                    return await self._exchange(request)
                except httpx2.ConnectError as error:
                    failure = error
            raise failure
        except BadUrl as error:
            raise AuthorizationError(str(error)) from None
        except OSError as error:
            raise AuthorizationError(f"cannot reach {where}: {error.strerror}") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            # The last two are for names that no resolver or codec takes. Any text may have the URL.
            why = f"cannot reach {where} ({type(error).__name__})"
            raise AuthorizationError(why) from None

    async def _exchange(self, request: httpx2.Request) -> Fetched:
        response = await self._client.send(request, stream=True, follow_redirects=False)
        body = Body(response)
        try:
            where = request.headers["Host"]
            if response.headers.get("content-encoding", "identity") != "identity":
                why = f"{where} sends a compressed body, which was not asked for"
                raise AuthorizationError(why)
            whole = await body.read(MOST_BYTES)
            if len(whole) > MOST_BYTES:
                raise AuthorizationError(f"{where} answers with more than {MOST_BYTES} bytes")
            return Fetched(response.status_code, response.headers, whole)
        finally:
            await body.aclose()

    async def _addresses(self, url: str, near: str | None) -> Sequence[str | None]:
        """Return the addresses to try; `None` leaves that to the HTTP client."""
        how = self.how
        if near is None or how.client_factory is not None or (how.trust_env and _has_proxy(url)):
            return [None]  # there may be no resolver but the proxy's
        return list(map(str, await addresses_from(near, url, how.answered_from)))


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


def _redirected(url: str, fetched: Fetched) -> str:
    try:
        new = urljoin(url, fetched.headers.get("location", ""))
        there = origin(new)
    except ValueError:
        raise AuthorizationError(f"{origin(url)} redirects to no URL") from None
    if there != origin(url):
        raise AuthorizationError(f"{origin(url)} redirects to {there}, where it is not followed")
    return new.partition("#")[0]


def _has_proxy(url: str) -> bool:
    parts = urlsplit(url)
    proxies = getproxies()
    return bool(proxies.get(parts.scheme) or proxies.get("all")) and not proxy_bypass(
        parts.hostname or ""
    )
