"""What one operation of a store costs: in memory, in SQLite, in Redis on this machine.

The program that uses the store is this process. With 64 at once, SQLite and Redis do what waits
together, so each operation costs less than one alone. Processor time is that of this process and of
Redis.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import trio
from attrs import field, frozen

from benchmarks.backends import KINDS, Backend, backend, missing
from benchmarks.columns import Column, plain_table
from benchmarks.contest import WINDOW, Outcome
from benchmarks.load import LoadError
from benchmarks.peers import Peer
from benchmarks.processes import Command, cpu_seconds
from trio_mcp.store.changes import Append, Delete, News, Put
from trio_mcp.store.errors import StoreError
from trio_mcp.store.opening import open_store
from trio_mcp.store.protocol import Store

_VALUE = b"x" * 100
_TTL = 600.0
_KEPT = 100
PILOT = 100
SHORTEST = 0.05

Operation = Callable[[Store, int], Awaitable[object]]


async def _get(store: Store, number: int) -> None:
    await store.get("bench:entry")


async def _put(store: Store, number: int) -> None:
    await store.commit(Put(f"bench:entry-{number % _KEPT}", _VALUE, ttl=_TTL))


async def _append(store: Store, number: int) -> None:
    await store.commit(Append("bench:log", _VALUE, ttl=_TTL, limit=_KEPT), News("bench:log"))


async def _read(store: Store, number: int) -> None:
    await store.read("bench:log", limit=10)


async def _queue(store: Store, number: int) -> None:
    await store.commit(Put(f"bench:queue/{number}", _VALUE, ttl=_TTL, delay=0))
    for each in (await store.claim("bench:queue", 60.0)).entries:
        await store.commit(Delete(each.key))


OPERATIONS: Mapping[str, tuple[Operation, int]] = {
    "get": (_get, 1),
    "put": (_put, 1),
    "append, tell": (_append, 1),
    "read 10": (_read, 1),
    "put, claim, delete": (_queue, 3),
}
"""By title, what is measured, and of how many operations it is made."""


@frozen
class Sample:
    """What one round measured of one store: seconds for each operation, by its title."""

    alone: dict[str, float] = field(factory=dict)
    many: dict[str, float] = field(factory=dict)
    """With 64 at once."""
    cpu: dict[str, float] = field(factory=dict)
    """Of processor time, one at a time."""


def _columns(kind: str) -> Sequence[Column[Sample]]:
    def pick(title: str, sample: Sample) -> float:
        found: Mapping[str, float] = getattr(sample, kind)
        return found[title]

    return [
        Column(f"{kind} {title}", title, partial(pick, title), 1e6, ",.0f") for title in OPERATIONS
    ]


ALONE, MANY, CPU = map(_columns, ("alone", "many", "cpu"))
COLUMNS = [*ALONE, *MANY, *CPU]


def peers() -> list[Peer]:
    """Name the stores."""
    return [Peer(kind, Command([], {})).lacking(missing(kind)) for kind in KINDS]


def take(peer: Peer, seconds: float) -> Sample:
    """Measure a store.

    Args:
        peer: Which.
        seconds: How long each run of operations lasts, about; 0 for the least.

    Raises:
        LoadError: It cannot be used.
    """
    with backend(peer.name) as there:
        try:
            return trio.run(_take, there, seconds)
        except StoreError as error:
            raise LoadError(str(error)) from error


async def _take(there: Backend, seconds: float) -> Sample:
    sample = Sample()
    async with open_store(there.url) as store:
        await store.commit(Put("bench:entry", _VALUE, ttl=_TTL))
        for title, (operation, parts) in OPERATIONS.items():
            pilot = await _time(store, operation, PILOT, 1)
            count = PILOT + int(max(seconds, SHORTEST) / pilot)
            before = _cpu_seconds(there)
            sample.alone[title] = await _time(store, operation, count, 1) / parts
            sample.cpu[title] = (_cpu_seconds(there) - before) / count / parts
            sample.many[title] = await _time(store, operation, count, WINDOW) / parts
    return sample


def _cpu_seconds(there: Backend) -> float:
    others = None if there.pid is None else cpu_seconds(there.pid)
    return time.process_time() + (others or 0.0)


async def _time(store: Store, operation: Operation, count: int, window: int) -> float:
    """Return how many seconds each takes, with so many at once."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await operation(store, number)
            await trio.lowlevel.checkpoint()

    begin = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(window):
            nursery.start_soon(work)
    return (time.perf_counter() - begin) / count


def operations_tables(outcomes: Sequence[Outcome[Sample]]) -> str:
    """Lay out the medians of each kind."""
    kinds = {
        "µs for an operation, one at a time": ALONE,
        f"µs, {WINDOW} at once": MANY,
        "processor µs, one at a time": CPU,
    }
    return "\n\n".join(plain_table(title, outcomes, columns) for title, columns in kinds.items())
