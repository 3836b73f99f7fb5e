"""Credentials, by the names that a document has for its security schemes.

They stand on requests and nowhere else: not in a schema, an argument, an error or the log. They are
the same for all calls, or the credential of the caller of each.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import quote, unquote, urljoin

import httpx2
import trio
from attrs import Factory, define, evolve, field, frozen

from trio_mcp.auth.fetching import Fetching
from trio_mcp.auth.urls import BadUrl, parsed
from trio_mcp.compose.openapi.document import MOST, Document
from trio_mcp.compose.openapi.operations import Operation
from trio_mcp.compose.openapi.parameters import Pair
from trio_mcp.errors import AuthorizationError
from trio_mcp.extras import advice
from trio_mcp.registry.context import Context
from trio_mcp.registry.middleware import CallNext, McpCall
from trio_mcp.system.responses import drain
from trio_mcp.wire.jsonrpc import Json

Credential = str | tuple[str, str] | httpx2.Auth
"""A key or token; a user and a password, or a client's id and secret; or anything for `auth=`."""

_WANTED: Final = {
    "apiKey": "the key, a str",
    "basic": "(user, password), or 'user:password'",
    "oauth2": "a token, (client id, client secret), or an httpx2.Auth",
    "openIdConnect": "a token, (client id, client secret), or an httpx2.Auth",
    "": "a token, a str",
}

_SHORTEST: Final = 4
"""Characters of a credential that no other word is taken for."""


@frozen
class Shown:
    """The credentials that a request shows."""

    headers: Mapping[str, str] = field(factory=dict, repr=False)
    query: tuple[Pair, ...] = field(default=(), repr=False)
    cookies: tuple[Pair, ...] = field(default=(), repr=False)
    auth: httpx2.Auth | None = field(default=None, repr=False)

    def hide(self, text: str) -> str:
        """Leave credentials out of what a service has said: some repeat what they were sent."""
        for _, value in (*self.headers.items(), *self.query, *self.cookies):
            bare = value.rpartition(" ")[2]  # "Bearer" may stay
            for secret in {bare, unquote(bare)}:
                if len(secret) >= _SHORTEST:
                    text = text.replace(secret, "…")
        return text


class Security:
    """Credentials for the security schemes of a document: by their names, or one for all requests.

    Relative URLs of authorization servers start from `base_url`. A credential for no scheme, or of
    the wrong kind, raises `ValueError`.
    """

    def __init__(
        self,
        document: Document,
        credentials: Mapping[str, Credential] | httpx2.Auth | None,
        base_url: str,
    ) -> None:
        self._root = document.root
        components = document.resolve(document.root.get("components"))
        named = document.resolve(components.get("securitySchemes"))
        self._schemes = {str(name): document.resolve(each) for name, each in named.items()}
        self._always = credentials if isinstance(credentials, httpx2.Auth) else None
        given = credentials if isinstance(credentials, Mapping) else {}
        self._shown = {name: self._applied(name, each, base_url) for name, each in given.items()}

    def keys(self) -> Iterator[tuple[str, str]]:
        """Yield names and places of the parameters that are keys: a model does not give them."""
        for scheme in self._schemes.values():
            if scheme.get("type") == "apiKey":
                yield str(scheme.get("name")), str(scheme.get("in"))

    def of(self, operation: Operation) -> Shown:
        """Return what an operation shows: its first alternative that all credentials are given for.

        Without one it shows nothing: the HTTP client may have its own ways.
        """
        if self._always is not None:
            return Shown(auth=self._always)
        wanted = operation.details.get("security", self._root.get("security"))
        for alternative in wanted[:MOST] if isinstance(wanted, list) else ():
            if isinstance(alternative, Mapping) and alternative.keys() <= self._shown.keys():
                parts = [self._shown[name] for name in alternative]
                if parts and sum(part.auth is not None for part in parts) < 2:
                    return Shown(
                        {name: value for part in parts for name, value in part.headers.items()},
                        tuple(pair for part in parts for pair in part.query),
                        tuple(pair for part in parts for pair in part.cookies),
                        next((part.auth for part in parts if part.auth is not None), None),
                    )
        return Shown()

    def _applied(self, name: str, credential: Credential, base_url: str) -> Shown:
        scheme = self._schemes.get(name)
        if scheme is None:
            there = ", ".join(map(repr, self._schemes)) or "none"
            raise ValueError(f"auth: the document has no security scheme {name!r}; it has: {there}")
        if isinstance(credential, httpx2.Auth):
            return Shown(auth=credential)
        kind = str(scheme.get("type"))
        if kind == "http" and str(scheme.get("scheme")).lower() == "basic":
            kind = "basic"
        if kind == "basic" and isinstance(credential, str) and ":" in credential:
            user, _, password = credential.partition(":")
            credential = user, password
        match kind, credential:
            case "apiKey", str(key) if _is_line(key):
                return _key(scheme, key)
            case "http" | "oauth2" | "openIdConnect", str(token) if _is_line(token):
                return Shown({"Authorization": f"Bearer {token}"})
            case "basic", (str(user), str(password)):
                coded = b64encode(f"{user}:{password}".encode()).decode()
                return Shown({"Authorization": f"Basic {coded}"})
            case "oauth2" | "openIdConnect", (str(client_id), str(secret)):
                return Shown(auth=_service_token(name, scheme, (client_id, secret), base_url))
        raise ValueError(f"auth: the scheme {name!r} takes {_WANTED.get(kind, _WANTED[''])}")


