"""The embedded HTTP server refuses what could be understood in two ways, and what is too much."""

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


def head(*lines: str | bytes) -> bytes:
    """A head of these lines, as they are."""
    raw = [line.encode("latin-1") if isinstance(line, str) else line for line in lines]
    return b"\r\n".join([*raw, b"", b""])


def with_header(header: str | bytes, body: bytes = b"") -> bytes:
    return head("POST / HTTP/1.1", "Host: test", header) + body


def in_chunks(body: bytes) -> bytes:
    return with_header("Transfer-Encoding: chunked", body)


HEADS = {
    # Framing
    "length and chunks": head(
        "POST / HTTP/1.1", "Host: test", "Content-Length: 5", "Transfer-Encoding: chunked"
    ),
    "chunks and length": head(
        "POST / HTTP/1.1", "Host: test", "Transfer-Encoding: chunked", "Content-Length: 5"
    ),
    "differing lengths": head(
        "POST / HTTP/1.1", "Host: test", "Content-Length: 5", "Content-Length: 6"
    ),
    "repeated length": head(
        "POST / HTTP/1.1", "Host: test", "Content-Length: 5", "content-length: 5"
    ),
    "list of lengths": with_header("Content-Length: 5, 5"),
    "negative length": with_header("Content-Length: -5"),
    "signed length": with_header("Content-Length: +5"),
    "hexadecimal length": with_header("Content-Length: 0x5"),
    "length with a fraction": with_header("Content-Length: 5.0"),
    "length with an underscore": with_header("Content-Length: 1_0"),
    "length with a space": with_header("Content-Length: 1 0"),
    "empty length": with_header("Content-Length:"),
    "length of other digits": with_header(b"Content-Length: \xb2"),
    "overlong length": with_header("Content-Length: 0000000000000005"),
    "length beyond 64 bits": with_header("Content-Length: 18446744073709551617"),
    "unknown coding": with_header("Transfer-Encoding: gzip"),
    "identity": with_header("Transfer-Encoding: identity"),
    "two codings": with_header("Transfer-Encoding: gzip, chunked"),
    "chunks twice": with_header("Transfer-Encoding: chunked, chunked"),
    "repeated coding": head(
        "POST / HTTP/1.1", "Host: test", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"
    ),
    "coding and more": with_header("Transfer-Encoding: chunked;q=1"),
    "quoted coding": with_header('Transfer-Encoding: "chunked"'),
    "coding after a tab and form feed": with_header("Transfer-Encoding: \x0cchunked"),
    "nearly chunked": with_header("Transfer-Encoding: xchunked"),
    "empty coding": with_header("Transfer-Encoding:"),
    "chunks in HTTP/1.0": head("POST / HTTP/1.0", "Host: test", "Transfer-Encoding: chunked"),
    # Lines and headers
    "bare LF after the request line": b"GET / HTTP/1.1\nHost: test\r\n\r\n",
    "bare LF after a header": b"GET / HTTP/1.1\r\nHost: test\nX: y\r\n\r\n",
    "bare LF at the end": b"GET / HTTP/1.1\r\nHost: test\r\n\n\r\n\r\n",
    "bare CR after a header": b"GET / HTTP/1.1\r\nHost: test\rX: y\r\n\r\n",
    "bare CR in a value": with_header("X: a\rb"),
    "CR CR LF": b"GET / HTTP/1.1\r\nHost: test\r\r\nX: y\r\n\r\n",
    "space before the colon": with_header("Content-Length : 5"),
    "tab before the colon": with_header("X\t: y"),
    "space before the name": with_header(" X: y"),
    "first header is folded": head("GET / HTTP/1.1", " X: y", "Host: test"),
    "folded header": head("GET / HTTP/1.1", "Host: test", "X: y", " Content-Length: 5"),
    "folded with a tab": head("GET / HTTP/1.1", "Host: test", "X:", "\tchunked"),
    "no colon": with_header("Content-Length 5"),
    "no name": with_header(": y"),
    "name that is not a token": with_header("X(y): z"),
    "quoted name": with_header('"X": z'),
    "name beyond ASCII": with_header(b"X\xe9: z"),
    "NUL in a name": with_header(b"X\0: z"),
    "NUL in a value": with_header(b"X: y\0z"),
    "escape in a value": with_header(b"X: y\x1bz"),
    "DEL in a value": with_header(b"X: y\x7fz"),
    # Request line
    "no version": head("GET /"),
    "HTTP/0.9": head("GET / HTTP/0.9"),
    "HTTP/1.2": head("GET / HTTP/1.2", "Host: test"),
    "HTTP/1.10": head("GET / HTTP/1.10", "Host: test"),
    "HTTP/2": head("GET / HTTP/2", "Host: test"),
    "HTTP/2.0": head("GET / HTTP/2.0", "Host: test"),
    "preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another protocol": head("GET / RTSP/1.0", "Host: test"),
    "lower case protocol": head("GET / http/1.1", "Host: test"),
    "two spaces": head("GET  / HTTP/1.1", "Host: test"),
    "tab": head("GET\t/ HTTP/1.1", "Host: test"),
    "space at the end": head("GET / HTTP/1.1 ", "Host: test"),
    "space at the beginning": head(" GET / HTTP/1.1", "Host: test"),
    "space in the target": head("GET /a b HTTP/1.1", "Host: test"),
    "two empty lines first": b"\r\n\r\n" + get(),
    "only empty lines": b"\r\n\r\n\r\n\r\n",
    "method that is not a token": head("G(T / HTTP/1.1", "Host: test"),
    "NUL in the method": head("G\0T / HTTP/1.1", "Host: test"),
    "no method": head("/ HTTP/1.1", "Host: test"),
    "NUL in the target": head("GET /\0 HTTP/1.1", "Host: test"),
    "control character in the target": head("GET /\x01 HTTP/1.1", "Host: test"),
    "DEL in the target": head("GET /\x7f HTTP/1.1", "Host: test"),
    "target beyond ASCII": head(b"GET /\xc3\xa9 HTTP/1.1", "Host: test"),
    "fragment": head("GET /a#b HTTP/1.1", "Host: test"),
    "relative target": head("GET a HTTP/1.1", "Host: test"),
    "query alone": head("GET ?a HTTP/1.1", "Host: test"),
    "asterisk": head("GET * HTTP/1.1", "Host: test"),
    "another scheme": head("GET ftp://test/ HTTP/1.1", "Host: test"),
    "URL without a host": head("GET http:///x HTTP/1.1", "Host: test"),
    "URL with a user": head("GET http://me@test/ HTTP/1.1", "Host: test"),
    "URL with a backslash": head("GET http://test\\x/ HTTP/1.1", "Host: test"),
    "path that is not UTF-8": head("GET /%ff HTTP/1.1", "Host: test"),
    # Host
    "no host": head("GET / HTTP/1.1"),
    "two hosts": head("GET / HTTP/1.1", "Host: test", "Host: other"),
    "the same host twice": head("GET / HTTP/1.1", "Host: test", "Host: test"),
    "two hosts in HTTP/1.0": head("GET / HTTP/1.0", "Host: test", "Host: other"),
    "empty host": head("GET / HTTP/1.1", "Host:"),
    "list of hosts": head("GET / HTTP/1.1", "Host: test,other"),
    "host with a user": head("GET / HTTP/1.1", "Host: me@test"),
    "host with a path": head("GET / HTTP/1.1", "Host: test/x"),
    "host with a strange port": head("GET / HTTP/1.1", "Host: test:80x"),
    "two hosts, and a URL": head("GET http://test/ HTTP/1.1", "Host: test", "Host: test"),
    "two expectations": head("GET / HTTP/1.1", "Host: test", *["Expect: 100-continue"] * 2),
    # No HTTP at all
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
}


