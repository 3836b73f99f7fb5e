"""Large results are sent in bounded pieces, and no more of them is held than is still to be sent."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from tests.support.tools import registry_of
from tests.transports.http.support import (
    EXTENSION,
    HttpClient,
    LegacyClient,
    ModernClient,
    hosting,
    progress_meta,
)
from trio_mcp import Context

MIB = 1024 * 1024
SIZE = 8 * MIB


async def quiet() -> str:
    """Answer with much."""
    return "x" * SIZE


async def told(context: Context) -> str:
    """Report progress first, so that the answer is an event."""
    await context.progress(1)
    return "x" * SIZE


class SlowReader:
    """Takes a response piece by piece, and notes how much is held of it meanwhile."""

    def __init__(self, body: bytes) -> None:
        self.incoming = [{"type": "http.request", "body": body}]
        self.held: list[int] = []
        self.sizes: list[int] = []
        self.size = 0
        tracemalloc.start()
        self.before = tracemalloc.get_traced_memory()[0]

    async def receive(self) -> dict[str, Any]:
        return self.incoming.pop()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body" and len(message["body"]) > 1000:
            self.held.append(tracemalloc.get_traced_memory()[0] - self.before)
            self.sizes.append(len(message["body"]))


@pytest.mark.requirement("F3")
@pytest.mark.parametrize(
    ("kind", "tool"), [(ModernClient, "quiet"), (ModernClient, "told"), (LegacyClient, "quiet")]
)
async def test_a_slow_client_holds_only_what_it_has_not_read(kind: Any, tool: str) -> None:
    async with hosting(registry_of(quiet, told)) as host:
        client: HttpClient = kind(host)
        if isinstance(client, LegacyClient):
            await client.initialize()
        call = {"name": tool, "arguments": {}, "_meta": progress_meta()}
        request = client.request_of("tools/call", call)
        headers = {"host": "localhost", **client.headers_for(request)}
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "headers": [(name.encode(), str(each).encode()) for name, each in headers.items()],
            "client": ("127.0.0.1", 1),
            "extensions": {EXTENSION: {}},
        }
        for _ in range(2):  # what the first one imports is not held for it
            reader = SlowReader(json.dumps(request).encode())
            try:
                await host.app(scope, reader.receive, reader.send)
            finally:
                tracemalloc.stop()
    assert sum(reader.sizes) >= SIZE
    assert max(reader.sizes) <= MIB / 4
    left = SIZE
    for held, size in zip(reader.held, reader.sizes, strict=True):
        assert held < left + MIB
        left -= size
