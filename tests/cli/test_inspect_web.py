"""`trio-mcp inspect --web`: who may use the relay, and what passes through it.

An inspector whose relay asked for nothing let every web page start commands (CVE-2025-49596).
"""

import json
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from attrs import define, field

from tests.cli.support import COMMAND, SHOP, CommandLine
from tests.support.processes import running
from tests.support.tools import echo, registry_of
from tests.transports.http.support import CANCELS, Host, Response
from trio_mcp import HttpOptions, HttpPolicy, serve_http
from trio_mcp.cli.inspecting.relay import Relay
from trio_mcp.client.http.endpoint import Endpoint
from trio_mcp.errors import ServerExited
from trio_mcp.wire.limits import Limits

pytestmark = pytest.mark.requirement("L7")

HOME = "127.0.0.1:4000"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
LISTING = {"Mcp-Method": "server/discover", "MCP-Protocol-Version": "2026-07-28"}


@define
class Upstream:
    """A server that says again what it is told."""

    stderr_tail: str = "Starting\n"
    said: Any = field(factory=lambda: trio.open_memory_channel[bytes](10))

    async def send_message(self, message: bytes) -> None:
        if b"\n" in message:
            raise ValueError("a message is one line")
        await self.said[0].send(message)

    async def receive_message(self) -> bytes:
        message: bytes = await self.said[1].receive()
        if message == b"exit":
            raise ServerExited(7, "No more")
        return message


@define
class Web:
    """A relay, whoever asks it, and the connections that it has made."""

    host: Host
    relay: Relay
    opened: list[Upstream] = field(factory=list)

    @property
    def token(self) -> str:
        return self.relay.url.partition("#token=")[2]

    def send(self, method: str, path: str, body: bytes = b"", **headers: Any) -> Response:
        given = {"host": HOME, "authorization": f"Bearer {self.token}"}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.host.send(method, path, {**given, **named}, body)

    async def status(self, method: str, path: str, **headers: Any) -> int:
        return (await self.send(method, path, **headers).end()).status


@asynccontextmanager
async def relaying(endpoint: Endpoint | None = None) -> AsyncIterator[Web]:
    opened: list[Upstream] = []

    @asynccontextmanager
    async def connect() -> AsyncIterator[Upstream]:
        opened.append(Upstream())
        try:
            yield opened[-1]
        finally:
            opened[-1].stderr_tail = "gone"

    relay = Relay(4000, {"command": "secret --key=1"}, connect, Limits(), endpoint)
    with trio.fail_after(120):
        async with relay.running(), trio.open_nursery() as nursery:
            yield Web(Host(relay, nursery, CANCELS), relay, opened)
            nursery.cancel_scope.cancel()


USES = [("GET", "/about"), ("GET", "/relay"), ("POST", "/relay"), ("POST", "/mcp")]


async def test_nothing_is_to_be_had_without_the_token() -> None:
    async with relaying() as web:
        assert len(web.token) >= 43, "256 bits"
        for method, path in USES:
            for wrong in (None, "Bearer", "Bearer wrong", f"Basic {web.token}"):
                assert await web.status(method, path, authorization=wrong) == 401
            assert await web.status(method, f"{path}?token={web.token}", authorization=None) == 401
        assert web.opened == []
        page = await web.send("GET", "/", authorization=None).end()
        assert page.status == 200
        assert web.token.encode() not in page.body
        assert b"--key=1" not in page.body, "the command may have secrets in it"
        assert (await web.send("GET", "/about").end()).json() == {"command": "secret --key=1"}


async def test_no_other_page_and_no_other_name() -> None:
    """With the right token even: a name may lead here that somebody else owns (DNS rebinding)."""
    async with relaying() as web:
        for method, path in [("GET", "/"), *USES]:
            for host in (
                "localhost:4000",
                "127.0.0.1",
                "127.0.0.1:4001",
                "evil.example:4000",
                None,
            ):
                assert await web.status(method, path, host=host) == 403
            for origin in (
                "null",
                "http://127.0.0.1:4001",
                "http://evil.example",
                "https://" + HOME,
            ):
                assert await web.status(method, path, origin=origin) == 403
        assert web.opened == []
        assert await web.status("GET", "/about", origin=f"http://{HOME}") == 200


