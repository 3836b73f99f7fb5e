"""The recipes of nginx and Caddy, as clients meet them: real instances, a real proxy, real TLS."""

from __future__ import annotations

import itertools
import json
import re
import signal
import ssl
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from cryptography.fernet import Fernet

from tests.docs.recipes import (
    NAME,
    NGINX_CONFIGURATION,
    SERVER,
    RunProxy,
    caddy,
    instance,
    instances,
    nginx,
)
from tests.support.processes import TIME_LIMIT
from trio_mcp import Client, Context, HttpLimits, HttpPolicy, Limits, Registry, serve_http
from trio_mcp.cli.target import load_registry
from trio_mcp.client.negotiation import Era
from trio_mcp.errors import ConnectionLost, HttpError, RateLimited, RequestTooLarge

pytestmark = pytest.mark.requirement("T6")

each_proxy = pytest.mark.parametrize(
    "proxied",
    [
        pytest.param(nginx, id="nginx", marks=pytest.mark.needs("nginx")),
        pytest.param(caddy, id="caddy", marks=pytest.mark.needs("recipes")),
    ],
)
each_era = pytest.mark.parametrize("era", ["modern", "legacy"])


def shared(folder: Path) -> str:
    """The option for a store that instances share."""
    return f"--store=sqlite:///{folder / 'store'}"


@each_proxy
@pytest.mark.parametrize(("era", "place"), [("modern", "0"), ("legacy", "press.sock")])
async def test_everything_goes_through(
    proxied: RunProxy, era: Era, place: str, tmp_path: Path
) -> None:
    place = place if place.isdigit() else str(tmp_path / place)
    async with instance(place, keys=Fernet.generate_key().decode()) as (_, address):
        at = address if proxied is nginx else address.replace("unix:", "unix/")
        async with proxied(tmp_path, at, at) as proxy, proxy.client(era) as client:
            assert sorted(client.tools) == ["order", "print_book"]
            assert (await client.call_tool("order", {"title": "Emma"})).text == "Emma is ordered."
            async with client.subscribe(resources=["press://jobs"]) as changes:
                await leave_at_first_progress(client)
                while (await client.read_resource("press://jobs")).text != "[]":
                    await anext(changes)  # the call is cancelled, and says so
            # Caddy answers 413, too, and closes the connection: that may come before the answer.
            with pytest.raises(
                RequestTooLarge if proxied is nginx else (RequestTooLarge, ConnectionLost)
            ):
                await client.call_tool("order", {"title": "x" * 10 * 1024 * 1024})
            assert proxied is nginx or '"status":413' in (tmp_path / "caddy.log").read_text()
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
        instances("0", "0", keys=Fernet.generate_key().decode()) as (_, addresses),
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


