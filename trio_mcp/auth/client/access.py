"""One resource of those that a client may get into, and how far it has come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from math import inf
from typing import Final, TypeVar

import trio
from attrs import define, field

from trio_mcp.auth.client.dpop import DpopKey
from trio_mcp.auth.client.person import Person
from trio_mcp.auth.client.stores import Login
from trio_mcp.auth.client.tokens import Token
from trio_mcp.auth.documents import ServerMetadata
from trio_mcp.auth.urls import canonical, covers
from trio_mcp.errors import AuthorizationError

_NO_FOR: Final = 60.0
"""Seconds for which a person is not asked again for what they have said no to."""


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
    _denied: tuple[str, ...] = field(default=(), init=False)
    _denied_at: float = field(default=-inf, init=False)
    failures: int = 0
    failure: AuthorizationError | None = None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Be the only one who gets in during the block, once those before have had their turn."""
        with self.person.awaited():
            async with self._lock:
                yield

    def deny(self, scopes: tuple[str, ...], now: float) -> None:
        """Note that a person has said no to scopes."""
        self._denied, self._denied_at = scopes, now

    def denied(self, now: float) -> tuple[str, ...]:
        """The scopes to which they have said no a moment ago."""
        return self._denied if now < self._denied_at + _NO_FOR else ()

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
