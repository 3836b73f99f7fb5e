"""Streams that break off: legacy ones are resumed, in the server's time; modern ones are not."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio

from tests.client.http_support import Incoming, MemoryNetwork, Script, in_memory
from trio_mcp import Client, Limits, connect
from trio_mcp.errors import CallTimeout, ConnectionLost, SessionExpired
from trio_mcp.registry.changes import ListChanged

pytestmark = pytest.mark.requirement("F12")


@asynccontextmanager
async def connected(
    script: Script, listen: bool = False, limits: Limits | None = None, **options: object
) -> AsyncIterator[tuple[Client, MemoryNetwork]]:
    async with in_memory(script, listen=listen, **options) as (url, http, network):
        async with connect(url, http=http, tool_timeout=1000, limits=limits) as client:
            yield client, network


async def break_off(incoming: Incoming, retry: int | None = None, id: str | None = "1") -> None:
    """Prime the client to come back, and break the stream off."""
    await incoming.start()
    await incoming.event(b"", id=id, retry=retry)
    await incoming.end()


class Later:
    """Answers a call of `echo` on a stream that was resumed, after so many other tries."""

    def __init__(self, script: Script, *tries: object) -> None:
        self.script = script
        self.tries = list(tries)
        self.times: list[float] = []
        self.ids: list[str | None] = []

    async def __call__(self, incoming: Incoming) -> None:
        self.times.append(trio.current_time())
        self.ids.append(incoming.headers.get("last-event-id"))
        if self.tries:
            await self.tries.pop(0)(incoming)
            return
        call = self.script.asked("tools/call")[-1]
        await incoming.start()
        await incoming.event(call.answer({"content": [{"type": "text", "text": "at last"}]}))
        await incoming.end()


@pytest.mark.parametrize(("retry", "delay"), [(500, 0.5), (0, 0.0), (90_000, 90.0), (None, 1.0)])
@pytest.mark.parametrize("how", ["ended", "broken"])
async def test_a_stream_is_resumed_where_it_was_when_the_server_says(
    autojump_clock, retry, delay, how
) -> None:
    script = Script("legacy")
    broken: list[float] = []

    async def call(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.event(b"", id="a", retry=retry)
        await incoming.event(b"", id="b")
        broken.append(trio.current_time())
        await (incoming.end() if how == "ended" else incoming.drop())

    later = Later(script)
    script.on |= {"tools/call": call, "GET": later}
    async with connected(script) as (client, _):
        assert (await client.call_tool("echo")).text == "at last"
    assert later.ids == ["b"]
    assert later.times[0] - broken[0] == pytest.approx(delay)
    resumed = script.asked("GET")[0]
    assert resumed.headers["mcp-session-id"] == "session-1"
    assert len(script.asked("tools/call")) == 1


async def test_a_server_may_let_its_client_come_back_again_and_again(autojump_clock) -> None:
    script = Script("legacy", on={"tools/call": lambda i: break_off(i, 2000)})

    def again(id: str) -> object:
        return lambda incoming: break_off(incoming, id=id)

    script.on["GET"] = later = Later(script, *(again(str(number)) for number in range(2, 12)))
    async with connected(script) as (client, _):
        assert (await client.call_tool("echo")).text == "at last"
    assert later.ids == [str(number) for number in range(1, 12)]
    gaps = [b - a for a, b in pairwise(later.times)]
    assert gaps == pytest.approx([2.0] * 10)


async def test_a_server_with_nothing_to_say_is_not_asked_more_often_than_every_second(
    autojump_clock,
) -> None:
    async def nothing(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.end()

    script = Script("legacy", on={"tools/call": lambda i: break_off(i, 0)})
    script.on["GET"] = later = Later(script, *[nothing] * 10)
    async with connected(script) as (client, _):
        assert (await client.call_tool("echo")).text == "at last"
    assert later.times[-1] - later.times[0] == pytest.approx(10.0)


async def test_failures_are_followed_by_longer_and_longer_pauses_and_then_by_an_error(
    autojump_clock,
) -> None:
    script = Script("legacy", on={"tools/call": lambda i: break_off(i, 100)})
    async with connected(script, reconnect_attempts=4) as (client, network):

        async def call(incoming: Incoming) -> None:
            await incoming.start()
            await incoming.event(b"", id="1", retry=100)
            network.refuses = 100
            await incoming.drop()

        script.on["tools/call"] = call
        before = len(network.attempts)
        with pytest.raises(ConnectionLost, match=r"tools/call: .*cannot be resumed"):
            await client.call_tool("echo")
        times = network.attempts[before:]
        network.refuses = 0
    gaps = [b - a for a, b in pairwise(times)]
    assert gaps == pytest.approx([1.0, 2.0, 4.0, 8.0])


async def test_a_server_that_restarts_meanwhile_is_found_again(autojump_clock) -> None:
    script = Script("legacy")
    unavailable = [lambda incoming: incoming.respond(503)] * 3
    script.on |= {"tools/call": break_off, "GET": Later(script, *unavailable)}
    async with connected(script) as (client, _):
        assert (await client.call_tool("echo")).text == "at last"


@pytest.mark.parametrize("refusal", [400, 405, 410])
async def test_what_cannot_be_resumed_is_lost(autojump_clock, refusal) -> None:
    script = Script("legacy", on={"tools/call": break_off, "GET": lambda i: i.respond(refusal)})
    async with connected(script) as (client, _):
        with pytest.raises(ConnectionLost, match=f"cannot be resumed: .*{refusal}"):
            await client.call_tool("echo")
    assert len(script.asked("tools/call")) == 1


async def test_a_call_whose_session_ended_meanwhile_is_not_made_twice(autojump_clock) -> None:
    script = Script("legacy", on={"tools/call": break_off, "GET": lambda i: i.respond(404)})
    async with connected(script) as (client, _):
        with pytest.raises(SessionExpired):
            await client.call_tool("echo")
    assert len(script.asked("tools/call")) == 1


async def test_the_deadline_holds_while_a_stream_is_resumed(autojump_clock) -> None:
    script = Script("legacy", on={"tools/call": lambda i: break_off(i, 60_000)})
    async with connected(script) as (client, _):
        start = trio.current_time()
        with pytest.raises(CallTimeout):
            await client.call_tool("echo", timeout=10)
        assert trio.current_time() - start == pytest.approx(10)
        await script.wait_asked("notifications/cancelled")
    assert script.asked("GET") == []


@pytest.mark.parametrize("id", [None, "", "\x01", "x" * 5000])
async def test_a_stream_without_a_usable_id_cannot_be_resumed(autojump_clock, id) -> None:
    script = Script("legacy", on={"tools/call": lambda i: break_off(i, id=id)})
    async with connected(script) as (client, _):
        with pytest.raises(ConnectionLost, match="tools/call: the server ended the stream"):
            await client.call_tool("echo")
    assert script.asked("GET") == []


async def test_an_id_may_be_any_text(autojump_clock) -> None:
    script = Script("legacy", on={"tools/call": lambda i: break_off(i, id="größe 7")})
    script.on["GET"] = later = Later(script)
    async with connected(script) as (client, _):
        assert (await client.call_tool("echo")).text == "at last"
    assert later.ids[0] is not None
    assert later.ids[0].encode("latin-1").decode() == "größe 7"


async def test_the_answer_may_come_on_another_stream(autojump_clock) -> None:
    script = Script("legacy")

    async def own(incoming: Incoming) -> None:
        await incoming.start()
        call = await script.wait_asked("tools/call")
        await incoming.event(call.answer({"content": [{"type": "text", "text": "over here"}]}))
        await incoming.until_gone()

    async def call(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.until_gone()

    script.on |= {"GET": own, "tools/call": call}
    async with connected(script, listen=True) as (client, _):
        assert (await client.call_tool("echo")).text == "over here"


@pytest.mark.parametrize("own", [True, False])
async def test_a_server_that_sends_its_client_away_at_once_is_not_asked_all_the_time(
    autojump_clock, own
) -> None:
    script = Script("legacy")

    async def again(incoming: Incoming) -> None:
        times = len(script.asked("GET"))
        if times > 1000:
            await incoming.respond(404)
            return
        await break_off(incoming, retry=0, id=str(times))

    script.on["GET"] = again
    script.on["tools/call"] = lambda incoming: break_off(incoming, retry=0)
    async with connected(script, listen=own) as (client, _):
        if own:
            await trio.sleep(10)
        else:
            with pytest.raises(CallTimeout):
                await client.call_tool("echo", timeout=10)
        assert 100 <= len(script.asked("GET")) <= 111  # the first ten come at once


@pytest.mark.parametrize("how", ["ended", "broken"])
async def test_a_modern_stream_that_breaks_off_is_an_error(autojump_clock, how) -> None:
    async def call(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.event(b"", id="1", retry=0)
        await (incoming.end() if how == "ended" else incoming.drop())

    script = Script(on={"tools/call": call})
    async with connected(script) as (client, _):
        with pytest.raises(ConnectionLost, match="tools/call"):
            await client.call_tool("echo")
    assert len(script.asked("tools/call")) == 1
    assert script.asked("GET") == []


# -- the server's own stream -------------------------------------------------------------------


async def test_the_servers_own_stream_is_resumed_too(autojump_clock) -> None:
    script = Script("legacy")
    times: list[float] = []
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

    async def own(incoming: Incoming) -> None:
        times.append(trio.current_time())
        await incoming.start()
        if len(times) == 1:
            await incoming.event(changed, id="first", retry=3000)
            await incoming.end()
        else:
            await incoming.event(changed, id="second")
            await incoming.until_gone()

    script.on["GET"] = own
    async with connected(script, listen=True) as (client, _):
        async with client.subscribe(lists=["tools"]) as changes:
            while len(times) < 2:
                assert await anext(changes) == ListChanged("tools")
            await script.wait_asked("GET", 2)
    first, second = script.asked("GET")
    assert "last-event-id" not in first.headers
    assert second.headers["last-event-id"] == "first"
    assert times[1] - times[0] == pytest.approx(3.0)


async def test_a_server_that_stays_away_is_given_up_with_a_word_in_the_log(
    autojump_clock, caplog
) -> None:
    script = Script("legacy", on={"GET": lambda incoming: incoming.respond(503)})
    with caplog.at_level(logging.WARNING, "trio_mcp.client"):
        async with connected(script, listen=True, reconnect_attempts=2) as (client, _):
            await trio.sleep(1000)
            assert (await client.call_tool("echo", {"text": "still here"})).text == "still here"
    assert len(script.asked("GET")) == 3
    assert "own messages are not heard" in caplog.text


async def test_a_session_that_ends_while_one_listens_is_begun_anew(autojump_clock) -> None:
    script = Script("legacy")
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

    async def own(incoming: Incoming) -> None:
        if len(script.asked("GET")) == 2:
            script.session = "session-2"
            await incoming.respond(404)
            return
        await incoming.start()
        if len(script.asked("GET")) == 1:
            await incoming.end()
            return
        assert incoming.headers["mcp-session-id"] == "session-2"
        assert "last-event-id" not in incoming.headers
        await incoming.event(changed)
        await incoming.until_gone()

    script.on["GET"] = own
    async with connected(script, listen=True) as (client, _):
        async with client.subscribe(lists=["tools"]) as changes:
            assert await anext(changes) == ListChanged("tools")
    assert script.asked("DELETE")[0].headers["mcp-session-id"] == "session-2"


async def test_a_server_that_takes_no_new_session_either_is_given_up(
    autojump_clock, caplog
) -> None:
    script = Script("legacy")

    async def own(incoming: Incoming) -> None:
        if len(script.asked("GET")) > 1:
            script.on["initialize"] = lambda incoming: incoming.respond(503)
            await incoming.respond(404)
        else:
            await incoming.start()
            await incoming.end()

    script.on["GET"] = own
    async with connected(script, listen=True):
        await trio.sleep(100)
    assert len(script.asked("GET")) == 2
    assert "own messages are not heard" in caplog.text


@pytest.mark.long
async def test_a_server_that_forgets_its_sessions_all_the_time_is_not_asked_all_the_time(
    autojump_clock,
) -> None:
    script = Script("legacy")

    async def own(incoming: Incoming) -> None:
        if len(script.asked("GET")) % 2:
            await incoming.start()
            await incoming.event(b"", id="1", retry=0)
            await incoming.end()
        else:
            await incoming.respond(404)

    script.on["GET"] = own
    async with connected(script, listen=True):
        await trio.sleep(100)
    assert 90 <= len(script.asked("initialize")) <= 102


@pytest.mark.parametrize(
    "answer",
    [
        lambda incoming: incoming.respond(404),
        lambda incoming: incoming.respond(401),
        lambda incoming: incoming.json({"hello": "world"}),
        lambda incoming: incoming.respond(200, b"<html>", content_type="text/html"),
    ],
)
async def test_who_has_no_stream_of_the_kind_is_asked_only_once(autojump_clock, answer) -> None:
    script = Script("legacy", on={"GET": answer})
    async with connected(script, listen=True) as (client, _):
        await trio.sleep(1000)
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
    assert len(script.asked("GET")) == 1
    assert len(script.asked("initialize")) == 1


async def test_a_stream_that_cannot_be_read_any_further_is_left(autojump_clock, caplog) -> None:
    async def own(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.write(b":" * 100_000)
        await incoming.until_gone()

    script = Script("legacy", on={"GET": own})
    async with connected(script, listen=True, limits=Limits(max_message_bytes=10_000)) as (
        client,
        _,
    ):
        await trio.sleep(1000)
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
    assert "more than 10000 bytes" in caplog.text
