"""The recipes of deployment, run as they are written: servers, and the proxies before them.

Only addresses are others. What a recipe starts is started by its own command, whose program is the
one of this checkout.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio
import trustme
from attrs import define, field

from tests.interop import packages
from tests.store.redis_server import free_port
from tests.support.processes import (
    ENVIRONMENT,
    EXAMPLES,
    SYSTEM_PATH,
    TIME_LIMIT,
    Server,
    running,
)
from trio_mcp import Client, Handlers, HttpOptions, connect
from trio_mcp.client.negotiation import Era

RECIPES = EXAMPLES / "deploy"
SERVER = RECIPES / "press.py"
NAME = "mcp.example.com"
OPTIONS = [
    *("--allow-host", NAME, "--trust-proxy", "127.0.0.1", "--trust-proxy", "unix"),
    *("--shutdown-grace", "20"),
]
"""What the recipes give a server, beside a rate."""
LISTENS = re.compile(rb"Serving press at (?:http://[\d.]+:(\d+)|the Unix socket (\S+),)")


# -- servers ------------------------------------------------------------------------------------


def ours(command: Sequence[str]) -> list[str]:
    """A command of a recipe, run by the program of this checkout."""
    program, *rest = command
    assert Path(program).name == "trio-mcp"
    return [sys.executable, "-m", "trio_mcp.cli", *rest]


@asynccontextmanager
async def instance(
    place: str, *options: str, keys: str = "", rate: str = "20"
) -> AsyncIterator[tuple[Server, str]]:
    """Run a server at a port of this machine (0 for any) or a socket, and yield it and where it is."""
    where = ["--http", place] if place.isdigit() else ["--unix-socket", place]
    given = [*OPTIONS, "--rate", rate, *options]
    command = ours(["trio-mcp", "serve", str(SERVER), *where, *given])
    async with running(command, env=ENVIRONMENT | {"STATE_KEYS": keys}) as server:
        yield server, await address_of(server)


async def address_of(server: Server) -> str:
    """Wait until a server listens; return where, as a proxy writes it."""
    await server.said(b"Serving press at")
    port, path = LISTENS.findall(bytes(server.stderr))[-1]
    return f"127.0.0.1:{port.decode()}" if port else f"unix:{path.decode()}"


@asynccontextmanager
async def instances(
    *places: str, options: Sequence[str] = (), keys: str = ""
) -> AsyncIterator[tuple[list[Server], list[str]]]:
    """Run several servers; yield them and their addresses."""
    async with instance(places[0], *options, keys=keys) as (server, address):
        if len(places) == 1:
            yield [server], [address]
            return
        others = instances(*places[1:], options=options, keys=keys)
        async with others as (servers, addresses):
            yield [server, *servers], [address, *addresses]


# -- proxies ------------------------------------------------------------------------------------


class Resolver(trio.abc.HostnameResolver):
    """Finds the server's name on this machine."""

    async def getaddrinfo(self, host: Any, port: Any, *options: int) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        return socket.getaddrinfo("127.0.0.1" if name.endswith(NAME) else name, port, *options)

    async def getnameinfo(self, *_: Any) -> Any:
        raise NotImplementedError


@define
class Proxy:
    """A running proxy."""

    folder: Path
    port: int
    trust: ssl.SSLContext = field(repr=False)

    @asynccontextmanager
    async def client(self, era: Era, path: str = "/mcp") -> AsyncIterator[Client]:
        """Connect through it."""
        http = HttpOptions(verify=self.trust, trust_env=False)
        url = f"https://{NAME}:{self.port}{path}"
        handlers = Handlers(elicitation=agree)
        patient = {"connect_timeout": TIME_LIMIT, "tool_timeout": TIME_LIMIT}
        async with connect(url, era=era, http=http, handlers=handlers, **patient) as client:
            yield client

    async def get(self, path: str, name: str = NAME, method: str = "GET") -> str:
        """Make a plain request; return the response with all that there is in it."""
        return await self.send(f"{method} {path} HTTP/1.1\r\nHost: {name}\r\n\r\n", name)

    async def send(self, request: str, name: str = NAME, source: str | None = None) -> str:
        """Send a request from an address of this machine; return the response."""
        raw = await trio.open_tcp_stream("127.0.0.1", self.port, local_address=source)
        stream = trio.SSLStream(raw, self.trust, server_hostname=name, https_compatible=True)
        async with stream:
            await stream.send_all(
                request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1).encode()
            )
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


