"""The pages beside the MCP endpoint, and where all of them are."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import httpx2
import pytest
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from trio.testing import wait_all_tasks_blocked

from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.support import Host, ModernClient, Worker, hosting, modern
from trio_mcp import HttpPolicy, Registry, ToolAnnotations, connect, http_app, serve_http


@pytest.mark.requirement("F1")
async def test_health() -> None:
    registry = registry_of(echo)
    async with hosting(registry) as host:
        response = await host.ask("GET", "/health")
        assert response.status == 200
        assert response.headers["content-type"] == "application/json"
        health = response.json()
        assert health.keys() == {"status", "uptime_seconds", "tools_registered"}
        assert (health["status"], health["tools_registered"]) == ("healthy", 1)
        assert 0 <= health["uptime_seconds"] < 1000
        registry.remove_tool("echo")
        later = (await host.ask("GET", "/health")).json()
        assert later["tools_registered"] == 0
        assert later["uptime_seconds"] >= health["uptime_seconds"]
        host.app.stop()
        stopping = await host.ask("GET", "/health")
        assert stopping.json()["status"] == "stopping"


@pytest.mark.requirement("F1", "F4")
async def test_health_needs_no_token() -> None:
    """Load balancers ask by address, which no page can make stand for another."""
    policy = HttpPolicy(tokens={"secret": "alice"}, rate=0.001, burst=1)
    async with hosting(registry_of(echo), policy) as host:
        for _ in range(3):
            for named in ("localhost", "10.1.2.3:8000", "[fd00::1]:8000"):
                response = await host.ask("GET", "/health", headers={"host": named})
                assert response.status == 200


@pytest.mark.requirement("F1", "F4")
@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.test"}, {"host": "1.2.3.4.evil.test"}, {"origin": "http://evil.test"}],
)
async def test_health_is_for_no_page_and_no_name_that_is_not_ours(headers: Any) -> None:
    async with hosting(registry_of(echo)) as host:
        response = await host.ask("GET", "/health", headers=headers)
        assert (response.status, b"tools" in response.body) == (403, False)


@pytest.mark.requirement("F1")
async def test_tools() -> None:
    registry = registry_of(echo)

    @registry.tool(title="Look", annotations=ToolAnnotations(read_only_hint=True))
    async def look(where: int = 5) -> dict[str, int]:
        """Look somewhere."""
        return {"there": where}

    async with hosting(registry) as host:
        response = await host.ask("GET", "/tools")
        assert response.status == 200
        first, second = response.json()["tools"]
        assert (first["name"], second["name"]) == ("echo", "look")
        assert second["title"] == "Look"
        assert second["description"] == "Look somewhere."
        assert second["inputSchema"]["properties"]["where"]["default"] == 5
        assert second["outputSchema"]["type"] == "object"
        assert second["annotations"] == {"readOnlyHint": True}


@pytest.mark.requirement("F1")
async def test_tools_of_a_registry_that_has_none() -> None:
    async with hosting(Registry("bare")) as host:
        assert (await host.ask("GET", "/tools")).json() == {"tools": []}


@pytest.mark.requirement("F1")
async def test_metrics() -> None:
    async with hosting(registry_of(echo)) as host:
        await ModernClient(host).call("echo", text="x")
        response = await host.ask("GET", "/metrics")
        assert response.status == 200
        assert response.headers["content-type"].startswith("text/plain")
        assert b'mcp_requests_total{kind="tool",name="echo",outcome="ok"} 1.0' in response.body


WITHOUT_EXTRAS = """
import sys
sys.modules["prometheus_client"] = sys.modules["opentelemetry"] = None
import httpx2, trio
from trio_mcp import Registry, http_app

async def main():
    app = http_app(Registry("bare"))
    transport = httpx2.ASGITransport(app)
    client = httpx2.AsyncClient(transport=transport, base_url="http://localhost")
    async with app.running(), client:
        print((await client.get("/metrics")).text)

