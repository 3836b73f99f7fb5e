"""A client whose revision is fixed: it does not ask first what the server speaks."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio

from tests.compose.rough import MODERN, Message, RoughServer
from trio_mcp.errors import CallTimeout, ProtocolError

pytestmark = pytest.mark.requirement("E2")

ABOUT: Message = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}
TOOLS: Message = {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}


def methods(server: RoughServer) -> list[str]:
    return [message["method"] for message in server.heard if "method" in message]


@pytest.mark.parametrize("fixed", [{"revision": MODERN}, {"era": "modern"}], ids=str)
async def test_the_tools_are_asked_for_at_the_same_time(fixed: Any) -> None:
    """Neither is answered before both have arrived: connecting takes one round trip."""

    async def answer(result: Message, wire: Any, request: Message) -> Message:
        await server.until(lambda message: message.get("method") == "server/discover")
        await server.until(lambda message: message.get("method") == "tools/list")
        return result

    answers: dict[str, Any] = {
        "server/discover": partial(answer, ABOUT),
        "tools/list": partial(answer, TOOLS),
    }
    server = RoughServer("modern", answers)
    with trio.fail_after(20):
        async with trio.open_nursery() as server.nursery:
            async with server.open(**fixed) as client:
                assert list(client.tools) == ["look"]
                assert client.capabilities == {"tools": {}}
                assert methods(server) == ["server/discover", "tools/list"]
            server.nursery.cancel_scope.cancel()


@pytest.mark.parametrize("tools", [TOOLS, None, {"code": -32001, "message": "no"}], ids=str)
async def test_a_server_without_tools_is_not_blamed_for_that(tools: Any) -> None:
    answers: dict[str, Any] = {
        "server/discover": {**ABOUT, "capabilities": {}},
        "tools/list": tools,
    }
    server = RoughServer("modern", answers)
    async with trio.open_nursery() as server.nursery:
        async with server.open(revision=MODERN) as client:
            assert client.tools == {}
        server.nursery.cancel_scope.cancel()


async def test_a_server_that_does_not_list_its_tools_is_told_of() -> None:
    answers: dict[str, Any] = {"server/discover": ABOUT}
    server = RoughServer("modern", answers)
    async with trio.open_nursery() as server.nursery:
        with pytest.raises(ProtocolError, match="the server does not list its tools"):
            async with server.open(revision=MODERN):
                pass
        server.nursery.cancel_scope.cancel()


async def test_a_server_of_the_other_era_is_told_of() -> None:
    server = RoughServer("legacy", {"tools/list": TOOLS})
    async with trio.open_nursery() as server.nursery:
        with pytest.raises(ProtocolError, match=r"discover: .*; without era= and") as caught:
            async with server.open(era="modern"):
                pass
        assert type(caught.value) is ProtocolError
        server.nursery.cancel_scope.cancel()


async def test_a_server_that_is_silent_is_told_of(autojump_clock: Any) -> None:
    async def hang(wire: Any, request: Message) -> Message:
        await trio.sleep_forever()
        raise AssertionError

    server = RoughServer("modern", {"server/discover": hang, "tools/list": TOOLS})
    async with trio.open_nursery() as server.nursery:
        with pytest.raises(CallTimeout, match="connecting"):
            async with server.open(era="modern", connect_timeout=5):
                pass
        server.nursery.cancel_scope.cancel()
