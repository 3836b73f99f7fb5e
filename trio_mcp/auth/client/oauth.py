"""Log in as a person, in a browser (OAuth 2.1, authorization code with PKCE)."""

from __future__ import annotations

import socket
import sys
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import trio
from attrs import Attribute, define, field

from trio_mcp.auth.client.access import Access
from trio_mcp.auth.client.discovery import Discovered
from trio_mcp.auth.client.flow import AuthorizationFlow
from trio_mcp.auth.client.redirect import METHOD, PATH, Pkce, receiving
from trio_mcp.auth.client.registration import check_document_url, register
from trio_mcp.auth.client.stores import Login
from trio_mcp.auth.client.token_endpoint import Form, redacted
from trio_mcp.auth.documents import ClientRegistration, ServerMetadata
from trio_mcp.auth.urls import origin
from trio_mcp.errors import AuthorizationError, LoginRequired
from trio_mcp.loggers import harmless
from trio_mcp.public import public_in
from trio_mcp.threads import in_thread

_OFFLINE: Final = "offline_access"


@public_in("trio_mcp.auth")
async def open_in_browser(url: str) -> None:
    """Open a page in the person's browser, or print its URL on stderr if there is none."""
    opened = await in_thread(webbrowser.open, url)
    if not opened:
        print(f"To log in, open this page:\n\n    {harmless(url)}\n", file=sys.stderr, flush=True)


def _is_document(_: object, __: Attribute[Any], url: str | None) -> None:
    if url is not None:
        check_document_url(url)