@each_proxy
@each_era
async def test_a_restart_loses_no_call(proxied: RunProxy, era: Era, tmp_path: Path) -> None:
    said: list[str] = []
    async with (
        instance("0", shared(tmp_path)) as (server, address),
        # Caddy waits as long as a busy machine takes to start an instance.
        proxied(tmp_path, address, address, edit=lambda text: text.replace("10s", "60s")) as proxy,
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
        answered = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(order_while_it_is_gone, client, proxied is caddy, answered)
            if proxied is nginx:
                await answered.wait()
            async with instance(address.rpartition(":")[2], shared(tmp_path)):
                assert (await client.call_tool("order", {"title": "Emma"})).success
                await answered.wait()  # by this instance, if it was waited for


async def order_while_it_is_gone(client: Client, is_waited_for: bool, answered: trio.Event) -> None:
    """Caddy waits for an instance that starts again; nginx does not."""
    if is_waited_for:
        assert (await client.call_tool("order", {"title": "Persuasion"})).success
    else:
        with pytest.raises(HttpError, match="502"):
            await client.call_tool("order", {"title": "Persuasion"})
    answered.set()


@each_proxy
async def test_instances_are_replaced_one_after_the_other_while_clients_call(
    proxied: RunProxy, tmp_path: Path
) -> None:
    """As the hub says it: with a store that they share, and no call is lost."""
    store = shared(tmp_path)
    made = {"modern": 0, "legacy": 0}
    replaced = trio.Event()

    async def keep_calling(era: Era, *, task_status: trio.TaskStatus[None]) -> None:
        async with proxy.client(era) as client:
            while not replaced.is_set():
                result = await client.call_tool("print_book", {"title": "Emma", "copies": 2})
                assert result.text == "2 copies of Emma"
                made[era] += 1
                if made[era] == 1:
                    task_status.started()

    async def all_have_called_again() -> None:
        before = dict(made)
        while any(made[era] == before[era] for era in made):
            await trio.sleep(0.01)

    async with (
        instances("0", "0", options=[store]) as (servers, addresses),
        proxied(tmp_path, *addresses) as proxy,
        trio.open_nursery() as nursery,
    ):
        for era in ("modern", "legacy"):
            await nursery.start(keep_calling, era)
        first, second = (address.rpartition(":")[2] for address in addresses)
        servers[0].signal(signal.SIGTERM)
        assert await servers[0].exit() == 0
        async with instance(first, store):
            await all_have_called_again()
            servers[1].signal(signal.SIGTERM)
            assert await servers[1].exit() == 0
            async with instance(second, store):
                await all_have_called_again()
                replaced.set()
                while nursery.child_tasks:
                    await trio.testing.wait_all_tasks_blocked()
                    await trio.sleep(0.01)


@each_proxy
async def test_what_is_not_meant_for_the_world_is_refused(
    proxied: RunProxy, tmp_path: Path
) -> None:
    with trio.fail_after(TIME_LIMIT):
        async with (
            # However slowly this machine asks, it uses up so low a rate.
            instance("0", keys=Fernet.generate_key().decode(), rate="0.001") as (_, address),
            proxied(tmp_path, address, address) as proxy,
        ):
            assert '"status":"healthy"' in await proxy.get("/health")
            for path in ("/metrics", "/tools", "/", "/mcp/"):
                assert re.match(r"HTTP/1.1 404", await proxy.get(path))
            assert (await proxy.get("/mcp", method="OPTIONS")).startswith("HTTP/1.1 405")
            assert (await proxy.get("/health", method="HEAD")).endswith("\r\n\r\n")
            with pytest.raises((trio.BrokenResourceError, ssl.SSLError)):
                await proxy.get("/health", name=f"other.{NAME}")
            async with proxy.client("modern") as client:
                with pytest.raises(RateLimited) as limited:
                    for _ in range(1000):
                        await client.list_resources()
                assert limited.value.retry_after is not None


@each_proxy
async def test_the_server_knows_the_address_of_a_client_and_believes_no_other(
    proxied: RunProxy, tmp_path: Path
) -> None:
    registry = Registry("who")

    @registry.tool
    async def address(context: Context) -> str:
        return str(context.client_address)

    params = {"name": "address", "arguments": {}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    request = (
        f"POST /mcp HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\n"
        f"X-Forwarded-For: 192.0.2.1\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
    policy = HttpPolicy(allowed_hosts=[NAME], trusted_proxies=["127.0.0.1"])
    with trio.fail_after(TIME_LIMIT):
        async with trio.open_nursery() as nursery:
            handle = await nursery.start(partial(serve_http, registry, port=0, policy=policy))
            at = f"127.0.0.1:{handle.port}"
            async with proxied(tmp_path, at, at) as proxy:
                response = await proxy.send(request, source="127.0.0.2")
                assert '"text":"127.0.0.2"' in response
            nursery.cancel_scope.cancel()


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


def test_the_bounds_of_the_proxies_agree_with_those_of_the_server() -> None:
    def setting(pattern: str, text: str = NGINX_CONFIGURATION) -> int:
        found = re.findall(pattern, text)
        assert len(found) == 1
        return int(found[0])

    http = HttpLimits()
    assert setting(r"client_max_body_size (\d+)m;") << 20 == Limits().max_message_bytes
    assert setting(r"keepalive_timeout (\d+)s;") < http.idle_timeout
    assert 4 * setting(r"large_client_header_buffers 4 (\d+)k;") << 10 <= http.max_header_bytes
    longest = max(each.timeout or 0 for each in load_registry(str(SERVER)).tools.values())
    assert setting(r"proxy_read_timeout (\d+)h;") * 3600 > longest + Limits().question_timeout
    assert (
        setting(r"keepalive (\d+)s", (SERVER.parent / "Caddyfile").read_text()) < http.idle_timeout
    )
