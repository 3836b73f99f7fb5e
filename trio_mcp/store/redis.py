"""A store in Redis or Valkey, which many machines share.

Each operation is a script that runs there (`redis_scripts`), so it runs whole or not at all, and
the time is the server's. A script that was sent and not answered may have run: so no commit is sent
twice, and it raises `StoreUnavailable`. When the connection has broken, the next operations wait
for a new one, but not for long; once that has failed, they fail at once.

A network that splits breaks no connection: answers just stop, perhaps for good, even when the
network is whole again. So a connection on which an answer was late is given up, and with it the
whole pool, which would not use its place again.

News is published. What was published while the connection for it was broken is lost, so when it is
back, every watch is woken.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

import trio
from coredis.commands.script import Script
from coredis.retry import NoRetryPolicy

from trio_mcp.background import background_nursery
from trio_mcp.backoff import backoff
from trio_mcp.loggers import logger_of
from trio_mcp.store import redis_scripts as scripts
from trio_mcp.store.changes import (
    PAGE_BYTES,
    READ_BYTES,
    Change,
    Claimed,
    Entry,
    LogPage,
    News,
    Page,
    check_channels,
    check_commit,
    check_key,
    check_more_than_0,
    partition_of,
)
from trio_mcp.store.errors import StoreError, StoreUnavailable, StoreUnusable
from trio_mcp.store.protocol import Store
from trio_mcp.store.redis_client import FAILURES, Client, client_of, first_of, is_answer, meaning
from trio_mcp.store.redis_scripts import (
    GROWING,
    Argument,
    entry_of,
    name_of,
    refusal,
    time_of,
    written,
)
from trio_mcp.store.watching import Watch, Watches

logger = logger_of("trio_mcp.store")

_PAUSES: Final = (0.05, 1.0)
"""Seconds between attempts to connect, at first and at most."""

_UNSUBSCRIBING: Final = 1.0
"""Seconds that unsubscribing from a channel may take."""

_COMMIT: Final = Script[bytes](script=scripts.COMMIT)
_GET: Final = Script[bytes](script=scripts.GET)
_SCAN: Final = Script[bytes](script=scripts.SCAN)
_CLAIM: Final = Script[bytes](script=scripts.CLAIM)
_READ: Final = Script[bytes](script=scripts.READ)

_AT_ONCE: Final = 50
"""Operations in flight: if thousands were, answers would be late by our own doing."""


class RedisStore(Store):
    """A store in Redis 6.2 or newer, or Valkey (`open_store`).

    Args:
        url: `redis://user:password@host:6379/0`, `rediss://…` for TLS, `redis+unix:///path`, or
            `redis+cluster://host:port,host:port` (`rediss+cluster://…` for TLS). What follows a
            `?` goes to coredis, `ssl_ca_certs=/path` for one; `prefix=name` is our own.
        timeout: Seconds to wait for an answer, and for another connection when one breaks.
        clock: Tells the time instead of the server, in seconds; for tests.
    """

    def __init__(
        self, url: str, *, timeout: float = 5.0, clock: Callable[[], float] | None = None
    ) -> None:
        self._make, self._place, self._prefix = client_of(url, timeout)
        self._timeout = timeout
        self._clock = clock
        self._name = secrets.token_hex(8).encode()
        self._watches = Watches()
        self._subscribed: Counter[str] = Counter()
        self._pubsub: Any = None  # coredis has a class for each kind of client
        self._listening = trio.Event()
        self._subscribing = trio.Lock()
        self._hears = self._missed = False
        self._is_open = False
        self._client: Client | None = None
        self._broken = trio.Event()  # the connections of this client
        self._tried = trio.lowlevel.ParkingLot()
        self._failure = self._error(trio.TooSlowError())  # why there is no client
        self._waiting_until = math.inf  # for one
        self._turns = trio.CapacityLimiter(_AT_ONCE)

    # -- connections --------------------------------------------------------------------------

    @asynccontextmanager
    async def open(self) -> AsyncIterator[RedisStore]:
        """Keep the store open while the block lasts.

        Raises:
            StoreUnusable: The server refuses us, or is not Redis.
            StoreUnavailable: It cannot be reached.
        """
        self._waiting_until = trio.current_time() + self._timeout
        # Clients end when no task uses them any more.
        async with background_nursery() as self._clients, background_nursery() as self._nursery:
            self._nursery.start_soon(self._keep_connected)
            await self._look_at_memory(await self._connected())
            self._is_open = True
            try:
                yield self
            finally:
                self._is_open = False

    async def _keep_connected(self) -> None:
        """Keep a client, and replace it whenever its connections break; until cancelled."""
        failures = 0
        while True:
            over, self._broken = trio.Event(), trio.Event()
            try:
                self._client = await self._clients.start(self._run_client, over)
                self._tried.unpark_all()
                failures = 0
                await self._broken.wait()
                self._nursery.start_soon(self._close, over)
            except StoreError as error:
                self._failure = error
                self._tried.unpark_all()
                failures += 1
                await trio.sleep(backoff(failures, *_PAUSES))

    async def _close(self, over: trio.Event) -> None:
        """Close a client when all operations that have begun with it have given up."""
        await trio.sleep(2 * self._timeout)
        over.set()

    async def _run_client(self, over: trio.Event, task_status: trio.TaskStatus[Client]) -> None:
        """Keep a client with connections of its own, until an event is set."""
        failure: BaseException | None = None
        client: Any
        try:
            with trio.fail_after(self._timeout) as connecting:
                async with self._make() as client:
                    await client.ping()
                    connecting.deadline = math.inf
                    task_status.started(client)
                    await over.wait()
        except* FAILURES as group:  # raised again below, and not in a group
            failure = first_of(group)
        if failure is not None and not over.is_set():
            raise self._error(failure)

    async def _connected(self) -> Client:
        """Wait, but not for long, until there is a client, and return it."""
        with trio.move_on_at(self._waiting_until):
            while self._client is None and not isinstance(self._failure, StoreUnusable):
                await self._tried.park()
        if self._client is None:
            raise type(self._failure)(str(self._failure))  # each caller has its own traceback
        return self._client

    async def _look_at_memory(self, client: Client) -> None:
        """Warn of a server that evicts entries when it is out of memory."""
        try:
            found = await client.config_get(["maxmemory-policy"])
        except FAILURES:
            return  # many hosts do not let us look
        policy = found.get(b"maxmemory-policy", b"noeviction")
        if policy not in (b"noeviction", "noeviction"):
            logger.warning(
                "The store at %s has maxmemory-policy %r: without memory it forgets entries. "
                "Set noeviction.",
                self._place,
                policy,
            )

    @contextmanager
    def _failures(self, client: Client | None = None) -> Iterator[None]:
        """Raise failures as errors of the store, and give up a client without connection."""
        try:
            yield
        except FAILURES as error:
            failure = self._error(error)
            if client is not None and client is self._client and not is_answer(error):
                self._client, self._failure = None, failure
                self._waiting_until = trio.current_time() + self._timeout
                self._broken.set()
            raise failure from None  # the message of coredis may have what was sent in it

    def _error(self, error: BaseException) -> StoreError:
        if isinstance(error, StoreError):
            return error
        kind, reason = meaning(error)
        return kind(f"the store at {self._place} cannot be used: {reason}")

    # -- operations ---------------------------------------------------------------------------

    async def _run(self, script: Script[bytes], key: str, *arguments: Argument) -> Any:
        """Run a script that changes nothing; if the connection breaks, run it again."""
        async with self._turns:
            client = await self._ready()
            try:
                return await self._send(client, script, key, arguments)
            except StoreUnavailable:
                return await self._send(await self._ready(), script, key, arguments)

    async def _run_once(self, script: Script[bytes], key: str, *arguments: Argument) -> Any:
        async with self._turns:
            client = await self._ready()
            # What was sent cannot be called back. `Cancelled` promises that nothing was written, so
            # this waits for the answer, for as long as it would anyway.
            with trio.CancelScope(shield=True):
                return await self._send(client, script, key, arguments)

    async def _ready(self) -> Client:
        await trio.lowlevel.checkpoint_if_cancelled()
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        return await self._connected()

    async def _send(
        self, client: Client, script: Script[bytes], key: str, arguments: Sequence[Argument]
    ) -> Any:
        now = "" if self._clock is None else time_of(self._clock())
        with self._failures(client), trio.fail_after(self._timeout):
            return await script([self._base(key)], [now, *arguments], client=client)

    def _base(self, key: str) -> str:
        return f"{self._prefix}:{{{partition_of(key)}}}"

    async def commit(self, *changes: Change) -> list[int]:
        check_commit(changes)
        if not changes:
            await self._ready()
            return []
        grows = any(isinstance(change, GROWING) for change in changes)
        arguments: list[Argument] = [self._name, str(len(changes)), "grows" if grows else ""]
        for change in changes:
            arguments += written(change)
            if isinstance(change, News):
                arguments.append(self._channel(change.key))
        outcome, *results = await self._run_once(_COMMIT, changes[0].key, *arguments)
        if outcome != b"done":
            raise refusal(outcome, changes[int(results[0])])
        self._watches.notify(change.key for change in changes if isinstance(change, News))
        return [int(result) for result in results]

    async def get(self, key: str) -> Entry | None:
        row = await self._run(_GET, check_key(key), name_of(key))
        return entry_of(key, *row) if row else None

    async def scan(self, folder: str, cursor: str = "", *, limit: int = 100) -> Page:
        check_more_than_0(check_key(folder), limit)
        begin = f"({name_of(cursor)}" if cursor.startswith(f"{folder}/") else "-"
        more, rows = await self._run(
            _SCAN, folder, name_of(folder), begin, str(limit), str(PAGE_BYTES)
        )
        entries = self._entries(folder, rows)
        return Page(entries, entries[-1].key if more else None)

    async def claim(self, folder: str, lease: float, *, limit: int = 1) -> Claimed:
        check_more_than_0(check_key(folder), limit, lease)
        arguments = name_of(folder), time_of(lease), str(limit)
        wait, rows = await self._run_once(_CLAIM, folder, *arguments)
        return Claimed(self._entries(folder, rows), int(wait) / 1e6 if wait else math.inf)

    async def read(
        self, log: str, after: int = 0, *, limit: int = 100, max_bytes: int = READ_BYTES
    ) -> LogPage:
        check_more_than_0(check_key(log), limit, max_bytes)
        limits = str(after), str(limit), str(max_bytes)
        first, last, began, start, items = await self._run(_READ, log, name_of(log), *limits)
        return LogPage(list(enumerate(items, int(start))), int(first), int(last), int(began))

    @staticmethod
    def _entries(folder: str, rows: Sequence[Sequence[bytes]]) -> list[Entry]:
        partition = partition_of(folder)
        return [entry_of(f"{partition}:{name.decode()}", *rest) for name, *rest in rows]

    # -- news ---------------------------------------------------------------------------------

    def _channel(self, key: str) -> str:
        return f"{self._prefix}:news:{key}"

    @asynccontextmanager
    async def watch(self, *channels: str) -> AsyncIterator[Watch]:
        with self._watches.open(check_channels(channels)) as watch:
            self._subscribed.update(watch.channels)
            try:
                await self._subscribe(watch.channels)
                yield watch
            finally:
                self._subscribed.subtract(watch.channels)
                with trio.move_on_after(_UNSUBSCRIBING, shield=True):
                    await self._unsubscribe(watch.channels)

    async def _subscribe(self, channels: frozenset[str]) -> None:
        await self._ready()
        if not self._hears:
            self._hears = True
            self._nursery.start_soon(self._hear)
        with self._failures(), trio.fail_after(self._timeout):
            while True:
                await self._listening.wait()
                async with self._subscribing:
                    if self._pubsub is not None:  # it may have broken again meanwhile
                        await self._subscribe_to(self._pubsub, channels)
                        return

    async def _subscribe_to(self, pubsub: Any, channels: Iterable[str]) -> None:
        names = {self._channel(channel) for channel in channels}
        if new := [name for name in names if name.encode() not in pubsub.channels]:
            await pubsub.subscribe(*new)

    async def _unsubscribe(self, channels: frozenset[str]) -> None:
        async with self._subscribing:  # while we waited for it, others may have subscribed
            gone = [channel for channel in channels if self._subscribed[channel] <= 0]
            for channel in gone:
                del self._subscribed[channel]
            if gone and self._pubsub is not None:
                # If the connection has broken, the subscription has ended with it.
                with suppress(*FAILURES):
                    await self._pubsub.unsubscribe(*map(self._channel, gone))

    async def _hear(self) -> None:
        """Pass on news of other processes, until cancelled."""
        failures = 0
        while True:
            failures += 1
            try:
                await self._hear_until_it_breaks()
            except* (*FAILURES, StoreError) as group:
                logger.debug("No news: %s", self._error(first_of(group)))
            finally:
                if self._listening.is_set():
                    failures = 1
                self._pubsub = None
                self._listening = trio.Event()
            await trio.sleep(backoff(failures, *_PAUSES))

    async def _hear_until_it_breaks(self) -> None:
        over = trio.Event()
        client: Any = await self._clients.start(self._run_client, over)
        subscribing = client.pubsub(
            ignore_subscribe_messages=True,
            retry_policy=NoRetryPolicy(),
            subscription_timeout=self._timeout,
            max_idle_seconds=self._timeout,  # then the server is pinged
        )
        start = len(self._channel(""))
        try:
            async with subscribing as pubsub:
                async with self._subscribing:
                    # Its loop ends when it has no channel left: so it has one that is never used.
                    await self._subscribe_to(pubsub, [self._name.decode(), *self._subscribed])
                    self._pubsub = pubsub
                    self._listening.set()
                if self._missed:
                    self._watches.notify_all()
                self._missed = True  # what is published between this connection and the next
                async for message in pubsub:
                    if message["data"] != self._name:  # our own were notified when we committed
                        self._watches.notify([message["channel"][start:].decode()])
        finally:
            over.set()
