"""`trio-mcp login`: log in to a server, for all later commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from attrs import field, frozen
from cyclopts import Parameter

from trio_mcp.auth import Login, TokenStore
from trio_mcp.auth.urls import origin
from trio_mcp.cli.failures import OK, Usage
from trio_mcp.cli.http_options import address
from trio_mcp.cli.login.browser import LoginPage
from trio_mcp.cli.login.store import (
    SECRET_NEEDS_ISSUER,
    URL,
    FreshLogins,
    client_options,
    login_store,
    require_auth,
)
from trio_mcp.cli.options import ConnectionOptions, Seconds, secret_from
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.target import Target

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