@public_in("trio_mcp.auth")
@define(eq=False, kw_only=True, slots=False)
class OAuth(AuthorizationFlow):
    """Logs in as a person, in a browser.

    The authorization server is found from what the server says (revision 2026-07-28,
    "Authorization"). All calls that need a token wait for one login, and go on after it.

    Args:
        client_id: Our client id, if we are registered with the authorization server.
        client_secret: Our client secret, if there is one.
        client_metadata_url: The URL of a document that describes us, for authorization servers
            that accept it (Client ID Metadata Documents). Without both, or if they are not
            accepted, we register.
        client_name: Our name for an authorization server that we register with.
        open_browser: Shows a page to the person; `None` if there is no person.
        redirect_port: The port on this machine for the redirect; by default any.
        redirect_host: The host of the redirect: `127.0.0.1` or `localhost`.
        timeout: Seconds that the person has for a login.
        assume_pkce: Log in although the authorization server does not announce PKCE with S256, as
            GitHub, Google and older servers do not. It is used all the same. Set it only where you
            know that the server checks it; otherwise a code that is stolen on the way is good for
            the thief.
        scopes: Scopes to ask for besides those that the server needs.
        issuer: The authorization server that this is for, and that knows the `client_id`.
        store: Where tokens are kept; by default in memory.
        dpop: Whether tokens are bound to a key; by default if the server wants it.
        fetching: How authorization servers are reached.

    Raises:
        AuthorizationError: From each request: no token was granted.
        LoginRequired: From each request: a person has to log in, and `open_browser` is `None`.

    The time that the person takes counts against no time limit of `connect` or a call, but your
    own cancel scopes go on.

    If a call is cancelled, its login is abandoned; if other calls wait, one of them begins another.

    Example:
        >>> auth = OAuth(client_id="cli", redirect_port=8765)
        >>> auth.timeout
        300.0
    """

    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    client_metadata_url: str | None = field(default=None, validator=_is_document)
    client_name: str = "trio-mcp"
    open_browser: Callable[[str], Awaitable[object]] | None = open_in_browser
    redirect_port: int = 0
    redirect_host: str = "127.0.0.1"
    timeout: float = 300.0
    assume_pkce: bool = False

    @property
    def _is_arranged(self) -> bool:
        return self.client_id is not None

    def _with_defaults(self, scopes: tuple[str, ...], server: ServerMetadata) -> tuple[str, ...]:
        if _OFFLINE in (server.scopes_supported or ()) and _OFFLINE not in scopes:
            return (*scopes, _OFFLINE)
        return scopes

    def _is_ours(self, login: Login) -> bool:
        if login.client is None:
            return False
        if self.client_id is not None:
            return login.client.client_id == self.client_id
        is_registered = bool(login.client.redirect_uris)
        return is_registered or login.client.client_id == self.client_metadata_url

    async def _grant(
        self, found: Discovered, asked: tuple[str, ...], access: Access
    ) -> tuple[ClientRegistration, Form]:
        server = found.server
        _check_abilities(server, self.assume_pkce)
        registered = await self._registered(server)
        try:
            return await self._log_in(found, asked, access, registered)
        except AuthorizationError as error:
            registers = self.client_id is None and self._document(server) is None
            if error.error != "invalid_scope" or not asked or not registers:
                raise
        # Some servers give only scopes that a client named when it registered. Others refuse to
        # register some that they would give. So they are named only if a server insists.
        return await self._log_in(found, asked, access, None, name_scopes=True)

    async def _log_in(
        self,
        found: Discovered,
        asked: tuple[str, ...],
        access: Access,
        registered: ClientRegistration | None,
        *,
        name_scopes: bool = False,
    ) -> tuple[ClientRegistration, Form]:
        server = found.server
        if self.open_browser is None:
            where = origin(found.resource)
            raise LoginRequired(f"{where} wants a person to log in, and none can be asked")
        pkce = Pkce()
        named = asked if name_scopes else ()
        async with receiving(pkce, port=self._port(registered), host=self.redirect_host) as back:
            client = await self._client(server, back.uri, registered, access, named)
            parameters = {
                "response_type": "code",
                "client_id": client.client_id,
                "redirect_uri": back.uri,
                "state": pkce.state,
                "code_challenge": pkce.challenge,
                "code_challenge_method": METHOD,
                "resource": found.resource,
            }
            if asked:
                parameters["scope"] = " ".join(asked)
            if _OFFLINE in asked:
                parameters["prompt"] = "consent"  # else OpenID servers give no refresh token
            with access.person.asked(), trio.move_on_after(self.timeout) as scope:
                url = server.authorization_endpoint
                assert url is not None
                joint = "&" if "?" in url else "?"
                await self.open_browser(f"{url}{joint}{urlencode(parameters)}")
                answer = await back.answer()
            if scope.cancelled_caught:
                raise AuthorizationError(f"no login within {self.timeout:g} s")
        return client, {
            "grant_type": "authorization_code",
            "code": _code_of(answer, server),
            "redirect_uri": back.uri,
            "code_verifier": pkce.verifier,
        }

    # -- registration ------------------------------------------------------------------------------

    async def _client(
        self,
        server: ServerMetadata,
        redirect_uri: str,
        registered: ClientRegistration | None,
        access: Access,
        scopes: tuple[str, ...],
    ) -> ClientRegistration:
        """Return our registration there, by the prescribed order of ways."""
        if self.client_id is not None:
            return ClientRegistration(client_id=self.client_id, client_secret=self.client_secret)
        document = self._document(server)
        if document is not None:
            return ClientRegistration(client_id=document)
        if registered is not None and redirect_uri in registered.redirect_uris:
            return registered
        return await register(
            self._reaching(access), server, redirect_uri, self.client_name, access.url, scopes
        )

    def _document(self, server: ServerMetadata) -> str | None:
        return self.client_metadata_url if server.client_id_metadata_document_supported else None

    async def _registered(self, server: ServerMetadata) -> ClientRegistration | None:
        """Return the last registration that an authorization server gave us."""
        if self.client_id is not None:
            return None
        known = [access.login for access in self._accesses if access.login is not None]
        for login in (*known, *reversed(await self.store.load())):
            client = login.client
            if login.issuer == server.issuer and client is not None and client.redirect_uris:
                return client
        return None

    def _port(self, registered: ClientRegistration | None) -> int:
        """Return the registered port, if there is one that is free: many servers compare it."""
        if self.redirect_port or registered is None:
            return self.redirect_port
        beginning = f"http://{self.redirect_host}:"
        for uri in registered.redirect_uris:
            port = uri.removeprefix(beginning).removesuffix(PATH)
            if uri.startswith(beginning) and port.isdecimal() and _is_free(int(port)):
                return int(port)
        return 0


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _check_abilities(server: ServerMetadata, assume_pkce: bool) -> None:
    """Raise `AuthorizationError` for an authorization server that lacks what we need."""
    where, methods = origin(server.issuer), server.code_challenge_methods_supported
    if METHOD not in (methods or ()) and not (assume_pkce and methods is None):
        why = f"{where} does not say that it knows PKCE with {METHOD}: refused"
        known = "" if methods is not None else "; OAuth(assume_pkce=True) logs in all the same"
        raise AuthorizationError(why + known)
    for name in ("authorization_endpoint", "token_endpoint"):
        if getattr(server, name) is None:
            raise AuthorizationError(f"{where} names no {name}")


def _code_of(answer: Mapping[str, str], server: ServerMetadata) -> str:
    """Return the code of a redirect, after checking its issuer (RFC 9207, section 2.4)."""
    where = origin(server.issuer)
    issuer = answer.get("iss")
    if issuer is None and server.authorization_response_iss_parameter_supported:
        raise AuthorizationError(f"the redirect does not say that it is from {where}: refused")
    if issuer is not None and issuer != server.issuer:  # to the letter; nothing else of it is read
        raise AuthorizationError(f"the redirect is not from {where}: refused")
    if "error" in answer:
        code = redacted(answer["error"], {})
        said = redacted(answer.get("error_description", ""), {})
        words = f"{code} ({said})" if said else code
        raise AuthorizationError(f"{where} did not let us in: {words}", code)
    code = answer.get("code", "")
    if not code:
        raise AuthorizationError(f"the redirect from {where} brings no code")
    return code
