"""What a server keeps of clients that stay: little, whatever they have said."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio

from tests.support.client import LEGACY, modern_meta, serving
from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.support import Host, LegacyClient, ModernClient, Worker, hosting

pytestmark = pytest.mark.requirement("F2")

CLIENTS = 3
MUCH = {"name": "much", "version": "1", "more": ["x" * 100] * 6_000}
"""More than half a MiB, and more in memory."""
FEW_BYTES = 900_000
"""For all clients together, who have said three times as much."""


@contextmanager
def little_is_kept(most: int) -> Iterator[None]:
    """Fail if the block has much more memory at its end than at its beginning."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < most


async def begin_session(host: Host, keep: list[Any]) -> None:
    client = LegacyClient(host)
    client.judging = False
    params = {"protocolVersion": LEGACY[-1], "capabilities": {}, "clientInfo": MUCH}
    assert (await client.begin("initialize", params).end()).status == 200


async def subscribe(host: Host, keep: list[Any]) -> None:
    client = ModernClient(host)
    client.judging = False
    meta = modern_meta(**{"io.modelcontextprotocol/clientInfo": MUCH})
    params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
    stream = client.begin("subscriptions/listen", params)
    assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
    keep.append(stream)


@pytest.mark.long
@pytest.mark.parametrize("stay", [begin_session, subscribe])
async def test_what_clients_say_of_themselves_over_http(
    stay: Callable[[Host, list[Any]], Awaitable[None]],
) -> None:
    keep: list[Any] = []
    async with hosting(registry_of(echo)) as host:
        await stay(host, keep)  # what is imported, and compiled, at the first time
        with little_is_kept(FEW_BYTES):
            for _ in range(CLIENTS):
                await stay(host, keep)
        for stream in keep:
            stream.disconnect()


async def test_what_a_subscription_has_no_use_for_is_refused() -> None:
    """However long: what middleware has of the request lasts as long as the subscription."""
    async with hosting(registry_of(echo)) as host:
        client = ModernClient(host)
        params = {"notifications": {"toolsListChanged": True}, "more": [MUCH, MUCH]}
        refused = await client.begin("subscriptions/listen", params).end()
        assert refused.error["code"] == -32602
        assert "a subscription may take 1,114,112 bytes of memory" in refused.error["message"]


@pytest.mark.long
async def test_a_call_whose_client_has_left_before_it_heard_of_it() -> None:
    """It cannot come back for the answer, so no more is kept of the request than of the answer."""
    worker = Worker()
    async with hosting(worker.registry) as host:
        client = LegacyClient(host)
        await client.initialize()

        async def leave(id: str, said: str = "") -> None:
            meta = {"com.example/said": said}
            params = {"name": "work_quietly", "arguments": {}, "_meta": meta}
            call = client.send(
                {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
            )
            await worker.until(1)
            call.disconnect()
            await call.end()
            worker.go_on.set()
            await worker.until(0)
            worker.go_on = trio.Event()
            client.methods.clear()

        await leave("short")
        with little_is_kept(FEW_BYTES):
            for number in range(CLIENTS):
                await leave(f"{number}", "x" * 1_000_000)
        assert text_of(await client.call("echo", text="x")) == "x"


async def test_what_a_client_says_of_itself_on_a_stream() -> None:
    params = {"protocolVersion": LEGACY[-1], "capabilities": {}, "clientInfo": MUCH}
    async with serving(registry_of(echo)) as (client, _):
        await client.request("ping", {"more": MUCH})  # so that buffers have grown
        with little_is_kept(FEW_BYTES // CLIENTS):
            await client.request("initialize", params)
