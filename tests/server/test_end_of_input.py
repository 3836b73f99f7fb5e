"""What becomes of open calls when the client is gone (B8)."""

import logging
import re
from functools import partial

import pytest
import trio
from trio.testing import lockstep_stream_pair, wait_all_tasks_blocked

from tests.support.client import serving
from tests.support.tools import each_revision, echo, linger, raw, registry_of, text_of, wait
from trio_mcp import Limits, ServerState, serve_stream

pytestmark = pytest.mark.requirement("B8")

CANCELLED = {"code": -32603, "message": "Request cancelled"}


LISTS = b"".join(raw({"jsonrpc": "2.0", "id": id, "method": "tools/list"}) for id in range(400))


@pytest.fixture
def last_words(caplog):
    """The message with which a connection ends."""
    caplog.set_level(logging.INFO, "trio_mcp")

    def read() -> str:
        [found] = [each for each in caplog.messages if "disconnected" in each]
        return found

    return read


def words(flushed: int, dropped: int, why: str = "EOF") -> str:
    return f"Client disconnected ({why}), flushed {flushed} responses, dropped {dropped} responses"


@each_revision
async def test_calls_finish_within_the_grace_or_are_cancelled(revision, autojump_clock, last_words):
    async with serving(registry_of(wait), revision=revision) as (client, _):
        brief = [await client.start("wait", seconds=seconds) for seconds in (0.2, 0.4)]
        long = [await client.start("wait", seconds=seconds) for seconds in (0.6, 50, 900)]
        await client.send_eof()
        answers = {each["id"]: each for each in await client.receive_all()}
        assert trio.current_time() == 0.5
        assert set(answers) == {*brief, *long}
        assert all("result" in answers[id] for id in brief)
        assert all(answers[id]["error"] == CANCELLED for id in long)
    assert last_words() == words(5, 0)


async def test_without_open_calls_it_ends_at_once(autojump_clock, last_words):
    async with serving(registry_of(echo)) as (client, handle):
        text_of(await client.call("echo", text="x"))
        await client.send_eof()
        assert await client.receive() is None
        await handle.wait_for(ServerState.STOPPED)
        assert trio.current_time() == 0
    assert last_words() == words(0, 0)


@pytest.mark.parametrize("grace", [0, 0.1, 3])
async def test_the_grace_is_configurable(grace, autojump_clock):
    async with serving(registry_of(wait), Limits(eof_grace=grace)) as (client, _):
        await client.start("wait", seconds=60)
        await client.send_eof()
        [answer] = await client.receive_all()
        assert answer["error"] == CANCELLED
        assert trio.current_time() == grace


async def test_calls_that_wait_are_cancelled_and_answered_too(autojump_clock):
    async with serving(registry_of(wait), Limits(max_concurrent_calls=1)) as (client, _):
        ids = [await client.start("wait", seconds=0.3) for _ in range(4)]
        await client.send_eof()
        answers = await client.receive_all()
        assert [each["id"] for each in answers if "result" in each] == ids[:1]
        assert sorted(each["id"] for each in answers if "error" in each) == ids[1:]
        assert all(each.get("error", CANCELLED) == CANCELLED for each in answers)


async def test_a_call_that_the_client_cancelled_is_not_answered_at_the_end(autojump_clock):
    async with serving(registry_of(linger)) as (client, _):
        id = await client.start("linger", seconds=50, more=0.3)
        await client.cancel(id)
        await client.send_eof()
        assert await client.receive_all() == []


async def test_a_result_that_comes_while_it_is_cancelled_is_sent(autojump_clock):
    """The tool catches its cancellation and returns what it has: that is better than an error."""

    async def partial() -> str:
        with trio.move_on_after(100) as scope, trio.CancelScope(shield=True):
            await trio.sleep(0.7)
        assert not scope.cancelled_caught
        return "all of it"

    async with serving(registry_of(partial)) as (client, _):
        await client.start("partial")
        await client.send_eof()
        [answer] = await client.receive_all()
        assert text_of(answer) == "all of it"
        assert trio.current_time() == 0.7


async def test_a_tool_that_ignores_its_cancellation_is_answered_without_it(
    autojump_clock, last_words
):
    async with serving(registry_of(linger)) as (client, _):
        await client.start("linger", seconds=50, more=60)
        await client.send_eof()
        answer = await client.receive()
        assert answer["error"] == CANCELLED
        assert trio.current_time() == 1.5
        assert await client.receive() is None
        assert trio.current_time() == 60.5  # Trio cannot abandon a task
    assert last_words() == words(1, 0)


