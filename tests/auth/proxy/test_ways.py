"""Logins where a server is served in other ways: on asyncio, and in tasks that outlive requests."""

import asyncio
import html
import re
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest
import trio.testing

from tests.auth.proxy.world import (
    CALLBACK,
    CLIENT_SECRET,
    PROVIDER,
    RESOURCE,
    SERVER,
    Client,
    Provider,
    challenge_of,
    world,
)
from tests.extensions.tasks.support import DECLARED
from tests.support.client import modern_meta
from tests.transports.http.support import Host, ModernClient
from trio_mcp import Context, Registry
from trio_mcp import http_app as trio_http_app
from trio_mcp.aio import Registry as AioRegistry
from trio_mcp.aio import http_app
from trio_mcp.auth import Fetching, oidc
from trio_mcp.extensions.tasks import TaskOptions, Tasks
from trio_mcp.store.opening import open_store
from trio_mcp.store.protocol import Store


def registry_of_jobs(store: Store, go: trio.Event) -> Registry:
    registry = Registry("Jobs", extensions=[Tasks(store=store)])

    @registry.tool(task=TaskOptions(on_restart="run again"))
    async def job(context: Context) -> str:
        await go.wait()
        return await context.provider_token()

    return registry


async def ask(host: Host, client: Client, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request of a client that knows tasks."""
    token, named = client.tokens["access_token"], {}
    if "taskId" in params:
        named["mcp-name"] = params["taskId"]
    headers = {"host": "mcp.test", "authorization": f"Bearer {token}", **named}
    sender = ModernClient(host, headers, capabilities=DECLARED)
    sender.added = ("task",)
    found: dict[str, Any] = (await sender.begin(method, params).end()).json()["result"]
    return found


async def result_of(host: Host, client: Client, id: str) -> dict[str, Any]:
    while True:
        found = await ask(host, client, "tasks/get", {"taskId": id})
        if found["status"] != "working":
            result: dict[str, Any] = found["result"]
            return result
        await trio.sleep(1)


@pytest.mark.requirement("P2")
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_task_gets_the_provider_s_token_after_its_request(restarts, autojump_clock):
    provider, go = Provider(expires_in=30), trio.Event()
    async with open_store("memory:") as store, AsyncExitStack() as second:
        async with AsyncExitStack() as first:
            registry = registry_of_jobs(store, go)
            here = await first.enter_async_context(world(provider, registry=registry, store=store))
            client = here.client
            await client.log_in()
            call = {"name": "job", "arguments": {}}
            id = (await ask(here.host, client, "tools/call", call))["taskId"]
            await trio.testing.wait_all_tasks_blocked()
            if not restarts:
                go.set()
                result = await result_of(here.host, client, id)
                assert result["content"][0]["text"].startswith("provider-")
                return
        go.set()  # so that it asks as soon as it goes on
        registry = registry_of_jobs(store, go)
        after = await second.enter_async_context(world(provider, registry=registry, store=store))
        result = await result_of(after.host, client, id)
        assert result["content"][0]["text"].startswith("provider-")


async def test_an_app_that_is_mounted_below_a_path_serves_all_of_its_page_paths():
    provider = Provider()
    fetching = Fetching(client_factory=provider.client)
    given = {"client_id": "mcp-server", "client_secret": CLIENT_SECRET, "fetching": fetching}
    auth = oidc(PROVIDER, resource=f"{SERVER}/api/mcp", **given)
    app = trio_http_app(Registry("Mounted"), auth=auth)

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"].startswith("/api/"):
            await app({**scope, "root_path": "/api"}, receive, send)
        else:
            assert scope["path"] in auth.page_paths
            await app(scope, receive, send)

    transport = httpx2.ASGITransport(outer)
    async with app.running(), httpx2.AsyncClient(transport=transport, base_url=SERVER) as http:
        assert (await http.get("/api/mcp")).status_code == 401
        about = (await http.get("/.well-known/oauth-authorization-server/api/mcp")).json()
        urls = [url for name, url in about.items() if name.endswith(("_endpoint", "_uri"))]
        paths = {urlsplit(url).path for url in [*urls, auth.callback_url]} | {"/consent"}
        assert paths <= auth.page_paths
        for path in auth.page_paths:
            assert (await http.get(path)).status_code != 404


def test_people_log_in_to_a_server_on_asyncio():
    provider, verifier = Provider(expires_in=30), "v" * 43
    registry = AioRegistry("On asyncio")

    @registry.tool
    async def who(context: Context) -> str:
        await asyncio.sleep(0)
        assert context.caller is not None
        return f"{context.caller.subject} {await context.provider_token()}"

    fetching = Fetching(client_factory=provider.client)
    given = {"client_id": "mcp-server", "client_secret": CLIENT_SECRET, "fetching": fetching}
    app = http_app(registry, auth=oidc(PROVIDER, resource=RESOURCE, **given))

    async def log_in(http: httpx2.AsyncClient) -> str:
        document = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
        id = (await http.post("/register", json=document)).json()["client_id"]
        asked = {
            "response_type": "code",
            "client_id": id,
            "redirect_uri": CALLBACK,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        page = await http.get(f"/authorize?{urlencode(asked)}")
        found = re.search(r'name="ticket" value="([^"]+)"', page.text)
        assert found is not None
        form = {"ticket": html.unescape(found[1]), "answer": "allow"}
        onward = await http.post("/consent", data=form)
        back = await http.get(provider.log_in(onward.headers["location"]))
        code = dict(parse_qsl(urlsplit(back.headers["location"]).query))["code"]
        form = {"grant_type": "authorization_code", "code": code, "client_id": id}
        answer = await http.post("/token", data={**form, "code_verifier": verifier})
        token: str = answer.json()["access_token"]
        return token

    async def main() -> str:
        transport = httpx2.ASGITransport(app)
        async with (
            app.running(),
            httpx2.AsyncClient(transport=transport, base_url=SERVER) as http,
        ):
            headers = {
                "authorization": f"Bearer {await log_in(http)}",
                "accept": "application/json, text/event-stream",
                "mcp-protocol-version": "2026-07-28",
                "mcp-method": "tools/call",
                "mcp-name": "who",
            }
            params = {"name": "who", "arguments": {}, "_meta": modern_meta()}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            answer = await http.post("/mcp", json=message, headers=headers)
            text: str = answer.json()["result"]["content"][0]["text"]
            return text

    assert asyncio.run(main()).startswith("alice-1 provider-")
