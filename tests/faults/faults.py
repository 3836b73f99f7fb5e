"""What goes wrong, one thing at a time."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio
from attrs import frozen

from tests.faults.fleet import Fleet


@frozen
class Fault:
    """Something that goes wrong, and is put right again.

    Args:
        name: What it is.
        strike: Has it happen; it takes as long as the fault lasts.
        may_break: Whether calls that are under way may be lost.
        may_refuse: Whether calls may be refused while it lasts.
        may_forget: Whether sessions may be lost that not all instances have met yet.
        relayed: How many instances have a network that can be cut.
    """

    name: str
    strike: Callable[[Fleet], Awaitable[None]]
    may_break: bool = False
    may_refuse: bool = False
    may_forget: bool = False
    relayed: int = 0


_LASTS: Final = 2.0
"""Seconds that most faults last."""


async def _nothing(fleet: Fleet) -> None:
    await trio.sleep(_LASTS)


async def _kill(fleet: Fleet) -> None:
    fleet.instances[0].process.kill()
    await trio.sleep(_LASTS)
    await fleet.start(0)


async def _restart_each(fleet: Fleet) -> None:
    for number in range(len(fleet.instances)):
        fleet.instances[number].process.send_signal(signal.SIGTERM)
        await fleet.instances[number].process.wait()
        await fleet.start(number)


async def _pause_instance(fleet: Fleet) -> None:
    fleet.instances[0].process.send_signal(signal.SIGSTOP)
    await trio.sleep(_LASTS)
    fleet.instances[0].process.send_signal(signal.SIGCONT)


async def _restart_store(fleet: Fleet) -> None:
    fleet.redis.kill()
    await trio.sleep(_LASTS)
    fleet.redis.start()


async def _pause_store(fleet: Fleet) -> None:
    fleet.redis.send_signal(signal.SIGSTOP)
    await trio.sleep(_LASTS)
    fleet.redis.send_signal(signal.SIGCONT)


async def _fill_store(fleet: Fleet) -> None:
    fleet.redis.command("CONFIG", "SET", "maxmemory", "1")
    await trio.sleep(_LASTS)
    fleet.redis.command("CONFIG", "SET", "maxmemory", "0")


async def _slow_store(fleet: Fleet) -> None:
    for _ in range(round(_LASTS / 0.1)):
        fleet.redis.command("CLIENT", "PAUSE", "80", "ALL")
        await trio.sleep(0.1)


async def _empty_store(fleet: Fleet) -> None:
    fleet.redis.command("FLUSHALL")
    await trio.sleep(_LASTS)


_LONG: Final = 8.0
"""Seconds: longer than an instance waits for an answer of Redis."""


async def _part_briefly(fleet: Fleet) -> None:
    fleet.relays[0].cut()
    await trio.sleep(_LASTS)
    fleet.relays[0].heal()


async def _part(fleet: Fleet) -> None:
    for relay in fleet.relays:
        relay.cut()
    await trio.sleep(_LONG)
    for relay in fleet.relays:
        relay.heal(forget=True)


FAULTS: Final[Sequence[Fault]] = (
    Fault("nothing", _nothing),
    Fault("an instance is killed (kill -9), and started again after 2 s", _kill, may_break=True),
    Fault("each instance in turn is stopped (SIGTERM) and started", _restart_each, may_break=True),
    Fault("an instance hangs for 2 s", _pause_instance),
    Fault(
        "Redis is killed, and started empty after 2 s",
        _restart_store,
        may_refuse=True,
        may_forget=True,
    ),
    Fault("Redis hangs for 2 s", _pause_store, may_refuse=True, may_forget=True),
    Fault("Redis answers up to 80 ms late for 2 s", _slow_store),
    Fault("Redis has no memory for 2 s", _fill_store, may_refuse=True, may_forget=True),
    Fault("Redis loses all of its data", _empty_store, may_forget=True),
    Fault(
        "the network cuts an instance off from Redis for 2 s",
        _part_briefly,
        may_refuse=True,
        relayed=1,
    ),
    Fault(
        "the network cuts two instances off from Redis for 8 s, and forgets their connections",
        _part,
        may_refuse=True,
        relayed=2,
    ),
)