async def test_the_end_counts_although_the_output_is_full_and_nothing_of_it_is_read(
    autojump_clock, last_words
):
    """Requests that are answered at once hold up the dispatcher when their answers pile up."""
    ours, theirs = lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(serve_stream, registry_of(echo), theirs)
        await ours.send_all(LISTS)
        await wait_all_tasks_blocked()
        await ours.send_stream.aclose()
        await handle.wait_for(ServerState.STOPPED)
        assert trio.current_time() == 2.5  # half a second of standstill, and the time to flush
    flushed, dropped = map(int, re.findall(r"\d+", last_words()))
    assert (flushed, dropped) == (0, 400)


async def test_the_grace_of_calls_counts_from_the_end_however_late_that_is_noticed(autojump_clock):
    ours, theirs = lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(serve_stream, registry_of(linger), theirs)
        call = {"name": "linger", "arguments": {"seconds": 50, "more": 0.2}}
        line = raw({"jsonrpc": "2.0", "id": "l", "method": "tools/call", "params": call})
        await ours.send_all(line + LISTS)
        await wait_all_tasks_blocked()
        await ours.send_stream.aclose()
        await handle.wait_for(ServerState.STOPPED)
        assert trio.current_time() == 2.7  # half a second, the call's end, and the time to flush


async def test_a_client_that_reads_slowly_gets_its_answers_after_the_end(autojump_clock):
    ours, theirs = lockstep_stream_pair()
    answers = bytearray()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_stream, registry_of(echo), theirs))
        await ours.send_all(LISTS)
        await ours.send_stream.aclose()
        while chunk := await ours.receive_some(1000):
            answers += chunk
            await trio.sleep(0.01)
    assert answers.count(b'"tools"') == 400


async def test_a_stop_counts_although_the_output_is_full(autojump_clock):
    ours, theirs = lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(serve_stream, registry_of(echo), theirs)
        await ours.send_all(LISTS)
        await wait_all_tasks_blocked()
        handle.stop()
        await handle.wait_for(ServerState.STOPPED)
        assert trio.current_time() == 2
        await ours.aclose()


@pytest.mark.parametrize("newline", [b"\n", b""])
async def test_the_last_line_may_lack_its_newline(newline):
    async with serving(registry_of(echo)) as (client, _):
        await client.send_bytes(b'{"jsonrpc":"2.0","id":9,"method":"ping"}' + newline)
        await client.send_eof()
        assert await client.receive_all() == [{"jsonrpc": "2.0", "id": 9, "result": {}}]


async def test_a_line_that_breaks_off_at_the_end_is_answered():
    async with serving(registry_of(echo)) as (client, _):
        await client.send_bytes(b'{"jsonrpc":"2.0","id":9,"meth')
        await client.send_eof()
        [answer] = await client.receive_all()
        assert answer["id"] == ""
        assert answer["error"]["code"] == -32700


# -- the output is closed as well -------------------------------------------------------------


async def test_with_the_output_closed_everything_is_dropped(autojump_clock, last_words):
    async with serving(registry_of(wait)) as (client, handle):
        for seconds in (0.2, 0.4, 50, 60):
            await client.start("wait", seconds=seconds)
        await wait_all_tasks_blocked()
        await client.stream.aclose()
        await handle.wait_for(ServerState.STOPPED)
        assert trio.current_time() <= 0.5
    assert last_words() == words(0, 4)


async def test_the_output_is_closed_while_the_input_is_open(autojump_clock, last_words):
    async with serving(registry_of(wait, echo)) as (client, handle):
        await client.start("wait", seconds=50)
        await client.start("echo", text="x")
        await client.stream.receive_stream.aclose()
        await handle.wait_for(ServerState.STOPPED)
        assert trio.current_time() == 0
    assert last_words() == words(0, 2, "output closed")


async def drain_nothing(client, handle) -> None:
    """End the input without reading any answer, and wait for the server to end."""
    await client.stream.send_stream.aclose()
    await handle.wait_for(ServerState.STOPPED)


async def test_a_client_that_does_not_read_holds_up_the_end_for_two_seconds(
    autojump_clock, last_words
):
    async with serving(registry_of(echo), pair=lockstep_stream_pair) as (client, handle):
        for id in range(3):
            await client.send_bytes(raw({"jsonrpc": "2.0", "id": id, "method": "ping"}))
        await drain_nothing(client, handle)
        assert trio.current_time() == 2
    assert last_words() == words(0, 3)


async def test_calls_that_wait_for_a_full_output_do_not_hold_up_the_end(
    autojump_clock, last_words, caplog
):
    """They have done their work, so they are not stuck; their answers are dropped."""

    async def big() -> str:
        await trio.sleep(0.01)
        return "x" * 1000

    limits = Limits(max_outgoing_bytes=500)
    async with serving(registry_of(big), limits, pair=lockstep_stream_pair) as (client, handle):
        for _ in range(5):
            await client.start("big")
        await drain_nothing(client, handle)
        assert trio.current_time() <= 5
    assert last_words() == words(0, 5)
    assert "ignores" not in caplog.text
