"""The store in a file, in several processes, some of which are killed."""

from __future__ import annotations

import random
import signal
import sqlite3
import struct
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from pathlib import Path
from subprocess import PIPE

import pytest
import trio

from tests.store.programs.process import LEASE, SharedTime
from tests.store.values import value_of
from tests.support.processes import ENVIRONMENT, TIME_LIMIT, python
from trio_mcp.store.changes import News, Put
from trio_mcp.store.protocol import Store
from trio_mcp.store.sqlite import SQLiteStore

PROGRAM = Path(__file__).parent / "programs" / "process.py"


class Process:
    """A running process, and the lines that it has told."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdout is not None
        self.process = process
        self.lines: list[str] = []
        self.ended = False
        self._stdout = process.stdout
        self._more = trio.lowlevel.ParkingLot()

    async def collect(self) -> None:
        """Read to the end. A last line that is cut off was not told."""
        rest = b""
        async for chunk in self._stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            self.lines += [each.decode() for each in lines]
            self._more.unpark_all()
        self.ended = True
        self._more.unpark_all()

    async def told(self, count: int) -> str:
        """Wait for a line, counted from 1, and return it."""
        while len(self.lines) < count:
            assert not self.ended, f"it ended after {self.lines}"
            await self._more.park()
        return self.lines[count - 1]

    async def kill(self) -> None:
        """Kill it as `kill -9` does, and read what it had told."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()
        while not self.ended:
            await self._more.park()


class Machine:
    """A folder with a store and a clock, and the processes that share them."""

    def __init__(self, folder: Path, nursery: trio.Nursery) -> None:
        self.path = folder / "store.db"
        self._clock = folder / "clock"
        self._clock.write_bytes(struct.pack("d", 1_000_000.0))
        self.time = SharedTime(self._clock)
        self._nursery = nursery

    def store(self) -> SQLiteStore:
        return SQLiteStore(self.path, clock=self.time, timeout=30)

    async def start(self, *arguments: str) -> Process:
        command = python(PROGRAM, str(self.path), str(self._clock), *arguments)
        run = partial(trio.run_process, command, stdout=PIPE, check=False, env=ENVIRONMENT)
        process = Process(await self._nursery.start(run))
        self._nursery.start_soon(process.collect)
        return process


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    with trio.fail_after(TIME_LIMIT):
        async with trio.open_nursery() as nursery:
            yield Machine(tmp_path, nursery)
            nursery.cancel_scope.cancel()  # what still runs is killed


@pytest.mark.long
async def test_processes_that_begin_at_once_share_one_store(machine: Machine) -> None:
    processes = [await machine.start("add", "100") for _ in range(4)]
    for each in processes:
        assert await each.process.wait() == 0
    async with machine.store().open() as store:
        assert await value_of(store, "a:n") == b"400"


