"""A connection that comes back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.compose.support import Mortal, named
from tests.support.tools import echo
from trio_mcp import Connected, Connecting, Disconnected
from trio_mcp.compose import Backoff
from trio_mcp.compose.supervised import SupervisedConnection
from trio_mcp.errors import CallTimeout, CannotReach, ServerUnavailable

pytestmark = pytest.mark.requirement("L3")
SOON = Backoff(first=1, longest=8, stable=10)


async def follow_nothing(client: object) -> None:
    await trio.sleep_forever()


@asynccontextmanager
async def supervised(
    *, may_live: bool = True, **options: Any
) -> AsyncIterator[tuple[Mortal, SupervisedConnection]]:
    async with trio.open_nursery() as nursery:
        server = Mortal(nursery, named("mortal", echo), may_live=may_live)
        connection = SupervisedConnection(
            "mortal", server.open, backoff=SOON, timeout=2, attend=follow_nothing, **options
        )
        nursery.start_soon(connection.run)
        yield server, connection
        nursery.cancel_scope.cancel()


async def test_it_is_opened_again_when_it_is_lost(autojump_clock: object) -> None:
    states: list[object] = []
    async with supervised(on_state=states.append) as (server, connection):
        first = await connection.client()
        server.die()
        while connection.current is first:
            await trio.sleep(0.1)
        second = await connection.client()
        assert second is not first
        assert (await second.call_tool("echo", {"text": "back"})).text == "back"
    kinds = [type(each) for each in states]
    assert kinds == [Connecting, Connected, Disconnected, Connecting, Connected, Disconnected]


@pytest.mark.parametrize("failing", [Connecting, Connected, Disconnected])
async def test_a_callback_that_fails_ends_nothing(
    failing: type[object], autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    def on_state(state: object) -> None:
        if isinstance(state, failing):
            raise KeyError("the callback's own")

    async with supervised(on_state=on_state) as (server, connection):
        first = await connection.client()
        server.die()
        while connection.current in (first, None):
            await trio.sleep(0.1)
        assert (await (await connection.client()).call_tool("echo", {"text": "x"})).text == "x"
        assert server.starts == 2
    assert "The callback for states failed" in caplog.text


async def test_it_is_tried_more_and_more_rarely_and_nothing_spins(autojump_clock: object) -> None:
    async with supervised(may_live=False) as (server, connection):
        await trio.sleep(1000)
        waits = [
            later - sooner for sooner, later in zip(server.times, server.times[1:], strict=False)
        ]
        assert [
            round(2 * wait) <= 2 * most for wait, most in zip(waits, (1, 2, 4, 8), strict=False)
        ] == [True] * 4
        assert all(
            most / 2 <= wait <= most for wait, most in zip(waits, (1, 2, 4, 8), strict=False)
        )
        assert all(4 <= wait <= 8 for wait in waits[4:])
        server.may_live = True
        await trio.sleep(9)
        await connection.client()
        await trio.sleep(11)  # that it lasted so long is a success
        server.die()
        await trio.sleep(1.5)
        assert connection.state == Connected()


async def test_one_that_dies_at_once_each_time_is_not_tried_in_a_loop(
    autojump_clock: object,
) -> None:
    async with supervised() as (server, _connection):
        for _ in range(200):
            await trio.sleep(0.5)
            server.die()
        assert server.starts < 25


async def test_who_calls_meanwhile_waits_for_a_bounded_time(autojump_clock: object) -> None:
    async with supervised(may_live=False) as (server, connection):
        before = trio.current_time()
        with pytest.raises(ServerUnavailable, match="server 'mortal' is not available: it is down"):
            await connection.client()
        assert trio.current_time() - before == 2
        with trio.move_on_after(1) as scope:
            await connection.client()
        assert scope.cancelled_caught
        await trio.sleep(20)
        server.may_live = True
        with trio.fail_after(12):
            while connection.current is None:
                await trio.sleep(0.5)


async def test_a_server_that_says_nothing_any_more_is_found_out(autojump_clock: object) -> None:
    async with supervised() as (_server, connection):
        client = await connection.client()
        connection.note_failure(CallTimeout("a call", 1))
        await trio.sleep(1)
        assert connection.current is client, "it answers, and is left alone"

        async def silent(*args: object, **kwargs: object) -> None:
            raise CallTimeout("ping", 2)

        client.ping = silent  # type: ignore[method-assign]
        connection.note_failure(CannotReach("gone"))
        await trio.sleep(3)
        assert await connection.client() is not client
