"""The embedded HTTP server: requests reach the app as they are meant, and answers the client."""

import logging
import re

import h11
import pytest
import trio

from tests.transports.http.asgi_server_support import (
    answering,
    echo,
    get,
    post,
    post_chunks,
    read_body,
    reply,
    request,
    serving,
)
from trio_mcp.transports.http.server.asgi import direct_exchange

# Requests --------------------------------------------------------------------------------------


async def test_a_scope_says_what_was_asked(autojump_clock) -> None:
    seen = []

    async def app(scope, receive, send):
        seen.append(scope)
        await reply(send)

    async with serving(app) as server:
        await server.ask(get("/a%20b/%C3%A9?q=%20&r", "X-One:  two \t", "x-one: three"))
    [scope] = seen
    assert scope == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/a b/é",
        "raw_path": b"/a%20b/%C3%A9",
        "query_string": b"q=%20&r",
        "root_path": "",
        "headers": [(b"host", b"test"), (b"x-one", b"two"), (b"x-one", b"three")],
        "client": None,
        "server": None,
        "extensions": {"trio_mcp.cancels": {}, "trio_mcp.connection": {}},
    }


@pytest.mark.parametrize(
    "target", ["http://other:80/x?y", "HTTPS://other:80/x?y"], ids=["http", "https"]
)
async def test_a_url_as_target_says_which_host_is_meant(target, autojump_clock) -> None:
    seen = []

    async def app(scope, receive, send):
        seen.append(scope)
        await reply(send)

    async with serving(app) as server:
        await server.ask(get(target))
        await server.ask(get("http://[::1]"))
        await server.ask(get("http://other?y"))
    assert [(s["path"], s["raw_path"], s["query_string"]) for s in seen] == [
        ("/x", b"/x", b"y"),
        ("/", b"/", b""),
        ("/", b"/", b"y"),
    ]
    assert [dict(s["headers"])[b"host"] for s in seen] == [b"other:80", b"[::1]", b"other"]
    assert {s["scheme"] for s in seen} == {"http"}


async def test_options_of_the_whole_server(autojump_clock) -> None:
    async with serving(echo) as server:
        assert (await server.ask(request("OPTIONS", "*"))).body == b"OPTIONS *:"


BODY_REQUESTS = {
    "by its length": post(b"hello world"),
    "in one chunk": post_chunks([b"hello world"]),
    "in chunks": post_chunks([b"hello", b" ", b"world"]),
    "with trailers": post_chunks([b"hello ", b"world"], trailers=b"X-Sum: 1\r\nY:2\r\n"),
    "with extensions": request(
        "POST",
        "/",
        "transfer-encoding: Chunked",
        body=b'00006;a=b;c="d"\r\nhello \r\n5;x\r\nworld\r\n0;last\r\n\r\n',
    ),
}


