"""Whoever knocks where the browser is to come back: in numbers, slowly, and with nonsense."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.auth.client.test_redirect import request, send
from trio_mcp.auth.client.redirect import PATH, Pkce, Redirect, receiving

TIME_LIMIT = 120

NONSENSE = {
    "an address that is none": b"GET //[?CODE HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a whole URL": b"GET http://HOST/callback?CODE HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "another scheme": b"GET ftp://[::1/callback HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a port that is none": b"GET http://a:x/callback?CODE HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a tunnel": b"CONNECT HOST HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "an upgrade": b"GET /callback?CODE HTTP/1.1\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    "everything": b"OPTIONS * HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "no host": b"GET /callback?CODE HTTP/1.1\r\n\r\n",
    "an empty host": b"GET /callback?CODE HTTP/1.1\r\nHost:\r\n\r\n",
    "a host with a dot": b"GET /callback?CODE HTTP/1.1\r\nHost: localhost.:PORT\r\n\r\n",
    "a host without its port": b"GET /callback?CODE HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a host with a user": b"GET /callback?CODE HTTP/1.1\r\nHost: a@HOST\r\n\r\n",
    "a long query": b"GET /callback?CODE&x=" + b"x" * 1_000_000 + b" HTTP/1.1\r\n\r\n",
    "a long header": b"GET /callback?CODE HTTP/1.1\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n",
    "many headers": b"GET /callback?CODE HTTP/1.1\r\n" + b"X: x\r\n" * 100_000 + b"\r\n",
    "bytes": b"\x00\xff" * 1000 + b"\r\n\r\n",
    "state in other letters": b"GET /callback?STATE=x&code=c HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "state that is not text": b"GET /callback?state=%ff%fe&code=c HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a body": b"POST /callback HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\n\r\nCODE",
    "HEAD": b"HEAD /callback?CODE HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


async def comes_back(redirect: Redirect, pkce: Pkce) -> bool:
    """Whether the browser is answered, and its code arrives."""
    with trio.fail_after(TIME_LIMIT):
        first = await send(redirect, request(f"{PATH}?state={pkce.state}&code=c", redirect))
        return b"200" in first and (await redirect.answer())["code"] == "c"


@pytest.mark.parametrize("what", NONSENSE)
async def test_nonsense_is_refused_and_disturbs_nothing(what: str) -> None:
    pkce = Pkce()
    async with receiving(pkce, port=0, host="127.0.0.1") as redirect:
        host = redirect.uri.split("/")[2].encode()
        sent = NONSENSE[what].replace(b"HOST", host).replace(b"PORT", host.partition(b":")[2])
        sent = sent.replace(b"CODE", f"state={pkce.state}&code=stolen".encode())
        with trio.fail_after(TIME_LIMIT):
            assert b"200" not in await send(redirect, sent)
        assert await comes_back(redirect, pkce)


async def test_who_keeps_connections_open_does_not_keep_the_browser_out() -> None:
    pkce = Pkce()
    async with receiving(pkce, port=0, host="127.0.0.1") as redirect, AsyncExitStack() as opened:
        port = int(redirect.uri.split(":")[2].partition("/")[0])
        for number in range(300):
            stream = await opened.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
            await stream.send_all(b"GET /callback HTTP/1.1\r\nX: "[: number % 30])
        await wait_all_tasks_blocked()
        assert await comes_back(redirect, pkce)


async def test_it_is_given_up_with_the_login_however_many_are_there() -> None:
    async with AsyncExitStack() as opened:
        async with receiving(Pkce(), port=0, host="127.0.0.1") as redirect:
            port = int(redirect.uri.split(":")[2].partition("/")[0])
            streams = [
                await opened.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
                for _ in range(50)
            ]
            await wait_all_tasks_blocked()
        with trio.fail_after(TIME_LIMIT):
            for stream in streams:
                with pytest.raises((trio.BrokenResourceError, StopAsyncIteration)):
                    if not await stream.receive_some():
                        raise StopAsyncIteration