async def test_messages_pass_as_they_are_and_a_connection_lasts_as_long_as_its_stream() -> None:
    async with relaying() as web:
        stream = web.send("GET", "/relay")
        opened, stderr = await stream.event(), await stream.event()
        assert opened is not None
        assert stderr is not None
        assert (opened.kind, stderr.kind, stderr.data) == ("open", "stderr", "Starting\n")
        odd = b'{"jsonrpc": "2.0",  "id": 12345678901234567890, "method": "\\u0070ing"}'
        for message in (odd, b"[]", b"{}" + b"\r" * 100_000):
            sent = await web.send("POST", "/relay", message, relay_connection=opened.data).end()
            assert sent.status == 202
            event = await stream.event()
            assert event is not None
            assert event.data == message.decode().replace("\r", " ")
        two = await web.send("POST", "/relay", b"{}\n{}", relay_connection=opened.data).end()
        assert two.status == 400
        stream.disconnect()
        await stream.end()
        assert web.opened[0].stderr_tail == "gone"
        late = await web.send("POST", "/relay", PING, relay_connection=opened.data).end()
        assert late.status == 404


async def test_the_end_of_the_server_is_told_with_its_last_words() -> None:
    async with relaying() as web:
        stream = web.send("GET", "/relay")
        opened = await stream.event()
        assert opened is not None
        await web.send("POST", "/relay", b"exit", relay_connection=opened.data).end()
        events = {"": ""}
        while (event := await stream.event()) is not None:
            events[event.kind or ""] = event.data or ""
        assert "status 7" in events["end"]
        assert "No more" in events["end"]


async def test_connections_are_bounded() -> None:
    async with relaying() as web:
        streams = [web.send("GET", "/relay") for _ in range(16)]
        for each in streams:
            assert await each.started() == 200
        assert await web.status("GET", "/relay") == 503
        streams[0].disconnect()
        await streams[0].end()
        assert await web.send("GET", "/relay").started() == 200


async def test_requests_to_a_url_get_its_credentials_and_never_our_token() -> None:
    async with trio.open_nursery() as nursery:
        seen: list[str] = []

        async def verify(token: str) -> str:
            seen.append(token)
            return "ann"

        serving = partial(serve_http, registry_of(echo), port=0, policy=HttpPolicy(verify=verify))
        handle = await nursery.start(serving)
        options = HttpOptions(headers={"Authorization": "Bearer theirs"})
        async with Endpoint(handle.url, options).opened() as endpoint, relaying(endpoint) as web:
            meta: dict[str, Any] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
            meta = {**meta, "io.modelcontextprotocol/clientCapabilities": {}}
            request = {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}
            body = json.dumps({**request, "params": {"_meta": meta}}).encode()
            kinds = {"accept": "application/json, text/event-stream"}
            headers = {**LISTING, **kinds, "content-type": "application/json", "cookie": "a=b"}
            answer = await web.send("POST", "/mcp", body, **headers).end()
            assert answer.status == 200, answer.body
            assert answer.json()["result"]["supportedVersions"] == ["2026-07-28"]
            assert await web.status("PUT", "/mcp") == 405
        assert seen == ["theirs"]
        handle.stop()


@pytest.mark.long
async def test_the_command_serves_the_page_and_starts_the_server_that_it_was_given() -> None:
    command = [*COMMAND, "inspect", SHOP, "--web"]
    async with running(command) as server:
        await server.said(b"Ctrl-C ends it")
        assert server.process.stdout is not None
        told = await server.process.stdout.receive_some()
        found = re.fullmatch(rb"http://127\.0\.0\.1:(\d+)/#token=([\w-]+)\n", told)
        assert found is not None
        port, token = int(found[1]), found[2].decode()
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        head = f"GET /relay HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        await stream.send_all(f"{head}\r\n".encode())
        said = b""
        while b"event: open" not in said:
            said += await stream.receive_some()
        assert said.startswith(b"HTTP/1.1 200")
        server.signal(signal.SIGINT)  # while a page is connected
        assert await server.exit() == 130
        await stream.aclose()


def test_options_for_the_page_need_it(cli: CommandLine) -> None:
    done = cli("inspect", SHOP, "--port=80")
    assert (done.status, done.err) == (2, "trio-mcp: --port does nothing without --web\n")


@pytest.mark.parametrize(
    "words", [("--http", "0.0.0.0:0"), ("--http", "0", "--allow-host", "example.com")]
)
def test_the_explorer_of_a_served_registry_needs_tokens_beyond_this_machine(
    cli: CommandLine, words: tuple[str, ...]
) -> None:
    done = cli("serve", SHOP, *words, "--explorer")
    assert (done.status, done.out) == (2, "")
    assert "--explorer beyond this machine needs --token-env or --issuer" in done.err
