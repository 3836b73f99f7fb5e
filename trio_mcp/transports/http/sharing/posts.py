"""Messages for a stream of HTTP+SSE that another instance holds.

One instance holds the stream of a session, with its connection. The others pass on to it what is
posted to them. For that, the partition of the session has:

| what | kind | for |
|---|---|---|
| `:about` | entry | whose session it is, and which instance holds the stream |
| `:about` | news | that the session has ended, for all who wait |
| `:posts/<random>` | entry | a message, due at once, until the connection has taken it |
| `:posts/<random>` | news | that it was taken, for the one who waits: others need not look |
| `:posts` | news | that there is one, for the instance that holds the stream |

A POST is answered when the connection has taken its message, wherever it came in. So a client that
is not read from has to wait everywhere, and no message is lost that was answered with 202. Each
instance passes on one message of a session at a time, so that a client fills no store, either.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import Any, Final

import trio

from trio_mcp.auth.authorization import Authorization
from trio_mcp.background import background_nursery
from trio_mcp.loggers import logger_of
from trio_mcp.store.changes import Conflict, Delete, News, Put, Touch
from trio_mcp.store.errors import StoreError
from trio_mcp.store.exact import dumps, read
from trio_mcp.store.watching import Watch
from trio_mcp.transports.http.sharing.instance import Instance
from trio_mcp.transports.http.sharing.interface import Take

logger = logger_of("trio_mcp.http")

_KEPT: Final = 60.0
"""Seconds for which a message outlives the instance that it was posted to."""

_LOOK: Final = 5.0
"""Seconds after which it is seen whether the instance that holds the stream is still alive."""

_RENEWALS: Final = 10
"""In the time after which the store forgets a session."""

_PAUSE: Final = 1.0


class SharedPosts:
    """What is posted for one session, at all instances."""

    def __init__(self, instance: Instance, id: str, principal: str | None) -> None:
        self._instance = instance
        self._store = instance.store
        self._principal = principal
        self._about = f"sse-{id}:about"
        self._posts = f"sse-{id}:posts"
        self._unacknowledged: str | None = None  # a message that was taken
        self._renewal = instance.keep / _RENEWALS
        self._told = -inf
        self._turn = trio.Lock()  # of those who post
        self._news: Watch | None = None  # where the stream is

    # -- where the stream is ------------------------------------------------------------------

    @asynccontextmanager
    async def taken_from_others(self, take: Take) -> AsyncIterator[None]:
        """Take what is posted elsewhere, while the block lasts.

        Raises:
            StoreError: The store cannot be used.
        """
        await self._tell()
        self._instance.touches.add(self.touch)
        try:
            async with background_nursery(partial(self._hear, take)):
                yield
        finally:
            self._instance.touches.discard(self.touch)
            await self._end()

    def touch(self) -> None:
        """Tell others of the session again: the store may have lost it."""
        if self._news is not None:
            self._news.notify(None)

    async def _tell(self) -> None:
        value = dumps({"principal": self._principal, "instance": self._instance.name})
        await self._store.commit(Put(self._about, value, ttl=self._instance.keep))
        self._told = trio.current_time()

    async def _end(self) -> None:
        await self._instance.tidy_up(Delete(self._about), News(self._about))

    async def _hear(self, take: Take) -> None:
        while True:
            try:
                async with self._store.watch(self._posts) as self._news:
                    while (seconds := await self._take_next(take)) is not None:
                        await self._wait_for(self._news, seconds)
                await self._end()
                return
            except StoreError as error:
                logger.warning("A stream gets no messages from other instances: %s", error)
                await trio.sleep(_PAUSE)

    async def _take_next(self, take: Take) -> float | None:
        """Take a message; returns the seconds until another is due, `None` at the end."""
        await self._acknowledge()  # first, as it may have failed before: none is taken twice
        claimed = await self._store.claim(self._posts, _KEPT)
        for entry in claimed.entries:
            written, _, line = entry.value.partition(b"\n")
            if not await take(line, _read(written)):
                return None
            self._unacknowledged = entry.key
        await self._acknowledge()
        # There was news of nothing: time has passed, or the store may have lost its data.
        if not claimed.entries or trio.current_time() > self._told + self._renewal:
            await self._tell()
        return claimed.wait

    async def _acknowledge(self) -> None:
        if self._unacknowledged is not None:
            key = self._unacknowledged
            await self._store.commit(Delete(key), News(key))
            self._unacknowledged = None

    async def _wait_for(self, news: Watch, seconds: float) -> None:
        with trio.move_on_after(min(seconds, self._renewal)):
            await news.wait()

    # -- elsewhere ----------------------------------------------------------------------------

    async def post(self, line: bytes, authorization: Authorization | None) -> bool:
        """Have the instance that holds the stream take a message.

        Cancelled, it is not taken, unless it is being taken.

        Returns:
            Whether it was taken; if not, there is no such session (any more).

        Raises:
            StoreError: That cannot be found out.
        """
        async with self._turn:
            if await self._holder() is None:
                return False
            key = f"{self._posts}/{secrets.token_hex(8)}"
            value = _written(authorization) + b"\n" + line
            async with self._store.watch(key, self._about) as news:
                return await self._pass_on(Put(key, value, ttl=_KEPT, delay=0), news)

    async def _pass_on(self, message: Put, news: Watch) -> bool:
        was_taken = False
        try:
            await self._store.commit(message, News(self._posts))
            while not was_taken:
                await self._wait_for(news, _LOOK)
                was_taken = await self._is_gone(message.key)
                if not was_taken and await self._holder() is None:
                    break
        finally:
            if not was_taken:
                await self._instance.tidy_up(Delete(message.key))
        return was_taken

    async def _holder(self) -> str | None:
        entry = await self._store.get(self._about)
        about: dict[str, Any] = {} if entry is None else read(entry.value, "a session", dict)
        if about.get("principal") != self._principal:
            return None
        holder: str | None = about.get("instance")
        return holder if holder is not None and await self._instance.lives(holder) else None

    async def _is_gone(self, key: str) -> bool:
        """Whether a message was taken; otherwise have it kept."""
        try:
            await self._store.commit(Touch(key, ttl=_KEPT))
        except Conflict:
            return True
        return False


_FIELDS: Final = ("subject", "client_id", "issuer", "expires_at", "claims", "key_thumbprint")


def _written(authorization: Authorization | None) -> bytes:
    """Write what a token allows; it contains no line break."""
    if authorization is None:
        return b"null"
    fields = {name: getattr(authorization, name) for name in _FIELDS}
    fields["claims"] = dict(authorization.claims)
    fields["scopes"] = sorted(authorization.scopes)
    seconds = authorization.deadline - trio.current_time()  # each process has a clock of its own
    return dumps({**fields, "seconds": None if seconds == inf else seconds})


def _read(written: bytes) -> Authorization | None:
    return read(written, "a message of another instance", _authorization_of)


def _authorization_of(fields: dict[str, Any] | None) -> Authorization | None:
    if fields is None:
        return None
    seconds, scopes = fields.pop("seconds"), frozenset(fields.pop("scopes"))
    deadline = inf if seconds is None else trio.current_time() + seconds
    return Authorization(**fields, scopes=scopes, deadline=deadline)
