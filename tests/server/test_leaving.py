"""Cancellation strikes at every step of a request: one answer at most, and nothing is left."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import frozen
from trio.testing import MockClock, memory_stream_pair

from tests.client.support import holdings, left_since
from tests.client.test_leaving import CancelAt
from tests.support.processes import call, lines, ping
from tests.support.tools import registry_of, text_of
from tests.transports.http.support import LegacyClient, ModernClient, Response, hosting
from tests.transports.http.test_shared_sessions import fleet
from trio_mcp import Context, Registry, serve_stream

pytestmark = pytest.mark.requirement("N3")


async def stroll(context: Context) -> str:
    """Pass some checkpoints, and tell of it."""
    for step in range(3):
        await context.progress(step)
        await trio.lowlevel.checkpoint()
    return "arrived"


def strolling() -> Registry:
    return registry_of(stroll)


def walk(way: Callable[[CancelAt], Awaitable[None]], least: int) -> None:
    """Cancel at every step, until all of it runs through."""

    async def main(canceller: CancelAt) -> None:
        with trio.fail_after(10_000):
            await way(canceller)

    trio.run(main, CancelAt(0), clock=MockClock(autojump_threshold=0))
    before = holdings()
    for step in range(2000):
        canceller = CancelAt(step)
        trio.run(main, canceller, clock=MockClock(autojump_threshold=0), instruments=[canceller])
        assert left_since(before) == {}, f"cancelled at step {step}"
        if canceller.steps_left >= 0:
            assert step > least
            return
    raise AssertionError("it never ran through")


# -- lines ---------------------------------------------------------------------------------------


async def server_is_cancelled(canceller: CancelAt) -> None:
    ours, theirs = memory_stream_pair()
    received = bytearray()

    async def listen() -> None:
        async for chunk in ours:
            received.extend(chunk)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await ours.send_all(lines(call(1, "stroll"), ping(2)))
        await ours.send_stream.aclose()
        with trio.CancelScope() as scope:
            canceller.scope = scope
            await serve_stream(strolling(), theirs)
        canceller.scope = None
    assert not received or received.endswith(b"\n")
    answered = Counter(
        each["id"] for each in map(json.loads, received.splitlines()) if "id" in each
    )
    assert set(answered.values()) <= {1}
    if not scope.cancelled_caught:
        assert set(answered) == {1, 2}


def test_a_server_of_lines_is_cancelled_at_any_step() -> None:
    walk(server_is_cancelled, 10)


# -- HTTP ----------------------------------------------------------------------------------------


@frozen
class _Leaving:
    """Stands where `CancelAt` has a scope: the server is told, and cancels the request."""

    response: Response

    def cancel(self) -> None:
        self.response.disconnect()


async def leave(canceller: Any, client: Any) -> None:
    """Have a client leave in the middle of a request, and others be served afterwards."""
    response: Response = client.begin_call("stroll")
    canceller.scope = _Leaving(response)
    await response.end()
    canceller.scope = None
    if not response.scope.cancel_called:
        assert text_of(await response.answer()) == "arrived"
    assert response.body.count(b"arrived") <= 1
    assert "result" in await client.request("tools/list")


@asynccontextmanager
async def modern() -> AsyncIterator[Any]:
    async with hosting(strolling()) as host:
        yield ModernClient(host)


@asynccontextmanager
async def session() -> AsyncIterator[Any]:
    async with hosting(strolling()) as host:
        client = LegacyClient(host)
        await client.initialize()
        yield client


@asynccontextmanager
async def shared_session() -> AsyncIterator[Any]:
    async with fleet(strolling, size=2) as those:
        client = those.client()
        await client.initialize()
        yield client


@pytest.mark.parametrize("way", [modern, session, shared_session])
def test_a_client_over_http_leaves_at_any_step(way: Any) -> None:
    async def use(canceller: CancelAt) -> None:
        async with way() as client:
            await leave(canceller, client)

    walk(use, 5)
