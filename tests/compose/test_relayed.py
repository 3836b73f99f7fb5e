"""Calls between modern peers, which no task waits for: how they end, whatever ends them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from tests.compose.rough import Message, RoughClient, RoughServer, Wire
from trio_mcp import Limits, Registry, Remote, serve_stream
from trio_mcp.compose import gateway, open_proxy

LIMIT = 5

pytestmark = pytest.mark.requirement("L4")

TOOLS = {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}
DONE = {"content": [{"type": "text", "text": "done"}]}
FULL = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
DISCOVERED = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}


@define(eq=False)
class Proxy:
    """A server that answers when it is told to, and what stands in front of it."""

    server: RoughServer
    registry: Registry
    nursery: trio.Nursery
    _number: int = field(default=0)

    @asynccontextmanager
    async def client(self, **limits: Any) -> AsyncIterator[RoughClient]:
        """One more client of the proxy; at the end of the block, its connection is cut off."""
        ours, theirs = memory_stream_pair()
        client = RoughClient(Wire(ours), "modern", {})
        serve = partial(serve_stream, self.registry, theirs, limits=Limits(**limits))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            nursery.start_soon(client.listen)
            yield client
            nursery.cancel_scope.cancel()

    async def begun(self, client: RoughClient, token: Any = None) -> tuple[int, Message]:
        """Begin a call, and return its id and what has reached the server."""
        self._number += 1
        arguments = {"number": self._number}
        meta = {} if token is None else {"progressToken": token}
        params = {"name": "work", "arguments": arguments}
        id = await client.begin("tools/call", params, meta)
        return id, await self.server.until(
            lambda heard: heard.get("params", {}).get("arguments") == arguments
        )

    async def answer(self, call: Message, **answer: Any) -> None:
        """Have the server answer a call."""
        await self.server.wires[-1].send(id=call["id"], **(answer or {"result": {**FULL, **DONE}}))

    async def progress(self, call: Message, **told: Any) -> None:
        """Have the server report progress of a call."""
        token = call["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, **told}
        await self.server.wires[-1].send(method="notifications/progress", params=params)

    async def withdrawn(self, call: Message) -> None:
        """Wait until the server has been told that a call is cancelled."""
        await self.server.until(
            lambda heard: (
                heard.get("method") == "notifications/cancelled"
                and heard["params"]["requestId"] == call["id"]
            )
        )


Open = Callable[..., AbstractAsyncContextManager[Proxy]]


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Open:
    return partial(proxying, monkeypatch)


@asynccontextmanager
async def proxying(monkeypatch: pytest.MonkeyPatch, **options: Any) -> AsyncIterator[Proxy]:
    async def hang(wire: Wire, request: Message) -> Message:
        await trio.sleep_forever()
        raise AssertionError

    answers = {"server/discover": {**FULL, **DISCOVERED}, "tools/list": {**FULL, **TOOLS}}
    server = RoughServer("modern", {**answers, "tools/call": hang})

    def to_server(target: str, **options: Any) -> Remote:
        remote = Remote(target, **options)
        remote.connector = partial(server.open, list_tools=False)
        return remote

    monkeypatch.setattr(gateway, "Remote", to_server)
    mocked = isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
    with trio.fail_after(1e6 if mocked else LIMIT):
        async with trio.open_nursery() as nursery:
            server.nursery = nursery
            async with open_proxy("http://127.0.0.1:1/mcp", name="behind", **options) as registry:
                yield Proxy(server, registry, nursery)
            nursery.cancel_scope.cancel()


def answer_to(id: int) -> Any:
    return lambda message: message.get("id") == id


async def test_its_result_is_handed_on_with_what_this_server_adds(proxy: Open) -> None:
    async with proxy() as front, front.client() as client:
        id, call = await front.begun(client)
        await front.answer(call, result={**FULL, **DONE, "x-unknown": [1, None]})
        got = (await client.until(answer_to(id)))["result"]
        server = got.pop("_meta")["io.modelcontextprotocol/serverInfo"]
        assert server["name"] == "behind"
        assert got == {**FULL, **DONE, "x-unknown": [1, None]}


async def test_its_progress_is_handed_on_before_its_result(
    proxy: Open, autojump_clock: trio.abc.Clock
) -> None:
    async with proxy(timeout=3) as front, front.client() as client:
        id, call = await front.begun(client, token="mine")
        assert call["params"]["_meta"]["progressToken"] != "mine"
        await trio.sleep(2)
        await front.progress(call, progress=1, message="one")
        await front.progress(call, progress=2)
        await front.answer(call)
        await client.until(answer_to(id))
        told = [got.get("params") or got["result"]["content"] for got in client.got]
        one = {"progressToken": "mine", "progress": 1, "message": "one"}
        assert told == [one, {"progressToken": "mine", "progress": 2}, DONE["content"]]
        await front.progress(call, progress=3)  # nobody is meant
        id, call = await front.begun(client, token="other")
        await front.answer(call)
        await client.until(answer_to(id))
        assert len(client.got) == 4


async def test_progress_does_not_put_its_deadline_off(
    proxy: Open, autojump_clock: trio.abc.Clock
) -> None:
    async with proxy(timeout=3) as front, front.client() as client:
        began = trio.current_time()
        id, call = await front.begun(client, token=1)
        await trio.sleep(2)
        await front.progress(call, progress=1)
        result = (await client.until(answer_to(id)))["result"]
        assert trio.current_time() - began == pytest.approx(3)
        assert result["content"][0]["text"] == "Tool work timed out after 3 s"
        await front.withdrawn(call)


@pytest.mark.parametrize("said", [True, False])
async def test_its_caller_cancels_it_while_progress_is_heard(proxy: Open, said: bool) -> None:
    async with proxy() as front, front.client() as client:
        id, call = await front.begun(client, token=1)
        if said:
            await front.progress(call, progress=1)
            await client.until(lambda got: "params" in got)
        why = {"requestId": id, "reason": "enough"}
        await client.wire.send(method="notifications/cancelled", params=why)
        await front.withdrawn(call)
        await front.progress(call, progress=2)
        await front.answer(call)
        other, call = await front.begun(client)
        await front.answer(call)
        await client.until(answer_to(other))
        assert not any(map(answer_to(id), client.got))


async def test_an_error_is_handed_on(proxy: Open) -> None:
    async with proxy() as front, front.client() as client:
        id, call = await front.begun(client)
        error = {"code": -32050, "message": "no", "data": {"why": [1]}}
        await front.answer(call, error=error)
        assert (await client.until(answer_to(id)))["error"] == error


async def test_what_is_no_result_is_a_failure_of_the_server(proxy: Open) -> None:
    async with proxy() as front, front.client() as client:
        id, call = await front.begun(client)
        await front.answer(call, result=[])
        result = (await client.until(answer_to(id)))["result"]
        assert result["isError"]
        assert "behind did not answer" in result["content"][0]["text"]


@pytest.mark.parametrize("wrong", [{"_meta": 5}, {"_meta": None}, {"resultType": [1]}])
async def test_a_result_with_wrong_members_harms_no_other_call(proxy: Open, wrong: Message) -> None:
    async with proxy() as front, front.client() as client:
        calls = [await front.begun(client) for _ in range(2)]
        await front.answer(calls[0][1], result={**FULL, **DONE, **wrong})
        await front.answer(calls[1][1])
        got = [await client.until(answer_to(id)) for id, _ in calls]
        assert got[1]["result"]["content"] == DONE["content"]


async def test_its_deadline_ends_it_here_and_there(
    proxy: Open, autojump_clock: trio.abc.Clock
) -> None:
    async with proxy(timeout=3) as front, front.client() as client:
        id, call = await front.begun(client)
        began = trio.current_time()
        result = (await client.until(answer_to(id)))["result"]
        assert trio.current_time() - began == pytest.approx(3)
        assert result["isError"]
        assert result["content"][0]["text"] == "Tool work timed out after 3 s"
        await front.withdrawn(call)
        await front.answer(call)  # too late
        await front.begun(client)


async def test_its_caller_cancels_it(proxy: Open) -> None:
    async with proxy() as front, front.client() as client:
        id, call = await front.begun(client)
        await client.wire.send(method="notifications/cancelled", params={"requestId": id})
        await front.withdrawn(call)
        await front.answer(call)  # which it may have sent before it knew
        other, call = await front.begun(client)
        await front.answer(call)
        await client.until(answer_to(other))
        assert not any(map(answer_to(id), client.got))


async def test_the_end_of_its_connection_ends_it_after_the_grace(
    proxy: Open,
    autojump_clock: trio.abc.Clock,
) -> None:
    async with proxy() as front, front.client(eof_grace=2) as client:
        first, served = await front.begun(client)
        second, call = await front.begun(client)
        await client.wire.stream.send_eof()
        await front.answer(served)
        assert "result" in await client.until(answer_to(first))
        error = (await client.until(answer_to(second)))["error"]
        assert error["message"] == "Request cancelled"
        await front.withdrawn(call)


async def test_a_connection_that_is_cut_off_harms_no_other(proxy: Open) -> None:
    async with proxy() as front, front.client() as other:
        async with front.client() as client:
            _, call = await front.begun(client)
        await front.withdrawn(call)
        await front.answer(call, error={"code": 1, "message": "too late"})
        id, call = await front.begun(other)
        await front.answer(call)
        assert "result" in await other.until(answer_to(id))


async def test_the_loss_of_the_server_is_told(proxy: Open) -> None:
    async with proxy() as front, front.client() as client:
        id, _ = await front.begun(client)
        await wait_all_tasks_blocked()  # it has answered all else
        await front.server.wires[-1].stream.send_eof()
        result = (await client.until(answer_to(id)))["result"]
        assert result["isError"]
        assert "behind did not answer" in result["content"][0]["text"]


async def test_no_more_are_open_than_may_run(proxy: Open) -> None:
    async with proxy() as front, front.client(max_concurrent_calls=2) as client:
        calls = [await front.begun(client) for _ in range(2)]
        waiting = await client.begin("tools/call", {"name": "work", "arguments": {"last": True}})
        await wait_all_tasks_blocked()
        assert not any(heard["params"].get("arguments") == {"last": True} for heard in asked(front))
        await front.answer(calls[0][1])
        call = await front.server.until(
            lambda heard: heard["params"].get("arguments") == {"last": True}
        )
        await front.answer(call)
        assert "result" in await client.until(answer_to(waiting))


def asked(front: Proxy) -> list[Message]:
    return [heard for heard in front.server.heard if "params" in heard]


async def test_an_id_is_in_use_until_it_is_answered(proxy: Open) -> None:
    async with proxy() as front, front.client() as client:
        id, call = await front.begun(client)
        params = call["params"]
        await client.wire.send(id=id, method="tools/call", params=params)
        error = (await client.until(answer_to(id)))["error"]
        assert "already in use" in error["message"]
        await front.answer(call)
        await client.until(lambda message: message.get("id") == id and "result" in message)


async def test_a_caller_that_does_not_read_holds_up_no_other(proxy: Open) -> None:
    async with proxy() as front, front.client() as other:
        ours, theirs = lockstep_stream_pair()
        idle = RoughClient(Wire(ours), "modern", {})
        limits = Limits(max_outgoing_bytes=1000)
        front.nursery.start_soon(partial(serve_stream, front.registry, theirs, limits=limits))
        large = {**FULL, "content": [{"type": "text", "text": "x" * 5000}]}
        calls = [await front.begun(idle) for _ in range(5)]
        for _, call in calls:
            await front.answer(call, result=large)
        id, call = await front.begun(other)
        await front.answer(call)
        assert "result" in await other.until(answer_to(id))
        front.nursery.start_soon(idle.listen)
        for id, _ in calls:
            assert "result" in await idle.until(answer_to(id))


async def test_a_caller_that_does_not_read_keeps_its_slots(proxy: Open) -> None:
    """Otherwise what waits behind would be asked for, and its answers kept, without bound."""
    async with proxy() as front:
        ours, theirs = lockstep_stream_pair()
        idle = RoughClient(Wire(ours), "modern", {})
        limits = Limits(max_outgoing_bytes=1000, max_concurrent_calls=2)
        front.nursery.start_soon(partial(serve_stream, front.registry, theirs, limits=limits))
        large = {**FULL, "content": [{"type": "text", "text": "x" * 50_000}]}
        for number in range(20):
            await idle.begin("tools/call", {"name": "work", "arguments": {"number": number}}, {})
        asked = 0
        while True:
            await wait_all_tasks_blocked()
            calls = [each for each in front.server.heard if each.get("method") == "tools/call"]
            if len(calls) == asked:
                break
            for call in calls[asked:]:
                await front.answer(call, result=large)
            asked = len(calls)
        assert 2 <= asked < 6


async def test_the_log_says_how_it_ended_and_how_long_it_took(
    proxy: Open, caplog: pytest.LogCaptureFixture, autojump_clock: trio.abc.Clock
) -> None:
    caplog.set_level(logging.INFO, "trio_mcp")
    async with proxy(timeout=30) as front, front.client() as client:
        for answer in ({**FULL, **DONE}, {**FULL, **DONE, "isError": True}):
            id, call = await front.begun(client)
            await trio.sleep(2)
            await front.answer(call, result=answer)
            await client.until(answer_to(id))
        id, _ = await front.begun(client)
        await client.until(answer_to(id))
    told = [record.getMessage() for record in caplog.records if "Tool work" in record.getMessage()]
    assert told == [
        "Tool work: ok in 2000.0 ms",
        "Tool work: error in 2000.0 ms",
        "Tool work: timeout in 30000.0 ms",
    ]
