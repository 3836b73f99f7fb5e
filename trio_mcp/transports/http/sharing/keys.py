"""The keys that all instances seal with, and that no other server has.

The first instance makes one, the others read it. If the store has lost its data, each instance adds
the keys that it knows: so all of them open what any of them has sealed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from trio_mcp.loggers import logger_of
from trio_mcp.registry.sealing import Sealer
from trio_mcp.store.changes import ABSENT, Conflict, News, Put, Touch, key_part
from trio_mcp.store.errors import StoreError
from trio_mcp.store.exact import dumps, read
from trio_mcp.store.watching import Watch
from trio_mcp.transports.http.sharing.instance import Instance

logger = logger_of("trio_mcp.http")

_KEPT: Final = 30 * 86_400.0
"""Seconds for which the store keeps them without an instance."""

_LOOK: Final = 3600.0
"""Seconds after which they are kept for longer."""

_MOST: Final = 8

_PAUSE: Final = 1.0
_WHAT: Final = "what instances seal with"


class SharedKeys:
    """The keys of one server, by its name.

    Args:
        take: Called with the keys, the first of which seals, whenever there are others.
    """

    def __init__(self, instance: Instance, name: str, take: Callable[[list[str]], object]) -> None:
        self._instance = instance
        self._store = instance.store
        self._key = f"keys-{key_part(name)}:sealing"
        self._take = take
        self._news: Watch | None = None
        self.known: list[str] = []

    async def agree(self) -> None:
        """Know the keys that others have, and let them know ours; make one if there is none.

        Raises:
            StoreError: The store cannot be used.
        """
        while True:
            entry = await self._store.get(self._key)
            theirs: list[str] = [] if entry is None else read(entry.value, _WHAT, list)
            version = ABSENT if entry is None else entry.version
            ours = [key for key in self.known if key not in theirs]
            agreed = [*theirs, *ours][:_MOST] or [Sealer.generate_key()]
            try:
                if agreed == theirs:
                    await self._store.commit(Touch(self._key, ttl=_KEPT, expect=version))
                else:
                    put = Put(self._key, dumps(agreed), ttl=_KEPT, expect=version)
                    await self._store.commit(put, News(self._key))
            except Conflict:
                continue
            if agreed != self.known:
                self.known = agreed
                self._take(agreed)
            return

    async def run(self) -> None:
        """Agree whenever others may have written them, or the store may have lost them."""
        self._instance.touches.add(self._touch)
        try:
            while True:
                try:
                    async with self._store.watch(self._key) as self._news:
                        await self._follow(self._news)
                except StoreError as error:
                    logger.warning("The keys of other instances are not known: %s", error)
                    await trio.sleep(_PAUSE)
        finally:
            self._instance.touches.discard(self._touch)

    async def _follow(self, news: Watch) -> None:
        while True:
            await self.agree()
            with trio.move_on_after(_LOOK):
                await news.wait()

    def _touch(self) -> None:
        if self._news is not None:
            self._news.notify(None)
