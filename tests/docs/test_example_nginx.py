"""The example behind nginx, as a client meets it: real instances, a real nginx, real TLS.

nginx runs with the configuration that the guide shows, in which only addresses are others. It is
handed a socket that listens already, so that nobody has to wait until it does.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme
from attrs import define, field
from cryptography.fernet import Fernet

from tests.docs.pages import blocks_of
from tests.support.processes import (
    ENVIRONMENT,
    EXAMPLES,
    ROOT,
    SYSTEM_PATH,
    TIME_LIMIT,
    Server,
    python,
    running,
)
from trio_mcp import (
    Client,
    Handlers,
    HttpLimits,
    HttpOptions,
    HttpPolicy,
    Limits,
    Registry,
    connect,
    serve_http,
)
from trio_mcp.cli.target import load_registry
from trio_mcp.client.negotiation import Era
from trio_mcp.errors import HttpError, RateLimited, RequestTooLarge

EXAMPLE = EXAMPLES / "behind_nginx.py"
GUIDE = ROOT / "docs" / "guides" / "deployment.md"
CONFIGURATION = (EXAMPLES / "nginx.conf").read_text()
NAME = "mcp.example.com"
NGINX = shutil.which("nginx", path=SYSTEM_PATH)
LISTENS = re.compile(rb"Serving press at (?:http://127\.0\.0\.1:(\d+)|the Unix socket (\S+),)")

each_era = pytest.mark.parametrize("era", ["modern", "legacy"])


# -- what runs ----------------------------------------------------------------------------------


class Resolver(trio.abc.HostnameResolver):
    """Finds the server's name on this machine."""

    async def getaddrinfo(self, host: Any, port: Any, *options: int) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        return socket.getaddrinfo("127.0.0.1" if name.endswith(NAME) else name, port, *options)

    async def getnameinfo(self, *_: Any) -> Any:
        raise NotImplementedError


@define
class Proxy:
    """A running nginx."""

    folder: Path
    port: int
    trust: ssl.SSLContext = field(repr=False)

    @property
    def url(self) -> str:
        """Where the server is, for the world."""
        return f"https://{NAME}:{self.port}/mcp"

    @asynccontextmanager
    async def client(self, era: Era, path: str = "/mcp") -> AsyncIterator[Client]:
        """Connect through it."""
        http = HttpOptions(verify=self.trust, trust_env=False)
        url = f"https://{NAME}:{self.port}{path}"
        handlers = Handlers(elicitation=agree)
        async with connect(url, era=era, http=http, handlers=handlers) as client:
            yield client

    async def get(self, path: str, name: str = NAME, method: str = "GET") -> str:
        """Make a plain request; return the response with all that there is in it."""
        stream = await trio.open_ssl_over_tcp_stream(
            name, self.port, ssl_context=self.trust, https_compatible=True
        )
        request = f"{method} {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
        async with stream:
            await stream.send_all(request.encode())
            return b"".join([piece async for piece in stream]).decode()

    async def calls(self, count: int) -> list[str]:
        """Which instances answered the tool calls, and all requests of legacy sessions.

        nginx writes its log after the client has its answer, so this waits for so many lines.
        """
        log = self.folder / "access.log"
        with trio.fail_after(TIME_LIMIT):
            while True:
                lines = map(json.loads, log.read_text().splitlines())
                found = [each["by"] for each in lines if each["mcp"] in ("tools/call", "")]
                if len(found) >= count:
                    return found
                await trio.sleep(0.01)


async def agree(params: dict[str, Any]) -> dict[str, Any]:
    """Say yes to everything."""
    return {"action": "accept", "content": {"value": True}}


def configuration(port: int, *instances: str) -> str:
    """What the guide shows, with other addresses."""
    text = CONFIGURATION.replace("listen 8443", f"listen 127.0.0.1:{port}")
    for shown, address in zip(("127.0.0.1:8001", "127.0.0.1:8002"), instances, strict=True):
        assert shown in text
        text = text.replace(shown, address)
    return text


@asynccontextmanager
async def nginx(
    folder: Path, *instances: str, edit: Callable[[str], str] = str
) -> AsyncIterator[Proxy]:
    """Run nginx before two instances, for the length of the block."""
    authority = trustme.CA()
    certificate = authority.issue_cert(NAME)
    certificate.private_key_pem.write_to_path(str(folder / "key.pem"))
    for pem in certificate.cert_chain_pems:
        pem.write_to_path(str(folder / "certificate.pem"), append=True)
    trust = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    trio.socket.set_custom_hostname_resolver(Resolver())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # nginx takes it as it is: a worker that is a moment late would wait in accept() for the
        # next connection, and leave those that it has.
        listening.setblocking(False)
        port = listening.getsockname()[1]
        (folder / "nginx.conf").write_text(edit(configuration(port, *instances)))
        async with nginx_process(folder, listening.fileno()):
            yield Proxy(folder, port, trust)


