"""A server that shows some tools only to clients with abilities, and our proxies in front of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.processes import ROOT, TIME_LIMIT
from trio_mcp import Client, Handlers, connect, serve_http
from trio_mcp.client.negotiation import Era
from trio_mcp.compose import open_proxy
from trio_mcp.transports import ProcessOptions

pytestmark = [pytest.mark.needs("node"), pytest.mark.requirement("L4")]

EVERYTHING = Path("node_modules/@modelcontextprotocol/server-everything/dist/index.js")
OPTIONS = ProcessOptions(env={"PYTHONPATH": str(ROOT)})
eras = pytest.mark.parametrize("era", ["modern", "legacy"])


async def sample(params: dict[str, Any]) -> dict[str, Any]:
    """Be a model."""
    text = {"type": "text", "text": "a thought"}
    return {"role": "assistant", "content": text, "model": "none", "stopReason": "endTurn"}


async def elicit(params: dict[str, Any]) -> dict[str, Any]:
    """Be somebody who does not answer."""
    return {"action": "decline"}


ABLE = Handlers(sampling=sample, elicitation=elicit, roots=["file:///srv/data"])


async def tools_of(client: Client) -> set[str]:
    """The tools, once those that depend on abilities have been used."""
    asked = await client.call_tool("trigger-sampling-request", {"prompt": "Think."}, timeout=30)
    assert "a thought" in asked.text
    asked = await client.call_tool("trigger-elicitation-request", timeout=30)
    assert "declined" in asked.text.lower()
    return set(client.tools)


@eras
async def test_a_proxy_on_stdio_shows_what_the_server_shows(npm: Path, era: Era) -> None:
    server = ["node", str(npm / EVERYTHING), "stdio"]
    proxy = [sys.executable, "-m", "trio_mcp", "proxy", "--", *server]
    with trio.fail_after(TIME_LIMIT):
        async with connect(server, handlers=ABLE) as direct:
            able = await tools_of(direct)
        async with connect(server) as direct:
            plain = set(direct.tools)
        assert plain < able
        async with connect(proxy, era=era, handlers=ABLE, process_options=OPTIONS) as client:
            assert await tools_of(client) == able
        async with connect(proxy, era=era, process_options=OPTIONS) as client:
            assert set(client.tools) == plain


@eras
async def test_a_proxy_over_http_shows_each_client_what_the_server_would(
    npm: Path, era: Era
) -> None:
    server = ["node", str(npm / EVERYTHING), "stdio"]
    with trio.fail_after(TIME_LIMIT):
        async with connect(server, handlers=ABLE) as direct:
            able = set(direct.tools)
        async with open_proxy(server) as registry, trio.open_nursery() as nursery:
            url = (await nursery.start(serve_http, registry, "127.0.0.1", 0)).url
            async with connect(url, era=era, handlers=ABLE) as client:
                assert await tools_of(client) == able
                async with connect(url, era=era) as plain:
                    assert able - set(plain.tools)
            nursery.cancel_scope.cancel()
