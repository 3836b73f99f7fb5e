"""`trio-mcp login`, `logout`, `whoami`: the logins that other commands get in by."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import trio
from attrs import frozen
from cyclopts import Parameter

from trio_mcp import FileStore, Login, TokenStore
from trio_mcp.auth.urls import origin
from trio_mcp.cli.failures import OK, Failure, Usage
from trio_mcp.cli.http_options import address
from trio_mcp.cli.login.as_client import SECRET_NEEDS_ISSUER, require_auth
from trio_mcp.cli.login.browser import LoginPage
from trio_mcp.cli.login.kept import Anew, about, login_store, place_of
from trio_mcp.cli.options import AsJson, ConnectionOptions, Seconds, secret_from
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.target import Target
from trio_mcp.errors import AuthorizationError
from trio_mcp.wire.jsonrpc import Json

if TYPE_CHECKING:
    from trio_mcp import OAuth

_HOSTS: Final = ("127.0.0.1", "localhost")
"""What a browser may call this machine."""

Url = Annotated[str, Parameter(name="URL", help="The URL of a server.")]


@Parameter(name="*")
@frozen(kw_only=True)
class LoginOptions:
    """How a person logs in."""

    scope: tuple[str, ...] = ()
    """What to ask for besides what we have and what the server says that it needs. May be
    repeated. Without it, only for what the server says."""
    client_id: str | None = None
    """Who we are to the authorization server, if that was arranged with it."""
    client_secret_env: str | None = None
    """A variable of the environment with the secret that goes with it."""
    issuer: str | None = None
    """The authorization server that this is for, as it calls itself."""
    redirect: str = "127.0.0.1:0"
    """Where the browser comes back to, 127.0.0.1:PORT or localhost:PORT, if that was arranged as
    well; port 0 is any that is free."""
    no_browser: bool = False
    """Show the address of the page, and open no browser."""
    header: tuple[str, ...] = ()
    """A header 'Name: value' of each request to the server. May be repeated."""
    timeout: Seconds = 300.0
    """Seconds that you have."""

    def oauth(self, store: TokenStore, page: LoginPage) -> OAuth:
        """Make what logs in.

        Raises:
            Usage: The options do not go together.
            Failure: There is no secret.
        """
        from trio_mcp import OAuth

        secret = None
        if self.client_secret_env is not None:
            if self.client_id is None:
                raise Usage("--client-secret-env does nothing without --client-id")
            if self.issuer is None:
                raise Usage(SECRET_NEEDS_ISSUER)
            secret = secret_from(self.client_secret_env, "secret")
        host, port = address(self.redirect, "--redirect")
        if host not in _HOSTS:
            raise Usage(f"--redirect takes 127.0.0.1:PORT or localhost:PORT, not {self.redirect!r}")
        return OAuth(
            client_id=self.client_id,
            client_secret=secret,
            open_browser=page.open,
            redirect_port=port,
            redirect_host=host,
            timeout=self.timeout,
            scopes=self.scope or None,
            issuer=self.issuer,
            store=store,
        )


def login(url: Url, /, *, options: LoginOptions = LoginOptions()) -> int:
    """Log in to a server in a browser, and keep that for all other commands."""
    _check(url)
    require_auth()
    from trio_mcp import HttpOptions
    from trio_mcp.cli.login.way_in import WayIn
    from trio_mcp.cli.session import connected

    screen = Screen()
    store = Anew(login_store(), keeps_scopes=bool(options.scope))
    page = LoginPage(screen, origin(url), by_hand=options.no_browser)
    oauth = options.oauth(store, page)
    others = ConnectionOptions(header=options.header)
    try:
        http = HttpOptions(headers=others.headers(), auth=WayIn(url, store, lambda _: oauth, page))
    except ValueError as error:
        raise Usage(str(error)) from None

    async def main() -> None:
        async with connected(Target(url, url=url), others, screen, may_ask=False, http=http):
            pass

    run_async(main)
    if not store.saved:
        screen.note(f"{page.where} lets you in without a login.")
    for each in store.saved[-1:]:
        screen.text(f"Logged in to {each.resource} by {each.issuer}.")
    return OK


def logout(
    url: Annotated[str | None, Parameter(name="URL", help="The URL of a server.")] = None,
    /,
    *,
    everywhere: Annotated[bool, Parameter(name="--all", help="Of all servers.")] = False,
) -> int:
    """Forget the login of a server, and have its authorization server end it."""
    if (url is None) != everywhere:
        raise Usage("say what to log out of: the URL of a server, or --all")
    if url is not None:
        _check(url)
    screen, store = Screen(), login_store()
    for each in trio.run(_forget_all, store) if url is None else trio.run(_forget, store, url):
        screen.text(f"The login of {each.resource} by {each.issuer} is forgotten.")
        if _is_good(each) or _renews(each):
            screen.note(run_async(partial(_end, each)))
    if everywhere:
        screen.text(f"No logins are left in {place_of(store)}.")
    return OK


def whoami(
    url: Annotated[str | None, Parameter(name="URL", help="The URL of a server.")] = None,
    /,
    *,
    as_json: AsJson = False,
) -> int:
    """Show which logins are kept, for which scopes and until when. No token is shown."""
    screen, store = Screen(as_json=as_json), login_store()
    logins = trio.run(store.load)
    if url is not None:
        _check(url)
        logins = _found(logins, url)
    if as_json:
        screen.json({"logins": [_as_json(each) for each in logins]})
    elif logins:
        rows = [
            (
                each.resource,
                each.issuer,
                each.client.client_id if each.client is not None else "",
                " ".join(_scopes(each)),
                _until(each),
            )
            for each in logins
        ]
        screen.table(("Server", "Logged in by", "Client", "Scopes", "Until"), rows)
    else:
        screen.note("Nobody is logged in anywhere.")
    return OK


def _check(url: str) -> None:
    """Make sure that a word is a URL.

    Raises:
        Usage: It is none.
    """
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise Usage(f"{url!r} is no URL of a server, such as https://mcp.example.com/mcp")


# -- what is kept ----------------------------------------------------------------------------------


def _found(logins: Sequence[Login], url: str) -> list[Login]:
    """The logins that a URL is about.

    Raises:
        Failure: There are none.
    """
    found = about(logins, url)
    if not found:
        raise Failure(f"nobody is logged in to {url} (`trio-mcp whoami` shows all logins)")
    return found


async def _forget(store: TokenStore, url: str) -> list[Login]:
    async with store.locked():
        found = _found(await store.load(), url)
        for each in found:
            await store.remove(each)
    return found


async def _forget_all(store: TokenStore) -> list[Login]:
    async with store.locked():
        try:
            found = await store.load()
        except AuthorizationError:
            if not isinstance(store, FileStore):
                raise
            found = []  # nobody can read it, so nobody misses it
        if isinstance(store, FileStore):
            store.path.unlink(missing_ok=True)
        else:
            for each in found:
                await store.remove(each)
    return found


async def _end(login: Login) -> str:
    """Have an authorization server end a login that is forgotten; say what came of it."""
    require_auth()
    from trio_mcp import Fetching
    from trio_mcp.auth.client.revocation import revoke

    try:
        if await revoke(login, Fetching()):
            return "It has been ended there as well."
        return "It cannot be ended there: its token stays good for its time."
    except AuthorizationError as error:
        return f"It was not ended there: {error}"


def _scopes(login: Login) -> Sequence[str]:
    return login.scopes if login.token is None else login.token.scopes


def _is_good(login: Login) -> bool:
    return login.token is not None and login.token.is_good(time.time())


def _renews(login: Login) -> bool:
    return login.token is not None and login.token.refresh_token is not None


def _until(login: Login) -> str:
    """Say how long a login is good."""
    token, renews = login.token, _renews(login)
    if not _is_good(login):
        return "renewed when it is used" if renews else "it has ended"
    if token is None or token.expires_at is None:
        return ""
    when = datetime.fromtimestamp(token.expires_at).astimezone()
    return f"{when:%Y-%m-%d %H:%M}{', then renewed' if renews else ''}"


def _as_json(login: Login) -> dict[str, Json]:
    token = login.token
    ends = None if token is None else token.expires_at
    return {
        "resource": login.resource,
        "issuer": login.issuer,
        "clientId": login.client.client_id if login.client is not None else None,
        "scopes": list(_scopes(login)),
        "good": _is_good(login),
        "expiresAt": None if ends is None else datetime.fromtimestamp(ends, UTC).isoformat(),
        "renews": _renews(login),
    }
