"""How a command gets in at a URL as a person, where the server asks for it and not before.

Most servers let everybody in: for them, nothing is loaded that knows about keys and tokens.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from importlib.util import find_spec
from shlex import quote

import httpx2
from attrs import define, field

from trio_mcp import Login, TokenStore
from trio_mcp.auth.challenges import parse_challenges
from trio_mcp.auth.fetching import drain
from trio_mcp.auth.urls import origin
from trio_mcp.cli.failures import Failure
from trio_mcp.cli.login.browser import LoginPage
from trio_mcp.cli.login.kept import covering, is_given, login_store
from trio_mcp.cli.screen import Screen
from trio_mcp.client.http.endpoint import Endpoint
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.errors import AuthorizationError, LoginRequired

_PASS_A_TOKEN = "--token-env VARIABLE passes a token"  # noqa: S105


@define(eq=False, slots=False)
class WayIn(httpx2.Auth):
    """Gets in by a login that is kept, or by a new one once a server has refused us.

    Args:
        url: The server.
        store: Where logins are kept.
        oauth: Makes what gets in, given the login that is kept.
        page: What the person is shown meanwhile.
    """

    url: str
    store: TokenStore
    oauth: Callable[[Login | None], httpx2.Auth]
    page: LoginPage
    _auth: httpx2.Auth | None = field(default=None, init=False)
    _has_looked: bool = field(default=False, init=False)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request, and again as often as that helps.

        Raises:
            AuthorizationError: There was no getting in.
        """
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
        """The login that is kept, the first time that somebody asks."""
        if self._has_looked:
            return None
        self._has_looked = True
        try:
            logins = await self.store.load()
        except AuthorizationError:
            return None  # who needs no login need not know; who does will be told
        found = covering(logins, self.url)
        return found[-1] if found else None


def lacking(response: httpx2.Response) -> str:
    """The options that name the scopes for which a server refuses, as a shell can take them."""
    found = parse_challenges(response.headers.get_list("www-authenticate"))
    scopes = [
        scope for each in found if each.error == "insufficient_scope" for scope in each.scopes
    ]
    return "".join(f" --scope {quote(scope)}" for scope in dict.fromkeys(scopes))


def as_person(url: str, screen: Screen) -> WayIn:
    """Get in at a URL as the person before the screen.

    Raises:
        Failure: Logins are to be kept where they cannot be.
    """
    store = login_store()
    page = LoginPage(screen, origin(url))

    def oauth(login: Login | None) -> httpx2.Auth:
        from trio_mcp import OAuth

        shown = page.open if screen.can_ask else None
        client = login.client if login is not None else None
        if login is None or client is None or not is_given(client):
            return OAuth(store=store, open_browser=shown)
        # It was given to `trio-mcp login`, and so was where the browser has to come back to.
        return OAuth(
            client_id=client.client_id,
            client_secret=client.client_secret,
            issuer=login.issuer,
            store=store,
            open_browser=None,
        )

    return WayIn(url, store, oauth, page)


async def sent_by_hand(auth: httpx2.Auth, url: str) -> dict[str, str]:
    """The header by which somebody has got in, for requests that are made by hand.

    Raises:
        Failure: There is none that is good for more than one request.
    """
    async with aclosing(auth.async_auth_flow(httpx2.Request("POST", url))) as flow:
        headers = (await anext(flow)).headers
    if "DPoP" in headers:
        raise Failure("the server's tokens are bound to a key: each call needs a proof of its own")
    return {name: headers[name] for name in ("Authorization",) if name in headers}
