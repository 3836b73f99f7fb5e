"""The time that a person takes to log in is not the time of those who wait for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

import httpx2
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.auth.client.world import SERVER, World
from trio_mcp import Client, HttpOptions, Limits, Registry, connect, handle_message
from trio_mcp.errors import AuthorizationError, CallTimeout

pytestmark = pytest.mark.requirement("J5")

pytestmark = pytest.mark.requirement("J5")

A_WHILE = 200.0
"""Seconds, which is more than any limit below."""

Tool = Callable[[], Awaitable[str]]


async def at_once() -> str:
    """Do what is asked."""
    return "done"


class Protected(World):
    """A server of MCP, whose tool `write` needs a scope of its own."""

    def __init__(self, tool: Tool = at_once, **options: Any) -> None:
        super().__init__(**options)
        self.registry = Registry("protected")
        self.registry.add_tool(tool, name="write")
        self.registry.add_tool(tool, name="read")
        self.on[SERVER] = self.answer

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Answer whoever has the scopes that the message needs."""
        self.needed["POST"] = "write" if b'"write"' in request.content else ""
        response = await self.call(request)
        if response.status_code != 200:
            return response
        answer = await handle_message(
            self.registry, request.content, limits=Limits(tool_timeout=10 * A_WHILE)
        )
        kind = {"Content-Type": "application/json"}
        body = httpx2.ByteStream(answer or b"")
        return httpx2.Response(200 if answer else 202, headers=kind, stream=body)

    def connect(
        self, auth: httpx2.Auth, era: Literal["modern", "legacy"] = "modern"
    ) -> AbstractAsyncContextManager[Client]:
        """Connect to it, with little time for everything."""
        http = HttpOptions(auth=auth, client_factory=self.client)
        return connect(
            SERVER, era=era, http=http, connect_timeout=5, tool_timeout=5, request_timeout=5
        )

    def slowly(self, clock: MockClock) -> Callable[[str], Awaitable[None]]:
        """Be a person who takes a while."""

        async def agree(url: str) -> None:
            await wait_all_tasks_blocked()  # all who want a token wait for this login
            clock.jump(A_WHILE)
            await wait_all_tasks_blocked()
            await self.agree(url)

        return agree


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_connect_waits_for_a_person(
    era: Literal["modern", "legacy"], mock_clock: MockClock
) -> None:
    world = Protected()
    auth = world.oauth(open_browser=world.slowly(mock_clock))
    async with world.connect(auth, era) as client:
        assert (await client.call_tool("read")).text == "done"
    assert len(world.pages) == 1


async def test_nobody_waits_for_a_person_for_ever(mock_clock: MockClock) -> None:
    world = Protected()

    async def nobody(url: str) -> None:
        await wait_all_tasks_blocked()
        mock_clock.jump(61)

    with pytest.raises(AuthorizationError, match="no login within 60 s"):
        async with world.connect(world.oauth(open_browser=nobody, timeout=60.0)):
            raise AssertionError


async def test_what_is_no_persons_time_counts(mock_clock: MockClock) -> None:
    """The limit goes on after the login with what was left of it."""
    world = Protected()

    async def slow(request: httpx2.Request) -> httpx2.Response:
        mock_clock.jump(3)
        return await world.about_server(request)

    async def slower(request: httpx2.Request) -> httpx2.Response:
        mock_clock.jump(3)
        return await world.token(request)

    world.on[f"{world.issuer}/.well-known/oauth-authorization-server"] = slow
    world.on[f"{world.issuer}/token"] = slower
    with pytest.raises(CallTimeout, match="connecting"):
        async with world.connect(world.oauth(open_browser=world.slowly(mock_clock))):
            raise AssertionError
    assert len(world.pages) == 1


async def _step_up(client: Client, results: dict[str, str], name: str) -> None:
    results[name] = (await client.call_tool("write")).text


async def test_all_calls_that_wait_for_a_step_up_go_on_after_it(mock_clock: MockClock) -> None:
    world = Protected()
    results: dict[str, str] = {}
    asked: list[str] = []
    scopes = trio.CancelScope(), trio.CancelScope()

    async def cancelled(client: Client, scope: trio.CancelScope) -> None:
        with scope:
            await client.call_tool("write")

    async def agree(url: str) -> None:
        asked.append(url)
        if len(asked) == 1:
            await wait_all_tasks_blocked()
            nursery.start_soon(_step_up, client, results, "late")
            await wait_all_tasks_blocked()
            for each in scopes:  # one of whom has asked the person, and the other one waits
                each.cancel()
            await trio.sleep_forever()
        await world.slowly(mock_clock)(url)

    auth = world.oauth()
    async with world.connect(auth) as client, trio.open_nursery() as nursery:
        auth.open_browser = agree
        for each in scopes:
            nursery.start_soon(cancelled, client, each)
            await wait_all_tasks_blocked()
        for name in "ab":
            nursery.start_soon(_step_up, client, results, name)
    assert results == {"a": "done", "b": "done", "late": "done"}
    assert (len(asked), len(world.pages)) == (2, 2)  # the one who logged in had done so before


async def test_who_does_not_wait_has_no_more_time(mock_clock: MockClock) -> None:
    world = Protected(trio.sleep_forever)
    auth = world.oauth(open_browser=world.agree)

    async def busy() -> None:
        with pytest.raises(CallTimeout, match="'read'"):
            await client.call_tool("read")
        nursery.cancel_scope.cancel()

    async with world.connect(auth) as client, trio.open_nursery() as nursery:
        auth.open_browser = world.slowly(mock_clock)
        nursery.start_soon(busy)
        await wait_all_tasks_blocked()
        await client.call_tool("write")


async def test_a_person_who_says_no_is_not_asked_again_at_once(mock_clock: MockClock) -> None:
    world = Protected()
    async with world.connect(world.oauth()) as client:
        world.redirect = {"error": "access_denied", "code": None}
        with pytest.raises(AuthorizationError, match="access_denied"):
            await client.call_tool("write")
        for _ in range(3):
            with pytest.raises(AuthorizationError, match="needs the scopes write"):
                await client.call_tool("write")
        assert (await client.call_tool("read")).text == "done"
        assert len(world.pages) == 2
        world.redirect = {}
        mock_clock.jump(61)
        assert (await client.call_tool("write")).text == "done"
    assert len(world.pages) == 3