@pytest.mark.parametrize("raw", BODY_REQUESTS.values(), ids=BODY_REQUESTS)
async def test_a_body_arrives_however_it_is_cut(raw, autojump_clock) -> None:
    async with serving(echo) as server:
        whole = server.connect()
        assert (await whole.ask(raw)).body == b"POST /:hello world"
        assert (await whole.ask(get("/next"))).body == b"GET /next:"
        bytewise = server.connect()
        for byte in raw + raw:
            await bytewise.send(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()
        assert (await bytewise.answer()).body == b"POST /:hello world"
        assert (await bytewise.answer()).body == b"POST /:hello world"


async def test_a_body_is_given_to_the_app_as_it_comes(autojump_clock) -> None:
    messages = []

    async def app(scope, receive, send):
        for _ in range(3):
            messages.append(await receive())
        await reply(send)

    async with serving(app) as server:
        client = server.connect()
        await client.send(post(b"x" * 30)[:-30])
        for piece in (b"one", b"two"):
            await client.send(piece)
            await trio.testing.wait_all_tasks_blocked()
            assert messages[-1] == {"type": "http.request", "body": piece, "more_body": True}
        await client.send(b"x" * 24)
        assert (await client.answer()).status == 200
        assert messages[-1] == {"type": "http.request", "body": b"x" * 24, "more_body": False}


async def test_a_head_that_is_repeated_is_another_request(autojump_clock) -> None:
    async def app(scope, receive, send):
        scope["headers"].append((b"x", await read_body(receive)))
        await reply(send, repr(scope["headers"]).encode())

    async with serving(app) as server:
        client = server.connect()
        answers = [(await client.ask(post(body))).body for body in (b"one", b"two", b"two")]
        assert answers == [
            repr([(b"host", b"test"), (b"content-length", b"3"), (b"x", body)]).encode()
            for body in (b"one", b"two", b"two")
        ]


async def test_requests_on_one_connection_are_answered_in_order(autojump_clock) -> None:
    async def app(scope, receive, send):
        body = await read_body(receive)
        await trio.sleep(1 if scope["path"] == "/slow" else 0)
        await reply(send, scope["raw_path"] + body)

    async with serving(app) as server:
        client = server.connect()
        await client.send(
            get("/1") + post(b"two", target="/slow") + post_chunks([b"three"]) + get("/slow")
        )
        bodies = [(await client.answer()).body for _ in range(4)]
        assert bodies == [b"/1", b"/slowtwo", b"/three", b"/slow"]
        assert (await client.ask(get("/again"))).body == b"/again"
        assert server.server.counters.accepted == 1


async def test_an_empty_line_before_a_request_is_overlooked(autojump_clock) -> None:
    async with serving(echo) as server:
        client = server.connect()
        assert (await client.ask(b"\r\n" + get("/a"))).body == b"GET /a:"
        assert (await client.ask(b"\r\n" + get("/b"))).body == b"GET /b:"


# Keeping the connection ------------------------------------------------------------------------

CONNECTIONS = [
    ("1.1", None, True),
    ("1.1", "close", False),
    ("1.1", "x, CLOSE", False),
    ("1.1", "keep-alive", True),
    ("1.0", None, False),
    ("1.0", "Keep-Alive", True),
    ("1.0", "keep-alive, close", False),
]


@pytest.mark.parametrize(("version", "connection", "kept"), CONNECTIONS)
async def test_a_connection_is_kept_if_the_client_wants_it(
    version, connection, kept, autojump_clock
) -> None:
    headers = [] if connection is None else [f"Connection: {connection}"]
    async with serving(answering(b"fine")) as server:
        client = server.connect()
        answer = await client.ask(get("/", *headers, version=version))
        assert answer.body == b"fine"
        if kept:
            said = b"keep-alive" if version == "1.0" else None
            assert answer.headers.get(b"connection") == said
            assert (await client.ask(get())).body == b"fine"
        else:
            assert answer.headers[b"connection"] == b"close"
            assert await client.rest() == b""


async def test_the_options_of_a_connection_may_come_in_several_headers(autojump_clock) -> None:
    async with serving(answering()) as server:
        client = server.connect()
        answer = await client.ask(get("/", "Connection: keep-alive", "Connection: close"))
        assert answer.headers[b"connection"] == b"close"
        assert await client.rest() == b""


async def test_an_old_client_need_not_name_the_host(autojump_clock) -> None:
    async with serving(echo) as server:
        assert (await server.ask(b"GET /a HTTP/1.0\r\n\r\n")).body == b"GET /a:"


async def test_a_connection_ends_if_the_app_says_so(autojump_clock) -> None:
    async with serving(answering(b"", 200, (b"connection", b"close"))) as server:
        client = server.connect()
        assert (await client.ask(get())).headers[b"connection"] == b"close"
        assert await client.rest() == b""


async def test_an_offer_of_another_protocol_is_not_taken_up(autojump_clock) -> None:
    headers = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AA")
    async with serving(echo) as server:
        client = server.connect()
        assert (await client.ask(get("/a", *headers))).body == b"GET /a:"
        assert (await client.ask(post(b"c", *headers, target="/b"))).body == b"POST /b:c"
        assert (await client.ask(get("/c"))).body == b"GET /c:"


@pytest.mark.parametrize("raw", [post(b"x" * 500), post_chunks([b"x" * 250] * 2)])
async def test_a_small_body_that_the_app_leaves_is_skipped(raw, autojump_clock) -> None:
    async with serving(answering(), max_drain_bytes=500) as server:
        client = server.connect()
        await client.send(raw[:-300])
        assert (await client.answer()).body == b"fine"
        await client.send(raw[-300:])
        assert (await client.ask(get())).body == b"fine"


async def test_a_large_body_that_the_app_leaves_ends_the_connection(autojump_clock) -> None:
    async with serving(answering(), max_drain_bytes=500) as server:
        client = server.connect()
        raw = post(b"x" * 501)
        await client.send(raw[:-300])
        answer = await client.answer()
        assert answer.body == b"fine"
        assert answer.headers[b"connection"] == b"close"
        assert await client.rest() == b""
        chunked = server.connect()
        await chunked.send(post_chunks([b"x" * 501])[:-5])
        assert (await chunked.answer()).body == b"fine"
        began = trio.current_time()
        assert await chunked.rest() == b""
        assert trio.current_time() - began < 0.1


async def test_a_malformed_rest_of_a_body_gets_no_answer_of_its_own(autojump_clock) -> None:
    async with serving(answering()) as server:
        client = server.connect()
        await client.send(request("POST", "/", "Transfer-Encoding: chunked", body=b"x\r\n"))
        assert (await client.answer()).body == b"fine"
        assert await client.rest() == b""


# 100-continue ----------------------------------------------------------------------------------


async def test_a_client_that_asks_first_is_told_to_continue_when_the_app_reads(
    autojump_clock,
) -> None:
    asked = trio.Event()

    async def app(scope, receive, send):
        await asked.wait()
        await reply(send, await read_body(receive))

    async with serving(app) as server:
        client = server.connect()
        raw = post(b"hello", "Expect: 100-Continue")
        await client.send(raw[:-5])
        await trio.testing.wait_all_tasks_blocked()
        asked.set()
        assert await client.receive() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"hello")
        assert (await client.answer()).body == b"hello"
        assert (await client.ask(get())).status == 200


