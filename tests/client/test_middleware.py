"""Middleware of a client: around each request after the handshake."""

import pytest
from attrs import evolve

from tests.support.tools import echo, registry_of
from trio_mcp import McpError, connect

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
    assert seen[:2] == [("tools/list", None), ("tools/call", "echo")]


async def test_what_is_no_result_is_refused():
    async def lie(request, call_next):
        return await call_next(request) if request.method == "tools/list" else 7

    async with connect(registry_of(echo), middleware=[lie]) as client:
        with pytest.raises(TypeError, match="middleware around tools/call must return a dict"):
            await client.call_tool("echo", {"text": "hi"})
    with pytest.raises(TypeError, match="middleware must be a list"):
        connect(registry_of(echo), middleware=lie)
