"""Subscriptions to resources of a server elsewhere: confirmed, each for itself, and in shares."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio

from trio_mcp import Client, McpError, Registry, Remote, ResourceUpdated, connect
from trio_mcp.client.negotiation import Era
from trio_mcp.middleware import McpRequest
from trio_mcp.registry import catalogue_of

pytestmark = pytest.mark.requirement("L4")
LIMIT = 600

both_eras = pytest.mark.parametrize("down", ["modern", "legacy"])
all_eras = pytest.mark.parametrize("up", ["modern", "legacy"])

NEWS = "news://today"


def newsroom(**options: Any) -> Registry:
    """A server with one resource, and a template for any number of others."""
    registry = Registry("newsroom", **options)
    registry.add_resource(NEWS, lambda: "news", name="today")
    registry.add_resource("page://{number}", lambda number: number, name="page")
    return registry


@asynccontextmanager
async def front(server: Registry, up: Era, **options: Any) -> AsyncIterator[Registry]:
    """A registry that has the server mounted, while it is there."""
    registry = Registry("front")
    remote = Remote(server, name="newsroom", era=up, **options)
    registry.mount(remote)
    with trio.fail_after(LIMIT):
        async with remote.running():
            await remote.ready()
            yield registry


@all_eras
@both_eras
@pytest.mark.parametrize("depth", [1, 2])
async def test_a_change_right_after_subscribing_is_told(up: Era, down: Era, depth: int) -> None:
    server = newsroom()
    async with front(server, up) as registry:
        outer = registry
        if depth == 2:
            outer = Registry("outer")
            outer.mount(Remote(registry, era=up, wait=LIMIT))
        async with connect(outer, era=down) as client:
            for _ in range(3):
                async with client.subscribe(resources=[NEWS]) as changes:
                    server.notify_resource_updated(NEWS)
                    assert await anext(changes) == ResourceUpdated(NEWS)


@all_eras
@both_eras
async def test_it_is_confirmed_through_prefixes_and_registries(up: Era, down: Era) -> None:
    server = newsroom()
    inner, outer = Registry("inner"), Registry("outer")
    inner.mount(Remote(server, era=up), "far")
    outer.mount(inner, "in")
    outer.add_resource("own://one", lambda: "one", name="one")
    with trio.fail_after(LIMIT):
        async with connect(outer, era=down) as client:
            [uri] = [uri for uri in outer.resources if uri != "own://one"]
            page = uri.replace("today", "never")
            async with client.subscribe(resources=[uri, "own://one", page]) as changes:
                assert set(changes.uris) == {uri, "own://one"}
                server.notify_resource_updated(NEWS)
                assert await anext(changes) == ResourceUpdated(uri)
                outer.notify_resource_updated("own://one")
                assert await anext(changes) == ResourceUpdated("own://one")


@all_eras
async def test_what_is_watched_again_at_once_is_confirmed_again(
    up: Era, autojump_clock: object
) -> None:
    async with front(newsroom(), up) as registry:
        catalogue = catalogue_of(registry)
        since = trio.current_time()
        for _ in range(3):
            with catalogue.changes.listen((), [NEWS, "page://1"]):
                confirmed = await catalogue.confirm([NEWS, "page://1"])
                assert set(confirmed) == {NEWS, "page://1"}
        assert trio.current_time() < since + 1, "nothing was waited for in vain"


def refusing(uri: str) -> Any:
    """Middleware of a server that will not have a resource subscribed to."""

    async def refuse(request: McpRequest, call_next: Any) -> Any:
        wanted = request.params.get("notifications") or {}
        named = (request.params.get("uri"), *wanted.get("resourceSubscriptions", ()))
        if uri in named and request.method in ("subscriptions/listen", "resources/subscribe"):
            raise McpError(-32000, "not this one")
        return await call_next(request)

    return refuse


@all_eras
@both_eras
async def test_what_a_server_refuses_is_refused_for_itself(up: Era, down: Era) -> None:
    server = newsroom(middleware=[refusing("page://3")])
    pages = [f"page://{number}" for number in range(7)]
    async with front(server, up) as registry, connect(registry, era=down) as client:
        async with client.subscribe(resources=[*pages, NEWS]) as changes:
            assert set(changes.uris) == {*pages, NEWS} - {"page://3"}
            for uri in ("page://2", "page://3", "page://4", NEWS):
                server.notify_resource_updated(uri)
                if uri != "page://3":
                    assert await anext(changes) == ResourceUpdated(uri)


@pytest.mark.parametrize(("up", "count"), [("modern", 3000), ("legacy", 1200)])
async def test_nobody_has_more_than_a_share(up: Era, count: int) -> None:
    """A thousand subscriptions of one client do not silence what others hear.

    Not even where the server itself has no room for more, as a legacy one.
    """
    server = newsroom()
    async with front(server, up) as registry:
        async with connect(registry) as greedy, connect(registry) as other:
            async with other.subscribe(resources=["page://x"]) as before:
                async with AsyncExitStack() as stack:
                    promised = await subscribed_to(greedy, count, stack)
                    after = await stack.enter_async_context(other.subscribe(resources=[NEWS]))
                    assert (before.uris, after.uris) == ({"page://x"}, {NEWS})
                    for uri, changes in (("page://x", before), (NEWS, after)):
                        server.notify_resource_updated(uri)
                        assert await anext(changes) == ResourceUpdated(uri)
    assert 990 < len(promised) <= 1000


async def subscribed_to(client: Client, count: int, stack: AsyncExitStack) -> list[str]:
    """Subscribe to that many resources, and return those that are told of."""
    promised: list[str] = []
    for start in range(0, count, 600):
        uris = [f"page://{number}" for number in range(start, min(start + 600, count))]
        changes = await stack.enter_async_context(client.subscribe(resources=uris))
        promised += changes.uris
    return promised


@both_eras
async def test_nothing_is_promised_of_a_server_that_is_not_there(
    down: Era, autojump_clock: object
) -> None:
    registry = Registry("front")
    registry.add_resource("own://one", lambda: "one", name="one")
    remote = Remote("http://127.0.0.1:1/mcp", name="gone", reconnect_timeout=5)
    registry.mount(remote)
    registry.add_resource("own://two", lambda: "two", name="two")
    async with remote.running(), connect(registry, era=down) as client:
        async with client.subscribe(resources=["own://one", "far://one", "own://two"]) as changes:
            assert set(changes.uris) == {"own://one", "own://two"}
