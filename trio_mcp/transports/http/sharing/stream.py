"""A stream of events that another instance writes, for a client that comes back to this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio
from attrs import field, frozen

from trio_mcp.loggers import logger_of
from trio_mcp.store.changes import Entry, LogPage
from trio_mcp.store.errors import StoreError
from trio_mcp.store.exact import loads
from trio_mcp.store.watching import Watch
from trio_mcp.transports.http.request import Header, HttpRequest, no_stream
from trio_mcp.transports.http.sharing.instance import Instance
from trio_mcp.transports.http.sharing.recording import Recorder
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError
from trio_mcp.wire.jsonrpc import error_line

logger = logger_of("trio_mcp.http")

_LOOK: Final = 5.0
"""Seconds without an event after which it is seen whether the other instance is still alive."""

_GONE: Final = McpError(INTERNAL_ERROR, "The server that ran this request is gone; try it again")


@frozen(eq=False)
class ElsewhereStream:
    """A stream of another instance."""

    name: str
    instance: Instance
    recorder: Recorder
    headers: Sequence[Header] = field(repr=False)
    primes: bool

    async def follow(self, http: HttpRequest, keep_alive: float, after: int) -> None:
        page, call = await self._look(after)
        if page.missed(after) or call is None:
            raise no_stream()
        async with self.instance.store.watch(self._log) as news:
            await http.start_stream(self.headers)
            if self.primes:
                await http.send_id(f"{self.name}-{after}")
            try:
                await self._pass_on(http, keep_alive, after, news)
            except StoreError as error:  # the client comes back for the rest
                logger.warning("%s", error)
            await http.end_stream()

    async def _pass_on(self, http: HttpRequest, keep_alive: float, after: int, news: Watch) -> None:
        quiet_since = trio.current_time()
        while trio.current_time() < http.deadline:
            page = await self.instance.store.read(self._log, after)
            if page.missed(after):
                return  # what came next is not kept any more
            for number, line in page.items:
                if not line:
                    return
                await http.send_event(line, id=f"{self.name}-{number}")
                after = number
            if page.items:
                continue
            with trio.move_on_at(min(trio.current_time() + _LOOK, http.deadline)) as quiet:
                await news.wait()
                quiet_since = trio.current_time()
            if quiet.cancelled_caught and not await self.instance.lives(self._owner):
                await self._give_up(http, after)
                return
            if trio.current_time() - quiet_since > keep_alive:
                await http.send_comment()
                quiet_since = trio.current_time()

    @property
    def _log(self) -> str:
        return self.recorder.log(self.name)

    @property
    def _owner(self) -> str:
        return self.name.partition(".")[0]

    async def _look(self, after: int) -> tuple[LogPage, Entry | None]:
        page = await self.instance.store.read(self._log, after, limit=1)
        return page, await self.instance.store.get(self.recorder.call(self.name))

    async def _give_up(self, http: HttpRequest, after: int) -> None:
        """Answer in place of an instance that died, unless it had."""
        page, call = await self._look(after)
        id = None if call is None else loads(call.value)
        if id is not None and not page.items:
            await http.send_event(error_line(id, _GONE)[:-1], id=f"{self.name}-{after}")
