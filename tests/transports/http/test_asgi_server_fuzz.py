"""The embedded HTTP server on any bytes, in any pieces, with h11 as the judge on both sides."""

import itertools
from typing import Any

import h11
import trio
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.transports.http.asgi_server_support import (
    get,
    judge_of_response,
    post,
    post_chunks,
    read_body,
    request,
    serving,
)

VALID = [
    get("/a?b=c", "Accept: */*"),
    get("http://test/x", version="1.0"),
    post(b"hello"),
    post_chunks([b"hello", b"world"], trailers=b"X: y\r\n"),
    post(b"hello", "Expect: 100-continue", "Connection: keep-alive"),
    request("PUT", "/%41", "Content-Length: 0", "Connection: close"),
]
NASTY = [
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b",", b";", b"#", b"\x7f", b"\xff", b"0", b"5",
    b"-", b"+", b"\r\n ", b"\r\n\r\n", b"\r\nContent-Length: 3", b"\r\nTransfer-Encoding: chunked",
    b"\r\nHost: other", b"\r\nX: y", b"chunked", b"%", b"/", b"*", b"HTTP/1.1", b"HTTP/1.0",
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Requests that were valid before somebody meddled with them."""
    raw = b"".join(draw(st.lists(st.sampled_from(VALID), min_size=1, max_size=4)))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(raw)))
        length = draw(st.sampled_from([0, 0, 1, 2, 10]))
        raw = raw[:start] + draw(st.sampled_from([b"", *NASTY])) + raw[start + length :]
    return raw


@define
class Seen:
    """A request, as somebody understood it."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    whole: bool = field(default=False, eq=False)
    """It has all of its body. (h11 also checks the trailers, which are ignored here.)"""


def converse(pieces: list[bytes]) -> tuple[list[Seen], bytes]:
    """Send pieces to a server, and return what its app saw and what the client received."""
    seen: list[Seen] = []
    received = bytearray()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        target = scope["raw_path"] + (b"?" + scope["query_string"]) * bool(scope["query_string"])
        now = Seen(scope["method"], target, scope["headers"], b"")
        seen.append(now)
        now.body = await read_body(receive)
        now.whole = True
        start = {"type": "http.response.start", "status": 200}
        await send(start)
        await send({"type": "http.response.body", "body": now.body, "more_body": True})
        await send({"type": "http.response.body", "body": b"!"})

    async def main() -> None:
        async with serving(app, header_timeout=5, idle_timeout=5, body_timeout=5) as server:
            client = server.connect()

            async def read() -> None:
                received.extend(await client.rest())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                for piece in pieces:
                    try:
                        await client.send(piece)
                    except trio.BrokenResourceError:  # the server has heard enough
                        break
                    await trio.testing.wait_all_tasks_blocked()
            await client.stream.aclose()
            await trio.testing.wait_all_tasks_blocked()
            assert server.server.counters.connections == 0
            assert len(seen) == server.server.counters.requests

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return seen, bytes(received)


def responses(data: bytes, methods: list[str]) -> list[int]:
    """The statuses of whole responses, one after the other."""
    statuses = []
    for method in [*methods, *["GET"] * 2]:
        if not data:
            break
        judge = judge_of_response(method)
        judge.receive_data(data)
        while not isinstance(event := judge.next_event(), h11.EndOfMessage):
            assert event is not h11.NEED_DATA, "a response is not complete"
            if isinstance(event, h11.Response):
                statuses.append(event.status_code)
                if event.http_version == b"1.1" and dict(event.headers).keys().isdisjoint(
                    {b"content-length", b"transfer-encoding"}
                ):
                    assert dict(event.headers)[b"connection"] == b"close"
                    judge.receive_data(b"")
        data = judge.trailing_data[0]
    assert not data, "more responses than requests"
    return statuses


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(ends)]


PLACES = st.lists(st.integers(0, 2000), max_size=8)


@given(data=st.one_of(st.binary(max_size=200), mutated()), places=PLACES)
def test_any_bytes_end_in_whole_responses_or_a_close(data: bytes, places: list[int]) -> None:
    seen, received = converse(cut(data, places))
    statuses = responses(received, [each.method for each in seen])
    refusals = {400, 408, 413, 414, 417, 431, 501}
    assert set(statuses[:-1]) <= {200}
    assert set(statuses[-1:]) <= refusals | {200}


@given(
    requests=st.lists(st.sampled_from(VALID[:5]), min_size=1, max_size=4).map(b"".join),
    places=PLACES,
)
def test_how_requests_are_cut_makes_no_difference(requests: bytes, places: list[int]) -> None:
    whole, answer = converse([requests])
    pieces, other = converse(cut(requests, places))
    assert pieces == whole
    continued = b"HTTP/1.1 100 Continue\r\n\r\n"
    strip = [line for line in answer.split(b"\r\n") if not line.startswith(b"date: ")]
    other = other.replace(continued, b"")
    assert [line for line in other.split(b"\r\n") if not line.startswith(b"date: ")] == strip


def judged(raw: bytes) -> list[Seen]:
    """What h11 makes of the same bytes. It does not know of an empty line before a request."""
    seen: list[Seen] = []
    while raw := raw.removeprefix(b"\r\n"):
        judge = h11.Connection(h11.SERVER)
        judge.receive_data(raw)
        try:
            request = judge.next_event()
            if not isinstance(request, h11.Request):
                break
            now = Seen(request.method.decode(), request.target, list(request.headers), b"")
            seen.append(now)
            while isinstance(event := judge.next_event(), h11.Data):
                now.body += bytes(event.data)
        except h11.RemoteProtocolError:
            break
        if judge.states[h11.CLIENT] is not h11.DONE:
            break
        raw = judge.trailing_data[0]
    return seen


@given(data=mutated())
def test_what_is_accepted_is_understood_as_h11_does(data: bytes) -> None:
    seen, _ = converse([data])
    reference = judged(data)
    assert len(seen) <= len(reference)
    for ours, theirs in zip(seen, reference, strict=False):
        if theirs.target.lower().startswith(b"http"):
            continue  # the URL is taken apart
        if ours.whole:
            assert ours == theirs
        else:
            assert (ours.method, ours.headers) == (theirs.method, theirs.headers)
