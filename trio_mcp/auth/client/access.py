"""One resource of those that a client may get into, and how far it has come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

import trio
from attrs import define, field

from trio_mcp.auth.client.dpop import DpopKey
from trio_mcp.auth.client.person import Person
from trio_mcp.auth.client.stores import Login
from trio_mcp.auth.client.tokens import Token
from trio_mcp.auth.documents import ServerMetadata
from trio_mcp.auth.urls import canonical, covers
from trio_mcp.errors import AuthorizationError


@define(eq=False)
class Access:
    """One resource, and how far we have come with it.

    Attributes:
        url: The server that was asked for first.
        login: What we have for it.
        server: Its authorization server, once that is known.
        key: What tokens are bound to, if they are.
        person: Who is asked, if anybody is.
        answered_from: The address of the server, once it has answered.
    """

    url: str
    login: Login | None = field(default=None, repr=False)
    server: ServerMetadata | None = None
    key: DpopKey | None = None
    person: Person = field(factory=Person, repr=False)
    answered_from: str | None = None
    _lock: trio.Lock = field(factory=trio.Lock, init=False, repr=False)
    failures: int = 0
    failure: AuthorizationError | None = None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Be the only one who gets in during the block, once those before have had their turn."""
        with self.person.awaited():
            async with self._lock:
                yield

    @property
    def resource(self) -> str:
        """What it is a way into."""
        return self.url if self.login is None else self.login.resource

    @property
    def token(self) -> Token | None:
        """The token that is sent, if there is one."""
        return None if self.login is None else self.login.token


def key_of(login: Login | None) -> DpopKey | None:
    """The key that a login is bound to, if there is one.

    Raises:
        AuthorizationError: It cannot be read.
    """
    try:
        return DpopKey.load(login.dpop_key) if login and login.dpop_key else None
    except ValueError:
        why = "the key that was kept with a login cannot be read; remove it and log in anew"
        raise AuthorizationError(why) from None


T = TypeVar("T", Access, Login)


def closest(known: Iterable[T], url: str) -> T | None:
    """The resource that contains a URL, the narrowest of them, the latest of those."""
    fitting = [each for each in known if covers(each.resource, url)]
    fitting.reverse()  # of several that are as long, `max` takes the first
    return max(fitting, key=lambda each: len(canonical(each.resource)), default=None)