@pytest.mark.parametrize("raw", HEADS.values(), ids=HEADS)
async def test_an_ambiguous_head_is_refused(raw, autojump_clock) -> None:
    called = []

    async def app(scope, receive, send):
        called.append(scope)
        await reply(send)

    async with serving(app) as server:
        for pieces in ([raw + get("/smuggled")], [bytes([byte]) for byte in raw]):
            client = server.connect()
            for piece in pieces:
                await client.send(piece)
                await trio.testing.wait_all_tasks_blocked()
            answer = await client.answer()
            assert answer.status == 400
            assert answer.headers[b"connection"] == b"close"
            assert answer.headers[b"content-type"] == b"text/plain; charset=utf-8"
            assert answer.body.endswith(b".\n")
            assert await client.rest() == b""
        assert called == []
        assert server.server.counters.refused == 2


BODIES = {
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "size with a space": b"5 \r\nhello\r\n0\r\n\r\n",
    "size after a space": b" 5\r\nhello\r\n0\r\n\r\n",
    "size with a sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "size with a prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "size with an underscore": b"0_5\r\nhello\r\n0\r\n\r\n",
    "size that is not a number": b"g\r\nhello\r\n0\r\n\r\n",
    "size beyond 64 bits": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "size of too many digits": b"0000000000000005\r\nhello\r\n0\r\n\r\n",
    "bare LF after the size": b"5\nhello\r\n0\r\n\r\n",
    "bare CR after the size": b"5\rhello\r\n0\r\n\r\n",
    "CR CR LF after the size": b"5\r\r\nhello\r\n0\r\n\r\n",
    "bare LF in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "control character in an extension": b"5;a\x01\r\nhello\r\n0\r\n\r\n",
    "extension without a semicolon": b"5 a=b\r\nhello\r\n0\r\n\r\n",
    "overlong extension": b"5;" + b"x" * 1100 + b"\r\nhello\r\n0\r\n\r\n",
    "endless extension": b"5;" + b"x" * 1100,
    "many extensions": (b"1;" + b"x" * 1000 + b"\r\ny\r\n") * 10,
    "chunk longer than its size": b"4\r\nhello\r\n0\r\n\r\n",
    "bare LF after a chunk": b"5\r\nhello\n0\r\n\r\n",
    "bare CR after a chunk": b"5\r\nhello\r0\r\n\r\n",
    "trailer without a colon": b"0\r\nX\r\n\r\n",
    "length as a trailer": b"0\r\nContent-Length: 5\r\n\r\n",
    "coding as a trailer": b"0\r\ntransfer-encoding: chunked\r\n\r\n",
    "host as a trailer": b"0\r\nX: y\r\nHost: other\r\n\r\n",
    "folded trailer": b"0\r\nX: y\r\n z\r\n\r\n",
    "space before the colon of a trailer": b"0\r\nX : y\r\n\r\n",
    "bare LF after a trailer": b"0\r\nX: y\n\r\n",
    "overlong trailer": b"0\r\nX: " + b"y" * 1100 + b"\r\n\r\n",
    "many trailers": b"0\r\n" + (b"X: " + b"y" * 1000 + b"\r\n") * 10,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_malformed_body_is_refused(body, autojump_clock) -> None:
    cancelled = 0

    async def app(scope, receive, send):
        nonlocal cancelled
        try:
            await read_body(receive)
        except trio.Cancelled:
            cancelled += 1
            raise

    async with serving(app) as server:
        raw = in_chunks(body)
        step = 1 if len(raw) < 200 else 50
        steps = [raw[place : place + step] for place in range(0, len(raw), step)]
        for pieces in ([raw + get("/smuggled")], steps):
            client = server.connect()
            for piece in pieces:
                await client.send(piece)
                await trio.testing.wait_all_tasks_blocked()
            assert (await client.answer("POST")).status == 400
            assert await client.rest() == b""
        assert cancelled == 2
        assert server.server.counters.requests == 2
        assert server.server.counters.failed == 0


# Too much --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (get("/" + "x" * 1000), 414),
        (b"GET /" + b"x" * 1000, 414),
        (get("/", "X: " + "y" * 1000), 431),
        (get("/", "X: " + "y" * 1000)[:-3], 431),
        (get("/", *["X: y"] * 20), 431),
    ],
    ids=["target", "endless target", "header", "endless header", "many headers"],
)
async def test_a_head_may_not_be_too_large(raw, status, autojump_clock) -> None:
    async with serving(answering(), max_header_bytes=1000, max_headers=20) as server:
        for pieces in ([raw], [raw[place : place + 3] for place in range(0, len(raw), 3)]):
            client = server.connect()
            for piece in pieces:
                await client.send(piece)
                await trio.testing.wait_all_tasks_blocked()
            answer = await client.answer()
            assert answer.status == status
            assert await client.rest() == b""
        assert server.server.counters.requests == 0


