"""What an idle instance hears after something went wrong, though nothing else happened meanwhile."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from attrs import frozen

from tests.faults.pair import Pair, pair_of
from trio_mcp import ResourceUpdated, connect

pytestmark = [pytest.mark.long, pytest.mark.requirement("M4")]

LIMIT: Final = 300.0
LONG: Final = 8.0
"""Seconds: longer than an instance waits for an answer of Redis."""


async def nothing(pair: Pair) -> None:
    pass


async def kill(pair: Pair) -> None:
    """The one that changed things before is killed, and another one takes its place."""
    pair.servers[0].signal(signal.SIGKILL)
    pair.ports[0] = pair.ports[2]


async def restart_store(pair: Pair) -> None:
    assert pair.redis is not None
    pair.redis.kill()
    pair.redis.start()


async def empty_store(pair: Pair) -> None:
    assert pair.redis is not None
    pair.redis.command("FLUSHALL")


async def hang_store(pair: Pair) -> None:
    assert pair.redis is not None
    pair.redis.send_signal(signal.SIGSTOP)
    await trio.sleep(LONG)
    pair.redis.send_signal(signal.SIGCONT)


async def cut_off(pair: Pair) -> None:
    """The network between the one that listens and Redis, which forgets its connections."""
    assert pair.relay is not None
    pair.relay.cut()
    await trio.sleep(LONG)
    pair.relay.heal(forget=True)


@frozen
class Idle:
    """What goes wrong, and which instance a client listens at: the first one is by the relay."""

    strike: Callable[[Pair], Awaitable[None]]
    stores: tuple[str, ...] = ("redis",)
    listener: int = 1


CASES: Final = [
    pytest.param(
        idle,
        store,
        id=f"{store}: {idle.strike.__name__}",
        marks=[pytest.mark.needs("redis-server")] if store == "redis" else [],
    )
    for idle in (
        Idle(nothing, ("sqlite", "redis")),
        Idle(kill, ("sqlite", "redis")),
        Idle(restart_store),
        Idle(empty_store),
        Idle(hang_store),
        Idle(cut_off, listener=0),
    )
    for store in idle.stores
]


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize(("idle", "store"), CASES)
async def test_an_idle_instance_hears_of_a_change(
    idle: Idle, store: str, era: Any, tmp_path: Path
) -> None:
    size = 3 if idle.strike is kill else 2
    async with pair_of("tests.faults.news_server", store, tmp_path, size) as pair:
        with trio.fail_after(LIMIT):
            async with connect(pair.url(idle.listener), era=era) as listening:
                async with listening.subscribe(resources=["news://today"]) as changes:
                    for strike in (nothing, idle.strike):
                        await strike(pair)
                        async with connect(pair.url(1 - idle.listener)) as other:
                            await other.call_tool("change")
                        assert await anext(changes) == ResourceUpdated("news://today")
