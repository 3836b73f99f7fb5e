"""Requests one after the other on a connection: what is kept from one to the next decides nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.asgi_server_support import post, serving
from tests.transports.http.sockets import served
from tests.transports.http.support import ModernClient
from trio_mcp import HttpPolicy, Registry, http_app

pytestmark = pytest.mark.requirement("F1", "B1", "B2")


async def wait() -> None:
    """Wait for too long."""
    await trio.sleep_forever()


def registry_with_wait() -> Registry:
    registry = registry_of(echo)
    registry.add_tool(wait, timeout=1)
    return registry


async def test_a_call_that_is_late_is_ended_alone(autojump_clock: Any) -> None:
    app = http_app(registry_with_wait(), policy=HttpPolicy(allowed_hosts=["test"]))
    makes: Any = ModernClient(None)  # type: ignore[arg-type]  # it makes messages only
    async with app.running(), serving(app) as server:
        client = server.connect()

        async def call(name: str, **arguments: Any) -> Any:
            params = {"name": name, "arguments": arguments}
            message = makes.request_of("tools/call", params)
            headers = [f"{key}: {value}" for key, value in makes.headers_for(message).items()]
            body = json.dumps(message).encode()
            return json.loads((await client.ask(post(body, *headers, target="/mcp"))).body)

        for started in range(2):
            for text in ("one", "two"):
                assert text_of(await call("echo", text=text)) == text
            late = await call("wait")
            assert late["result"]["isError"]
            assert "timed out" in text_of(late)
            assert trio.current_time() == started + 1


@pytest.mark.parametrize(
    ("other", "status"),
    [
        ({"host": "elsewhere.example"}, 403),
        ({"origin": "https://elsewhere.example"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"accept": "application/json"}, 406),
        ({"mcp-name": "wait"}, 400),
        ({"mcp-method": "tools/list"}, 400),
        ({"mcp-name": None}, 400),
        ({"mcp-protocol-version": "2025-11-25"}, 400),
    ],
)
async def test_a_head_that_differs_is_looked_at_again(other: dict[str, Any], status: int) -> None:
    async with served(registry_with_wait()) as server, server.connect() as wire:
        call = server.call("echo", text="hello")
        for _ in range(2):
            assert (await (await wire.post(server.modern, call)).whole()).status == 200
            assert (await (await wire.post(server.modern, call, **other)).whole()).status == status


async def test_a_body_that_differs_from_its_head_is_refused_however_often_it_did_not() -> None:
    async with served(registry_of(echo)) as server, server.connect() as wire:
        call = server.call("echo", text="hello")
        for _ in range(2):
            assert (await (await wire.post(server.modern, call)).whole()).status == 200
        headers = server.modern.headers_for(call)
        other = {**call, "params": {**call["params"], "name": "ohce"}}
        reply = await (await wire.post(server.modern, other, **headers)).whole()
        assert (reply.status, reply.json()["error"]["code"]) == (400, -32020)


async def test_each_request_is_its_token_s_owner_s() -> None:
    policy = HttpPolicy(tokens={"one": "ann", "two": "bob"})
    async with served(registry_of(echo), policy=policy) as server, server.connect() as wire:
        call = server.call("echo", text="hello")
        for token, status in [("one", 200), ("two", 200), ("six", 401), ("one", 200), (None, 401)]:
            given = None if token is None else f"Bearer {token}"
            reply = await wire.post(server.modern, call, authorization=given)
            assert (await reply.whole()).status == status


async def test_answers_to_a_page_say_that_it_may_read_them() -> None:
    async with served(registry_of(echo)) as server, server.connect() as wire:
        call, page = server.call("echo", text="hello"), "http://localhost:3000"
        for origin in (page, page, None, page):
            reply = await wire.post(server.modern, call, origin=origin)
            said = (await reply.whole()).headers.get("access-control-allow-origin")
            assert said == origin
