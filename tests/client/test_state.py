"""The state of a connection, and what comes in on it, as streams."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.client.support import beside, served, tortured
from tests.support.tools import echo, registry_of
from trio_mcp import (
    ClientState,
    Connected,
    Connecting,
    Disconnected,
    Registry,
    connect,
    serve_stream,
)
from trio_mcp.errors import CannotReach, CannotStart, LifespanError, OutputClosed, ServerExited

pytestmark = pytest.mark.requirement("E6")


async def all_of(listener) -> list:
    return [each async for each in listener]


async def test_states_are_seen_from_the_very_beginning_and_end_once() -> None:
    connection = connect(registry_of(echo))
    early = connection.states()
    async with connection as client:
        assert client.is_connected
        late = client.states()
        assert await anext(early) == Connecting()
        assert await anext(early) == Connected()
    assert not client.is_connected
    assert await all_of(early) == [Disconnected(None)]
    assert await all_of(late) == [Connected(), Disconnected(None)]
    assert await all_of(connection.states()) == [Disconnected(None)]


async def test_connecting_is_seen_while_it_lasts() -> None:
    async def silent(stream: trio.abc.Stream) -> None:
        await trio.sleep_forever()

    seen: list[ClientState] = []
    async with beside(silent) as stream:
        connection = connect(stream)

        async def enter(nursery: trio.Nursery) -> None:
            async with connection:
                raise AssertionError("nobody answered")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(enter, nursery)
            async for state in connection.states():
                seen.append(state)
                nursery.cancel_scope.cancel()
    assert seen == [Connecting()]
    assert await all_of(connection.states()) == [Disconnected(None)]  # cancelled: no error


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (["/nonexistent/server"], CannotStart),
        ([sys.executable, "-c", "raise SystemExit(3)"], ServerExited),
        ([sys.executable, "-c", "print('{}'); raise SystemExit(3)"], ServerExited),
        ("http://127.0.0.1:1/mcp", CannotReach),
    ],
)
async def test_what_cannot_be_connected_ends_with_its_error(target, error) -> None:
    connection = connect(target)
    states, messages = connection.states(), connection.messages()
    with pytest.raises(error) as caught:
        async with connection:
            pass
    connecting, disconnected = await all_of(states)
    assert connecting == Connecting()
    assert type(disconnected.error) is error
    assert str(disconnected.error) == str(caught.value)
    assert await all_of(messages) in ([], [b"{}"])


async def test_a_failing_lifespan_is_told_as_it_is() -> None:
    @asynccontextmanager
    async def broken(_) -> AsyncIterator[None]:
        raise LookupError("no database")
        yield

    connection = connect(Registry("broken", version="1", lifespan=broken))
    states = connection.states()
    with pytest.raises(LifespanError):
        async with connection:
            pass
    assert isinstance((await all_of(states))[-1].error, LifespanError)


@pytest.mark.parametrize("over", ["stream", "memory"])
async def test_leaving_is_a_disconnection_without_an_error(over) -> None:
    registry = registry_of(echo)
    async with served(registry) if over == "stream" else connect(registry) as client:
        states = client.states()  # nobody iterates yet, and nothing is missed
        assert client.state == Connected()
    assert client.state == Disconnected(None)
    assert await all_of(states) == [Connected(), Disconnected(None)]


async def test_a_connection_that_ends_by_itself_ends_with_an_error(autojump_clock) -> None:
    async with tortured() as (client, torture):
        states = client.states()
        await torture.stream.send_stream.aclose()
        connected, disconnected = await all_of(states)
        assert connected == Connected()
        assert isinstance(disconnected.error, OutputClosed)
    assert client.state == disconnected  # leaving changes nothing any more


async def test_it_is_connected_no_longer_when_the_server_has_gone(autojump_clock) -> None:
    async with tortured() as (client, torture):
        assert client.is_connected
        await torture.stream.aclose()
        async for _ in client.states():
            pass
        assert not client.is_connected


async def test_raw_messages_are_seen_as_they_come() -> None:
    async with tortured() as (client, _):
        messages = client.messages()
        await client.call_tool("echo", {"text": "seen"})
        await client.ping()
        await wait_all_tasks_blocked()
    lines = await all_of(messages)
    assert json.loads(lines[0])["result"]["content"][0]["text"] == "seen"
    assert len(lines) == 2
    assert await all_of(client.messages()) == []


@pytest.mark.parametrize("over", ["stream", "memory"])
async def test_raw_messages_are_seen_from_the_first_one_on(over) -> None:
    registry = registry_of(echo)

    async def serve(stream: trio.abc.Stream) -> None:
        await serve_stream(registry, stream)

    async with beside(serve) as stream:
        connection = connect(registry if over == "memory" else stream)
        messages = connection.messages()
        async with connection:
            pass
    first, second = map(json.loads, await all_of(messages))
    assert "supportedVersions" in first["result"]
    assert "tools" in second["result"]
