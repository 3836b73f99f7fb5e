"""What comes over a socket, byte by byte: two headers, odd spaces, too much of everything."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from tests.auth.server.support import ISSUER, Issuer, ec_key, resource_server
from tests.support.client import MODERN, modern_meta
from tests.support.tools import echo, registry_of
from trio_mcp import HttpPolicy, serve_http

TIME_LIMIT = 120
LOGIN = Issuer(ISSUER, ec_key())
BODY = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "hi"}, "_meta": modern_meta()},
    }
).encode()
HEAD = "\r\n".join(
    [
        "POST TARGET HTTP/1.1",
        "Host: mcp.example.com",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"MCP-Protocol-Version: {MODERN[0]}",
        "Mcp-Method: tools/call",
        "Mcp-Name: echo",
        f"Content-Length: {len(BODY)}",
        "Connection: close",
        "",
    ]
)


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    """A protected server on a port of loopback."""
    async with trio.open_nursery() as nursery:
        policy = HttpPolicy(auth=resource_server(LOGIN))
        handle = await nursery.start(
            partial(serve_http, registry_of(echo), "127.0.0.1", 0, policy=policy)
        )
        yield int(handle.url.split(":")[2].partition("/")[0])
        nursery.cancel_scope.cancel()


async def answer(port: int, headers: bytes, target: str = "/mcp") -> tuple[int, bytes]:
    """Send a request with these headers; return the status and all of the answer."""
    sent = HEAD.replace("TARGET", target).encode() + headers + b"\r\n" + BODY
    with trio.fail_after(TIME_LIMIT):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            received = b""
            try:
                await stream.send_all(sent)
            except trio.BrokenResourceError:
                pass  # it has heard enough
            try:
                while piece := await stream.receive_some():
                    received += piece
            except trio.BrokenResourceError:
                pass
    return int(received.split(b" ")[1]), received


WRONG: dict[str, tuple[bytes, int]] = {
    "two": (b"Authorization: Bearer TOKEN\r\nAuthorization: Bearer TOKEN\r\n", 400),
    "two in other letters": (b"AUTHORIZATION: Bearer x\r\nauthorization: Bearer TOKEN\r\n", 400),
    "two, one of them empty": (b"Authorization: Bearer TOKEN\r\nAuthorization:\r\n", 400),
    "two, far apart": (
        b"Authorization: Bearer TOKEN\r\n" + b"X: y\r\n" * 50 + b"Authorization: Basic YTpi\r\n",
        400,
    ),
    "two in one": (b"Authorization: Bearer TOKEN, Bearer TOKEN\r\n", 400),
    "folded": (b"Authorization: Bearer\r\n TOKEN\r\n", 400),
    "a space before the colon": (b"Authorization : Bearer TOKEN\r\n", 400),
    "a bare line feed": (b"X: y\nAuthorization: Bearer TOKEN\r\n", 400),
    "a bare carriage return": (b"X: y\rAuthorization: Bearer TOKEN\r\n", 400),
    "a null": (b"Authorization: Bearer TOKEN\0\r\n", 400),
    "a tab": (b"Authorization: Bearer\tTOKEN\r\n", 401),
    "no space": (b"Authorization: BearerTOKEN\r\n", 401),
    "an equals sign": (b"Authorization: Bearer=TOKEN\r\n", 401),
    "a parameter": (b'Authorization: Bearer token="TOKEN"\r\n', 401),
    "quotes": (b'Authorization: Bearer "TOKEN"\r\n', 401),
    "a half": (b"Authorization: Bearer HALF\r\n", 401),
    "bytes": (b"Authorization: Bearer \xff\xfeTOKEN\r\n", 401),
    "no letters": (b"Authorization: " + b"=" * 8000 + b"\r\n", 401),
    "spaces": (b"Authorization: Bearer " + b" " * 8000 + b"x y\r\n", 401),
    "another name": (b"Proxy-Authorization: Bearer TOKEN\r\n", 401),
    "X-Authorization": (b"X-Authorization: Bearer TOKEN\r\n", 401),
    "in a cookie": (b"Cookie: access_token=TOKEN\r\n", 401),
    "a megabyte": (b"Authorization: Bearer " + b"x" * 1_000_000 + b"\r\n", 431),
    "ten thousand": (b"Authorization: Bearer TOKEN\r\n" * 10_000, 431),
}


@pytest.mark.parametrize("what", WRONG)
async def test_headers(what: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = LOGIN.token().encode()
    sent, status = WRONG[what]
    sent = sent.replace(b"TOKEN", token).replace(b"HALF", token[:-20])
    async with listening() as port:
        right = b"Authorization: Bearer " + token + b"\r\n"
        assert (await answer(port, right))[0] == 200, "it is known from now on"
        found, text = await answer(port, sent)
        assert found == status
        assert b'"result"' not in text
        assert (b"www-authenticate: Bearer " in text) == (status == 401 or b"rror=" in text)
        assert (await answer(port, right))[0] == 200
    assert not any(part.decode() in caplog.text for part in token.split(b"."))


async def test_spaces_that_are_allowed() -> None:
    token = LOGIN.token().encode()
    async with listening() as port:
        for sent in (b"authorization:Bearer TOKEN", b"Authorization: \t bEARER   TOKEN \t"):
            assert (await answer(port, sent.replace(b"TOKEN", token) + b"\r\n"))[0] == 200


@pytest.mark.parametrize(
    "query", ["access_token=TOKEN", "a=b&access_token=TOKEN", "a=b;access_token=TOKEN&c"]
)
async def test_a_token_in_the_url(query: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = LOGIN.token()
    target = "/mcp?" + query.replace("TOKEN", token)
    async with listening() as port:
        for headers in (b"", b"Authorization: Bearer " + token.encode() + b"\r\n"):
            status, text = await answer(port, headers, target)
            assert status == 400
            assert b'error="invalid_request"' in text
            assert token.encode() not in text
    assert token not in caplog.text


async def test_a_token_in_the_body_is_none() -> None:
    token = LOGIN.token()
    form = f"access_token={token}".encode()
    head = HEAD.replace("TARGET", "/mcp").replace(
        "application/json\r\nAccept", "application/x-www-form-urlencoded\r\nAccept"
    )
    head = head.replace(f"Content-Length: {len(BODY)}", f"Content-Length: {len(form)}")
    async with listening() as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(head.encode() + b"\r\n" + form)
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 401 ")
