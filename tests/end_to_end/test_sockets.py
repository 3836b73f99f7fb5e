"""`serve_stream` on real sockets: TCP, TLS and Unix."""

import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme

from tests.support.client import RawClient
from tests.support.processes import call, lines, text_of
from trio_mcp import Limits, Registry, serve_stream

TIME_LIMIT = 120  # seconds
LOOPBACK = "127.0.0.1"

pytestmark = pytest.mark.requirement("A2")


@pytest.fixture
def registry() -> Registry:
    registry = Registry("networked", version="1.0")

    @registry.tool
    async def big(letter: str, size: int) -> str:
        return letter * size

    @registry.tool
    async def forever() -> str:
        await trio.sleep_forever()
        raise AssertionError

    return registry


@pytest.fixture(autouse=True)
async def within_the_time_limit() -> AsyncIterator[None]:
    with trio.fail_after(TIME_LIMIT):
        yield


@asynccontextmanager
async def listening(registry: Registry, listeners: Sequence[Any]) -> AsyncIterator[Any]:
    """Serve every connection to the listeners; yield the first listener."""

    async def serve(stream: trio.abc.Stream) -> None:
        await serve_stream(registry, stream, limits=Limits(eof_grace=0))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, list(listeners))
        yield listeners[0]
        nursery.cancel_scope.cancel()


async def converse(stream: trio.abc.Stream, letter: str = "x") -> None:
    """Shake hands, list, call."""
    client = RawClient(stream)
    hello = await client.initialize()
    assert hello["result"]["serverInfo"]["name"] == "networked"
    assert len((await client.request("tools/list"))["result"]["tools"]) == 2
    assert text_of(await client.call("big", letter=letter, size=300_000)) == letter * 300_000


async def test_tcp_on_loopback(registry: Registry) -> None:
    async with listening(registry, await trio.open_tcp_listeners(0, host=LOOPBACK)) as listener:
        stream = await trio.open_tcp_stream(LOOPBACK, listener.socket.getsockname()[1])
        await converse(stream)
        await stream.send_eof()
        assert await stream.receive_some() == b""
        await stream.aclose()


async def test_many_tcp_clients_at_once(registry: Registry) -> None:
    async with listening(registry, await trio.open_tcp_listeners(0, host=LOOPBACK)) as listener:
        port = listener.socket.getsockname()[1]

        async def client(letter: str) -> None:
            async with await trio.open_tcp_stream(LOOPBACK, port) as stream:
                await converse(stream, letter)

        async with trio.open_nursery() as nursery:
            for letter in "abcdefgh":
                nursery.start_soon(client, letter)


async def test_a_unix_socket(registry: Registry, tmp_path: Path) -> None:
    path = str(tmp_path / "server.socket")
    sock = trio.socket.socket(trio.socket.AF_UNIX)
    await sock.bind(path)
    sock.listen()
    async with listening(registry, [trio.SocketListener(sock)]):
        async with await trio.open_unix_socket(path) as stream:
            await converse(stream)


async def test_tls(registry: Registry) -> None:
    authority = trustme.CA()
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("server.test").configure_cert(theirs)
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    listeners = await trio.open_ssl_over_tcp_listeners(0, theirs, host=LOOPBACK)
    async with listening(registry, listeners) as listener:
        port = listener.transport_listener.socket.getsockname()[1]
        transport = await trio.open_tcp_stream(LOOPBACK, port)
        stream = trio.SSLStream(transport, ours, server_hostname="server.test")
        await converse(stream)
        await stream.aclose()


@pytest.mark.requirement("B2", "A5")
async def test_concurrent_answers_on_tcp_never_interleave(registry: Registry) -> None:
    async with listening(registry, await trio.open_tcp_listeners(0, host=LOOPBACK)) as listener:
        stream = await trio.open_tcp_stream(LOOPBACK, listener.socket.getsockname()[1])
        client = RawClient(stream)
        await client.send(*(call(n, "big", letter="ab"[n % 2], size=50_000) for n in range(100)))
        answers = [await client.receive() for _ in range(100)]
        assert {each["id"]: text_of(each)[0] for each in answers} == {
            n: "ab"[n % 2] for n in range(100)
        }
        assert {len(text_of(each)) for each in answers} == {50_000}
        await stream.aclose()


@pytest.mark.requirement("B8")
@pytest.mark.parametrize("abort", [True, False])
async def test_a_client_that_disconnects_leaves_nothing_behind(
    registry: Registry, abort: bool
) -> None:
    """Whether it closes its socket or resets the connection: `serve_stream` returns."""
    served = trio.Event()

    async def serve(stream: trio.abc.Stream) -> None:
        await serve_stream(registry, stream, limits=Limits(eof_grace=0))
        served.set()

    listeners = await trio.open_tcp_listeners(0, host=LOOPBACK)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, list(listeners))
        port = listeners[0].socket.getsockname()[1]
        stream = await trio.open_tcp_stream(LOOPBACK, port)
        await stream.send_all(
            lines(call(1, "forever"), {"jsonrpc": "2.0", "id": 2, "method": "ping"})
        )
        assert json.loads(await stream.receive_some())["id"] == 2
        if abort:
            stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await stream.aclose()
        await served.wait()
        nursery.cancel_scope.cancel()
