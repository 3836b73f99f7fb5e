"""Pages as clients: what browsers are told of who may use the server, and who learns nothing."""

from typing import Any

import pytest

from tests.support.tools import echo, registry_of
from tests.transports.http.support import Host, LegacyClient, ModernClient, Response, hosting
from trio_mcp import HttpPolicy

PAGE = "https://app.example.com"
POLICY = HttpPolicy(allowed_origins=[PAGE], tokens={"secret": "alice"}, rate=0.001, burst=3)


async def preflight(served: Host, path: str = "/mcp", /, **headers: Any) -> Response:
    """Ask as a browser does before it lets a page send something."""
    asked = {"origin": PAGE, "access-control-request-method": "POST", **headers}
    return await served.ask("OPTIONS", path, headers=asked)


@pytest.mark.requirement("F4")
@pytest.mark.parametrize("path", ["/mcp", "/tools", "/metrics"])
async def test_a_page_that_may_use_the_server_is_told_so_before_it_has_a_token(path: str) -> None:
    wanted = "authorization,content-type,mcp-method,Mcp-Param-City"
    async with hosting(registry_of(echo), POLICY) as host:
        for _ in range(9):  # none of them counts as a request of the client
            said = await preflight(host, path, **{"access-control-request-headers": wanted})
            assert said.status == 200
        assert said.body == b""
        assert said.headers["access-control-allow-origin"] == PAGE
        assert said.headers["access-control-allow-methods"] == "GET, POST, DELETE"
        assert said.headers["access-control-allow-headers"] == wanted
        assert said.headers["vary"] == "origin"
        assert "access-control-allow-credentials" not in said.headers


@pytest.mark.requirement("F4")
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"host": "evil.example"},
    ],
)
async def test_no_other_page_is_told_anything(headers: dict[str, str]) -> None:
    async with hosting(registry_of(echo), POLICY) as host:
        said = await preflight(host, **headers)
        assert said.status == 403
        assert [name for name in said.headers if name.startswith("access-control")] == []


@pytest.mark.parametrize("names", ["x y", "a,,b", "a,", "ä", "a: b", "*/*", ","])
async def test_what_is_no_list_of_headers_is_not_allowed(names: str) -> None:
    async with hosting(registry_of(echo), POLICY) as host:
        said = await preflight(host, **{"access-control-request-headers": names})
        assert "access-control-allow-headers" not in said.headers


async def test_other_options_requests_are_none_of_a_browser() -> None:
    async with hosting(registry_of(echo)) as host:
        for headers in ({}, {"origin": "http://localhost:5173"}):
            said = await host.ask("OPTIONS", headers=headers)
            assert said.status == 405


async def test_a_page_can_read_answers_and_refusals() -> None:
    async with hosting(registry_of(echo), POLICY) as host:
        modern = ModernClient(host)
        headers = {"origin": PAGE, "authorization": "Bearer secret"}
        answered = await modern.begin("tools/list", None, **headers).end()
        refused = await modern.begin("tools/list", None, origin=PAGE).end()
        assert (answered.status, refused.status) == (200, 401)
        for said in (answered, refused):
            assert said.headers["access-control-allow-origin"] == PAGE
            exposed = said.headers["access-control-expose-headers"].split(", ")
            assert {"mcp-session-id", "www-authenticate"} <= set(exposed)


async def test_a_page_can_keep_a_session_and_read_streams() -> None:
    page = "http://localhost:5173"
    async with hosting(registry_of(echo)) as host:
        client = LegacyClient(host, headers={"origin": page})
        opened = await client.post(client.initialize_request())
        assert opened.headers["access-control-allow-origin"] == page
        client.session = opened.headers["mcp-session-id"]
        stream = client.get()
        assert await stream.started() == 200
        assert stream.headers["access-control-allow-origin"] == page
        assert await client.delete() == 200


async def test_who_is_no_page_is_told_nothing_about_pages() -> None:
    async with hosting(registry_of(echo)) as host:
        said = await ModernClient(host).begin("tools/list", None).end()
        assert said.status == 200
        assert [name for name in said.headers if name.startswith("access-control")] == []


@pytest.mark.requirement("F2")
async def test_guessing_tokens_is_limited_by_address() -> None:
    async with hosting(registry_of(echo), POLICY) as host:
        client = ModernClient(host)

        async def status_for(token: str) -> int:
            request = client.begin("tools/list", None, authorization=f"Bearer {token}")
            return (await request.end()).status

        assert [await status_for("wrong") for _ in range(5)] == [401, 401, 401, 429, 429]
        assert await status_for("secret") == 429  # or else one could go on guessing
        client.address = ("192.0.2.7", 5000)
        assert await status_for("secret") == 200  # its owner's rate is another one
