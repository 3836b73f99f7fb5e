"""Servers that are slow to start hold no other: what is ready is there, and they join later."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.cli.support import COMMAND
from tests.cli.test_proxy import configured
from tests.compose.support import named
from tests.support.processes import EXAMPLES, running
from tests.support.tools import echo
from trio_mcp import ListChanged, Registry, Remote, connect, connect_all
from trio_mcp.compose import open_gateway, searchable

SOON = 2
"""Seconds within which what is ready has to be there."""


class Slow:
    """A server that opens for as long as it may not go on."""

    def __init__(self) -> None:
        self.may_go_on = trio.Event()
        self.registry = Registry("slow", lifespan=self.lifespan)
        self.registry.add_tool(echo)

    @asynccontextmanager
    async def lifespan(self, registry: Registry) -> AsyncIterator[None]:
        await self.may_go_on.wait()
        yield


@pytest.mark.requirement("L3")
async def test_a_group_begins_without_a_server_that_is_slow_which_joins_later(
    autojump_clock: object,
) -> None:
    slow, changes = Slow(), trio.Event()
    told: list[Any] = []

    def on_change(server: str, change: object) -> None:
        told.append((server, change))
        changes.set()

    servers = {"good": named("good", echo), "slow": slow.registry}
    with trio.fail_after(SOON) as scope:
        async with connect_all(servers, on_change=on_change) as group:
            assert list(group.tools) == ["good_echo"]
            assert (await group.call_tool("good_echo", {"text": "hi"})).text == "hi"
            scope.deadline += 60
            slow.may_go_on.set()
            await changes.wait()
            assert list(group.tools) == ["good_echo", "slow_echo"]
            assert told == [("slow", ListChanged("tools"))]


@pytest.mark.requirement("L3")
async def test_who_wants_all_of_a_group_waits_for_them(autojump_clock: object) -> None:
    slow = Slow()
    async with trio.open_nursery() as nursery:

        async def go_on() -> None:
            await trio.sleep(10)
            slow.may_go_on.set()

        nursery.start_soon(go_on)
        async with connect_all({"slow": slow.registry}, wait=60) as group:
            assert list(group.tools) == ["slow_echo"]
    with pytest.raises(ValueError, match="wait must be a number, at least 0, not -1"):
        async with connect_all({"slow": slow.registry}, wait=-1):
            raise AssertionError


@asynccontextmanager
async def mounted(slow: Registry) -> AsyncIterator[Registry]:
    """A registry with tools of its own, and a slow one elsewhere."""
    registry = named("front", echo)
    registry.mount(Remote(slow), "slow")
    yield registry


@asynccontextmanager
async def gathered(slow: Registry) -> AsyncIterator[Registry]:
    """A gateway of a slow server and another."""
    async with open_gateway({"good": named("good", echo), "slow": slow}) as gateway:
        yield gateway.registry


@pytest.mark.requirement("L4")
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize(("opened", "own"), [(mounted, "echo"), (gathered, "good_echo")])
async def test_what_is_served_beside_a_slow_server_is_there(
    opened: Any, own: str, era: Any, autojump_clock: object
) -> None:
    slow = Slow()
    with trio.fail_after(SOON) as scope:
        async with opened(slow.registry) as registry, connect(registry, era=era) as client:
            assert list(client.tools) == [own]
            assert (await client.call_tool(own, {"text": "hi"})).text == "hi"
            scope.deadline += 60
            async with client.subscribe(lists=["tools"]) as changes:
                slow.may_go_on.set()
                assert await anext(changes) == ListChanged("tools")
            await client.refresh_tools()
            assert list(client.tools) == [own, "slow_echo"]
            assert (await client.call_tool("slow_echo", {"text": "x"})).text == "x"


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
@pytest.mark.requirement("E8")
async def test_a_file_into_which_nothing_is_written_holds_no_signal_back(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    async with running([*COMMAND, "gateway", str(path)]) as server:
        with trio.fail_after(120):
            while (writer := opened_to_write(path)) is None:  # it is not reading yet
                await trio.sleep(0.05)
        try:
            server.signal(signal.SIGTERM)
            assert await server.exit() == 0
        finally:
            os.close(writer)


def opened_to_write(path: Path) -> int | None:
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


@pytest.mark.long
@pytest.mark.requirement("E8")
@pytest.mark.parametrize("command", ["gateway", "proxy"])
@pytest.mark.parametrize("by", ["signal", "client"])
async def test_one_that_ends_while_servers_start_leaves_none_of_them(
    command: str, by: str, tmp_path: Path
) -> None:
    process, path = tmp_path / "process", tmp_path / "mcp.json"
    program = tmp_path / "hangs.py"
    program.write_text(
        "import os, pathlib, time\n"
        f"pathlib.Path({str(process)!r}).write_text(f'{{os.getpid()}}.')\n"
        "time.sleep(600)"
    )
    configured(path, good=str(EXAMPLES / "calculator.py"), hangs=str(program))
    words = {
        "gateway": ["gateway", str(path), "--wait", "600"],
        "proxy": ["proxy", "--", sys.executable, str(program)],
    }
    async with running([*COMMAND, *words[command]]) as server:
        with trio.fail_after(120):
            while not (process.exists() and process.read_text().endswith(".")):
                await trio.sleep(0.05)
        if by == "signal":
            server.signal(signal.SIGTERM)
        else:
            assert server.process.stdin is not None
            await server.process.stdin.aclose()
        assert await server.exit() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(process.read_text()[:-1]), 0)


@pytest.mark.requirement("Q6")
async def test_a_pinned_name_is_looked_for_once_its_server_is_there(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Slow()
    servers = {"good": named("good", echo), "slow": slow.registry}
    pinned = ["slow_ecko", "slow_echo", "good_ecko", "neither"]

    def said() -> list[str]:
        found = [record.getMessage() for record in caplog.records if record.name == "trio_mcp"]
        return [text for text in found if "has no tool" in text]

    async with open_gateway(servers) as gateway:
        async with connect(searchable(gateway.registry, pinned=pinned)) as client:
            assert sorted(said()) == [
                "'gateway' has no tool, resource or prompt 'good_ecko'; did you mean 'good_echo'?",
                "'gateway' has no tool, resource or prompt 'neither'",
            ]
            async with client.subscribe(lists=["tools"]) as changes:
                slow.may_go_on.set()
                assert await anext(changes) == ListChanged("tools")
            await wait_all_tasks_blocked()
            last = (
                "'gateway' has no tool, resource or prompt 'slow_ecko'; did you mean 'slow_echo'?"
            )
            assert said()[2:] == [last]


@pytest.mark.requirement("Q6")
async def test_what_a_registry_leaves_out_is_looked_for_once_its_server_is_there(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Slow()
    registry = Registry("front", leave_out=["slow_ecko", "eko"])
    registry.add_tool(echo)
    registry.mount(Remote(slow.registry), "slow")
    async with connect(registry):
        assert "'front' has no tool, resource or prompt 'eko'" in caplog.text
        assert "ecko" not in caplog.text
        slow.may_go_on.set()
        await wait_all_tasks_blocked()
        assert "no tool, resource or prompt 'slow_ecko'; did you mean 'slow_echo'?" in caplog.text
