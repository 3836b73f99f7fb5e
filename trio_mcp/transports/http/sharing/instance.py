"""One of several instances that share a store: its name, and the sign that it is alive."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

import trio

from trio_mcp.loggers import logger_of
from trio_mcp.store.changes import Change, Conflict, Delete, Put, Touch
from trio_mcp.store.errors import StoreError
from trio_mcp.store.protocol import Store

logger = logger_of("trio_mcp.http")

_ALIVE: Final = 15.0
"""Seconds after which an instance that says nothing is taken for dead."""

_RENEWALS: Final = 5
"""In that time."""

_LEAVING: Final = 1.0
"""Seconds that tidying up may take. Otherwise it is left to the store."""


class Instance:
    """This instance, and how many seconds it keeps what clients may come back for."""

    def __init__(self, store: Store, keep: float) -> None:
        self.store: Final = store
        self.keep: Final = keep
        self.name: Final = secrets.token_hex(6)
        self.touches: Final[set[Callable[[], None]]] = set()
        """Called when the store may have lost its data: each has a session written again."""

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        sign = Put(_sign_of(self.name), b"", ttl=_ALIVE)
        await self.store.commit(sign)
        task_status.started()
        try:
            while True:
                await trio.sleep(_ALIVE / _RENEWALS)
                try:
                    await self._renew(sign)
                except StoreError as error:  # others take it for dead, until the store is back
                    logger.warning("%s", error)
        finally:
            await self.tidy_up(Delete(sign.key))

    async def tidy_up(self, *changes: Change) -> None:
        """Remove what is needed no more, even if cancelled, unless that takes long."""
        with trio.move_on_after(_LEAVING, shield=True):
            try:
                await self.store.commit(*changes)
            except StoreError as error:
                logger.debug("%s", error)

    async def _renew(self, sign: Put) -> None:
        try:
            await self.store.commit(Touch(sign.key, ttl=sign.ttl))
        except Conflict:  # the store was away, or has lost its data: that of our sessions as well
            await self.store.commit(sign)
            for touch in self.touches:
                touch()

    async def lives(self, name: str) -> bool:
        return await self.store.get(_sign_of(name)) is not None


def _sign_of(name: str) -> str:
    return f"instance-{name}:alive"
