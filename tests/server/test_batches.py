"""JSON-RPC batches (2025-03-26)."""

import json

import pytest
import trio
from trio.testing import memory_stream_pair

from tests.support.client import RawClient, modern_meta, serving
from tests.support.tools import echo, linger, registry_of, wait
from trio_mcp import Limits, serve_stream

REVISION = "2025-03-26"


def ping(id) -> dict:
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


def call(id, name: str, **arguments) -> dict:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def cancelled(id) -> dict:
    method, params = "notifications/cancelled", {"requestId": id}
    return {"jsonrpc": "2.0", "method": method, "params": params}


NOTE = {"jsonrpc": "2.0", "method": "notifications/x"}


def batching(limits: Limits | None = None):
    return serving(registry_of(echo, wait, linger), limits, revision=REVISION)


def by_id(batch: list) -> dict:
    assert isinstance(batch, list)
    answers = {each["id"]: each for each in batch}
    assert len(answers) == len(batch)
    return answers


@pytest.mark.requirement("A15")
async def test_a_batch_is_answered_with_an_array(autojump_clock):
    async with batching() as (client, _):
        await client.send(
            [ping("a"), call("b", "wait", seconds=3), NOTE, call("c", "echo", text="x"), {"id": 1}]
        )
        answers = by_id(await client.receive())
        assert trio.current_time() == 3
        assert set(answers) == {"a", "b", "c", 1}
        assert answers["b"]["result"]["content"][0]["text"] == "waited 3"
        assert answers["c"]["result"]["content"][0]["text"] == "x"
        assert answers[1]["error"]["code"] == -32600


@pytest.mark.requirement("A15")
async def test_a_batch_of_one_is_an_array_still():
    async with batching() as (client, _):
        await client.send([ping("a")])
        assert await client.receive() == [{"jsonrpc": "2.0", "id": "a", "result": {}}]


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_revision_without_batches_that_was_agreed_on(revision, caplog):
    async with serving(registry_of(echo), revision=revision) as (client, _):
        for batch in ([ping("a"), call("b", "echo", text="x")], [NOTE]):
            await client.send(batch)
            answer = await client.receive()
            assert (answer["id"], answer["error"]["code"]) == ("", -32600)
            assert "no batches" in answer["error"]["message"]
        assert "result" in await client.request("ping")
    size = len(json.dumps([NOTE]))
    assert caplog.messages[-1].startswith(f"Malformed message of {size} bytes: Invalid request")


@pytest.mark.requirement("A10", "A15")
async def test_on_a_pipe_without_a_handshake_batches_are_served():
    ours, theirs = memory_stream_pair()
    client = RawClient(ours, REVISION)
    await client.send([ping("a"), call("b", "echo", text="x")])
    await client.send_eof()
    await serve_stream(registry_of(echo), theirs)
    assert set(by_id(await client.receive())) == {"a", "b"}


@pytest.mark.requirement("A15")
async def test_an_empty_batch():
    async with batching() as (client, _):
        await client.send_bytes(b"[]\n")
        answer = await client.receive()
        assert answer["id"] == ""
        assert answer["error"]["code"] == -32600


@pytest.mark.requirement("A15")
async def test_notifications_alone_are_not_answered():
    async with batching() as (client, _):
        await client.send([NOTE, NOTE, {"jsonrpc": "2.0", "id": 1, "result": {}}])
        assert "result" in await client.request("ping")


@pytest.mark.requirement("A15")
async def test_the_length_of_a_batch_is_bounded():
    async with batching(Limits(max_batch=3)) as (client, _):
        await client.send([ping(each) for each in "abc"])
        assert set(by_id(await client.receive())) == {"a", "b", "c"}
        await client.send([ping(each) for each in "abcd"])
        answer = await client.receive()
        assert answer["id"] == ""
        assert answer["error"]["code"] == -32600
        assert "at most 3" in answer["error"]["message"]


@pytest.mark.requirement("A15")
async def test_what_cannot_be_part_of_a_batch():
    async with batching() as (client, _):
        modern = {**call("m", "echo", text="x")}
        modern["params"] = {**modern["params"], "_meta": modern_meta()}
        hello = {"jsonrpc": "2.0", "id": "i", "method": "initialize"}
        hello["params"] = {"protocolVersion": "2024-11-05"}
        await client.send([modern, hello, ping("p"), 5, []])
        answers = await client.receive()
        codes = {each["id"]: each.get("error", {}).get("code") for each in answers}
        assert codes == {"m": -32600, "i": -32600, "p": None, "": -32600}
        assert len(answers) == 5


@pytest.mark.requirement("A15", "B7")
async def test_a_cancelled_entry_has_no_answer(autojump_clock):
    async with batching() as (client, _):
        await client.send([call("a", "wait", seconds=9), call("b", "wait", seconds=2)])
        await client.cancel("a")
        assert set(by_id(await client.receive())) == {"b"}
        assert trio.current_time() == 2


@pytest.mark.requirement("A15", "B7")
async def test_a_batch_that_is_cancelled_as_a_whole_is_not_answered(autojump_clock):
    async with batching(Limits(max_concurrent_calls=1)) as (client, _):
        await client.send([call("a", "wait", seconds=9), call("b", "wait", seconds=9)])
        await client.cancel("b")
        await client.cancel("a")
        assert "result" in await client.request("ping")
        assert trio.current_time() == 0


@pytest.mark.requirement("A15", "B7")
async def test_a_batch_may_cancel_its_own_entries(autojump_clock):
    async with batching() as (client, _):
        await client.send([call("a", "wait", seconds=9), cancelled("a"), ping("b")])
        assert set(by_id(await client.receive())) == {"b"}
        assert trio.current_time() == 0


@pytest.mark.requirement("A15", "B2")
async def test_a_cancelled_entry_that_goes_on_holds_up_nobody(autojump_clock):
    """The tool ignores its cancellation; the others of the batch need not wait for it."""
    async with batching(Limits(cancel_timeout=1)) as (client, _):
        await client.send([call("a", "linger", seconds=9, more=1000), ping("b")])
        await client.cancel("a")
        with trio.fail_after(2):
            assert set(by_id(await client.receive())) == {"b"}


@pytest.mark.requirement("A15", "B1")
async def test_an_entry_that_times_out_does_not_hold_up_the_others_for_ever(autojump_clock):
    async with batching(Limits(tool_timeout=5, cancel_timeout=1)) as (client, _):
        await client.send([call("a", "linger", seconds=9, more=1000), ping("b")])
        answers = by_id(await client.receive())
        assert trio.current_time() == 6
        assert answers["a"]["result"]["isError"] is True


@pytest.mark.requirement("A15")
async def test_an_id_twice_in_a_batch(autojump_clock):
    async with batching() as (client, _):
        await client.send([call("a", "wait", seconds=1), call("a", "wait", seconds=2)])
        first, second = await client.receive()
        assert first["error"]["code"] == -32600
        assert second["result"]["content"][0]["text"] == "waited 1"


@pytest.mark.requirement("A15", "B8")
async def test_a_batch_is_answered_at_the_end_of_input(autojump_clock):
    async with batching() as (client, _):
        await client.send([ping("a"), call("b", "wait", seconds=9)])
        await client.send_eof()
        answers = by_id(await client.receive())
        assert answers["a"]["result"] == {}
        assert answers["b"]["error"] == {"code": -32603, "message": "Request cancelled"}
        assert await client.receive() is None
