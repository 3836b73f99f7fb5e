"""The headers of a request, as handlers see them: in both eras, without credentials."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import Any

import pytest
import trio

from tests.support.tools import registry_of, text_of
from tests.transports.http.fleet import fleet
from tests.transports.http.support import HttpClient, LegacyClient, ModernClient, hosting
from tests.transports.http.test_app_sse import ALICE, PATH, TOKENS, SseClient
from trio_mcp import Context, Registry, SessionOptions, connect
from trio_mcp.middleware import McpCall

pytestmark = pytest.mark.requirement("Q3")

CREDENTIALS = (
    *("authorization", "proxy-authorization", "cookie", "x-api-key", "x-auth-token", "api-key"),
    *("x-amz-security-token", "x-goog-iap-jwt-assertion", "x-client-secret", "x-password"),
    *("mcp-session-id", "dpop", "ocp-apim-subscription-key", "x-functions-key", "x-csrf-token"),
)
OTHERS = ("x-tenant", "accept-language", "idempotency-key", "x-request-id", "traceparent", "host")


async def seen(context: Context, ask: list[str]) -> list[Any]:
    """The headers that are asked for."""
    headers = None if context.http is None else context.http.headers
    return [None if headers is None else headers.get(name) for name in ask]


def registry() -> Registry:
    return registry_of(seen)


async def asked(client: HttpClient, *names: str) -> list[Any]:
    """What a tool sees of some headers."""
    found: list[Any] = json.loads(text_of(await client.call("seen", ask=list(names))))
    return found


@pytest.mark.parametrize("era", ["modern", "legacy", "stateless"])
async def test_a_tool_sees_the_headers_of_its_request(era: str) -> None:
    sessions = SessionOptions(stateless=era == "stateless")
    async with hosting(registry(), sessions=sessions) as host:
        client = ModernClient(host) if era == "modern" else LegacyClient(host)
        if isinstance(client, LegacyClient):
            await client.initialize()
        for tenant in ("one", "two"):
            client.headers = {"x-tenant": tenant, "accept-language": "de"}
            assert await asked(client, "X-Tenant", "accept-LANGUAGE") == [tenant, "de"]


async def test_each_call_of_a_session_has_the_headers_that_it_came_with() -> None:
    begun, go_on = trio.Event(), trio.Event()

    async def late(context: Context, waits: bool) -> str:
        if waits:
            begun.set()
            await go_on.wait()
        assert context.http is not None
        return context.http.headers["x-tenant"]

    async with hosting(registry_of(late)) as host:
        client = LegacyClient(host)
        await client.initialize()
        client.headers["x-tenant"] = "one"
        slow = client.begin_call("late", waits=True)
        await begun.wait()
        client.headers["x-tenant"] = "two"
        assert text_of(await client.call("late", waits=False)) == "two"
        go_on.set()
        assert text_of(await slow.answer()) == "one"


async def test_a_batch_has_the_headers_that_it_came_with() -> None:
    async with hosting(registry()) as host:
        client = LegacyClient(host, "2025-03-26")
        await client.initialize()
        client.headers["x-tenant"] = "one"
        params = {"name": "seen", "arguments": {"ask": ["x-tenant"]}}
        batch = [client.request_of("tools/call", params) for _ in range(2)]
        (answers,) = await client.send(batch).messages()
        assert [text_of(answer) for answer in answers] == ['["one"]'] * 2


async def test_of_an_old_stream_it_is_the_request_that_began_it_wherever_a_message_came_in() -> (
    None
):
    async with fleet(registry, sse_path=PATH) as those:
        client = SseClient(those.hosts[0], headers={"x-tenant": "one"})
        await client.begin_session()
        client.host, client.headers = those.hosts[1], {}
        answer = await client.ask(client.call_of("seen", ask=["x-tenant"]))
        assert text_of(answer) == '["one"]'


@pytest.mark.parametrize("name", CREDENTIALS)
async def test_credentials_are_left_out(name: str) -> None:
    async def show(context: Context) -> str:
        assert context.http is not None
        assert name not in context.http.headers
        return f"{dict(context.http.headers)} {context.http!r} {context.http.headers!r}"

    async with hosting(registry_of(show), TOKENS if name == "authorization" else None) as host:
        given = ALICE if name == "authorization" else {name: "let-me-in"}
        text = text_of(await ModernClient(host, given).call("show"))
    assert "let-me-in" not in text
    assert "a-token" not in text


@pytest.mark.parametrize("name", OTHERS)
async def test_everything_else_is_there(name: str) -> None:
    async with hosting(registry()) as host:
        client = ModernClient(host, {name: "localhost"})
        assert await asked(client, name, name.title()) == ["localhost"] * 2


async def test_no_long_header_is_kept_beyond_its_request() -> None:
    """Whoever can reach the server can send another one each time."""
    async with hosting(registry()) as host:

        async def call(number: int) -> None:
            long = f"{number}{'x' * 15_000}"
            kinds = f"application/json, text/event-stream, {long}"
            headers = {"x-forwarded-for": long, "accept": kinds, f"x-{long}": "1", "x-tenant": "a"}
            assert await asked(ModernClient(host, headers), "x-tenant", f"x-{long}") == ["a", None]

        await call(0)
        tracemalloc.start()
        try:
            for number in range(1, 101):
                await call(number)
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert kept < 1_000_000


async def test_middleware_sees_them_too() -> None:
    async def by_tenant(call: McpCall, call_next: Any) -> Any:
        assert call.context is not None
        assert call.context.http is not None
        return f"{call.context.http.headers['X-Tenant']}: {await call_next(call)}"

    async def plain() -> str:
        return "done"

    async with hosting(registry_of(plain, middleware=[by_tenant])) as host:
        client = ModernClient(host, {"x-tenant": "one"})
        assert text_of(await client.call("plain")) == "one: done"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_other_transports_have_none(era: Any) -> None:
    async def look(context: Context) -> bool:
        return context.http is None

    async with connect(registry_of(look), era=era) as client:
        assert (await client.call_tool("look")).text == "true"
    assert await registry_of(look).call("look") is True
