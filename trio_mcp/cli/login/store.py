"""The logins kept between commands."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import evolve, field, frozen
from cyclopts import Parameter

from trio_mcp.auth import FileStore, KeyringStore, Login, TokenStore
from trio_mcp.auth.urls import canonical, covers
from trio_mcp.cli.failures import Failure, Usage, require

_LOGINS: Final = "TRIO_MCP_LOGINS"
"""The environment variable that says where logins are kept: a file, or the keyring."""
SECRET_NEEDS_ISSUER: Final = (
    "--client-secret-env needs --issuer, so that no other server gets the secret"  # noqa: S105
)


def _check_url(_: object, url: str | None) -> None:
    if url is None:
        return
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise Usage(f"{url!r} is not a URL of a server, such as https://mcp.example.com/mcp")


URL: Final = Parameter(name="URL", validator=_check_url, help="The URL of a server.")


def login_store() -> TokenStore:
    place = os.environ.get(_LOGINS)
    if place == "keyring":
        require("keyring", f"{_LOGINS}=keyring", "keyring")
        return KeyringStore()
    return FileStore(place) if place else FileStore()


def require_auth() -> None:
    require("joserfc", "logging in", "auth")


def kept_where(store: TokenStore) -> str:
    return str(store.path) if isinstance(store, FileStore) else "the keyring"


def covering(logins: Iterable[Login], url: str) -> list[Login]:
    """Return the logins that open a URL; narrower resources and later logins come last."""
    found = [login for login in logins if covers(login.resource, url)]
    return sorted(found, key=lambda each: len(canonical(each.resource)))


def about(logins: Iterable[Login], url: str) -> list[Login]:
    """Return the logins that open a URL, or something below it."""
    found = [
        login for login in logins if covers(login.resource, url) or covers(url, login.resource)
    ]
    if not found:
        raise Failure(f"there is no login for {url} (`trio-mcp whoami` shows all logins)")
    return found


def client_options(login: Login | None) -> dict[str, Any]:
    """Return the options of `OAuth` for a kept client that was registered by hand, if it was."""
    client = None if login is None else login.client
    if login is None or client is None or client.redirect_uris:
        return {}
    known = {"client_id": client.client_id, "client_secret": client.client_secret}
    return {**known, "issuer": login.issuer}


def is_good(login: Login) -> bool:
    return login.token is not None and login.token.is_good(time.time())


def renews(login: Login) -> bool:
    return login.token is not None and login.token.refresh_token is not None


@frozen(eq=False)
class FreshLogins:
    """A store that hides its tokens, so that a person logs in again.

    The registration with an authorization server stays, and kept logins stay until replaced.
    """

    _store: TokenStore
    _keeps_scopes: bool
    """Whether to request the same scopes again."""
    saved: list[Login] = field(factory=list, init=False)
    """The new logins."""

    def locked(self) -> AbstractAsyncContextManager[None]:
        return self._store.locked()

    async def load(self) -> list[Login]:
        return [
            evolve(login, token=None, scopes=login.scopes if self._keeps_scopes else ())
            for login in await self._store.load()
        ]

    async def save(self, login: Login) -> None:
        await self._store.save(login)
        self.saved.append(login)

    async def remove(self, login: Login) -> None:
        await self._store.remove(login)
