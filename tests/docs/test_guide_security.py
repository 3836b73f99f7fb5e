"""What the security guide says: its numbers, its excerpts, and the tool that fetches."""

import ast
import re
import textwrap
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx2
import pytest
import trio

from docs.examples import fetching
from tests.docs.pages import blocks_of
from tests.docs.test_readme import table
from tests.support.processes import EXAMPLES, ROOT, TIME_LIMIT, python
from trio_mcp import HttpLimits, HttpPolicy, Limits, SessionOptions, ToolError, connect
from trio_mcp.auth import DPoP
from trio_mcp.transports.process import ProcessOptions

PAGES = [ROOT / "docs" / "guides" / f"{name}.md" for name in ("security", "safe-tools")]
BLOCKS = [block for page in PAGES for block in blocks_of(page) if block.language == "python"]
HTTP = ROOT / "docs" / "http.md"
PUBLIC = "1.1.1.1"


# -- what it says -----------------------------------------------------------------------------


UNITS = {"": 1, "s": 1, "min": 60, "KiB": 2**10, "MiB": 2**20}


def bound_of(written: str) -> float | None:
    """What a cell says: a number with its unit, or that there is no bound."""
    if written == "any":
        return None
    number, _, unit = written.partition(" ")
    return float(number.replace(",", "")) * UNITS[unit]


def test_the_limits_over_http_are_the_defaults() -> None:
    kinds = (HttpLimits, HttpPolicy, SessionOptions, Limits, DPoP)
    known: dict[str, Any] = {kind.__name__: kind() for kind in kinds}
    checked = []
    for bounds, default, _ in table(HTTP, "Bound"):
        owner = bounds.strip("`").partition(".")[0]
        if owner not in known:
            continue
        names = [name.rpartition(".")[2] for name in re.findall(r"`([\w.]+)`", bounds)]
        values = default.partition(", of which")[0].split(", ")
        for field, value in zip(names, values, strict=True):
            assert getattr(known[owner], field) == bound_of(value), field
            checked.append(field)
    assert len(checked) == 19


@pytest.mark.parametrize(
    ("example", "names"),
    [
        ("files", ["DIRECTORY", "opened"]),
        ("sqlite", ["ACTIONS", "PRAGMAS", "authorize", "must_stop"]),
        ("fetching", ["UNICAST", "is_public", "public_address"]),
    ],
)
def test_its_excerpts_are_from_the_examples(example: str, names: list[str]) -> None:
    shown = "\n".join(block.text for block in BLOCKS)
    real = (EXAMPLES / f"{example}.py").read_text()
    for name in names:
        assert piece_of(shown, name) == piece_of(real, name)


def piece_of(source: str, name: str) -> str:
    """The definition of a name, as it is written."""
    for node in ast.walk(ast.parse(source)):
        own = getattr(node, "name", None) or [
            getattr(each, "id", "") for each in getattr(node, "targets", [])
        ]
        if own in (name, [name]):
            piece = ast.get_source_segment(source, node, padded=True)
            assert piece is not None
            return textwrap.dedent(piece)
    raise AssertionError(f"there is no {name}")


# -- the tool that fetches --------------------------------------------------------------------


class Body(httpx2.AsyncByteStream):
    """A body that comes in pieces, with no end unless it is short."""

    def __init__(self, piece: bytes) -> None:
        self.piece = piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.piece
        while len(self.piece) > 100:
            await trio.lowlevel.checkpoint()
            yield self.piece


