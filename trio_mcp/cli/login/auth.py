"""How a command is authorized at a URL: as a person, or by a client's own credentials.

Most servers ask for neither; for them, nothing is loaded that knows about keys and tokens.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from importlib.util import find_spec
from shlex import quote
from typing import TYPE_CHECKING, Final

import httpx2
from attrs import define, field

from trio_mcp.auth import Login, TokenStore
from trio_mcp.auth.challenges import parse_challenges
from trio_mcp.auth.urls import origin
from trio_mcp.cli.failures import Failure, Usage
from trio_mcp.cli.login.browser import LoginPage
from trio_mcp.cli.login.store import (
    SECRET_NEEDS_ISSUER,
    client_options,
    covering,
    login_store,
    require_auth,
)
from trio_mcp.cli.screen import Screen
from trio_mcp.client.http.endpoint import Endpoint
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.errors import AuthorizationError, LoginRequired
from trio_mcp.system.responses import drain

if TYPE_CHECKING:
    from trio_mcp.auth import ClientCredentials

_PASS_A_TOKEN = "--token-env VARIABLE passes a token"  # noqa: S105
_LONGEST_KEY: Final = 64 * 1024
"""Bytes; what is longer is not a key, and may be without end."""


@define(eq=False, slots=False)
class LoginAuth(httpx2.Auth):
    """Uses a kept login, or a new one once a server has refused us."""

    url: str
    store: TokenStore
    oauth: Callable[[Login | None], httpx2.Auth]
    page: LoginPage
    _auth: httpx2.Auth | None = field(default=None, init=False)
    _has_looked: bool = field(default=False, init=False)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request, and again as often as that helps, or raise `AuthorizationError`."""
        hint, options = "", ""
        if self._auth is None:
            kept = await self._kept()
            if kept is None:
                response = yield request
                if response.status_code != 401 or find_spec("joserfc") is None:
                    return
                if "resource_metadata" not in response.headers.get("www-authenticate", ""):
                    hint = f" ({_PASS_A_TOKEN})"
                await drain(response)
            # Another request may have been here while this one waited.
            self._auth = self._auth or self.oauth(kept)
        try:
            async with aclosing(self._auth.async_auth_flow(request)) as flow:
                request = await anext(flow)
                while True:
                    self.page.close()
                    response = yield request
                    options = lacking(response)
                    request = await flow.asend(response)
        except StopAsyncIteration:
            return
        except LoginRequired:
            shown = Endpoint(self.url, HttpOptions()).place
            command = f"trio-mcp login {quote(shown)}{options}"
            why = f"{self.page.where} wants you to log in: {command} ({_PASS_A_TOKEN})"
            raise LoginRequired(why) from None
        except AuthorizationError as error:
            raise AuthorizationError(f"{error}{hint}", error.error) from None

    async def _kept(self) -> Login | None:
        if self._has_looked:
            return None
        self._has_looked = True
        try:
            logins = await self.store.load()
        except AuthorizationError:
            return None  # an unreadable store matters only if a login turns out to be needed
        found = covering(logins, self.url)
        return found[-1] if found else None


def lacking(response: httpx2.Response) -> str:
    """Return the shell options for the scopes that a server demands."""
    scopes: dict[str, None] = {}
    for challenge in parse_challenges(response.headers.get_list("www-authenticate")):
        if challenge.error == "insufficient_scope":
            scopes |= dict.fromkeys(challenge.scopes)
    return "".join(f" --scope {quote(scope)}" for scope in scopes)


def as_person(url: str, screen: Screen) -> LoginAuth:
    store = login_store()
    page = LoginPage(screen, origin(url))

    def oauth(login: Login | None) -> httpx2.Auth:
        from trio_mcp.auth import OAuth

        shown = page.open if screen.can_ask else None
        # A client that was given to `trio-mcp login` needs the redirect that was given there.
        given = client_options(login)
        return OAuth(**given, store=store, open_browser=None if given else shown)

    return LoginAuth(url, store, oauth, page)


def as_client(
    client_id: str, secret: str | None, key: str | None, *, issuer: str | None
) -> ClientCredentials:
    """Log in with a client's own credentials: its secret, or the file with its private key.

    The token is kept in memory only.
    """
    if (secret is None) == (key is None):
        raise Usage("--client-id needs --client-secret-env or --client-key, and not both")
    if secret is not None and issuer is None:
        raise Usage(SECRET_NEEDS_ISSUER)
    require_auth()
    from trio_mcp.auth import ClientCredentials

    try:
        return ClientCredentials(
            client_id=client_id,
            client_secret=secret,
            private_key=None if key is None else _start_of(key),
            issuer=issuer,
        )
    except ValueError as error:
        raise Usage(str(error).replace("private_key:", f"--client-key {key}:")) from None


def _start_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_LONGEST_KEY)


async def sent_by_hand(auth: httpx2.Auth, url: str) -> dict[str, str]:
    """Return the authorization header for requests that are made by hand."""
    async with aclosing(auth.async_auth_flow(httpx2.Request("POST", url))) as flow:
        headers = (await anext(flow)).headers
    if "DPoP" in headers:
        raise Failure("the server's tokens are bound to a key: each call needs a proof of its own")
    return {name: headers[name] for name in ("Authorization",) if name in headers}
