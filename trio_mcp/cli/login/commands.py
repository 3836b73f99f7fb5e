"""`trio-mcp login`, `whoami` and `logout`: logins for later commands. No token is ever shown."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from attrs import field, frozen
from cyclopts import Parameter

from trio_mcp.auth import FileStore, Login, TokenStore
from trio_mcp.auth.urls import origin
from trio_mcp.cli.failures import OK, Usage
from trio_mcp.cli.http_options import address
from trio_mcp.cli.login.browser import LoginPage
from trio_mcp.cli.login.store import (
    SECRET_NEEDS_ISSUER,
    URL,
    FreshLogins,
    about,
    client_options,
    is_good,
    kept_where,
    login_store,
    renews,
    require_auth,
)
from trio_mcp.cli.options import AsJson, ConnectionOptions, Seconds, secret_from
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.target import Target
from trio_mcp.errors import AuthorizationError
from trio_mcp.wire.jsonrpc import Json

if TYPE_CHECKING:
    from trio_mcp.auth import OAuth

_HOSTS: Final = ("127.0.0.1", "localhost")
"""What a browser may call this machine."""


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
    header: tuple[str, ...] = field(default=(), repr=False)
    """A header 'Name: value' of each request to the server. May be repeated."""
    timeout: Seconds = 300.0
    """Seconds that you have."""

    def check(self) -> None:
        if self.client_secret_env is not None:
            if self.client_id is None:
                raise Usage("--client-secret-env does nothing without --client-id")
            if self.issuer is None:
                raise Usage(SECRET_NEEDS_ISSUER)
            secret_from(self.client_secret_env, "secret")
        host, _ = address(self.redirect, "--redirect")
        if host not in _HOSTS:
            raise Usage(f"--redirect takes 127.0.0.1:PORT or localhost:PORT, not {self.redirect!r}")

    def oauth(self, kept: Login | None, store: TokenStore, page: LoginPage) -> OAuth:
        """Make the login flow, with the client of the kept login unless an option names one."""
        from trio_mcp.auth import OAuth

        secret = self.client_secret_env and secret_from(self.client_secret_env, "secret")
        named = {"client_id": self.client_id, "client_secret": secret, "issuer": self.issuer}
        host, port = address(self.redirect, "--redirect")
        return OAuth(
            **(named if self.client_id is not None else named | client_options(kept)),
            open_browser=page.open,
            redirect_port=port,
            redirect_host=host,
            timeout=self.timeout,
            scopes=self.scope or None,
            store=store,
        )


def login(url: Annotated[str, URL], /, *, options: LoginOptions = LoginOptions()) -> int:
    """Log in to a server in a browser, and keep that for all other commands."""
    options.check()
    require_auth()
    from trio_mcp import HttpOptions
    from trio_mcp.cli.login.auth import LoginAuth
    from trio_mcp.cli.session import connected

    screen = Screen()
    store = FreshLogins(login_store(), keeps_scopes=bool(options.scope))
    page = LoginPage(screen, origin(url), by_hand=options.no_browser)
    auth = LoginAuth(url, store, lambda kept: options.oauth(kept, store, page), page)
    others = ConnectionOptions(header=options.header)
    try:
        http = HttpOptions(headers=others.headers(), auth=auth)
    except ValueError as error:
        raise Usage(str(error)) from None

    async def main() -> None:
        async with connected(Target(url, url=url), others, screen, may_ask=False, http=http):
            pass

    run_async(main)
    if not store.saved:
        screen.note(f"{page.where} lets you in without a login.")
    for kept in store.saved[-1:]:
        screen.text(f"Logged in to {kept.resource} by {kept.issuer}.")
    return OK


def whoami(url: Annotated[str | None, URL] = None, /, *, as_json: AsJson = False) -> int:
    """Show which logins are kept, for which scopes and until when. No token is shown."""
    screen, store = Screen(as_json=as_json), login_store()
    logins = run_async(store.load)
    if url is not None:
        logins = about(logins, url)
    shown = [_as_json(login) for login in logins]
    if as_json:
        screen.json({"logins": shown})
    elif logins:
        rows = [
            (its["resource"], its["issuer"], its["clientId"] or "", " ".join(its["scopes"]), until)
            for its, until in zip(shown, map(_until, logins), strict=True)
        ]
        screen.table(("Server", "Logged in by", "Client", "Scopes", "Until"), rows)
    else:
        screen.note("No logins are kept.")
    return OK


def _until(login: Login) -> str:
    token, then = login.token, renews(login)
    if not is_good(login):
        return "renewed when it is used" if then else "it has ended"
    if token is None or token.expires_at is None:
        return ""
    when = datetime.fromtimestamp(token.expires_at).astimezone()
    return f"{when:%Y-%m-%d %H:%M}{', then renewed' if then else ''}"


def _as_json(login: Login) -> dict[str, Json]:
    token = login.token
    ends = None if token is None else token.expires_at
    return {
        "resource": login.resource,
        "issuer": login.issuer,
        "clientId": None if login.client is None else login.client.client_id,
        "scopes": list(login.scopes if token is None else token.scopes),
        "good": is_good(login),
        "expiresAt": None if ends is None else datetime.fromtimestamp(ends, UTC).isoformat(),
        "renews": renews(login),
    }


def logout(
    url: Annotated[str | None, URL] = None,
    /,
    *,
    everywhere: Annotated[bool, Parameter(name="--all", help="Of all servers.")] = False,
) -> int:
    """Forget the login of a server, and have its authorization server end it."""
    if (url is None) != everywhere:
        raise Usage("say what to log out of: the URL of a server, or --all")
    screen, store = Screen(), login_store()
    for login in run_async(partial(_forget, store, url)):
        screen.text(f"The login of {login.resource} by {login.issuer} is forgotten.")
        if is_good(login) or renews(login):
            screen.note(run_async(partial(_end, login)))
    if everywhere:
        screen.text(f"No logins are left in {kept_where(store)}.")
    return OK


async def _forget(store: TokenStore, url: str | None) -> list[Login]:
    async with store.locked():
        try:
            found = await store.load()
        except AuthorizationError:
            if url is not None or not isinstance(store, FileStore):
                raise
            found = []  # what cannot be read opens nothing
        if url is None and isinstance(store, FileStore):
            store.path.unlink(missing_ok=True)
            return found
        found = found if url is None else about(found, url)
        for login in found:
            await store.remove(login)
    return found


async def _end(login: Login) -> str:
    """Revoke a forgotten login at its authorization server; describe the outcome."""
    require_auth()
    from trio_mcp.auth import Fetching
    from trio_mcp.auth.client.revocation import revoke

    try:
        if await revoke(login, Fetching()):
            return "It has been ended there as well."
        return "It cannot be ended there: its token stays good for its time."
    except AuthorizationError as error:
        return f"It was not ended there: {error}"