@asynccontextmanager
async def nginx_process(folder: Path, listening: int) -> AsyncIterator[None]:
    """Run nginx, with a socket that listens already, and leave nothing of it."""
    assert NGINX is not None
    globally = "daemon off;" + " user root;" * (os.geteuid() == 0)  # who else may use the folder?
    process = await trio.lowlevel.open_process(
        [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", globally],
        env=ENVIRONMENT | {"NGINX": f"{listening};"},
        pass_fds=(listening,),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # it has a log of its own
        start_new_session=True,
    )
    try:
        yield
        assert process.poll() is None, (folder / "error.log").read_text()
    finally:
        process.terminate()
        with trio.CancelScope(shield=True), trio.move_on_after(5):
            await process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@asynccontextmanager
async def instances(keys: str, *places: str) -> AsyncIterator[tuple[list[Server], list[str]]]:
    """Run the example at ports (0 for any) or sockets; yield also their addresses for nginx."""
    async with running_at(places[0], keys) as (server, address):
        if len(places) == 1:
            yield [server], [address]
            return
        async with instances(keys, *places[1:]) as (servers, addresses):
            yield [server, *servers], [address, *addresses]


@asynccontextmanager
async def running_at(place: str, keys: str) -> AsyncIterator[tuple[Server, str]]:
    """Run one instance of the example."""
    command = python(EXAMPLE, place)
    async with running(command, env=ENVIRONMENT | {"STATE_KEYS": keys}) as server:
        await server.said(b"Serving press at")
        ((port, path),) = LISTENS.findall(bytes(server.stderr))
        yield server, f"127.0.0.1:{port.decode()}" if port else f"unix:{path.decode()}"


# -- tests --------------------------------------------------------------------------------------


@pytest.mark.needs("nginx")
@pytest.mark.parametrize(("era", "place"), [("modern", "0"), ("legacy", "press.sock")])
async def test_everything_goes_through(era: Era, place: str, tmp_path: Path) -> None:
    place = place if place.isdigit() else str(tmp_path / place)
    async with (
        instances(Fernet.generate_key().decode(), place) as (_, [address]),
        nginx(tmp_path, address, address) as proxy,
        proxy.client(era) as client,
    ):
        assert sorted(client.tools) == ["order", "print_book"]
        assert (await client.call_tool("order", {"title": "Emma"})).text == "Emma is ordered."
        async with client.subscribe(resources=["press://jobs"]) as changes:
            await leave_at_first_progress(client)
            while (await client.read_resource("press://jobs")).text != "[]":
                await anext(changes)  # the call is cancelled, and says so
        with pytest.raises(RequestTooLarge):
            await client.call_tool("order", {"title": "x" * 10 * 1024 * 1024})
        long = await client.call_tool("order", {"title": "x" * 5 * 1024 * 1024})
        assert long.text.endswith("x is ordered.")


async def leave_at_first_progress(client: Client) -> None:
    """Begin a call that takes for ever, and cancel it when it has said something."""
    with trio.CancelScope() as scope:
        arguments = {"title": "Emma", "copies": 10**9}
        await client.call_tool("print_book", arguments, on_progress=lambda *_: scope.cancel())
    assert scope.cancelled_caught


@pytest.mark.needs("nginx")
async def test_instances_share_their_clients(tmp_path: Path) -> None:
    async with (
        instances(Fernet.generate_key().decode(), "0", "0") as (_, addresses),
        nginx(tmp_path, *addresses) as proxy,
    ):
        async with proxy.client("modern") as client:
            for tries in itertools.count(1):
                result = await client.call_tool("order", {"title": "Emma"})
                assert result.text == "Emma is ordered."
                *_, asked, answered = await proxy.calls(2 * tries)
                if {asked, answered} == set(addresses):
                    break  # one instance asked, and the other one got the answer
                assert tries < 40
        async with proxy.client("legacy") as client:
            for _ in range(5):
                assert (await client.call_tool("order", {"title": "Emma"})).success
        assert len(set((await proxy.calls(2 * tries + 6))[2 * tries :])) == 1


@pytest.mark.needs("nginx")
@each_era
async def test_a_restart_loses_no_call(era: Era, tmp_path: Path) -> None:
    keys = Fernet.generate_key().decode()
    said: list[str] = []
    async with (
        instances(keys, "0") as ([server], [address]),
        nginx(tmp_path, address, address) as proxy,
        proxy.client(era) as client,
    ):

        def stop_the_server(*_: Any) -> None:
            if not said:
                server.signal(signal.SIGTERM)
            said.append("progress")

        arguments = {"title": "Emma", "copies": 10}
        result = await client.call_tool("print_book", arguments, on_progress=stop_the_server)
        assert result.text == "10 copies of Emma"
        assert await server.exit() == 0
        with pytest.raises(HttpError, match="502"):
            await client.call_tool("order", {"title": "Emma"})
        async with running_at(address.rpartition(":")[2], keys):
            assert (await client.call_tool("order", {"title": "Emma"})).text == "Emma is ordered."


@pytest.mark.needs("nginx")
async def test_what_is_not_meant_for_the_world_is_refused(tmp_path: Path) -> None:
    with trio.fail_after(TIME_LIMIT):
        async with (
            instances(Fernet.generate_key().decode(), "0") as (_, [address]),
            nginx(tmp_path, address, address) as proxy,
        ):
            assert '"status":"healthy"' in await proxy.get("/health")
            for path in ("/metrics", "/tools", "/", "/mcp/"):
                assert (await proxy.get(path)).startswith("HTTP/1.1 404")
            assert (await proxy.get("/mcp", method="OPTIONS")).startswith("HTTP/1.1 405")
            assert (await proxy.get("/health", method="HEAD")).endswith("\r\n\r\n")
            with pytest.raises((trio.BrokenResourceError, ssl.SSLError)):
                await proxy.get("/health", name=f"other.{NAME}")
            async with proxy.client("modern") as client:
                with pytest.raises(RateLimited) as limited:
                    for _ in range(1000):
                        await client.list_resources()
                assert limited.value.retry_after == 1


@pytest.mark.needs("nginx")
@pytest.mark.parametrize("prefix", ["kept", "taken away"])
async def test_arguments_in_headers_and_a_path_prefix(prefix: str, tmp_path: Path) -> None:
    registry = Registry("shelf")

    def header(name: str) -> dict[str, str]:
        return {"type": "string", "x-mcp-header": name}

    properties = {"who": header("user_id"), "book": header("book.title"), "notes": header("notes")}

    @registry.tool(input_schema={"type": "object", "properties": properties})
    async def lend(who: str, book: str, notes: str) -> str:
        return f"{who} has {book}, {len(notes)}"

    def mounted(text: str) -> str:
        """Change the path as the guide says."""
        text = text.replace("location = /mcp", "location = /press/mcp", 1)
        there = "http://press/mcp" if prefix == "taken away" else "http://press"
        return text.replace("proxy_pass http://press;", f"proxy_pass {there};", 1)

    path = "/mcp" if prefix == "taken away" else "/press/mcp"
    with trio.fail_after(TIME_LIMIT):
        async with trio.open_nursery() as nursery:
            policy = HttpPolicy(allowed_hosts=[NAME])
            serving = partial(serve_http, registry, port=0, path=path, policy=policy)
            handle = await nursery.start(serving)
            address = f"127.0.0.1:{handle.port}"
            async with (
                nginx(tmp_path, address, address, edit=mounted) as proxy,
                proxy.client("modern", "/press/mcp") as client,
            ):
                arguments = {"who": "Ada", "book": "Émile", "notes": "x" * 12_000}
                result = await client.call_tool("lend", arguments)
                assert result.text == "Ada has Émile, 12000"
            nursery.cancel_scope.cancel()


# -- the guide ----------------------------------------------------------------------------------


def test_the_guide_shows_the_whole_configuration() -> None:
    assert [each.text for each in blocks_of(GUIDE) if each.language == "nginx"] == [CONFIGURATION]


def test_the_bounds_of_the_proxy_agree_with_those_of_the_server() -> None:
    def setting(pattern: str) -> int:
        found = re.findall(pattern, CONFIGURATION)
        assert len(found) == 1
        return int(found[0])

    http = HttpLimits()
    assert setting(r"client_max_body_size (\d+)m;") << 20 == Limits().max_message_bytes
    assert setting(r"keepalive_timeout (\d+)s;") < http.idle_timeout
    assert 4 * setting(r"large_client_header_buffers 4 (\d+)k;") << 10 <= http.max_header_bytes
    longest = max(each.timeout or 0 for each in load_registry(str(EXAMPLE)).tools.values())
    assert setting(r"proxy_read_timeout (\d+)h;") * 3600 > longest + Limits().question_timeout


@pytest.mark.long
async def test_the_app_runs_under_hypercorn_as_the_guide_says(tmp_path: Path) -> None:
    (module,) = (each for each in blocks_of(GUIDE) if each.file == "press_app.py")
    (tmp_path / "press_app.py").write_text(module.text)
    (command,) = re.findall(r"^hypercorn (.*)$", GUIDE.read_text(), re.MULTILINE)
    words = command.replace(":8001", ":0").split()
    environment = ENVIRONMENT | {"PYTHONPATH": f"{ROOT}:{EXAMPLES}:{tmp_path}"}
    async with running([sys.executable, "-m", "hypercorn", *words], env=environment) as server:
        await server.said(b"Running on")
        (url,) = re.findall(rb"Running on (\S+)", bytes(server.stderr))
        handlers = Handlers(elicitation=agree)
        http = HttpOptions(trust_env=False)
        async with connect(f"{url.decode()}/mcp", http=http, handlers=handlers) as client:
            assert (await client.call_tool("order", {"title": "Emma"})).text == "Emma is ordered."
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0