async def test_a_client_that_does_not_wait_is_not_told(autojump_clock) -> None:
    async with serving(echo) as server:
        answer = await server.ask(post(b"hello", "Expect: 100-continue"))
        assert answer.body == b"POST /:hello"
        assert answer.informational == []
        old = request("POST", "/", "Content-Length: 1", "Expect: 100-continue", version="1.0")
        client = server.connect()
        await client.send(old)
        await trio.testing.wait_all_tasks_blocked()
        await client.send(b"x")
        assert (await client.answer()).informational == []


async def test_a_client_is_not_told_to_continue_in_the_middle_of_a_response(autojump_clock) -> None:
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await send({"type": "http.response.body", "body": await read_body(receive)})

    async with serving(app) as server:
        client = server.connect()
        raw = post(b"hello", "Expect: 100-continue")
        await client.send(raw[:-5])
        await trio.testing.wait_all_tasks_blocked()
        await client.send(raw[-5:])
        answer = await client.answer()
        assert (answer.body, answer.informational) == (b"xhello", [])
        assert answer.headers[b"connection"] == b"close"


async def test_a_client_that_was_not_told_to_continue_has_its_connection_closed(
    autojump_clock,
) -> None:
    async with serving(answering()) as server:
        client = server.connect()
        answer = await client.ask(post(b"hello", "Expect: 100-continue")[:-5])
        assert (answer.status, answer.informational) == (200, [])
        assert answer.headers[b"connection"] == b"close"
        assert await client.rest() == b""


# Responses -------------------------------------------------------------------------------------


async def test_a_whole_response_is_one_write(autojump_clock) -> None:
    async with serving(answering(b"fine", 200, (b"content-type", b"text/plain"))) as server:
        client = server.connect()
        await client.send(get())
        data = await client.receive()
        assert data.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n")
        assert b"\r\ncontent-length: 4\r\n" in data
        assert b"\r\ndate: " in data
        assert data.endswith(b"\r\n\r\nfine")


async def test_what_the_app_says_about_the_response_is_kept(autojump_clock) -> None:
    headers = [(b"Content-Length", b"4"), (b"date", b"then"), (b"x", b"1"), (b"x", b"\xe92")]
    async with serving(answering(b"fine", 299, *headers)) as server:
        client = server.connect()
        await client.send(get())
        assert await client.receive() == (
            b"HTTP/1.1 299 \r\ncontent-length: 4\r\ndate: then\r\nx: 1\r\nx: \xe92\r\n\r\nfine"
        )


async def test_how_a_response_travels_is_not_for_the_app_to_say(autojump_clock) -> None:
    headers = [(b"Transfer-Encoding", b"gzip"), (b"Keep-Alive", b"x"), (b"connection", b"x")]
    async with serving(answering(b"fine", 200, *headers)) as server:
        answer = await server.ask(get())
        assert answer.body == b"fine"
        assert answer.headers.keys() == {b"content-length", b"date"}


def streaming(*pieces: bytes, headers=()):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await trio.sleep(1)
        await send({"type": "http.response.body"})

    return app