@pytest.mark.long
async def test_what_was_acknowledged_outlives_kill_9(machine: Machine) -> None:
    """And of what was not, all is there or nothing."""
    chance = random.Random(7)
    acknowledged: dict[str, int] = {}
    for turn in range(3):
        name = f"w{turn}"
        writers = [await machine.start("write", f"{name}{each}") for each in "ab"]
        for each, letter in zip(writers, "ab", strict=True):
            await each.told(chance.randrange(1, 40))
            await each.kill()
            acknowledged[name + letter] = len(each.lines)
    async with machine.store().open() as store:
        for name, count in acknowledged.items():
            last = (await store.read(f"a:{name}")).last
            assert count <= last <= count + 1
            for number in range(count + 2):
                pair = [await value_of(store, f"a:{name}/{number}/{side}") for side in SIDES]
                assert pair == [b"%d" % number * 100 if number < last else None] * 2
    with closing(sqlite3.connect(machine.path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


SIDES = ("left", "right")


@pytest.mark.long
async def test_news_wakes_other_processes(machine: Machine) -> None:
    listeners = [await machine.start("listen", "a:x") for _ in range(3)]
    for each in listeners:
        assert await each.told(1) == "listening"
    async with machine.store().open() as store:
        await store.commit(News("a:unwatched"))
        for count in range(2, 5):
            await store.commit(News("a:x"))
            for each in listeners:
                assert await each.told(count) == "a:x"


async def test_news_of_a_process_that_could_not_ring_is_late_and_not_lost(
    machine: Machine,
) -> None:
    listener = await machine.start("listen", "a:x", "0.01")
    await listener.told(1)
    (pipe,) = machine.path.parent.glob("*-news-*")
    pipe.rename(pipe.with_suffix(".away"))
    async with machine.store().open() as store:
        await store.commit(News("a:x"))
        assert await listener.told(2) == "a:x"


async def test_whoever_was_away_too_long_is_told_of_everything(machine: Machine) -> None:
    listener = await machine.start("listen", "a:x")
    await listener.told(1)
    listener.process.send_signal(signal.SIGSTOP)
    async with machine.store().open() as store:
        async with trio.open_nursery() as nursery:
            for turn in range(100):
                channels = [News(f"a:{turn}/{each}") for each in range(101)]
                nursery.start_soon(store.commit, *channels)
        listener.process.send_signal(signal.SIGCONT)
        assert {await listener.told(2), await listener.told(3)} == {"a:other", "a:x"}
    with closing(sqlite3.connect(machine.path)) as connection:
        assert connection.execute("SELECT count(*) FROM news").fetchone() == (10_000,)


async def test_what_a_killed_listener_left_is_removed(machine: Machine) -> None:
    listener = await machine.start("listen", "a:x")
    await listener.told(1)
    await listener.kill()
    assert len(list(machine.path.parent.glob("*-news-*"))) == 1
    async with machine.store().open() as store:
        await store.commit(News("a:x"))
        await store.commit(News("a:x"))
        assert not list(machine.path.parent.glob("*-news-*"))
    with closing(sqlite3.connect(machine.path)) as connection:
        assert connection.execute("SELECT count(*) FROM listeners").fetchone() == (0,)


@pytest.mark.long
async def test_a_lease_outlives_its_process_by_its_time(machine: Machine) -> None:
    holder = await machine.start("hold", "a:lease")
    first = await holder.told(1)
    other = await machine.start("hold", "a:lease")
    assert await other.told(1) == "taken"
    await holder.kill()
    machine.time.passes(LEASE - 1)
    other = await machine.start("hold", "a:lease")
    assert await other.told(1) == "taken"
    machine.time.passes(1)
    heir = await machine.start("hold", "a:lease")
    second = await heir.told(1)
    assert second.startswith("held")
    assert int(second.split()[1]) > int(first.split()[1])


@pytest.mark.long
async def test_no_job_is_lost_or_done_twice_when_workers_are_killed(machine: Machine) -> None:
    await kill_workers(machine, jobs=300, kills=4)


@pytest.mark.long
async def test_a_hundred_thousand_jobs_outlive_their_workers(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        await kill_workers(Machine(tmp_path, nursery), jobs=100_000, kills=30)
        nursery.cancel_scope.cancel()


async def kill_workers(machine: Machine, jobs: int, kills: int) -> None:
    """Have jobs done by three processes, and kill one of them now and then."""
    chance = random.Random(11)
    async with machine.store().open() as store:
        await enqueue(store, jobs)
        workers = [await machine.start("work", "8") for _ in range(3)]
        async with store.watch("jobs:all") as news:
            for turn in range(1, kills + 1):
                while await done(store) < jobs * turn // (kills + 1):
                    await news.wait()
                victim = chance.randrange(3)
                await workers[victim].kill()
                workers[victim] = await machine.start("work", "8")
                machine.time.passes(LEASE)  # so what the dead had can be claimed
                await store.commit(News("jobs:queue"))
            while await done(store) < jobs:
                await news.wait()
        assert (await store.scan("jobs:queue")).entries == []
        cursor: str | None = ""
        counts: list[bytes] = []
        while cursor is not None:
            page = await store.scan("jobs:done", cursor, limit=10_000)
            counts += [each.value for each in page.entries]
            cursor = page.cursor
        assert counts == [b"1"] * jobs


async def enqueue(store: Store, jobs: int) -> None:
    async with trio.open_nursery() as nursery:
        for begin in range(0, jobs, 100):
            puts = (
                Put(f"jobs:queue/{n}", b"", ttl=999_999, delay=0) for n in range(begin, begin + 100)
            )
            nursery.start_soon(store.commit, *puts)


async def done(store: Store) -> int:
    return int(await value_of(store, "jobs:all") or 0)
