"""Requests to those whom we know only by hearsay: where they go, and what they may cost."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import trio

from tests.client.http_support import Incoming, Script
from tests.support.turns import turns_of_another_task
from trio_mcp.auth import Fetching
from trio_mcp.auth.fetching import MOST_BYTES
from trio_mcp.background import background_nursery
from trio_mcp.client.http.endpoint import Reply
from trio_mcp.errors import AuthorizationError

pytestmark = pytest.mark.requirement("J5")

NAMES = {
    "public.test": "93.184.215.14",
    "private.test": "10.1.2.3",
    "cgnat.test": "100.64.0.1",
    "linklocal.test": "169.254.169.254",
    "loop.test": "127.0.0.1",
    "mapped.test": "::ffff:127.0.0.1",
    "unique.test": "fd00::1",
}


class Names(trio.abc.HostnameResolver):
    """A resolver that knows a few names, and notes what it is asked."""

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in NAMES:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        address = NAMES[name]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    async def getnameinfo(self, *_: Any) -> Any:
        raise NotImplementedError


@asynccontextmanager
async def listening(script: Script) -> AsyncIterator[str]:
    """A server on loopback."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]

    async def serve() -> None:
        await trio.serve_listeners(script.serve, listeners)

    async with background_nursery(serve):
        yield f"http://127.0.0.1:{port}"


async def refused(url: str, near: str) -> str:
    with pytest.raises(AuthorizationError) as caught:
        await Fetching(trust_env=False).get(url, near=near)
    return str(caught.value)


@pytest.mark.parametrize(
    ("near", "to"),
    [
        ("public", "private"),
        ("public", "cgnat"),
        ("public", "linklocal"),
        ("public", "loop"),
        ("public", "mapped"),
        ("public", "unique"),
        ("private", "loop"),
        ("private", "linklocal"),
    ],
)
async def test_nobody_sends_us_nearer_than_they_are(near: str, to: str) -> None:
    trio.socket.set_custom_hostname_resolver(Names())
    said = await refused(f"https://{to}.test/x", f"https://{near}.test/mcp")
    assert "must not send us" in said


async def test_an_address_is_no_way_around() -> None:
    for to in ("https://10.0.0.1/", "https://[::1]/", "https://0.0.0.0/"):
        assert "must not send us" in await refused(to, "https://93.184.215.14/mcp")


async def test_a_name_that_nobody_knows_is_said() -> None:
    trio.socket.set_custom_hostname_resolver(Names())
    assert await refused("https://no.test/", "https://public.test/mcp") == (
        "cannot reach https://no.test: Name or service not known"
    )


@pytest.mark.parametrize(
    "url", ["http://public.test/", "ftp://public.test/", "https://u:p@public.test/", "nonsense"]
)
async def test_what_is_no_proper_url_is_not_asked(url: str) -> None:
    said = await refused(url, url)
    assert "u:p" not in said


async def test_the_address_that_was_examined_is_the_one_that_is_reached() -> None:
    class Turning(Names):
        asked = 0

        async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
            self.asked += 1
            address = "127.0.0.1" if self.asked == 1 else "127.9.9.9"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    turning = Turning()
    script = Script()

    async def answer(incoming: Incoming) -> None:
        await incoming.json({"host": incoming.headers["host"]})

    script.on["/x"] = answer
    async with listening(script) as url:
        trio.socket.set_custom_hostname_resolver(turning)
        port = url.rpartition(":")[2]
        fetched = await Fetching(trust_env=False).get(f"http://localhost:{port}/x", near=url)
    assert fetched.document == {"host": f"localhost:{port}"}
    assert turning.asked == 1


async def test_another_address_of_a_name_is_tried() -> None:
    class Both(Names):
        async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
            families = {"::1": socket.AF_INET6, "127.0.0.1": socket.AF_INET}
            return [
                (family, socket.SOCK_STREAM, 6, "", (address, port))
                for address, family in families.items()
            ]

    script = Script()
    async with listening(script) as url:  # which is not on ::1
        trio.socket.set_custom_hostname_resolver(Both())
        there = url.replace("127.0.0.1", "localhost")
        fetched = await Fetching(trust_env=False).get(f"{there}/x", near=there)
        assert fetched.status == 405  # as it answers what it does not know
        nowhere = await refused("http://localhost:1/x", there)
    assert nowhere == "cannot reach http://localhost:1 (ConnectError)"


async def test_a_redirect_is_followed_within_its_origin_only() -> None:
    script = Script()

    async def here(incoming: Incoming) -> None:
        await incoming.respond(302, location="/there")

    async def there(incoming: Incoming) -> None:
        await incoming.json("arrived")

    async def away(incoming: Incoming) -> None:
        await incoming.respond(302, location="https://other.test/secret")

    async def around(incoming: Incoming) -> None:
        await incoming.respond(302, location="/around")

    script.on = {"/here": here, "/there": there, "/away": away, "/around": around}
    async with listening(script) as url:
        fetching = Fetching(trust_env=False)
        assert (await fetching.get(f"{url}/here", near=url)).document == "arrived"
        assert "https://other.test, where it is not followed" in await refused(f"{url}/away", url)
        assert "endlessly" in await refused(f"{url}/around", url)
        with pytest.raises(AuthorizationError, match="may have a secret"):
            await fetching.post(f"{url}/here", b"{}", {}, near=url)


async def test_an_answer_has_bounded_size_and_is_not_unpacked() -> None:
    script = Script()

    async def endless(incoming: Incoming) -> None:
        await incoming.start()
        while True:
            await incoming.write(b"x" * 65536)

    async def just(incoming: Incoming) -> None:
        await incoming.respond(200, b" " * MOST_BYTES)

    async def packed(incoming: Incoming) -> None:
        await incoming.respond(200, b"\x1f\x8b", content_encoding="gzip")

    script.on = {"/endless": endless, "/just": just, "/packed": packed}
    async with listening(script) as url:
        assert "more than 1048576 bytes" in await refused(f"{url}/endless", url)
        assert "compressed" in await refused(f"{url}/packed", url)
        fetched = await Fetching(trust_env=False).get(f"{url}/just", near=url)
        assert len(fetched.body) == MOST_BYTES
        assert fetched.document is None


async def test_who_does_not_answer_is_given_up(autojump_clock: Any) -> None:
    async def silent(request: httpx2.Request) -> httpx2.Response:
        await trio.sleep_forever()
        raise AssertionError

    fetching = Fetching(
        client_factory=lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(silent))
    )
    with pytest.raises(AuthorizationError, match=r"https://as\.test did not answer within 30 s"):
        await fetching.get("https://as.test/secret-path?key=1", near="https://as.test")


async def test_a_document_that_is_deep_or_broken_is_none() -> None:
    async def deep(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=b"[" * 500_000)

    fetching = Fetching(
        client_factory=lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(deep))
    )
    assert (await fetching.get("https://as.test/", near="https://as.test")).document is None


class InPieces(httpx2.AsyncByteStream):
    """A body that came in one go, in many pieces."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield b" "


async def test_others_get_their_turn_however_small_the_pieces_of_a_body_are() -> None:
    async def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=InPieces())

    fetching = Fetching(
        client_factory=lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    )
    async with turns_of_another_task() as turns:
        await fetching.get("https://as.test/", near="https://as.test")
        assert turns.count > 50
        turns.count = 0
        reply = Reply(httpx2.Response(200, stream=InPieces()), "https://as.test")
        assert await reply.read_all(1000) == b" " * 1000
        assert turns.count > 50
