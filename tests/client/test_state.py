"""The state of a connection, and what comes in on it, as streams."""

import json

import pytest
from trio.testing import wait_all_tasks_blocked

from tests.client.support import served, tortured
from tests.support.tools import echo, registry_of
from trio_mcp import connect
from trio_mcp.client.state import Connected, Connecting, Disconnected, StateLog
from trio_mcp.errors import OutputClosed

pytestmark = pytest.mark.requirement("E6")


async def all_of(listener) -> list:
    return [each async for each in listener]


async def test_states_go_from_connecting_to_disconnected_and_end_once() -> None:
    log = StateLog()
    assert log.current == Connecting()
    early = log.listen()
    log.connected()
    late = log.listen()
    error = OutputClosed()
    log.disconnected(error)
    log.disconnected(None)
    log.connected()
    assert log.current == Disconnected(error)
    assert await all_of(early) == [Connecting(), Connected(), Disconnected(error)]
    assert await all_of(late) == [Connected(), Disconnected(error)]
    assert await all_of(log.listen()) == [Disconnected(error)]


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


async def test_raw_messages_are_seen_as_they_come() -> None:
    first: list[bytes] = []
    async with tortured(on_line=first.append) as (client, _):
        assert "supportedVersions" in json.loads(first[0])["result"]
        assert len(first) == 2
        messages = client.messages()
        await client.call_tool("echo", {"text": "seen"})
        await client.ping()
        await wait_all_tasks_blocked()
    lines = await all_of(messages)
    assert lines == first[2:]
    assert json.loads(lines[0])["result"]["content"][0]["text"] == "seen"
    assert len(lines) == 2
    assert await all_of(client.messages()) == []