class Web:
    """Names that resolve to addresses, and what answers there."""

    def __init__(self) -> None:
        self.addresses: dict[str, list[str]] = {}
        self.status, self.body = 200, b"a page"
        self.headers: dict[str, str] = {}
        self.resolved: list[str] = []
        self.requests: list[httpx2.Request] = []

    async def getaddrinfo(self, host: str, port: int, **_: Any) -> list[Any]:
        self.resolved.append(host)
        if host not in self.addresses:
            raise OSError("not known")
        return [(0, 0, 0, "", (address, port)) for address in self.addresses[host]]

    async def answer(self, _: Any, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(self.status, headers=self.headers, stream=Body(self.body))


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Web:
    web = Web()
    monkeypatch.setattr(trio.socket, "getaddrinfo", web.getaddrinfo)
    transport = httpx2.AsyncHTTPTransport
    monkeypatch.setattr(
        transport, "handle_async_request", lambda self, request: web.answer(self, request)
    )
    return web


async def fetch(url: str) -> Any:
    return await fetching.registry.call("fetch", {"url": url})


async def test_the_connection_goes_to_the_address_that_was_checked(web: Web) -> None:
    web.addresses["example.com"] = [PUBLIC, "2606:4700:4700::1111"]
    assert await fetch("https://example.com/a?b=c") == "a page"
    assert web.resolved == ["example.com"]
    (request,) = web.requests
    assert request.url == f"https://{PUBLIC}/a?b=c"
    assert request.headers["host"] == "example.com"
    assert request.extensions["sni_hostname"] == "example.com"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::7f00:1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:1::1",
        "fe80::1",
        "fe80::1%2",
        "fc00::1",
        "ff0e::1",
        "2001:db8::1",
    ],
)
async def test_no_other_address_is_connected_to(address: str, web: Web) -> None:
    for addresses in ([address], [address, PUBLIC], [PUBLIC, address]):
        web.addresses["evil.example"] = addresses
        with pytest.raises(ToolError, match="not on the public internet"):
            await fetch("https://evil.example/")
    assert web.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com",
        "ftp://example.com/",
        "file:///etc/passwd",
        "http:///path",
        "http://example.com:8080/",
        "http://user:password@example.com/",
        "http://user@example.com/",
        "http://[::1/",
        "http://example.com:port/",
        "http://nowhere.example/",
    ],
)
async def test_odd_urls_are_refused(url: str, web: Web) -> None:
    web.addresses["example.com"] = [PUBLIC]
    with pytest.raises(ToolError):
        await fetch(url)
    assert web.requests == []


async def test_redirects_are_told_and_pages_are_bounded(web: Web) -> None:
    web.addresses["example.com"] = [PUBLIC]
    web.status, web.headers = 302, {"location": "http://127.0.0.1/admin"}
    with pytest.raises(ToolError, match=r"leads to 'http://127\.0\.0\.1/admin'"):
        await fetch("http://example.com/")
    assert len(web.requests) == 1
    web.status, web.headers, web.body = 200, {}, bytes(1000)
    with pytest.raises(ToolError, match="more than 262144 bytes"):
        await fetch("http://example.com/")


async def test_a_server_that_cannot_be_reached_is_told(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Any, request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    monkeypatch.setattr(web, "answer", fail)
    web.addresses["example.com"] = [PUBLIC]
    with pytest.raises(ToolError, match=r"'example\.com' cannot be read: ConnectError"):
        await fetch("https://example.com/")


@pytest.mark.parametrize("length", [10, 10**9])
async def test_a_page_is_read_from_a_socket(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short one to its end; one that is too long no further than that, and nothing is left."""
    transport = httpx2.AsyncHTTPTransport
    send = transport.handle_async_request

    async def send_to_server(self: Any, request: httpx2.Request) -> httpx2.Response:
        request.url = request.url.copy_with(port=port)
        return await send(self, request)

    async def serve(stream: trio.SocketStream) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += await stream.receive_some()
        heads.append(head)
        with suppress(trio.BrokenResourceError):
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
            for _ in range(length // 10):  # the long one is not sent to its end
                await stream.send_all(b"0123456789" * min(length // 10, 1000))

    heads: list[bytes] = []
    monkeypatch.setattr(transport, "handle_async_request", send_to_server)
    monkeypatch.setattr(fetching, "is_public", lambda _: True)
    with trio.fail_after(TIME_LIMIT):
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            port = listener.socket.getsockname()[1]
            nursery.start_soon(trio.serve_listeners, serve, [listener])
            if length == 10:
                assert await fetch("http://localhost/") == "0123456789"
                assert b"\r\nHost: localhost\r\n" in heads[0]
            else:
                with pytest.raises(ToolError, match="more than 262144 bytes"):
                    await fetch("http://localhost/")
            nursery.cancel_scope.cancel()


@pytest.mark.long
async def test_the_tool_that_fetches_as_a_process() -> None:
    options = ProcessOptions(env={"PYTHONPATH": str(ROOT)})
    with trio.fail_after(TIME_LIMIT):
        async with connect(python(EXAMPLES / "fetching.py"), process_options=options) as client:
            for host in ("localhost", "127.1", "[::1]", "0x7f000001", "169.254.169.254"):
                result = await client.call_tool("fetch", {"url": f"http://{host}/"})
                assert "not on the public internet" in result.error
            assert client.stderr() == ""
