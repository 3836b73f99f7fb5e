"""What happens while a server starts: it is bounded, and can be given up at any time."""

import os
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from tests.support.client import RawClient
from tests.support.tools import echo, registry_of
from trio_mcp import Limits, Registry, connect, handle_message, serve_http, serve_stream
from trio_mcp.errors import LifespanError
from trio_mcp.extending import ServerExtension

pytestmark = pytest.mark.requirement("B9", "B13")


class Slow:
    """A lifespan that takes its time to open, and what became of it."""

    def __init__(self, seconds: float, shielded: bool = False) -> None:
        self.seconds = seconds
        self.shielded = shielded
        self.steps: list[str] = []

    @asynccontextmanager
    async def __call__(self, *_: Any) -> AsyncIterator[None]:
        self.steps.append("opening")
        try:
            with trio.CancelScope(shield=self.shielded):
                await trio.sleep(self.seconds)
            self.steps.append("open")
            yield
        finally:
            self.steps.append("closed")


async def test_requests_wait_until_the_lifespan_is_open(autojump_clock: object) -> None:
    slow = Slow(20)
    ours, theirs = memory_stream_pair()
    client = RawClient(ours)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, registry_of(echo, lifespan=slow), theirs)
        answer = await client.initialize()
        assert "result" in answer
        assert trio.current_time() == 20
        assert slow.steps == ["opening", "open"]
        await ours.aclose()
    assert slow.steps == ["opening", "open", "closed"]


@pytest.mark.parametrize(("grace", "ends"), [(0.5, 0.5), (0, 0.5), (3, 3), (30, 20)])
async def test_the_end_of_input_ends_a_server_that_starts(
    grace: float, ends: float, autojump_clock: object
) -> None:
    """Requests that were read get the grace that calls get, and are answered in any case."""
    slow = Slow(20)
    ours, theirs = memory_stream_pair()
    client = RawClient(ours)
    registry, limits = registry_of(echo, lifespan=slow), Limits(eof_grace=grace)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_stream, registry, theirs, limits=limits))
        await client.send(client.request_of("ping"))
        await client.send_eof()
        [answer] = await client.receive_all()
    assert trio.current_time() == ends
    if grace < 20:
        assert answer["error"]["code"] == -32603
        assert slow.steps == ["opening", "closed"]
    else:
        assert answer["result"] == {}
        assert slow.steps == ["opening", "open", "closed"]


async def test_a_client_that_is_gone_ends_a_server_that_starts(autojump_clock: object) -> None:
    slow = Slow(1000)
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, registry_of(echo, lifespan=slow), theirs)
        await ours.aclose()
    assert trio.current_time() == 0
    assert slow.steps == ["opening", "closed"]


@pytest.mark.skipif(not hasattr(select, "poll"), reason="the system does not tell")
async def test_a_client_that_reads_no_more_ends_a_server_that_starts(
    autojump_clock: object,
) -> None:
    """Its requests were read, and its end of our input is open."""
    slow = Slow(1000)
    (their_input, our_output), (our_input, their_output) = os.pipe(), os.pipe()
    theirs = trio.StapledStream(
        trio.lowlevel.FdStream(their_output), trio.lowlevel.FdStream(their_input)
    )
    async with trio.lowlevel.FdStream(our_output) as output, trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, registry_of(echo, lifespan=slow), theirs)
        await output.send_all(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        await wait_all_tasks_blocked()
        os.close(our_input)
    assert trio.current_time() <= 2
    assert slow.steps == ["opening", "closed"]


async def test_a_server_that_starts_can_be_cancelled(autojump_clock: object) -> None:
    slow = Slow(1000)
    _, theirs = memory_stream_pair()
    with trio.move_on_after(1) as scope:
        await serve_stream(registry_of(echo, lifespan=slow), theirs)
    assert scope.cancelled_caught
    assert trio.current_time() == 1
    assert slow.steps == ["opening", "closed"]


TOO_SLOW = "took longer than 5 s to open"


def entrances(registry: Registry, limits: Limits) -> dict[str, Any]:
    async def open_connection() -> None:
        async with connect(registry, limits=limits):
            raise AssertionError

    _, theirs = memory_stream_pair()
    return {
        "stream": partial(serve_stream, registry, theirs, limits=limits),
        "http": partial(serve_http, registry, port=0, limits=limits),
        "message": partial(handle_message, registry, b"{}", limits=limits),
        "connect": open_connection,
    }


@pytest.mark.parametrize("way", ["stream", "http", "message", "connect"])
async def test_a_lifespan_has_a_limit_to_open(way: str, autojump_clock: object) -> None:
    slow = Slow(1000)
    start = entrances(registry_of(echo, lifespan=slow), Limits(startup_timeout=5))[way]
    with pytest.raises(LifespanError, match=TOO_SLOW):
        await start()
    assert trio.current_time() == 5
    assert slow.steps == ["opening", "closed"]


@pytest.mark.parametrize("owner", ["extension", "mounted"])
async def test_so_do_those_that_belong_to_it(owner: str, autojump_clock: object) -> None:
    slow = Slow(1000)

    class Extension(ServerExtension):
        identifier = "com.example/slow"
        lifespan = slow

    registry = Registry("outer", extensions=[Extension()] if owner == "extension" else [])
    if owner == "mounted":
        registry.mount(registry_of(echo, lifespan=slow))
    _, theirs = memory_stream_pair()
    with pytest.raises(LifespanError, match=TOO_SLOW):
        await serve_stream(registry, theirs, limits=Limits(startup_timeout=5))
    assert slow.steps == ["opening", "closed"]


async def test_what_opens_within_its_limit_may_take_any_time_afterwards(
    autojump_clock: object,
) -> None:
    slow = Slow(4.9)
    limits = Limits(startup_timeout=5)
    async with connect(registry_of(echo, lifespan=slow), limits=limits) as client:
        await trio.sleep(100)
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


async def test_a_lifespan_that_ignores_that_it_is_given_up_is_waited_for(
    caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    slow = Slow(60, shielded=True)
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, registry_of(echo, lifespan=slow), theirs)
        await wait_all_tasks_blocked()
        await ours.aclose()
    assert trio.current_time() == 60
    assert "The lifespan of test ignores its cancellation; it is waited for" in caplog.messages