async def test_a_head_may_be_as_large_as_allowed(autojump_clock) -> None:
    raw = get("/", *["X: y"] * 19)
    async with serving(answering(), max_header_bytes=len(raw), max_headers=20) as server:
        client = server.connect()
        for byte in raw:
            await client.send(bytes([byte]))
        assert (await client.answer()).status == 200


async def test_a_body_that_announces_to_be_too_large_never_reaches_the_app(
    autojump_clock,
) -> None:
    async with serving(echo, max_body_bytes=10) as server:
        client = server.connect()
        answer = await client.ask(post(b"x" * 11, "Expect: 100-continue")[:-11])
        assert (answer.status, answer.informational) == (413, [])
        assert answer.body == b"The body is longer than 10 bytes.\n"
        assert await client.rest() == b""
        assert (await server.ask(post(b"x" * 10))).status == 200
        assert server.server.counters.requests == 1


async def test_a_body_that_turns_out_to_be_too_large_is_refused(autojump_clock) -> None:
    async with serving(echo, max_body_bytes=10) as server:
        assert (await server.ask(post_chunks([b"x" * 5, b"y" * 5]))).status == 200
        client = server.connect()
        await client.send(in_chunks(b"5\r\nhello\r\n6"))
        await trio.testing.wait_all_tasks_blocked()
        await client.send(b"\r\n")
        assert (await client.answer()).status == 413
        assert await client.rest() == b""


