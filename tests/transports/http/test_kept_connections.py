"""Requests one after the other on a connection: what is kept from one to the next decides nothing."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any
from unittest.mock import AsyncMock

import pytest
import trio

from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.asgi_server_support import post, serving
from tests.transports.http.sockets import served
from tests.transports.http.support import ModernClient
from trio_mcp import HttpPolicy, Registry, http_app
from trio_mcp.transports.http.request import HttpRequest
from trio_mcp.transports.http.request_head import RequestHead
from trio_mcp.transports.http.server.asgi import CONNECTION
from trio_mcp.transports.http.server.head import Head, HeadReader
from trio_mcp.transports.http.server.response import Refused

pytestmark = pytest.mark.requirement("F1", "B1", "B2")


HEAD = (
    b"POST /mcp?q=1 HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: 57\r\n"
    b"Content-Type: application/json\r\nContent-Length-Of: 57\r\n\r\n"
)
"""One whose numbers stand where others might be looked for."""


def understood(reader: HeadReader, raw: bytes) -> Any:
    """What a reader makes of some bytes, and what it leaves of them."""
    buffer = bytearray(raw)
    try:
        head = reader.take(buffer)
    except Refused as refused:
        return refused.status
    if head is None:
        return None
    return {name: getattr(head, name) for name in Head.__slots__ if name[0] != "_"}, buffer


def as_afresh(*raws: bytes, max_bytes: int = 1000) -> list[Any]:
    """What a reader makes of heads one after the other: of each the same as if it were the first."""
    reader, found = HeadReader(max_bytes, 10), []
    for raw in raws:
        found.append(understood(reader, raw))
        assert found[-1] == understood(HeadReader(max_bytes, 10), raw)
    return found


@pytest.mark.parametrize("length", [b"57", b"58", b"5", b"0", b"0058", b"123456789012345"])
def test_a_head_that_has_another_length_is_the_same_head(length: bytes) -> None:
    other = HEAD.replace(b"57", length, 1)
    for (head, rest), digits in zip(
        as_afresh(HEAD, other, HEAD), (b"57", length, b"57"), strict=True
    ):
        assert head["length"] == int(digits)
        assert dict(head["headers"])[b"content-length"] == digits
        assert dict(head["headers"])[b"content-length-of"] == b"57"
        assert not rest


@pytest.mark.parametrize(
    "length",
    [
        b"",
        b"-1",
        b"+1",
        b"1_0",
        b"0x9",
        b"5 7",
        b"5, 7",
        b"57\r\nX: y",
        b"1234567890123456",
        b"\xb2",
    ],
)
def test_what_is_no_length_is_none_on_a_known_head(length: bytes) -> None:
    as_afresh(HEAD, HEAD.replace(b"57", length, 1), HEAD)


@pytest.mark.parametrize("byte", [b"", b"7", b" ", b"\r", b"\n", b"\t", b":", b"x", b"\0", b"\xff"])
def test_a_head_that_differs_anywhere_is_understood_afresh(byte: bytes) -> None:
    for at in range(len(HEAD)):
        as_afresh(HEAD, HEAD[:at] + byte + HEAD[at + 1 :] + b"{}", HEAD)
        as_afresh(HEAD, HEAD[:at] + byte + HEAD[at:] + b"{}", HEAD)
        as_afresh(HEAD, HEAD[:at], HEAD + HEAD[:at])


PLAIN = (
    b"POST / HTTP/1.1\r\nHost: a\r\nX-Session: one\r\nContent-Length: 2\r\n"
    b"X-Session: two\r\nX-Empty:\r\nUpgrade: x\r\n\r\n"
)


@pytest.mark.parametrize("line", PLAIN.split(b"\r\n")[1:-2])
@pytest.mark.parametrize(
    "value",
    [
        b"b",
        b"33",
        b"\t a  b\t ",
        b"",
        b" ",
        b"a:b",
        b"a\x0bb",
        b"\x0cb",
        b"a\0",
        b"\x7f",
        b"\xe9",
        b"\xa0b",
        b"a\rb",
        b"a\nb",
        b"a\r\n b",
        b"a\r\nX-Session: b",
        b"chunked",
    ],
)
def test_a_head_with_another_value_is_understood_as_afresh(line: bytes, value: bytes) -> None:
    name = line.partition(b":")[0]
    for whole in (PLAIN, PLAIN.replace(b"X-Empty:\r\n", b"")):
        for put in (b"%b:%b" % (name, value), b"%b : %b" % (name, value), value):
            other = whole.replace(line, put, 1)
            as_afresh(whole, other, other, whole)
            as_afresh(whole, other.replace(b"2\r\n", b"17\r\n"), whole)


@pytest.mark.parametrize("name", [b"Transfer-Encoding", b"Connection", b"Expect", b"Upgrade"])
@pytest.mark.parametrize("one", [b"chunked", b"close", b"keep-alive", b"100-continue", b"x"])
@pytest.mark.parametrize("two", [b"chunked", b"close", b"keep-alive", b"100-continue", b"x"])
def test_what_a_header_says_of_the_request_is_understood_afresh(
    name: bytes, one: bytes, two: bytes
) -> None:
    as_afresh(*(b"GET / HTTP/1.1\r\nHost: a\r\n%b: %b\r\n\r\n" % (name, it) for it in (one, two)))


def test_a_head_without_headers_is_like_no_other() -> None:
    as_afresh(*(b"GET %b HTTP/1.0\r\n\r\n" % target for target in (b"/", b"/x", b"/", b"/?")))


def test_a_head_with_other_values_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = HeadReader(1000, 10)
    whole = PLAIN.replace(b"X-Empty:\r\n", b"")
    assert reader.take(bytearray(whole)) is not None
    monkeypatch.setattr("trio_mcp.transports.http.server.head.parse_head", None)
    for session, length in [(b"1", b"2"), (b"22", b"2"), (b"22", b"33"), (b"one", b"33")]:
        other = whole.replace(b"one", session).replace(b"Length: 2", b"Length: " + length)
        head = reader.take(bytearray(other))
        assert head is not None
        assert (head.length, head.headers[1]) == (int(length), (b"x-session", session))


def test_a_longer_length_may_make_a_head_too_long() -> None:
    found = as_afresh(HEAD, HEAD.replace(b"57", b"1057", 1), max_bytes=len(HEAD) + 1)
    assert found[1] == 431


@pytest.mark.parametrize("at", [10, 60, len(HEAD) - 1])
def test_a_head_is_found_after_one_that_came_in_parts(at: int) -> None:
    as_afresh(HEAD, HEAD[:at], HEAD, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")


async def wait() -> None:
    """Wait for too long."""
    await trio.sleep_forever()


def registry_with_wait() -> Registry:
    registry = registry_of(echo)
    registry.add_tool(wait, timeout=1)
    return registry


async def test_a_call_that_is_late_is_ended_alone(autojump_clock: Any) -> None:
    app = http_app(registry_with_wait(), policy=HttpPolicy(allowed_hosts=["test"]))
    makes: Any = ModernClient(None)  # type: ignore[arg-type]  # it makes messages only
    async with app.running(), serving(app) as server:
        client = server.connect()

        async def call(name: str, **arguments: Any) -> Any:
            params = {"name": name, "arguments": arguments}
            message = makes.request_of("tools/call", params)
            headers = [f"{key}: {value}" for key, value in makes.headers_for(message).items()]
            body = json.dumps(message).encode()
            return json.loads((await client.ask(post(body, *headers, target="/mcp"))).body)

        for started in range(2):
            for text in ("one", "two"):
                assert text_of(await call("echo", text=text)) == text
            late = await call("wait")
            assert late["result"]["isError"]
            assert "timed out" in text_of(late)
            assert trio.current_time() == started + 1


@pytest.mark.parametrize(
    ("other", "status"),
    [
        ({"host": "elsewhere.example"}, 403),
        ({"origin": "https://elsewhere.example"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"accept": "application/json"}, 406),
        ({"mcp-name": "wait"}, 400),
        ({"mcp-method": "tools/list"}, 400),
        ({"mcp-name": None}, 400),
        ({"mcp-protocol-version": "2025-11-25"}, 400),
        ({"x-more": "nothing else"}, 200),
        ({"x-forwarded-for": "192.0.2.1"}, 200),
    ],
)
async def test_a_head_that_differs_is_looked_at_again(other: dict[str, Any], status: int) -> None:
    async with served(registry_with_wait()) as server, server.connect() as wire:
        call = server.call("echo", text="hello")
        for _ in range(2):
            assert (await (await wire.post(server.modern, call)).whole()).status == 200
            for _ in range(2):
                reply = await wire.post(server.modern, call, **other)
                assert (await reply.whole()).status == status


LENGTH = (b"content-length", b"7")
FIELDS = [(b"host", b"localhost"), LENGTH, (b"accept", b"*/*"), (b"mcp-session-id", b"1")]


def scope_of(fields: list[tuple[bytes, bytes]], **more: Any) -> dict[str, Any]:
    return {"method": "POST", "path": "/mcp", "client": ("::1", 1), "headers": fields, **more}


@pytest.mark.parametrize("order", list(permutations(FIELDS)))
def test_requests_share_a_head_whose_length_and_session_differ(order: Any) -> None:
    known = RequestHead(scope_of(list(order)), {})
    assert known.headers_of(scope_of(list(order))) == dict(order)
    for name in (b"content-length", b"mcp-session-id"):
        other = [(key, b"12345" if key == name else value) for key, value in order]
        assert known.headers_of(scope_of(other)) == dict(other)
        without = [field for field in order if field[0] != name]
        for fields in (without, [*without, (b"authorization", b"Bearer x")]):
            assert known.headers_of(scope_of(fields)) == dict(fields)
    twice = known.headers_of(scope_of([*order, LENGTH]))
    assert twice == {**dict(order), b"content-length": b"7, 7"}
    for about in ({"method": "GET"}, {"path": "/"}, {"root_path": "/at"}, {"client": ("::2", 1)}):
        assert known.headers_of(scope_of(list(order), **about)) is None


@pytest.mark.parametrize(
    "name",
    [
        b"host",
        b"origin",
        b"x-forwarded-for",
        b"content-type",
        b"accept",
        b"mcp-protocol-version",
        b"mcp-method",
        b"mcp-name",
    ],
)
def test_requests_share_no_head_whose_checks_may_end_otherwise(name: bytes) -> None:
    rest = [field for field in FIELDS if field[0] != name]
    fields, other = [*rest, (name, b"one")], [*rest, (name, b"two")]
    for known, changed in permutations([fields, other, rest, [*fields, (name, b"one")]], 2):
        assert RequestHead(scope_of(known), {}).headers_of(scope_of(changed)) is None


def test_apps_on_one_connection_share_no_head() -> None:
    scope = scope_of(FIELDS, extensions={CONNECTION: {}})

    def head(app: object) -> RequestHead:
        return HttpRequest(scope, AsyncMock(), AsyncMock(), app).head

    one, other = object(), object()
    known = head(one)
    assert head(one) is known
    assert head(other) is not known


async def test_bodies_of_any_length_are_those_of_the_same_client() -> None:
    async with served(registry_of(echo)) as server, server.connect() as wire:
        for text in ("hello", "", "x" * 1000, "hello", "x" * 100_000, "hello"):
            reply = await (await wire.post(server.modern, server.call("echo", text=text))).whole()
            assert text_of(reply.json()) == text


async def test_a_body_that_differs_from_its_head_is_refused_however_often_it_did_not() -> None:
    async with served(registry_of(echo)) as server, server.connect() as wire:
        call = server.call("echo", text="hello")
        for _ in range(2):
            assert (await (await wire.post(server.modern, call)).whole()).status == 200
        headers = server.modern.headers_for(call)
        other = {**call, "params": {**call["params"], "name": "ohce"}}
        reply = await (await wire.post(server.modern, other, **headers)).whole()
        assert (reply.status, reply.json()["error"]["code"]) == (400, -32020)


async def test_each_request_is_its_token_s_owner_s() -> None:
    policy = HttpPolicy(tokens={"one": "ann", "two": "bob"})
    async with served(registry_of(echo), policy=policy) as server, server.connect() as wire:
        call = server.call("echo", text="hello")
        for token, status in [("one", 200), ("two", 200), ("six", 401), ("one", 200), (None, 401)]:
            given = None if token is None else f"Bearer {token}"
            reply = await wire.post(server.modern, call, authorization=given)
            assert (await reply.whole()).status == status


async def test_answers_to_a_page_say_that_it_may_read_them() -> None:
    async with served(registry_of(echo)) as server, server.connect() as wire:
        call, page = server.call("echo", text="hello"), "http://localhost:3000"
        for origin in (page, page, None, page):
            reply = await wire.post(server.modern, call, origin=origin)
            said = (await reply.whole()).headers.get("access-control-allow-origin")
            assert said == origin
