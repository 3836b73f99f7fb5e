"""A gateway over ten servers of others and ours, with some that do harm, under load for a minute."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
import trio

from tests.interop.packages import FASTMCP, FOLDER, SERVERS
from tests.support.processes import EXAMPLES, ROOT
from trio_mcp import Client, Connected, connect, serve_http
from trio_mcp.cli.target import load_registry
from trio_mcp.compose import Backoff, open_gateway
from trio_mcp.transports import ProcessOptions

SECONDS = 20
PROGRAMS = ROOT / "tests" / "interop" / "programs"
OWN = {"PYTHONPATH": str(ROOT)}

FASTMCP_SERVER = """
from fastmcp import FastMCP
server = FastMCP("fast")
@server.tool
def double(number: int) -> int:
    return 2 * number
server.run(show_banner=False)
"""
DIES = """
import os, threading
import trio
from trio_mcp import Registry, serve
registry = Registry("dies")
registry.tool(name="ping")(lambda: "pong")
threading.Timer(1.0, os._exit, [3]).start()
trio.run(serve, registry)
"""
HANGS = "import time; time.sleep(3600)"
FLOODS = """
import sys, threading
import trio
from trio_mcp import Registry, serve
registry = Registry("floods")
registry.tool(name="ping")(lambda: "pong")
@registry.tool
async def flood() -> None:
    while True:
        for kind in ("tools", "resources", "prompts"):
            catalogue_of(registry).changes.list_changed(kind)
        registry.notify_resource_updated("flood://all")
        await trio.sleep(0)
trio.run(serve, registry)
"""

Call = tuple[str, dict[str, Any], str]
HEALTHY: dict[str, Call] = {
    "everything": ("echo", {"message": "hello"}, "hello"),
    "official_low": ("text", {"words": "hello"}, "hello"),
    "official_http": ("add", {"a": 1, "b": 2}, "3"),
    "fastmcp": ("double", {"number": 21}, "42"),
    "time": ("get_current_time", {"timezone": "UTC"}, "UTC"),
    "git": ("git_status", {"repo_path": str(ROOT)}, "status"),
    "fetch": ("fetch", {"url": "http://127.0.0.1:9/nothing"}, ""),
    "ours": ("add", {"a": 1, "b": 2}, "3"),
    "ours_strings": ("count", {"text": "one two"}, "2"),
    "ours_http": ("add", {"a": 1, "b": 2}, "3"),
}
"""By server, one of its tools, arguments, and what the answer has in it."""


def python(*words: str, python: str | Path = sys.executable) -> dict[str, Any]:
    return {"command": str(python), "args": list(words), "env": OWN}


def servers(official: str, ours: str) -> dict[str, Any]:
    """All servers, as an `mcp.json` has them."""
    everything = FOLDER / "node_modules" / "@modelcontextprotocol" / "server-everything"
    return {
        "everything": {"command": "node", "args": [str(everything / "dist" / "index.js")]},
        "official_low": python(str(PROGRAMS / "official_low_level.py")),
        "official_http": {"url": official},
        "fastmcp": python("-c", FASTMCP_SERVER, python=FASTMCP.python),
        **{
            name: python("-m", f"mcp_server_{name}", python=SERVERS.python)
            for name in ("time", "git", "fetch")
        },
        "ours": python(str(EXAMPLES / "calculator.py")),
        "ours_strings": python(str(EXAMPLES / "strings.py")),
        "ours_http": {"url": ours},
        "dies": python("-c", DIES),
        "hangs": python("-c", HANGS),
        "floods": python("-c", FLOODS),
    }


@contextmanager
def official_over_http() -> Iterator[str]:
    """The official SDK's server over HTTP; its URL."""
    command = [sys.executable, str(PROGRAMS / "official_http.py"), "sessions"]
    with Popen(command, stderr=PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = next(line for line in process.stderr if line.startswith("port "))
            yield f"http://127.0.0.1:{said[5:].strip().rstrip('!')}/mcp"
        finally:
            process.kill()


async def call_again_and_again(
    client: Client, server: str, done: Counter[str], failed: list[str]
) -> None:
    tool, arguments, expected = HEALTHY[server]
    while True:
        try:
            result = await client.call_tool(f"{server}_{tool}", arguments, timeout=100)
        except Exception as error:
            failed.append(f"{server}: {error!r}")
            await trio.sleep(0.1)
            continue
        if expected not in result.text:
            failed.append(f"{server}: {result.text[:200]}")
        done[server] += 1
        await trio.sleep(0.01)


@pytest.mark.long
@pytest.mark.needs("node", "fastmcp", "sdk-server", "servers")
@pytest.mark.requirement("L4")
async def test_ten_servers_do_their_work_whatever_three_others_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: Counter[str] = Counter()
    failed: list[str] = []
    process = ProcessOptions(env=OWN, stderr="ignore", close_timeout=0.5)
    calculator = load_registry(str(EXAMPLES / "calculator.py"))
    with official_over_http() as official:
        async with trio.open_nursery() as nursery:
            ours = await nursery.start(serve_http, calculator, "127.0.0.1", 0)
            options = {"connect_timeout": 40, "wait": 200, "backoff": Backoff(first=0.2, longest=1)}
            source = servers(official, ours.url)
            async with open_gateway(source, process_options=process, **options) as gateway:
                async with connect(gateway.registry, max_timeout=100) as client:
                    missing = [name for name in HEALTHY if not _has(client, name)]
                    assert missing == []
                    assert gateway.states["hangs"] != Connected()  # but may be tried again
                    async with trio.open_nursery() as load:
                        call = partial(client.call_tool, "floods_flood", timeout=100)
                        load.start_soon(call)
                        for name in [*HEALTHY, *HEALTHY]:
                            load.start_soon(call_again_and_again, client, name, done, failed)
                        await trio.sleep(SECONDS)
                        with trio.fail_after(300):  # however slowly it starts
                            while caplog.text.count("Server dies is not there") < 2:
                                await trio.sleep(0.1)
                        load.cancel_scope.cancel()
            nursery.cancel_scope.cancel()
    assert failed == []
    assert {name for name in HEALTHY if done[name] < SECONDS / 10} == set(), done


def _has(client: Client, server: str) -> bool:
    tool, _, _ = HEALTHY[server]
    return f"{server}_{tool}" in client.tools