async def test_a_response_that_has_begun_is_cut_short_if_the_body_is_refused(
    autojump_clock,
) -> None:
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await read_body(receive)

    async with serving(app) as server:
        client = server.connect()
        await client.send(in_chunks(b"nonsense\r\n"))
        assert (await client.rest()).endswith(b"\r\n\r\n1\r\nx\r\n")


async def test_an_app_that_shields_itself_is_told_of_the_end(autojump_clock) -> None:
    messages = []

    async def app(scope, receive, send):
        with trio.CancelScope(shield=True):
            messages.append(await receive())
            await reply(send, b"ignored")

    async with serving(app) as server:
        client = server.connect()
        await client.send(in_chunks(b"nonsense\r\n"))
        assert (await client.answer()).status == 400
        assert await client.rest() == b""
    assert messages == [{"type": "http.disconnect"}]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (request("BREW", "/"), 501),
        (request("get", "/"), 501),
        (head("CONNECT test:80 HTTP/1.1", "Host: test:80"), 501),
        (request("POST", "/", "Expect: tea"), 417),
    ],
)
async def test_what_is_not_offered_is_refused(raw, status, autojump_clock) -> None:
    async with serving(answering()) as server:
        client = server.connect()
        await client.send(raw)
        assert (await client.answer()).status == status
        assert await client.rest() == b""
        assert server.server.counters.requests == 0


async def test_a_refusal_waits_for_what_was_asked_before(autojump_clock) -> None:
    async with serving(echo) as server:
        client = server.connect()
        await client.send(get("/1") + get("/2") + b"nonsense\r\n\r\n" + get("/3"))
        assert (await client.answer()).body == b"GET /1:"
        assert (await client.answer()).body == b"GET /2:"
        assert (await client.answer()).status == 400
        assert await client.rest() == b""


async def test_a_refusal_after_a_head_request_has_its_body(autojump_clock) -> None:
    async with serving(echo) as server:
        client = server.connect()
        assert (await client.ask(request("HEAD", "/"))).status == 200
        await client.send(b"nonsense\r\n\r\n")
        assert (await client.answer()).body.startswith(b"The request line")


async def test_a_head_request_that_is_refused_gets_no_body(autojump_clock) -> None:
    async with serving(echo, max_body_bytes=10) as server:
        client = server.connect()
        await client.send(request("HEAD", "/", "Content-Length: 11"))
        assert (await client.answer("HEAD")).status == 413
        assert await client.rest() == b""


async def test_a_client_that_goes_on_sending_still_gets_to_read_its_refusal(
    autojump_clock,
) -> None:
    async with serving(echo, max_body_bytes=10, linger_timeout=3) as server:
        client = server.connect()
        await client.send(post(b"x" * 100_000))
        for _ in range(10):
            await trio.testing.wait_all_tasks_blocked()
            await client.send(b"x" * 100_000)
        assert (await client.answer()).status == 413
        began = trio.current_time()
        await trio.sleep(2)
        await client.send(b"x")
        with pytest.raises(trio.BrokenResourceError):
            while trio.current_time() - began < 10:
                await trio.sleep(1)
                await client.send(b"x")
        assert trio.current_time() - began == pytest.approx(4, abs=1)
