"""Server cards: what strangers may know of a server, and where they find it."""

from functools import partial
from typing import Any

import httpx2
import pytest
import trio

from tests.support.tools import echo, registry_of
from tests.transports.http.support import hosting
from trio_mcp import HttpPolicy, Icon, Registry, ServerCard, connect, serve_http
from trio_mcp.auth import ResourceServer
from trio_mcp.wire.revisions import ALL

CARD = ServerCard(
    name="com.example/weather",
    url="https://example.com/mcp",
    description="Weather, everywhere.",
    repository="https://github.com/example/weather",
    meta={"com.example/plan": "free"},
)
PAGE = "/mcp/server-card"
CATALOG = "/.well-known/ai-catalog.json"


def forecasts() -> Registry:
    icons = [Icon("https://example.com/sun.png", mime_type="image/png")]
    website = "https://example.com/about"
    registry = Registry("weather", version="1.2", title="Weather", icons=icons, website_url=website)
    registry.add_tool(echo)
    return registry


@pytest.mark.requirement("K6")
async def test_a_card_says_who_the_server_is_and_where_to_connect() -> None:
    async with hosting(forecasts(), card=CARD) as host:
        response = await host.send("GET", PAGE).end()
    assert response.status == 200
    assert response.headers["content-type"] == "application/mcp-server-card+json"
    assert response.json() == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": "com.example/weather",
        "version": "1.2",
        "description": "Weather, everywhere.",
        "title": "Weather",
        "websiteUrl": "https://example.com/about",
        "icons": [{"src": "https://example.com/sun.png", "mimeType": "image/png"}],
        "repository": {"url": "https://github.com/example/weather", "source": "github"},
        "remotes": [
            {
                "type": "streamable-http",
                "url": "https://example.com/mcp",
                "supportedProtocolVersions": [each.name for each in ALL],
            }
        ],
        "_meta": {"com.example/plan": "free"},
    }


async def test_the_catalog_points_to_the_card() -> None:
    async with hosting(forecasts(), card=CARD) as host:
        response = await host.send("GET", CATALOG).end()
    assert response.headers["content-type"] == "application/ai-catalog+json"
    entry = {
        "identifier": "urn:air:example.com:mcp:weather",
        "type": "application/mcp-server-card+json",
        "url": "https://example.com/mcp/server-card",
    }
    assert response.json() == {"specVersion": "1.0", "entries": [entry]}


@pytest.mark.requirement("K6")
@pytest.mark.parametrize("path", [PAGE, CATALOG])
async def test_anybody_may_read_them(path: str) -> None:
    """Without a token, from a page of any origin; and who has them already is told so."""
    auth = ResourceServer(resource="https://example.com/mcp", issuers=["https://as.example"])
    page = {"origin": "https://page.example", "host": "example.com"}
    async with hosting(forecasts(), HttpPolicy(auth=auth), card=CARD) as host:
        response = await host.send("GET", path, page).end()
        assert response.status == 200
        assert response.headers["access-control-allow-origin"] == "*"
        assert response.headers["access-control-expose-headers"] == "etag"
        assert response.headers["cache-control"] == "public, max-age=3600"
        tag = response.headers["etag"]
        for known in (tag, f'"other", W/{tag}', "*"):
            again = await host.send("GET", path, {**page, "if-none-match": known}).end()
            assert (again.status, again.body) == (304, b"")
            assert again.headers["etag"] == tag
            assert "content-length" not in again.headers
        other = await host.send("GET", path, {**page, "if-none-match": '"other"'}).end()
        assert other.status == 200
        asked = {**page, "access-control-request-method": "GET"}
        assert (await host.send("OPTIONS", path, asked).end()).status == 200
        assert (await host.send("POST", path, page).end()).status == 405


async def test_without_a_card_there_is_none() -> None:
    async with hosting(forecasts()) as host:
        for path in (PAGE, CATALOG):
            assert (await host.send("GET", path).end()).status == 404


async def test_the_embedded_server_has_one() -> None:
    async with trio.open_nursery() as nursery:
        registry = registry_of(echo)
        handle = await nursery.start(partial(serve_http, registry, port=0, card=CARD))
        async with httpx2.AsyncClient(trust_env=False, verify=False) as client:
            card = await client.get(f"{handle.url}/server-card")
            again = await client.get(card.url, headers={"If-None-Match": card.headers["etag"]})
        assert card.json()["name"] == "com.example/weather"
        assert (again.status_code, again.content) == (304, b"")
        async with connect(handle.url) as caller:
            assert (await caller.call_tool("echo", {"text": "hi"})).text == "hi"
        handle.stop()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": "weather"}, "name must be like com.example/weather"),
        ({"name": "a/" + "x" * 200}, "name must be like com.example/weather"),
        ({"name": 5}, "name must be like com.example/weather"),
        ({"url": "example.com/mcp"}, "url must be a URL"),
        ({"url": "https://example.com/mcp?key=1"}, "url must be a URL without a query"),
        ({"description": ""}, "description must have 1 to 100 characters"),
        ({"description": "x" * 101}, "description must have 1 to 100 characters"),
        ({"repository": "git@example.com"}, "repository must be a URL"),
    ],
)
def test_cards_that_will_not_do(wrong: dict[str, Any], said: str) -> None:
    usual = {"name": CARD.name, "url": CARD.url, "description": CARD.description}
    with pytest.raises(ValueError, match=said):
        ServerCard(**{**usual, **wrong})