RunProxy = Callable[..., AbstractAsyncContextManager[Proxy]]
"""Called with a folder and addresses of instances, and `edit`, which changes the configuration."""
NGINX = shutil.which("nginx", path=SYSTEM_PATH)
NGINX_CONFIGURATION = (RECIPES / "nginx.conf").read_text()


def nginx_configuration(port: int, *addresses: str) -> str:
    """What the guide shows, with other addresses."""
    text = NGINX_CONFIGURATION.replace("listen 8443", f"listen 127.0.0.1:{port}")
    for shown, address in zip(("127.0.0.1:8001", "127.0.0.1:8002"), addresses, strict=True):
        assert shown in text
        text = text.replace(shown, address)
    return text


@asynccontextmanager
async def nginx(
    folder: Path, *addresses: str, edit: Callable[[str], str] = str
) -> AsyncIterator[Proxy]:
    """Run nginx before two instances, for the length of the block.

    It is handed a socket that listens already, so that nothing has to wait until it does.
    """
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
        (folder / "nginx.conf").write_text(edit(nginx_configuration(port, *addresses)))
        globally = "daemon off;" + " user root;" * (os.geteuid() == 0)  # who else may read it?
        command = [str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", globally]
        inherited = {"NGINX": f"{listening.fileno()};"}
        async with _running(command, folder / "error.log", inherited, (listening.fileno(),)):
            yield Proxy(folder, port, trust)


CADDY = packages.RECIPES.folder / "bin" / "caddy"
TEST_AUTHORITY = """{
	local_certs
	skip_install_trust
	admin off
	auto_https disable_redirects
	https_port %d
	servers {
		protocols h1 h2
	}
}
"""
"""Options of Caddy that a machine without a name has to have: a port, and certificates of its own."""


@asynccontextmanager
async def caddy(
    folder: Path,
    *addresses: str,
    edit: Callable[[str], str] = str,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Proxy]:
    """Run Caddy before instances, for the length of the block."""
    port = free_port()
    configuration = folder / "Caddyfile"
    text = (RECIPES / "Caddyfile").read_text()
    configuration.write_text(TEST_AUTHORITY % port + edit(text))
    settings = {"INSTANCES": " ".join(addresses), **(environment or {})}
    log = folder / "caddy.log"
    command = [str(CADDY), "run", "--config", str(configuration)]
    trio.socket.set_custom_hostname_resolver(Resolver())
    async with _running(
        command, log, {"HOME": str(folder), "XDG_DATA_HOME": str(folder), **settings}
    ):
        yield Proxy(folder, port, await _certified(folder, port))


async def _certified(folder: Path, port: int) -> ssl.SSLContext:
    """Wait until Caddy listens and has a certificate; return the trust in who issued that."""
    authority = folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"
    with trio.fail_after(TIME_LIMIT):
        while True:
            with suppress(OSError, ssl.SSLError, trio.BrokenResourceError):
                trust = ssl.create_default_context(cafile=str(authority))
                async with await trio.open_tcp_stream("127.0.0.1", port) as raw:
                    await trio.SSLStream(raw, trust, server_hostname=NAME).do_handshake()
                return trust
            await trio.sleep(0.02)


@asynccontextmanager
async def _running(
    command: Sequence[str], log: Path, variables: Mapping[str, str], inherited: Sequence[int] = ()
) -> AsyncIterator[None]:
    """Run a proxy, and leave nothing of it."""
    with log.open("ab") as written:
        process = await trio.lowlevel.open_process(
            command,
            env={**ENVIRONMENT, **variables},
            pass_fds=inherited,
            stdin=subprocess.DEVNULL,
            stderr=written,
            start_new_session=True,
        )
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        with trio.CancelScope(shield=True), trio.move_on_after(5):
            await process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
