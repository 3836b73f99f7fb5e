"""Results of other servers with many blocks: what has to be rewritten in them holds up nobody."""

import threading
from typing import Any

import pytest

from tests.compose.support import remote_to
from trio_mcp import (
    CallToolResult,
    Client,
    Handlers,
    Registry,
    ResourceLink,
    connect,
)
from trio_mcp.registry import mounting

pytestmark = [pytest.mark.requirement("B4"), pytest.mark.filterwarnings("error")]

FEW, MANY = 3, 1500


def inner() -> Registry:
    registry = Registry("inner")

    @registry.tool
    async def links(many: int) -> CallToolResult:
        return CallToolResult([ResourceLink(f"x:{n}", "n") for n in range(many)])

    return registry


@pytest.fixture
def rewriting(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each result that is rewritten: whether that is done on the event loop."""
    seen: list[bool] = []
    loop, real = threading.get_ident(), mounting.translated

    def watched(*args: Any) -> Any:
        seen.append(threading.get_ident() == loop)
        return real(*args)

    monkeypatch.setattr(mounting, "translated", watched)
    return seen


async def ask(*_: object) -> Any:
    raise AssertionError


async def called(client: Client, many: int) -> list[Any]:
    result = await client.call_tool("far_links", {"many": many}, timeout=60)
    return result.content


@pytest.mark.parametrize(
    "handlers", [None, Handlers(elicitation=ask)]
)  # without a task, and in one
async def test_many_links_are_rewritten_beside_the_loop(handlers, rewriting):
    registry = Registry("outer")
    registry.mount(remote_to(inner()), prefix="far")
    async with connect(registry, handlers=handlers) as client:
        for many, on_loop in ((FEW, True), (MANY, False)):
            content = await called(client, many)
            assert [each.uri for each in content] == [f"x:far/{n}" for n in range(many)]
            assert rewriting.pop() is on_loop
    assert not rewriting


async def test_they_are_rewritten_so_without_a_client_too(rewriting):
    registry = Registry("outer")
    remote = remote_to(inner())
    registry.mount(remote, prefix="far")
    async with registry.running():
        result = await registry.call("far_links", {"many": MANY})
    assert len(result.content) == MANY
    assert rewriting == [False]
