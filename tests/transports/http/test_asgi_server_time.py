"""The embedded HTTP server in time: deadlines, disconnects, clients that stall, shutdown."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import h11
import pytest
import trio
from trio.testing import lockstep_stream_pair, wait_all_tasks_blocked

from tests.transports.http.asgi_server_support import (
    Client,
    MemoryListener,
    answering,
    echo,
    get,
    post,
    read_body,
    reply,
    request,
    serving,
)
from trio_mcp.transports.http.server import HttpLimits, serve_asgi


async def seconds_until_end(client: Client) -> tuple[int, bytes]:
    """How long the connection lasts, and what is still said on it."""
    began = trio.current_time()
    data = await client.rest()
    return round(trio.current_time() - began), data


# Clients that are slow --------------------------------------------------------------------------


async def test_a_client_that_says_nothing_is_left_without_a_word(autojump_clock) -> None:
    async with serving(echo, header_timeout=10) as server:
        assert await seconds_until_end(server.connect()) == (10, b"")


async def test_a_head_has_a_time_limit_however_steadily_it_comes(autojump_clock) -> None:
    async with serving(echo, header_timeout=10, idle_timeout=100) as server:
        first, later = server.connect(), server.connect()
        await later.ask(get())
        await trio.sleep(9)
        assert (await first.ask(get())).status == 200
        for client in (first, later):
            await trio.sleep(5)
            began = trio.current_time()
            for byte in get("/", "X: " + "y" * 100):
                await client.send(bytes([byte]))
                await trio.sleep(0.9)
                if trio.current_time() - began > 10.5:
                    break
            answer = await client.answer()
            assert answer.status == 408
            assert await client.rest() == b""


async def test_an_idle_connection_is_closed_without_a_word(autojump_clock) -> None:
    async with serving(echo, idle_timeout=60) as server:
        client = server.connect()
        for _ in range(3):
            await trio.sleep(9)
            await client.ask(get())
        assert await seconds_until_end(client) == (60, b"")


async def test_a_body_must_not_pause_for_long(autojump_clock) -> None:
    async with serving(echo, body_timeout=30) as server:
        client = server.connect()
        await client.send(post(b"x" * 100_000)[:-50_000])
        await trio.sleep(25)
        await client.send(b"x")
        began = trio.current_time()
        answer = await client.answer()
        assert answer.status == 408
        assert round(trio.current_time() - began) == 30
        assert await client.rest() == b""
        assert server.server.counters.refused == 1


@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_a_body_must_not_come_byte_by_byte_for_ever(framing, autojump_clock) -> None:
    async with serving(echo, body_timeout=30, min_body_rate=10) as server:
        client = server.connect()
        began = trio.current_time()
        if framing == "length":
            await client.send(post(b"x" * 100_000)[:-100_000])
        else:
            await client.send(request("POST", "/", "Transfer-Encoding: chunked"))
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await client.send(b"x" if framing == "length" else b"1\r\nx\r\n")
                await trio.sleep(1)
        # 30 seconds, and a tenth of a second for each byte
        assert 32 < trio.current_time() - began < 36
        assert (await client.answer()).status == 408


async def test_a_body_may_come_slowly_but_steadily(autojump_clock) -> None:
    async with serving(echo, body_timeout=30, min_body_rate=10) as server:
        client = server.connect()
        body = b"x" * 2000
        await client.send(post(body)[:-2000])
        for _ in range(100):
            await trio.sleep(1.9)
            await client.send(b"x" * 20)
        assert (await client.answer()).body == b"POST /:" + body


async def test_an_app_may_take_its_time_with_a_body(autojump_clock) -> None:
    async def app(scope, receive, send):
        size = 0
        while True:
            await trio.sleep(10)
            message = await receive()
            size += len(message["body"])
            if not message["more_body"]:
                break
        await reply(send, b"%d" % size)

    async with serving(app, body_timeout=3) as server:
        client = server.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, post(b"x" * 1_000_000))
            assert (await client.answer()).body == b"1000000"


async def test_the_rest_of_a_body_that_nobody_reads_has_a_time_limit(autojump_clock) -> None:
    async with serving(answering(), body_timeout=30, linger_timeout=1) as server:
        client = server.connect()
        await client.send(post(b"x" * 100)[:-50])
        assert (await client.answer()).body == b"fine"
        assert await seconds_until_end(client) == (30, b"")


async def test_a_client_that_does_not_read_is_left(autojump_clock) -> None:
    ended = []

    async def app(scope, receive, send):
        try:
            await reply(send, b"x" * 1_000_000)
        finally:
            ended.append(trio.current_time())

    async with serving(app, lockstep_stream_pair, write_timeout=20) as server:
        client = server.connect()
        await client.send(get())
        began = trio.current_time()
        await trio.sleep(100)
        assert [round(end - began) for end in ended] == [20]
        assert server.server.counters.connections == 0
        assert server.server.counters.failed == 0


async def test_a_client_may_read_slowly_but_steadily(autojump_clock) -> None:
    body = b"x" * 1_000_000
    async with serving(answering(body), lockstep_stream_pair, write_timeout=20) as server:
        client = server.connect()
        await client.send(get())
        received = b""
        while not received.endswith(body):
            await trio.sleep(19)
            received += await client.receive()
        assert received.endswith(b"\r\n\r\n" + body)


async def test_last_words_are_not_waited_for(autojump_clock) -> None:
    async with serving(echo, lockstep_stream_pair, linger_timeout=2) as server:
        client = server.connect()
        await client.send(b"nonsense\r\n\r\n")
        await trio.sleep(1.9)
        assert server.server.counters.connections == 1
        await trio.sleep(0.2)
        assert server.server.counters.connections == 0


# Disconnects -----------------------------------------------------------------------------------


class Witness:
    """An app that waits in some way, and how that ended."""

    def __init__(self, wait: Callable[..., Any]) -> None:
        self.ended = trio.Event()
        self.how = ""
        self._wait = wait

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self._wait(scope, receive, send)
        except trio.Cancelled:
            self.how = "cancelled"
            raise
        except BaseExceptionGroup as group:
            self.how = "cancelled" if group.split(trio.Cancelled)[1] is None else repr(group)
            raise
        else:
            self.how = "returned"
        finally:
            self.ended.set()


async def sleeps(scope, receive, send):
    await read_body(receive)
    await trio.sleep_forever()


async def sleeps_without_reading(scope, receive, send):
    await trio.sleep_forever()


async def sleeps_in_child_tasks(scope, receive, send):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        nursery.start_soon(sleeps, scope, receive, send)


async def sleeps_after_start(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"x", "more_body": True})
    await trio.sleep_forever()


async def streams(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})
    while True:
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await trio.sleep(0.3)


async def streams_without_pause(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})
    while True:
        await send({"type": "http.response.body", "body": b"x" * 100, "more_body": True})


WAITS = [
    sleeps,
    sleeps_without_reading,
    sleeps_in_child_tasks,
    sleeps_after_start,
    streams,
]


@pytest.mark.parametrize("wait", WAITS, ids=lambda wait: wait.__name__)
@pytest.mark.parametrize("leave", ["close", "half-close"])
@pytest.mark.parametrize("after", [0.0, 0.07, 5.0])
async def test_a_disconnect_cancels_what_the_app_does(wait, leave, after, autojump_clock) -> None:
    app = Witness(wait)
    async with serving(app) as server:
        client = server.connect()
        await client.send(post(b"hello"))
        with trio.move_on_after(after):  # a server that is read from can always go on sending
            await client.rest()
        if leave == "close":
            await client.stream.aclose()
        else:
            await client.stream.send_eof()
        with trio.fail_after(0.15):
            await app.ended.wait()
        assert app.how == "cancelled"
        await wait_all_tasks_blocked()
        assert server.server.counters.connections == 0
        assert server.server.counters.failed == 0


@pytest.mark.parametrize("leave", ["close", "half-close"])
async def test_a_disconnect_cancels_an_app_that_never_pauses(leave) -> None:
    app = Witness(streams_without_pause)
    async with serving(app) as server:
        client = server.connect()
        await client.send(get())
        await client.receive()
        await (client.stream.aclose() if leave == "close" else client.stream.send_eof())
        await app.ended.wait()
        assert app.how == "cancelled"


async def test_a_disconnect_does_not_disturb_others(autojump_clock) -> None:
    async with serving(Witness(sleeps)) as server:
        stays, leaves = server.connect(), server.connect()
        await stays.send(get())
        await leaves.send(get())
        await leaves.stream.aclose()
        await trio.sleep(100)
        assert server.server.counters.connections == 1


async def test_an_app_that_waits_for_its_body_is_told_of_the_disconnect(autojump_clock) -> None:
    messages = []

    async def app(scope, receive, send):
        for _ in range(3):
            messages.append(await receive())
        await reply(send, b"nobody reads this")

    async with serving(app) as server:
        client = server.connect()
        await client.send(post(b"hello")[:-1])
        await wait_all_tasks_blocked()
        await client.stream.aclose()
        await wait_all_tasks_blocked()
        assert messages == [
            {"type": "http.request", "body": b"hell", "more_body": True},
            {"type": "http.disconnect"},
            {"type": "http.disconnect"},
        ]
        assert server.server.counters.connections == 0
        assert server.server.counters.failed == 0


async def test_an_app_that_waits_for_a_disconnect_is_told_at_once(autojump_clock) -> None:
    told = []

    async def app(scope, receive, send):
        await read_body(receive)
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def listen():
                told.append(await receive())
                nursery.cancel_scope.cancel()

            await trio.sleep_forever()

    async with serving(app) as server:
        client = server.connect()
        await client.send(post(b"hello"))
        await wait_all_tasks_blocked()
        await client.stream.aclose()
        await wait_all_tasks_blocked()
        assert told == [{"type": "http.disconnect"}]
        assert server.server.counters.connections == 0


async def test_an_app_that_was_told_has_some_grace_and_no_more(autojump_clock) -> None:
    async def stays(scope, receive, send):
        await read_body(receive)
        await receive()
        while True:  # neither blocks nor fails
            await send({"type": "http.response.start", "status": 200})
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
                await trio.sleep(0.01)

    app = Witness(stays)
    async with serving(app, disconnect_grace=3) as server:
        client = server.connect()
        await client.send(get())
        await wait_all_tasks_blocked()
        await client.stream.aclose()
        began = trio.current_time()
        await app.ended.wait()
        assert app.how == "cancelled"
        assert 2.9 < trio.current_time() - began < 3.1


async def test_an_app_that_waits_for_a_disconnect_is_told_of_the_end_of_its_response(
    autojump_clock,
) -> None:
    told = []

    async def app(scope, receive, send):
        await read_body(receive)

        async def listen():
            told.append(await receive())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            await trio.sleep(10)
            await reply(send, b"fine")

    async with serving(app) as server:
        client = server.connect()
        for number in range(1, 3):
            assert (await client.ask(get())).body == b"fine"
            await wait_all_tasks_blocked()
            assert told == [{"type": "http.disconnect"}] * number


async def test_an_app_may_stop_to_wait_for_a_disconnect(autojump_clock) -> None:
    async def app(scope, receive, send):
        body = await read_body(receive)
        with trio.move_on_after(1):
            await receive()
        await reply(send, body)

    async with serving(app) as server:
        client = server.connect()
        for body in (b"one", b"two", b"three"):
            assert (await client.ask(post(body))).body == body


async def test_an_app_may_stop_to_wait_for_a_piece_of_the_body(autojump_clock) -> None:
    async def app(scope, receive, send):
        with trio.move_on_after(1):
            await receive()
        await reply(send, await read_body(receive))

    async with serving(app) as server:
        client = server.connect()
        for body in (b"one", b"two", b"three"):
            raw = post(body)
            await client.send(raw[: -len(body)])
            await trio.sleep(2)
            await client.send(body)
            assert (await client.answer()).body == body


async def test_what_comes_while_the_app_runs_is_no_disconnect(autojump_clock) -> None:
    async def app(scope, receive, send):
        body = await read_body(receive)
        await trio.sleep(1)
        await reply(send, scope["raw_path"] + body)

    async with serving(app) as server:
        client = server.connect()
        await client.send(get("/0"))
        for number in range(1, 20):
            await trio.sleep(0.04)
            await client.send(post(b"x" * number, target=f"/{number}"))
        for number in range(20):
            assert (await client.answer()).body == b"/%d" % number + b"x" * number


async def test_what_is_read_ahead_is_bounded(autojump_clock) -> None:
    go_on = trio.Event()

    async def app(scope, receive, send):
        await go_on.wait()
        await reply(send, b"%d" % len(await read_body(receive)))

    async with serving(app, lockstep_stream_pair, max_pipelined_bytes=100_000) as server:
        client = server.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, get() + post(b"x" * 1_000_000))
            await trio.sleep(10)
            assert 100_000 <= server.server.counters.bytes_in <= 100_000 + 2 * 65536
            go_on.set()
            assert (await client.answer()).body == b"0"
            assert (await client.answer()).body == b"1000000"


async def test_work_after_the_response_is_not_cancelled_by_a_disconnect(autojump_clock) -> None:
    done = trio.Event()

    async def app(scope, receive, send):
        await reply(send, b"fine")
        await trio.sleep(10)
        done.set()

    async with serving(app) as server:
        client = server.connect()
        assert (await client.ask(get())).body == b"fine"
        await client.stream.aclose()
        await done.wait()
        await wait_all_tasks_blocked()
        assert server.server.counters.connections == 0


async def test_a_failure_because_of_a_disconnect_is_no_error_of_the_app(
    autojump_clock, caplog
) -> None:
    async def app(scope, receive, send):
        await read_body(receive)  # fails on http.disconnect

    caplog.set_level(logging.INFO)
    async with serving(app) as server:
        client = server.connect()
        await client.send(post(b"hello")[:-1])
        await wait_all_tasks_blocked()
        await client.stream.aclose()
        await wait_all_tasks_blocked()
    assert [record.levelno for record in caplog.records] == [logging.INFO]


async def test_a_failure_during_cancellation_is_logged_and_disturbs_nobody(
    autojump_clock, caplog
) -> None:
    async def app(scope, receive, send):
        async def fails():
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("while cancelled")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails)
            nursery.start_soon(trio.sleep_forever)

    caplog.set_level(logging.INFO)
    async with serving(app) as server:
        client = server.connect()
        await client.send(get())
        await trio.sleep(1)
        await client.stream.aclose()
        await trio.sleep(1)
        assert server.server.counters.connections == 0
    assert "while cancelled" in caplog.text


async def test_an_app_that_gives_up_a_write_gives_up_the_connection(autojump_clock) -> None:
    async def app(scope, receive, send):
        with trio.move_on_after(1):
            await reply(send, b"x" * 1_000_000)

    async with serving(app, lockstep_stream_pair) as server:
        client = server.connect()
        await client.send(get())
        await trio.sleep(2)
        assert len(await client.rest()) < 1_000_000
        assert server.server.counters.failed == 0


async def test_an_app_that_gives_up_a_write_cannot_go_on_with_its_response(autojump_clock) -> None:
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        more = {"type": "http.response.body", "body": b"x" * 100_000, "more_body": True}
        with trio.move_on_after(1):
            await send(more)
        with pytest.raises(RuntimeError, match="not written to its end"):
            await send(more)
        with pytest.raises(RuntimeError, match="not written to its end"):
            await send({"type": "http.response.body", "body": b"y"})

    async with serving(app, lockstep_stream_pair) as server:
        client = server.connect()
        await client.send(get())
        await trio.sleep(2)
        data = await client.rest()
        assert len(data) < 100_000
        assert b"y" not in data
        assert server.server.counters.failed == 0


async def test_two_tasks_cannot_send_at_once(autojump_clock) -> None:
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                body = {"type": "http.response.body", "body": b"x" * 100, "more_body": True}
                nursery.start_soon(send, body)

    async with serving(app, lockstep_stream_pair) as server:
        client = server.connect()
        await client.send(get())
        with pytest.raises(h11.RemoteProtocolError):
            await client.answer()
        assert server.server.counters.failed == 1


# Shutdown and bounds ---------------------------------------------------------------------------


async def test_a_stop_lets_running_requests_finish(autojump_clock) -> None:
    async def app(scope, receive, send):
        await trio.sleep(float(scope["path"][1:]))
        await reply(send, b"fine")

    async with serving(app, shutdown_grace=10) as server:
        idle, silent, quick, slow = (server.connect() for _ in range(4))
        await idle.ask(get("/0"))
        await quick.send(get("/9") + get("/0"))
        await slow.send(get("/11"))
        await wait_all_tasks_blocked()
        began = trio.current_time()
        server.server.stop()
        server.server.stop()
        assert await idle.rest() == b""
        assert await silent.rest() == b""
        assert round(trio.current_time() - began) == 1
        with pytest.raises(trio.BrokenResourceError):
            server.connect()
        answer = await quick.answer()
        assert answer.body == b"fine"
        assert answer.headers[b"connection"] == b"close"
        assert await quick.rest() == b""
        assert round(trio.current_time() - began) == 9
        assert await slow.rest() == b""
        await server.done.wait()
        assert round(trio.current_time() - began) == 10


async def test_a_request_that_was_on_its_way_is_answered_by_a_server_that_stops(
    autojump_clock,
) -> None:
    """A proxy keeps connections, and cannot know of the stop before it has sent a request."""
    async with serving(echo) as server:
        late, later = server.connect(), server.connect()
        await late.ask(get())
        await later.ask(get())
        server.server.stop()
        await trio.sleep(0.9)
        answer = await late.ask(get())
        assert (answer.status, answer.headers[b"connection"]) == (200, b"close")
        assert await late.rest() == b"", "one more, and no further one"
        assert await later.rest() == b""
        await server.done.wait()


async def test_a_stop_of_an_idle_server_takes_no_time_if_nobody_is_waited_for(
    autojump_clock,
) -> None:
    async with serving(echo, idle_grace=0) as server:
        client = server.connect()
        await client.ask(get())
        server.connect()  # not accepted yet
        server.server.stop()
        began = trio.current_time()
        await server.done.wait()
        assert trio.current_time() - began < 0.1


async def test_a_connection_is_not_kept_if_a_stop_comes_in_the_middle_of_a_response(
    autojump_clock,
) -> None:
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"fi", "more_body": True})
        await trio.sleep(2)
        await send({"type": "http.response.body", "body": b"ne"})

    async with serving(app, shutdown_grace=10) as server:
        client = server.connect()
        await client.send(get())
        await client.receive()
        began = trio.current_time()
        server.server.stop()
        await server.done.wait()
        assert 1 < trio.current_time() - began < 3
        assert (await client.rest()).endswith(b"ne\r\n0\r\n\r\n")


async def test_cancelling_the_server_ends_everything(autojump_clock) -> None:
    app = Witness(sleeps_in_child_tasks)
    async with serving(app) as server:
        idle, busy = server.connect(), server.connect()
        await idle.send(get()[:10])
        await busy.send(get())
        await wait_all_tasks_blocked()
    assert app.how == "cancelled"
    with pytest.raises(trio.BrokenResourceError):
        server.connect()
    assert await idle.rest() == await busy.rest() == b""
    assert server.server.counters.connections == 0


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_all_listeners_are_closed(how, autojump_clock) -> None:
    listeners = [MemoryListener() for _ in range(3)]
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve_asgi, echo, listeners)
        server.stop() if how == "stop" else nursery.cancel_scope.cancel()
    for listener in listeners:
        with pytest.raises(trio.BrokenResourceError):
            listener.connect()


async def test_the_bound_on_connections_is_that_of_all_listeners(autojump_clock) -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await trio.sleep(5)
        await reply(send, b"fine")

    listeners = [MemoryListener() for _ in range(2)]
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            start = partial(serve_asgi, slow, listeners, limits=HttpLimits(max_connections=1))
            server = await nursery.start(start)
            clients = []
            for listener in listeners:
                clients.append(Client(listener.connect()))
                await clients[-1].send(get())
                await wait_all_tasks_blocked()
            assert server.counters.requests == 1  # the second one is not served
            for number, client in enumerate(clients, 1):
                assert (await client.answer()).status == 200
                assert trio.current_time() == number * 5
                await client.stream.aclose()
            server.stop()


def test_limits_are_checked() -> None:
    for name in ("max_connections", "header_timeout", "min_body_rate"):
        with pytest.raises(ValueError, match=name):
            HttpLimits(**{name: 0})


async def test_an_idle_connection_makes_room_for_one_that_is_needed(autojump_clock) -> None:
    async with serving(answering(), max_connections=3) as server:
        clients = [server.connect() for _ in range(3)]
        for client in clients[1:]:
            await client.ask(get())
        later = [server.connect() for _ in range(2)]
        for client in later:
            assert (await client.ask(get())).body == b"fine"
        assert await clients[1].rest() == await clients[2].rest() == b""
        assert (await clients[0].ask(get())).body == b"fine", "it may be about to say something"
        assert trio.current_time() < 1


async def test_a_connection_waits_until_there_is_room(autojump_clock) -> None:
    async with serving(answering(), max_connections=1, header_timeout=10) as server:
        silent, later = server.connect(), server.connect()
        await later.send(get())
        await trio.sleep(9)
        assert server.server.counters.requests == 0
        assert await silent.rest() == b""  # it never said anything
        assert (await later.answer()).body == b"fine"
