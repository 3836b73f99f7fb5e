"""Middleware of a client: around each request, the handshake included."""

import pytest
from attrs import evolve

from tests.support.tools import echo, registry_of
from trio_mcp import Context, McpError, Registry, connect
from trio_mcp.errors import RateLimited

pytestmark = pytest.mark.requirement("L5")


async def test_it_may_change_answer_refuse_and_repeat_requests():
    seen: list[tuple[str, str | None]] = []

    async def change(request, call_next):
        seen.append((request.method, request.target))
        if request.method == "tools/call":
            assert request.description.name == "echo"
            assert request.context is None
            await call_next(request)
            loud = {"text": request.params["arguments"]["text"].upper()}
            params = {**request.params, "arguments": loud}
            return await call_next(evolve(request, params=params))
        if request.method == "com.example/here":
            return {"answered": "here"}
        if request.method == "com.example/no":
            raise McpError(-32000, "no")
        return await call_next(request)

    async with connect(registry_of(echo), middleware=[change]) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "HI"
        assert await client.request("com.example/here") == {"answered": "here"}
        with pytest.raises(McpError, match="no"):
            await client.request("com.example/no")
    expected = [("server/discover", None), ("tools/list", None), ("tools/call", "echo")]
    assert seen[:3] == expected


@pytest.mark.requirement("L5")
@pytest.mark.parametrize(
    ("era", "handshake"), [("modern", "server/discover"), ("legacy", "initialize")]
)
async def test_it_runs_around_the_handshake(era, handshake):
    async def around(request, call_next):
        result = await call_next(request)
        seen.append((request.method, result))
        return result

    seen: list[tuple[str, dict]] = []
    async with connect(registry_of(echo), era=era, middleware=[around]) as client:
        [result] = [result for method, result in seen if method == handshake]
        assert result["capabilities"] == client.capabilities

    async def refuse(request, call_next):
        if request.method == handshake:
            raise RateLimited(429, "not so fast")
        return await call_next(request)

    with pytest.raises(RateLimited, match="not so fast"):
        async with connect(registry_of(echo), era=era, middleware=[refuse]):
            pass


@pytest.mark.requirement("L5")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_it_may_put_a_trace_into_what_is_sent(era):
    """As OpenTelemetry's propagators do: `traceparent`, `tracestate`, `baggage`."""
    found: list[dict] = []
    registry = Registry("traced")

    @registry.tool
    async def look(context: Context) -> None:
        found.append(context.meta)

    async def trace(request, call_next):
        carrier = {"traceparent": "00-" + 32 * "a" + "-" + 16 * "b" + "-01", "baggage": "user=1"}
        meta = {**request.params.get("_meta", {}), **carrier}
        return await call_next(evolve(request, params={**request.params, "_meta": meta}))

    async with connect(registry, era=era, middleware=[trace]) as client:
        await client.call_tool("look", meta={"com.example/own": 1})
    [meta] = found
    assert (meta["baggage"], meta["com.example/own"]) == ("user=1", 1)
    assert meta["traceparent"].startswith("00-aaaa")


async def test_what_is_no_result_is_refused():
    async def lie(request, call_next):
        return 7 if request.method == "tools/call" else await call_next(request)

    async with connect(registry_of(echo), middleware=[lie]) as client:
        with pytest.raises(TypeError, match="middleware around tools/call must return a dict"):
            await client.call_tool("echo", {"text": "hi"})
    with pytest.raises(TypeError, match="middleware must be a list"):
        connect(registry_of(echo), middleware=lie)
