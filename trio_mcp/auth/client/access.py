"""The state of a client's access to one resource, and the person who may be asked for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from math import inf
from typing import Final, TypeVar

import trio
from attrs import define, field

from trio_mcp.auth.client.dpop import DpopKey
from trio_mcp.auth.client.stores import Login
from trio_mcp.auth.client.tokens import Token
from trio_mcp.auth.documents import ServerMetadata
from trio_mcp.auth.urls import canonical, covers
from trio_mcp.errors import AuthorizationError
from trio_mcp.peer.time_limits import Pause, pauses_around

_NO_FOR: Final = 60.0
"""Seconds for which a person is not asked again for scopes that they have denied."""


@define(eq=False)
class Person:
    """A person who may be asked; meanwhile, the time limits of requests stand still."""

    _is_asked: bool = field(default=False, init=False)
    _waiting: dict[ExitStack, tuple[Pause, ...]] = field(factory=dict, init=False, repr=False)
    """The time limits of tasks that wait, by what ends their pauses."""

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Pause the time limits of this block while any task asks the person."""
        with ExitStack() as pauses:
            self._waiting[pauses] = pauses_around()
            if self._is_asked:
                self._pause(pauses)
            try:
                yield
            finally:
                del self._waiting[pauses]

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Ask the person in the block, which one task at a time does."""
        self._is_asked = True
        for pauses in self._waiting:
            self._pause(pauses)
        try:
            yield
        finally:
            self._is_asked = False
            for pauses in self._waiting:
                pauses.close()

    def _pause(self, pauses: ExitStack) -> None:
        for limit in self._waiting[pauses]:
            pauses.enter_context(limit())


@define(eq=False)
class Access:
    """The state of our access to one resource."""

    url: str
    """The server that was asked for first."""
    login: Login | None = field(default=None, repr=False)
    server: ServerMetadata | None = None
    """Its authorization server, once that is known."""
    key: DpopKey | None = None
    """The key that tokens are bound to, if they are bound."""
    person: Person = field(factory=Person, repr=False)
    answered_from: str | None = None
    """The address of the server, once it has answered."""
    _lock: trio.Lock = field(factory=trio.Lock, init=False, repr=False)
    _denied: tuple[str, ...] = field(default=(), init=False)
    _denied_at: float = field(default=-inf, init=False)
    failures: int = 0
    failure: AuthorizationError | None = None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the other tasks that get a token, and be the only one during the block."""
        with self.person.awaited():
            async with self._lock:
                yield

    def deny(self, scopes: tuple[str, ...], now: float) -> None:
        self._denied, self._denied_at = scopes, now

    def denied(self, now: float) -> tuple[str, ...]:
        """Return the scopes that they have denied within the last minute."""
        return self._denied if now < self._denied_at + _NO_FOR else ()

    @property
    def resource(self) -> str:
        return self.url if self.login is None else self.login.resource

    @property
    def token(self) -> Token | None:
        return None if self.login is None else self.login.token


def key_of(login: Login | None) -> DpopKey | None:
    """Return the key that a login is bound to; raise `AuthorizationError` if it is damaged."""
    try:
        return DpopKey.load(login.dpop_key) if login and login.dpop_key else None
    except ValueError:
        why = "the key that was kept with a login cannot be read; remove it and log in again"
        raise AuthorizationError(why) from None


T = TypeVar("T", Access, Login)


def closest(known: Iterable[T], url: str) -> T | None:
    """Return the narrowest resource that contains a URL, and of several the latest."""
    fitting = [item for item in known if covers(item.resource, url)]
    fitting.reverse()  # of several that are as long, `max` takes the first
    return max(fitting, key=lambda item: len(canonical(item.resource)), default=None)
