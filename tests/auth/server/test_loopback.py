"""The whole of it over sockets: a server in five lines, and an issuer on loopback."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
import trio

from tests.auth.server.support import Issuer, ec_key
from tests.support.client import MODERN, modern_meta
from tests.support.tools import echo, registry_of
from trio_mcp import HttpPolicy, serve_http
from trio_mcp.auth import ResourceServer
from trio_mcp.transports.http.server import open_tcp, serve_asgi

pytestmark = pytest.mark.requirement("J2")


def app_of(issuer: Issuer) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        request = httpx2.Request("GET", f"{issuer.url}{scope['path']}")
        answer = await issuer.answer(request)
        headers = [(b"content-length", str(len(answer.content)).encode())]
        start = {"type": "http.response.start", "status": answer.status_code, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": answer.content})

    return app


async def test_it_gets_its_keys_over_the_network() -> None:
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            listeners = await open_tcp("127.0.0.1", 0)
            issuer = Issuer("", ec_key())
            issuer.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"  # type: ignore[attr-defined]
            issuer.metadata = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
            await nursery.start(
                lambda task_status: serve_asgi(app_of(issuer), listeners, task_status=task_status)
            )
            policy = HttpPolicy(
                auth=ResourceServer(
                    resource="https://mcp.example.com/mcp", issuers=[issuer.url], scopes=["mcp"]
                )
            )
            handle = await nursery.start(
                lambda task_status: serve_http(
                    registry_of(echo), "127.0.0.1", 0, policy=policy, task_status=task_status
                )
            )
            async with httpx2.AsyncClient(verify=False) as client:
                body = {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "tools/call",
                    "params": {"name": "echo", "arguments": {"text": "hi"}, "_meta": modern_meta()},
                }
                headers = {
                    "content-type": "application/json",
                    "accept": "application/json, text/event-stream",
                    "mcp-protocol-version": MODERN[0],
                    "mcp-method": "tools/call",
                    "mcp-name": "echo",
                }
                for token, status in [(None, 401), (issuer.token(), 200), ("x", 401)]:
                    given = {"authorization": f"Bearer {token}"} if token else {}
                    response = await client.post(
                        handle.url, content=json.dumps(body), headers={**headers, **given}
                    )
                    assert response.status_code == status
            nursery.cancel_scope.cancel()
