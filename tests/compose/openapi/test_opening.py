"""The HTTP client of a registry that several connections use."""

from functools import partial

import httpx2
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.compose.openapi.support import document, get
from trio_mcp import Client, Registry, connect
from trio_mcp.compose.openapi import openapi

pytestmark = pytest.mark.requirement("L6")


class Transport(httpx2.MockTransport):
    """As a real one, it fails what is under way when it is closed."""

    closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if self.closed:
            raise httpx2.ReadError("closed")
        return response

    async def aclose(self) -> None:
        self.closed = True


class Slow(httpx2.AsyncClient):
    """A client that is never there."""

    async def __aenter__(self) -> "Slow":
        await trio.sleep_forever()
        raise AssertionError


class Behind:
    """A registry, the transports that it has opened, and what it received."""

    def __init__(self) -> None:
        self.transports: list[Transport] = []
        self.slow = 0
        self.asked, self.may_answer = trio.Event(), trio.Event()
        self.texts: list[str] = []

    def registry(self) -> Registry:
        return openapi(document({"/it": get()}), client=self._client)

    def _client(self) -> httpx2.AsyncClient:
        self.transports.append(Transport(self._answer))
        kind = Slow if len(self.transports) <= self.slow else httpx2.AsyncClient
        return kind(transport=self.transports[-1])

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.set()
        await self.may_answer.wait()
        return httpx2.Response(200, text="yes")

    async def call(self, client: Client) -> None:
        result = await client.call_tool("it")
        self.texts.append(result.error or result.text)

    async def connect_and_call(self, registry: Registry) -> None:
        async with connect(registry) as client:
            await self.call(client)

    @property
    def closed(self) -> list[bool]:
        return [transport.closed for transport in self.transports]


async def test_connections_share_a_client_and_the_last_one_closes_it() -> None:
    behind = Behind()
    registry = behind.registry()
    async with connect(registry) as stays:
        async with trio.open_nursery() as nursery:
            async with connect(registry):
                nursery.start_soon(behind.call, stays)
                await behind.asked.wait()
            behind.may_answer.set()
        assert behind.texts == ["yes"]
        assert behind.closed == [False]
    assert behind.closed == [True]
    await behind.connect_and_call(registry)
    assert behind.texts == ["yes", "yes"]
    assert behind.closed == [True, True]


async def test_who_is_cancelled_while_the_client_is_opened_leaves_that_to_the_next() -> None:
    behind = Behind()
    behind.slow = 1
    behind.may_answer.set()
    registry = behind.registry()
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as first:
            first.start_soon(behind.connect_and_call, registry)
            await wait_all_tasks_blocked()
            nursery.start_soon(behind.connect_and_call, registry)
            await wait_all_tasks_blocked()
            assert len(behind.transports) == 1, "they wait for one client"
            first.cancel_scope.cancel()
    assert behind.texts == ["yes"]
    assert behind.closed == [False, True]


async def test_each_thread_has_a_client_of_its_own() -> None:
    behind = Behind()
    registry = behind.registry()

    async def elsewhere() -> None:
        behind.may_answer = trio.Event()
        behind.may_answer.set()
        await behind.connect_and_call(registry)

    async with connect(registry):
        await trio.to_thread.run_sync(partial(trio.run, elsewhere))
        assert behind.texts == ["yes"]
        assert behind.closed == [False, True]