async def test_each_piece_of_a_response_is_written_at_once(autojump_clock) -> None:
    async with serving(streaming(b"", b"data: 1\n\n", b"", b"data: 2\n\n")) as server:
        client = server.connect()
        await client.send(get())
        began = trio.current_time()
        head = await client.receive()
        assert head.endswith(b"\r\n\r\n")
        assert b"transfer-encoding: chunked" in head
        assert await client.receive() == b"9\r\ndata: 1\n\n\r\n"
        assert trio.current_time() - began == 1
        assert await client.receive() == b"9\r\ndata: 2\n\n\r\n"
        assert trio.current_time() - began == 3
        assert await client.receive() == b"0\r\n\r\n"
        assert (await client.ask(get())).body == b"data: 1\n\ndata: 2\n\n"


async def test_a_response_of_announced_length_comes_in_pieces_without_chunks(
    autojump_clock,
) -> None:
    app = streaming(b"ab", b"cd", headers=[(b"content-length", b"4")])
    async with serving(app) as server:
        client = server.connect()
        answer = await client.ask(get())
        assert answer.body == b"abcd"
        assert b"transfer-encoding" not in answer.headers
        assert (await client.ask(get())).body == b"abcd"


async def test_for_an_old_client_the_end_of_the_connection_ends_the_response(
    autojump_clock,
) -> None:
    async with serving(streaming(b"ab", b"cd")) as server:
        client = server.connect()
        answer = await client.ask(get("/", "Connection: keep-alive", version="1.0"))
        assert answer.body == b"abcd"
        assert answer.headers[b"connection"] == b"close"
        assert answer.headers.keys().isdisjoint({b"transfer-encoding", b"content-length"})


BODILESS = [("HEAD", 200), ("HEAD", 404), ("GET", 204), ("GET", 304), ("HEAD", 204)]


@pytest.mark.parametrize(("method", "status"), BODILESS)
async def test_a_response_that_has_no_body_gets_none(method, status, autojump_clock) -> None:
    async with serving(answering(b"fine", status)) as server:
        client = server.connect()
        answer = await client.ask(request(method, "/"))
        assert (answer.status, answer.body) == (status, b"")
        length = b"4" if status in (200, 404) else None
        assert answer.headers.get(b"content-length") == length
        assert (await client.ask(get())).status == status
    async with serving(streaming(b"ab", b"cd")) as server:
        client = server.connect()
        answer = await client.ask(request("HEAD", "/"))
        assert answer.body == b""
        assert (await client.ask(get())).body == b"abcd"


async def test_a_length_that_is_not_that_of_a_body_is_kept_where_it_may_be(autojump_clock) -> None:
    async def app(scope, receive, send):
        await reply(send, b"", int(scope["path"][1:]), (b"content-length", b"1000"))

    async with serving(app) as server:
        client = server.connect()
        head = await client.ask(request("HEAD", "/200"))
        assert head.headers[b"content-length"] == b"1000"
        assert (await client.ask(get("/304"))).headers[b"content-length"] == b"1000"
        assert b"content-length" not in (await client.ask(get("/204"))).headers


@pytest.mark.parametrize("body", [bytearray(b"fine"), memoryview(b"fine")])
async def test_a_body_may_be_any_kind_of_bytes(body, autojump_clock) -> None:
    async with serving(answering(body)) as server:
        assert (await server.ask(get())).body == b"fine"


# Failing apps ----------------------------------------------------------------------------------


async def raises(scope, receive, send):
    raise ValueError("secret")


async def raises_group(scope, receive, send):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(raises, None, None, None)
        await trio.sleep_forever()


async def raises_after_start(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})
    raise ValueError("secret")


async def returns_early(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})


