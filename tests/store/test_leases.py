"""Leases that are renewed while a block runs."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.store.leases import heartbeat, lease
from trio_mcp.store.changes import Check, Conflict, Delete, Put, Touch
from trio_mcp.store.errors import LeaseLost, StoreUnavailable
from trio_mcp.store.memory import MemoryStore


class Flaky(MemoryStore):
    """A store that is away now and then."""

    away = False
    slow = 0.0
    """Seconds until it says what it has done."""

    async def commit(self, *changes: object) -> list[int]:
        if self.away:
            raise StoreUnavailable("it is away")
        done = await super().commit(*changes)  # type: ignore[arg-type]
        await trio.sleep(self.slow)
        return done


async def test_a_lease_is_kept_as_long_as_the_block_and_no_longer(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = MemoryStore()
    async with lease(store, "a:x", 10, value=b"me") as held:
        for _ in range(10):
            await trio.sleep(9)
            with pytest.raises(Conflict):
                async with lease(store, "a:x", 10):
                    pass
        entry = await store.get("a:x")
        assert entry is not None
        assert entry.value == b"me"
        await store.commit(held, Put("a:y", b"by the holder", ttl=99))
    async with lease(store, "a:x", 10) as second:
        assert second.expect > held.expect
        with pytest.raises(Conflict):
            await store.commit(held, Put("a:y", b"by the first holder", ttl=99))


async def test_a_lease_is_given_back_when_the_block_fails_or_is_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = MemoryStore()
    with pytest.raises(ZeroDivisionError):
        async with lease(store, "a:x", 10):
            raise ZeroDivisionError
    assert await store.get("a:x") is None
    with trio.move_on_after(5) as scope:
        async with lease(store, "a:x", 10):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert await store.get("a:x") is None


async def test_a_block_ends_when_its_lease_was_taken(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = MemoryStore()
    begun = trio.current_time()
    with pytest.raises(LeaseLost, match="a:x"):
        async with lease(store, "a:x", 30):
            await store.commit(Delete("a:x"))
            await store.commit(Put("a:x", b"somebody else", ttl=99))
            await trio.sleep_forever()
    assert trio.current_time() - begun == pytest.approx(7.5)
    assert await store.get("a:x") is not None, "it is not ours to give back"


async def test_a_block_ends_with_its_lease_when_the_store_is_away(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = Flaky()
    begun = trio.current_time()
    with pytest.raises(LeaseLost):
        async with lease(store, "a:x", 30):
            await trio.sleep(16)
            store.away = True
            await trio.sleep_forever()
    assert trio.current_time() - begun == pytest.approx(45)  # renewed after 15 for the last time


async def test_a_lease_counts_from_when_its_renewal_was_asked_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = Flaky()
    begun = trio.current_time()
    with pytest.raises(LeaseLost):
        async with lease(store, "a:x", 30):
            store.slow = 5
            await trio.sleep(13)
            store.away = True
            await trio.sleep_forever()
    assert trio.current_time() - begun == pytest.approx(37.5)  # it was after 7.5, and not 12.5


async def test_a_store_that_comes_back_in_time_changes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = Flaky()
    async with lease(store, "a:x", 30):
        await trio.sleep(5)
        store.away = True
        await trio.sleep(15)
        store.away = False
        await trio.sleep(100)
        assert await store.get("a:x") is not None


async def test_what_was_claimed_is_kept_by_a_heartbeat(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = MemoryStore()
    await store.commit(Put("a:q/x", b"job", ttl=9999, delay=0))
    (job,) = (await store.claim("a:q", 10)).entries
    async with heartbeat(store, Touch(job.key, delay=10, expect=job.version), 10):
        await trio.sleep(100)
        assert (await store.claim("a:q", 10)).entries == []
        await store.commit(Check(job.key, expect=job.version))
    await trio.sleep(10)
    assert len((await store.claim("a:q", 10)).entries) == 1


async def test_a_block_that_has_finished_its_work_is_not_told_that_its_lease_was_lost(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its last commit depended on the lease, so there is nothing to tell."""
    store = MemoryStore()
    await store.commit(Put("a:q/x", b"job", ttl=9999, delay=0))
    (job,) = (await store.claim("a:q", 10)).entries
    async with heartbeat(store, Touch(job.key, delay=10, expect=job.version), 10):
        await store.commit(Delete(job.key, expect=job.version))


async def test_a_block_with_tasks_of_its_own_is_told_that_its_lease_was_lost(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The cancellation of a nursery inside comes out as a group."""
    store = Flaky()
    with pytest.raises((LeaseLost, BaseExceptionGroup)) as caught:
        async with lease(store, "a:x", 10), trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            store.away = True
            await trio.sleep_forever()
    assert caught.type is LeaseLost
