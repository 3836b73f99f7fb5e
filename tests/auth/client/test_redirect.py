"""The server of one answer: what it takes, and what it leaves standing."""

from __future__ import annotations

import pytest
import trio

from trio_mcp.auth.client.redirect import PATH, Pkce, Redirect, receiving
from trio_mcp.errors import AuthorizationError

pytestmark = pytest.mark.requirement("J5")

TIME_LIMIT = 120


async def send(redirect: Redirect, data: bytes) -> bytes:
    """Send bytes, and give back the first line of the answer."""
    port = int(redirect.uri.rsplit(":", 1)[1].partition("/")[0])
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        answer = b""
        try:
            await stream.send_all(data)
            while piece := await stream.receive_some():
                answer += piece
        except trio.BrokenResourceError:
            pass
    return answer.partition(b"\r\n")[0]


def request(target: str, redirect: Redirect, *more: str, method: str = "GET") -> bytes:
    host = redirect.uri.split("/")[2]
    lines = [f"{method} {target} HTTP/1.1", *(more or [f"Host: {host}"]), "", ""]
    return "\r\n".join(lines).encode()


async def test_what_does_not_belong_is_refused_and_the_right_one_is_taken_once() -> None:
    pkce = Pkce()
    right = f"{PATH}?state={pkce.state}&code=c"
    async with receiving(pkce, port=0, host="127.0.0.1") as redirect:
        wrong = {
            f"{PATH}?state=other&code=c": b"400",
            f"{PATH}?code=c": b"400",
            f"{PATH}?state={pkce.state}&state={pkce.state}": b"400",
            f"{right}&code=d": b"400",
            f"{right}&" + "&".join(f"x{n}=" for n in range(100)): b"400",
            "/favicon.ico": b"404",
            f"/x{right}": b"404",
        }
        with trio.fail_after(TIME_LIMIT):
            for target, status in wrong.items():
                assert status in await send(redirect, request(target, redirect))
            assert b"405" in await send(redirect, request(right, redirect, method="POST"))
            assert b"400" in await send(redirect, request(right, redirect, "Host: evil.test"))
            port = redirect.uri.split(":")[2].partition("/")[0]
            twice = (f"Host: 127.0.0.1:{port}", "Host: evil.test")
            assert b"400" in await send(redirect, request(right, redirect, *twice))
            assert await send(redirect, b"\x16\x03\x01 no HTTP\r\n\r\n") == b""
            assert await send(redirect, b"GET /" + b"x" * 100_000) == b""
            assert b"200" in await send(redirect, request(right, redirect))
            assert await redirect.answer() == {"state": pkce.state, "code": "c"}
            assert b"400" in await send(redirect, request(right, redirect))


async def test_who_sends_half_a_request_holds_nobody_up() -> None:
    pkce = Pkce()
    async with receiving(pkce, port=0, host="localhost") as redirect:
        assert redirect.uri.startswith("http://localhost:")
        port = int(redirect.uri.split(":")[2].partition("/")[0])
        with trio.fail_after(TIME_LIMIT):
            idle = await trio.open_tcp_stream("127.0.0.1", port)
            await idle.send_all(b"GET /call")
            right = request(f"{PATH}?state={pkce.state}&code=c", redirect)
            assert b"200" in await send(redirect, right)
            assert (await redirect.answer())["code"] == "c"
            await idle.aclose()
    with pytest.raises(OSError, match=r".*"):
        await trio.open_tcp_stream("127.0.0.1", port)  # nothing listens any more


async def test_a_port_that_is_taken_is_said() -> None:
    async with receiving(Pkce(), port=0, host="127.0.0.1") as redirect:
        port = int(redirect.uri.split(":")[2].partition("/")[0])
        with pytest.raises(AuthorizationError, match=f"cannot listen on port {port}"):
            async with receiving(Pkce(), port=port, host="127.0.0.1"):
                pass