async def starts_twice(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.start", "status": 200})


async def forgets_start(scope, receive, send):
    await send({"type": "http.response.body"})


async def sends_nonsense(scope, receive, send):
    await send({"type": "http.response.nonsense"})


def with_headers(*headers, body=b"fine"):
    return answering(body, 200, *headers)


FAILING = {
    "raises": raises,
    "raises a group": raises_group,
    "raises after the start": raises_after_start,
    "returns early": returns_early,
    "starts twice": starts_twice,
    "forgets the start": forgets_start,
    "sends nonsense": sends_nonsense,
    "informational status": answering(b"", 101),
    "status too large": answering(b"", 1000),
    "status is not a number": answering(b"", "200"),
    "body is no bytes": answering("fine"),
    "body is a number": answering(5),
    "header is no bytes": with_headers((b"x", "y")),
    "name is no bytes": with_headers(("x", b"y")),
    "newline in a value": with_headers((b"x", b"y\r\nset-cookie: z")),
    "newline at the end": with_headers((b"x", b"y\r\n")),
    "bare CR in a value": with_headers((b"x", b"y\rz")),
    "bare LF in a value": with_headers((b"x", b"y\nz")),
    "NUL in a value": with_headers((b"x", b"y\0z")),
    "newline in a name": with_headers((b"x: y\r\nz", b"")),
    "colon in a name": with_headers((b"x: y", b"")),
    "empty name": with_headers((b"", b"y")),
    "body longer than its length": with_headers((b"content-length", b"3")),
    "body shorter than its length": with_headers((b"content-length", b"5")),
    "two lengths": with_headers((b"content-length", b"4"), (b"content-length", b"4")),
    "length is not a number": with_headers((b"content-length", b"+4")),
}


@pytest.mark.parametrize("app", FAILING.values(), ids=FAILING)
async def test_an_app_that_fails_is_answered_for(app, caplog, autojump_clock) -> None:
    async def sometimes(scope, receive, send):
        await (app if scope["path"] == "/fail" else echo)(scope, receive, send)

    async with serving(sometimes) as server:
        client, other = server.connect(), server.connect()
        await other.ask(get("/other"))
        answer = await client.ask(get("/fail"))
        assert answer.status == 500
        assert answer.body == b"The server failed to answer this request.\n"
        assert answer.headers[b"connection"] == b"close"
        assert answer.headers.keys() == {b"content-type", b"content-length", b"connection", b"date"}
        assert await client.rest() == b""
        assert (await other.ask(get("/other"))).status == 200
        assert server.server.counters.failed == 1
    [record] = caplog.records
    assert (record.name, record.levelno) == ("trio_mcp.http", logging.ERROR)
    assert record.exc_info is not None


async def test_a_failure_is_told_to_a_head_request_without_a_body(autojump_clock) -> None:
    async with serving(raises) as server:
        client = server.connect()
        assert (await client.ask(request("HEAD", "/"))).status == 500
        assert await client.rest() == b""


def cut_short(*headers, then=raises):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"fine", "more_body": True})
        await then(scope, receive, send)

    return app


async def sends_too_much(scope, receive, send):
    await send({"type": "http.response.body", "body": b"12345", "more_body": True})


async def sends_too_little(scope, receive, send):
    await send({"type": "http.response.body"})


async def returns(scope, receive, send):
    pass


CUT_SHORT = {
    "chunks": cut_short(),
    "chunks, without an exception": cut_short(then=returns),
    "a length": cut_short((b"content-length", b"8")),
    "too much": cut_short((b"content-length", b"8"), then=sends_too_much),
    "too little": cut_short((b"content-length", b"8"), then=sends_too_little),
}


@pytest.mark.parametrize("app", CUT_SHORT.values(), ids=CUT_SHORT)
async def test_a_response_that_fails_in_its_middle_is_seen_to_be_cut_short(
    app, caplog, autojump_clock
) -> None:
    async with serving(app) as server:
        client = server.connect()
        with pytest.raises(h11.RemoteProtocolError, match="without sending complete message body"):
            await client.ask(get())
        assert len(caplog.records) == 1
        assert server.server.counters.failed == 1


async def test_a_failure_after_the_response_is_only_logged(caplog, autojump_clock) -> None:
    async def app(scope, receive, send):
        await reply(send, b"fine")
        raise ValueError("too late")

    async with serving(app) as server:
        client = server.connect()
        assert (await client.ask(get())).body == b"fine"
        assert await client.rest() == b""
    assert "too late" in caplog.text


async def test_a_message_after_the_end_of_the_response_is_an_error(autojump_clock) -> None:
    async def app(scope, receive, send):
        await reply(send, b"fine")
        with pytest.raises(RuntimeError, match="complete"):
            await send({"type": "http.response.body", "body": b"more"})

    async with serving(app) as server:
        client = server.connect()
        assert (await client.ask(get())).body == b"fine"
        assert (await client.ask(get())).body == b"fine"


async def test_what_was_counted(autojump_clock) -> None:
    async with serving(echo) as server:
        client = server.connect()
        raw = post(b"hello")
        await client.send(raw * 2)
        received = await client.receive()
        while received.count(b"hello") < 2:
            received += await client.receive()
        counters = server.server.counters
        assert (counters.connections, counters.accepted, counters.requests) == (1, 1, 2)
        assert (counters.bytes_in, counters.bytes_out) == (2 * len(raw), len(received))
        await client.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert (counters.connections, counters.accepted, counters.failed) == (0, 1, 0)


