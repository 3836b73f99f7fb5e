"""Servers that are mounted in each other: no request goes round for ever."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.compose.support import named, remote_to
from trio_mcp import Context, McpError, Registry, Remote, ResourceUpdated, connect
from trio_mcp.middleware import McpRequest

pytestmark = pytest.mark.requirement("L4")
both_eras = pytest.mark.parametrize("era", ["modern", "legacy"])


class Reads:
    """Watches the reads that a server gets (a middleware)."""

    def __init__(self, stops_at: int = 10**9) -> None:
        self.begun = 0
        self.open = 0
        self.stops_at = stops_at
        self.stopped = trio.Event()

    async def __call__(self, request: McpRequest, call_next: Any) -> Any:
        if request.method != "resources/read":
            return await call_next(request)
        self.begun += 1
        self.open += 1
        try:
            if self.begun == self.stops_at:
                self.stopped.set()
                await trio.sleep_forever()
            return await call_next(request)
        finally:
            self.open -= 1


@both_eras
async def test_a_uri_that_neither_has_is_refused(era: Any, autojump_clock: object) -> None:
    reads = Reads()
    ours, theirs = Registry("ours", middleware=[reads]), Registry("theirs")
    to_ours, to_theirs = Remote(ours, era=era), Remote(theirs, era=era)
    ours.mount(to_theirs)
    theirs.mount(to_ours)
    with trio.fail_after(600):
        async with to_ours.running(), to_theirs.running(), connect(ours) as client:
            await wait_all_tasks_blocked()  # until each knows what the other one offers
            with pytest.raises(McpError, match=r"passed on 16 times: .* mounted in each other"):
                await client.read_resource("x:nowhere", timeout=300)
            assert reads.begun == 9
            assert reads.open == 0


@both_eras
async def test_a_client_that_leaves_ends_it_at_every_server(
    era: Any, autojump_clock: object
) -> None:
    reads = Reads(stops_at=4)
    ours, theirs = Registry("ours", middleware=[reads]), Registry("theirs")
    to_ours, to_theirs = Remote(ours, era=era), Remote(theirs, era=era)
    ours.mount(to_theirs)
    theirs.mount(to_ours)
    with trio.fail_after(600):
        async with to_ours.running(), to_theirs.running(), connect(ours) as client:
            await wait_all_tasks_blocked()  # until each knows what the other one offers
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.read_resource, "x:nowhere")
                await reads.stopped.wait()
                assert reads.open == 4
                nursery.cancel_scope.cancel()
            while reads.open:
                await trio.sleep(0.01)
            assert reads.begun == 4


@pytest.mark.parametrize("reports", [False, True])  # the short way, and the one with a context
@both_eras
async def test_each_server_counts_that_it_has_passed_a_call_on(era: Any, reports: bool) -> None:
    def hops(context: Context) -> int:
        """Say how many servers the call has come through."""
        found = (context.meta or {}).get("trio-mcp/hops", 0)
        return int(found)

    between, front = Registry("between"), Registry("front")
    between.mount(remote_to(named("behind", hops), era=era))
    front.mount(remote_to(between, era=era))
    options: Any = {"on_progress": print} if reports else {}
    async with connect(front) as client:
        assert await client.call_tool("hops", returns=int, **options) == 2
        for odd in (-5, True, "many", None):
            meta = {"trio-mcp/hops": odd}
            assert await client.call_tool("hops", returns=int, meta=meta, **options) == 2
        for many in (15, 16, 10**30):
            with pytest.raises(McpError, match="mounted in each other"):
                await client.call_tool("hops", meta={"trio-mcp/hops": many}, **options)


@both_eras
async def test_a_change_goes_to_each_client_once(era: Any) -> None:
    ours, theirs = Registry("ours"), Registry("theirs")
    ours.add_resource("x:one", nothing)
    to_ours, to_theirs = Remote(ours, era=era, wait=0), Remote(theirs, era=era, wait=0)
    ours.mount(to_theirs)
    theirs.mount(to_ours)
    with trio.fail_after(60):
        async with to_ours.running(), to_theirs.running():
            async with connect(ours) as first, connect(theirs) as second:
                while "x:one" not in theirs.resources:
                    await trio.sleep(0.01)
                watched = ["x:one"]
                async with (
                    first.subscribe(resources=watched) as one,
                    second.subscribe(resources=watched) as two,
                ):
                    ours.notify_resource_updated("x:one")
                    for changes in (one, two):
                        assert await anext(changes) == ResourceUpdated("x:one")
                    await wait_all_tasks_blocked(0.01)  # else it goes round for ever
                    for changes in (one, two):
                        with trio.move_on_after(0.01) as scope:
                            await anext(changes)
                        assert scope.cancelled_caught


def nothing() -> str:
    return ""