trio.run(main)
"""


@pytest.mark.long
@pytest.mark.requirement("F1")
async def test_metrics_need_no_package() -> None:
    done = await trio.run_process([sys.executable, "-c", WITHOUT_EXTRAS], capture_stdout=True)
    assert b"# TYPE mcp_sessions gauge" in done.stdout
    assert b"mcp_sessions 0.0" in done.stdout


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("path", ["/health", "/tools", "/metrics"])
async def test_pages_are_for_get(path: str) -> None:
    async with hosting(registry_of(echo)) as host:
        assert (await host.ask("HEAD", path)).status == 200
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            response = await host.ask(method, path)
            assert response.status == 405
            assert response.headers["allow"] == "GET, HEAD"


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("path", ["/", "/mcp/", "/mcp/x", "/MCP", "/healthz", "//mcp", "", "*"])
async def test_there_is_nothing_elsewhere(path: str) -> None:
    async with hosting(registry_of(echo)) as host:
        for method in ("GET", "POST", "DELETE"):
            response = await host.ask(method, path)
            assert response.status == 404
            assert response.error["code"] == -32600
            assert b"healthz" not in response.body, "what was asked for is not repeated"


async def where(host: Host, path: str, **options: Any) -> int:
    """The status of a modern request to that path."""
    client = ModernClient(host)
    request = client.request_of("tools/list")
    headers = client.headers_for(request)
    body = json.dumps(request).encode()
    return (await host.ask("POST", path, headers=headers, body=body, **options)).status


@pytest.mark.requirement("F1")
async def test_the_endpoint_may_be_elsewhere() -> None:
    async with hosting(registry_of(echo), path="/a/b") as host:
        assert await where(host, "/a/b") == 200
        assert await where(host, "/mcp") == 404
    async with hosting(registry_of(echo), path="/") as host:
        assert await where(host, "/") == 200
        assert (await host.ask("GET", "/health")).status == 200


@pytest.mark.requirement("F6")
@pytest.mark.parametrize("root", ["/api", "/api/", "/api/v1", "/m", "/mcp", ""])
async def test_an_app_that_is_mounted_somewhere(root: str) -> None:
    """Servers tell where: in older ones the path is what is below, in others all of it."""
    async with hosting(registry_of(echo)) as host:
        assert await where(host, f"{root.rstrip('/')}/mcp", root_path=root) == 200
        assert await where(host, "/mcp", root_path=root) == 200
        if root:
            assert await where(host, f"{root.rstrip('/')}x/mcp", root_path=root) == 404


@pytest.mark.parametrize("path", ["", "mcp", "/health", "/tools", "/metrics"])
def test_paths_that_cannot_be_the_endpoint(path: str) -> None:
    with pytest.raises(ValueError, match="take one like '/mcp'"):
        http_app(registry_of(echo), path=path)


@pytest.mark.requirement("F1", "F2")
async def test_pages_do_not_wait_for_calls() -> None:
    worker = Worker()
    async with modern(worker.registry, HttpPolicy(max_concurrent=1)) as client:
        responses = [client.begin_call("work") for _ in range(3)]
        await wait_all_tasks_blocked()
        for path in ("/health", "/tools", "/metrics"):
            assert (await client.host.ask("GET", path)).status == 200
        worker.go_on.set()
        for response in responses:
            assert text_of(await response.answer()) == "done"


@pytest.mark.requirement("S6")
async def test_routes_of_ones_own_are_beside_the_endpoint(caplog: pytest.LogCaptureFixture) -> None:
    async def hello(request: Request) -> Response:
        body = await request.body()
        return PlainTextResponse(f"{request.method} {request.url.path} {body.decode()}")

    async def fail(request: Request) -> Response:
        raise ValueError("of my own")

    own = Starlette(routes=[Route("/hello", hello, methods=["GET", "POST"]), Route("/fail", fail)])
    serve = partial(serve_http, registry_of(echo), port=0, fallback=own)
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(serve)
        base = handle.url.removesuffix("/mcp")
        async with httpx2.AsyncClient(trust_env=False, verify=False) as http:
            assert (await http.get(f"{base}/hello")).text == "GET /hello "
            assert (await http.post(f"{base}/hello", content=b"x")).text == "POST /hello x"
            assert (await http.get(f"{base}/nowhere")).status_code == 404
            assert (await http.get(f"{base}/fail")).status_code == 500
            assert (await http.get(f"{base}/health")).json()["tools_registered"] == 1
            wrong = await http.get(f"{base}/hello", headers={"host": "evil.example"})
            assert wrong.status_code == 403, "a page of another name reaches nothing here"
        async with connect(handle.url) as client:
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        handle.stop()
    with pytest.raises(TypeError, match="fallback must be an ASGI app, not str"):
        http_app(registry_of(echo), fallback="app")  # type: ignore[arg-type]
