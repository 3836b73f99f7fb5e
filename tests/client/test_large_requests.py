"""A large request is encoded in a worker thread, whatever it is sent over; a small one at once."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.client.http_support import Script, serving
from tests.client.support import process
from trio_mcp import Client, Registry, connect
from trio_mcp.peer import outbound, requests
from trio_mcp.threads import is_large
from trio_mcp.transports import memory_connection
from trio_mcp.wire import codec
from trio_mcp.wire.jsonrpc import encode

pytestmark = pytest.mark.requirement("E4", "B4")

TEXT = "a text of many words, " * 60_000
ROWS = [{"id": number} for number in range(10_000)]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, bool]]:
    """Of each request that is encoded: whether on the event loop, and whether in slices."""
    seen: list[tuple[bool, bool]] = []
    loop = threading.get_ident()

    def watch(message: Any, is_encodable: bool = False, in_slices: bool = False) -> bytes:
        seen.append((threading.get_ident() == loop, in_slices))
        return encode(message, is_encodable, in_slices)

    for module in (outbound, requests):
        monkeypatch.setattr(module, "encode", watch)
    return seen


@asynccontextmanager
async def over(way: str) -> AsyncIterator[Client]:
    if way == "process":
        async with process() as client:
            yield client
    elif way == "memory":
        registry = Registry("echoes")

        @registry.tool
        async def echo(text: Any) -> str:
            return str(text)

        async with connect(registry) as client:
            yield client
    else:
        async with serving(Script(way)) as url, connect(url) as client:
            yield client


class Copying:
    """What copies messages in memory."""

    loads = staticmethod(codec.loads)

    @staticmethod
    def dumps(value: Any) -> bytes:
        assert not is_large(value)
        return codec.dumps(value)


@pytest.mark.parametrize("way", ["memory", "process", "modern", "legacy"])
async def test_a_large_request_is_encoded_in_a_thread(way, encoded, monkeypatch):
    async with over(way) as client:
        encoded.clear()
        assert (await client.call_tool("echo", {"text": "short"})).text == "short"
        assert encoded == [(True, False)] * (way != "memory")  # there a short one is copied
        encoded.clear()
        monkeypatch.setattr(memory_connection, "codec", Copying)
        assert (await client.call_tool("echo", {"text": TEXT})).text == TEXT
        assert encoded == [(False, True)]


def test_many_short_texts_are_large_together():
    few, many = ({str(n): "a text" for n in range(count)} for count in (10, 100_000))
    assert not requests.is_large_request({"arguments": few})
    assert requests.is_large_request({"arguments": many})


@pytest.mark.parametrize("way", ["memory", "modern"])
async def test_what_is_not_json_in_a_large_request_is_the_callers_mistake(way):
    async with over(way) as client:
        for wrong in (object(), float("nan")):
            with pytest.raises(TypeError, match="JSON"):
                await client.request(
                    "tools/call", {"name": "echo", "arguments": {"a": [ROWS, wrong]}}
                )
        assert (await client.call_tool("echo", {"text": "short"})).text == "short"


@pytest.mark.parametrize("way", ["memory", "modern"])
async def test_a_request_that_is_cancelled_while_it_is_encoded_is_not_sent(way, monkeypatch):
    go_on, begun = threading.Event(), trio.Event()

    def slow(message: Any, is_encodable: bool = False, in_slices: bool = False) -> bytes:
        if in_slices:
            trio.from_thread.run_sync(begun.set)
            assert go_on.wait(10)
        return encode(message, is_encodable, in_slices)

    async with over(way) as client:
        monkeypatch.setattr(outbound, "encode", slow)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "echo", {"text": TEXT})
            await begun.wait()
            nursery.cancel_scope.cancel()
        go_on.set()
        assert (await client.call_tool("echo", {"text": "short"})).text == "short"