# What our server offers besides ------------------------------------------------------------------


async def direct_echo(scope, receive, send):
    """Answers as `echo` does, and says whether all of the body was there at once."""
    direct = direct_exchange(receive, send)
    assert direct is not None
    body = direct.take_body()
    how = b"later" if body is None else b"at once"
    if body is None:
        body = await read_body(receive)
    assert direct.take_body() is None
    await direct.respond(200, [(b"x-how", how)], b"%b:%b" % (scope["method"].encode(), body))
    assert await receive() == {"type": "http.disconnect"}


async def test_a_body_that_has_come_is_taken_at_once(autojump_clock) -> None:
    async with serving(direct_echo) as server:
        client = server.connect()
        for raw, how, body in [
            (post(b"hello"), b"at once", b"POST:hello"),
            (get(), b"at once", b"GET:"),
            (post_chunks([b"hello"]), b"later", b"POST:hello"),
        ]:
            answer = await client.ask(raw)
            assert (answer.headers[b"x-how"], answer.body) == (how, body)
            assert answer.headers[b"content-length"] == b"%d" % len(body)
        await client.send(post(b"hello")[:-1])
        await trio.testing.wait_all_tasks_blocked()
        await client.send(b"o")
        answer = await client.answer()
        assert (answer.headers[b"x-how"], answer.body) == (b"later", b"POST:hello")


async def test_a_whole_response_is_sent_once(caplog, autojump_clock) -> None:
    async def app(scope, receive, send):
        direct = direct_exchange(receive, send)
        assert direct is not None
        await direct.respond(200, [(b"x", b"1")], b"fine")
        await direct.respond(200, [(b"x", b"2")], b"again")

    async with serving(app) as server:
        answer = await server.ask(get())
        assert (answer.headers[b"x"], answer.body) == (b"1", b"fine")
    assert "the response was started already" in caplog.text


async def test_functions_of_another_app_are_not_passed_by() -> None:
    class Server:
        def take_body(self) -> None: ...

        async def receive(self) -> None: ...

        async def send(self, message: object) -> None: ...

    one, other = Server(), Server()

    async def function(message: object = None) -> None: ...

    assert direct_exchange(one.receive, one.send) is one
    assert direct_exchange(one.receive, other.send) is None
    assert direct_exchange(function, one.send) is None
    assert direct_exchange(one.receive, function) is None
    assert direct_exchange(function, function) is None


WHOLE_RESPONSES = {
    "usual": (get(), 200, [(b"content-type", b"text/plain")], b"fine"),
    "without headers": (get(), 404, [], b"fine"),
    "empty": (get(), 200, [], b""),
    "with many headers": (get(), 200, [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")], b"fine"),
    "with its length": (get(), 200, [(b"content-length", b"4")], b"fine"),
    "with another length": (get(), 200, [(b"content-length", b"5")], b"fine"),
    "with a date": (get(), 200, [(b"date", b"then")], b"fine"),
    "the last one": (get(), 200, [(b"connection", b"close")], b"fine"),
    "to a last request": (get("/", "connection: close"), 200, [], b"fine"),
    "to HEAD": (request("HEAD", "/"), 200, [(b"x", b"1")], b"fine"),
    "to an old client": (get(version="1.0"), 200, [(b"x", b"1")], b"fine"),
    "that has no body": (get(), 204, [(b"x", b"1")], b"fine"),
    "with a malformed header": (get(), 200, [(b"x", b"1\r\n2")], b"fine"),
    "with an impossible status": (get(), 100, [], b"fine"),
}


@pytest.mark.parametrize(
    ("raw", "status", "headers", "body"), WHOLE_RESPONSES.values(), ids=WHOLE_RESPONSES
)
async def test_a_whole_response_is_that_of_its_messages(
    raw, status, headers, body, autojump_clock
) -> None:
    async def directly(scope, receive, send):
        direct = direct_exchange(receive, send)
        assert direct is not None
        await direct.respond(status, headers, body)

    written = []
    for app in (directly, answering(body, status, *headers)):
        async with serving(app) as server:
            client = server.connect()
            await client.send(raw)
            await client.stream.send_eof()
            written.append(re.sub(rb"date: .* GMT\r\n", b"date: now\r\n", await client.rest()))
    assert written[0] == written[1] != b""
