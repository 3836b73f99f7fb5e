"""The logins that are kept between commands."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from attrs import evolve, field, frozen
from cyclopts import Parameter

from trio_mcp import ClientRegistration, FileStore, KeyringStore, Login, TokenStore
from trio_mcp.auth.urls import canonical, covers
from trio_mcp.cli.failures import Failure, Usage, require

LOGINS: Final = "TRIO_MCP_LOGINS"
"""The variable of the environment that says where logins are kept: a file, or the keyring."""
_KEYRING: Final = "keyring"
URL: Final = Parameter(name="URL", help="The URL of a server.")


def check_url(url: str) -> None:
    """Make sure that a word is the URL of a server.

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


def login_store() -> TokenStore:
    """Find out where logins are kept.

    Raises:
        Failure: A package is missing.
    """
    place = os.environ.get(LOGINS)
    if place == _KEYRING:
        require("keyring", f"{LOGINS}=keyring", "keyring")
        return KeyringStore()
    return FileStore(place) if place else FileStore()


def place_of(store: TokenStore) -> str:
    """Say where a store is."""
    return str(store.path) if isinstance(store, FileStore) else "the keyring"


def covering(logins: Iterable[Login], url: str) -> list[Login]:
    """The logins that open a URL: the one for the narrowest resource last, the latest of those."""
    found = [each for each in logins if covers(each.resource, url)]
    return sorted(found, key=lambda each: len(canonical(each.resource)))


def about(logins: Iterable[Login], url: str) -> list[Login]:
    """The logins that a person may mean by a URL: those that open it, or something below it.

    Raises:
        Failure: There are none.
    """
    found = [each for each in logins if covers(each.resource, url) or covers(url, each.resource)]
    if not found:
        raise Failure(f"nobody is logged in to {url} (`trio-mcp whoami` shows all logins)")
    return found


def is_given(client: ClientRegistration) -> bool:
    """Whether a client was registered by hand, and not by us."""
    return not client.redirect_uris


def is_good(login: Login) -> bool:
    """Whether a login opens what it is for without being renewed."""
    return login.token is not None and login.token.is_good(time.time())


def renews(login: Login) -> bool:
    """Whether a login can be renewed without asking the person."""
    return login.token is not None and login.token.refresh_token is not None


@frozen(eq=False)
class Anew:
    """A store whose tokens are not good enough, so that a person logs in again.

    Who we are to an authorization server stays. What is kept already stays until there is new.

    Args:
        store: The store.
        keeps_scopes: Whether to ask for the scopes again that were asked for.
    """

    _store: TokenStore
    _keeps_scopes: bool
    saved: list[Login] = field(factory=list, init=False)
    """What has been kept since."""

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """See `TokenStore`."""
        async with self._store.locked():
            yield

    async def load(self) -> list[Login]:
        """See `TokenStore`."""
        return [
            evolve(each, token=None, scopes=each.scopes if self._keeps_scopes else ())
            for each in await self._store.load()
        ]

    async def save(self, login: Login) -> None:
        """See `TokenStore`."""
        await self._store.save(login)
        self.saved.append(login)

    async def remove(self, login: Login) -> None:
        """See `TokenStore`."""
        await self._store.remove(login)