def _is_line(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _key(scheme: Mapping[str, Json], key: str) -> Shown:
    name = str(scheme.get("name"))
    match scheme.get("in"):
        case "query":
            return Shown(query=((quote(name, safe=""), quote(key, safe="")),))
        case "cookie":
            return Shown(cookies=((name, quote(key, safe="=/+:!*")),))
        case _:
            return Shown({name: key})


# -- tokens ----------------------------------------------------------------------------------------


def _service_token(
    name: str, scheme: Mapping[str, Json], pair: tuple[str, str], base_url: str
) -> httpx2.Auth:
    """Make what gets tokens by an id and a secret, where the document says."""
    flows = scheme.get("flows")
    flow = flows.get("clientCredentials") if isinstance(flows, Mapping) else None
    flow = flow if isinstance(flow, Mapping) else {}
    discovery = scheme.get("openIdConnectUrl")
    url = discovery or flow.get("tokenUrl")
    if not isinstance(url, str):
        raise ValueError(
            f"auth: the scheme {name!r} has no flow for clients without a person; give a token, "
            "or an httpx2.Auth such as OAuth(…)"
        )
    try:
        parsed(url := urljoin(base_url, url), f"the token URL of {name!r}")
    except BadUrl as error:
        raise ValueError(f"auth: {error}") from None
    scopes = flow.get("scopes")
    asked = tuple(map(str, scopes)) if isinstance(scopes, Mapping) else ()
    return ServiceToken(url, *pair, scopes=asked, is_discovery=discovery is not None)


@define(eq=False, slots=False)
class ServiceToken(httpx2.Auth):
    """Gets tokens as a program (RFC 6749, section 4.4), and puts them on requests.

    However many requests wait for a token, one of them gets it.
    """

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...] = ()
    is_discovery: bool = False
    """Whether the URL is not of the token endpoint, but of metadata that name it."""
    fetching: Fetching = Factory(Fetching)
    _token: Any = field(default=None, init=False, repr=False)
    _lock: trio.Lock = field(factory=trio.Lock, init=False, repr=False)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with a token, and with a new one if that is refused."""
        token = await self._good(None)
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == 401:
            await drain(response)
            request.headers["Authorization"] = f"Bearer {await self._good(token)}"
            yield request

    async def _good(self, refused: str | None) -> str:
        """Return a token that is valid, and not the one that was refused."""
        async with self._lock:
            now = self._token
            if now is None or now.access_token == refused or not now.is_good(time.time()):
                self._token = await self._fetched()
            return str(self._token.access_token)

    async def _fetched(self) -> Any:
        try:
            from trio_mcp.auth.client.token_endpoint import TokenEndpoint
            from trio_mcp.auth.documents import ClientRegistration, ServerMetadata
        except ModuleNotFoundError:
            why = advice("getting a token", "auth")
            raise AuthorizationError(why) from None
        url = await self._endpoint() if self.is_discovery else self.url
        endpoint = TokenEndpoint(
            metadata=ServerMetadata(issuer=url, token_endpoint=url),
            fetching=evolve(self.fetching),
            near=None,  # the document is the user's own word
        )
        scope = {"scope": " ".join(self.scopes)} if self.scopes else {}
        client = ClientRegistration(client_id=self.client_id, client_secret=self.client_secret)
        form = {"grant_type": "client_credentials", **scope}
        return await endpoint.token(form, client, asked=self.scopes)

    async def _endpoint(self) -> str:
        async with self.fetching.opened() as fetcher:
            found = (await fetcher.get(self.url, near=None)).document
        url = found.get("token_endpoint") if isinstance(found, Mapping) else None
        if not isinstance(url, str):
            raise AuthorizationError("the OpenID provider names no token_endpoint")
        return url


Authenticate = Callable[[Context], Awaitable[str | httpx2.Auth | None]]
"""Returns what to show for a caller: a bearer token, or an `httpx2.Auth`; `None` for nothing."""

_CALLER: Final = ContextVar[Context]("the caller of an operation")


@frozen(eq=False)
class CallerAuth(httpx2.Auth):
    """Shows the credential of the caller with each request (an `httpx2.Auth`)."""

    around = "calls"
    _authenticate: Authenticate = field(repr=False)

    async def __call__(self, call: McpCall, call_next: CallNext) -> Any:
        """Note who calls while the operation runs (middleware of the registry)."""
        before = _CALLER.set(call.context)
        try:
            return await call_next(call)
        finally:
            _CALLER.reset(before)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        shown = await self._authenticate(_CALLER.get())
        if isinstance(shown, httpx2.Auth):
            flow = shown.async_auth_flow(request)
            try:
                wanted = await anext(flow)
                while True:
                    response = yield wanted
                    wanted = await flow.asend(response)
            except StopAsyncIteration:
                return
            finally:
                await flow.aclose()
        if shown is not None:
            request.headers["Authorization"] = f"Bearer {shown}"
        yield request
