"""The explorer in a real browser: in front of our servers, and of others by `inspect --web`."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.cli.support import COMMAND
from tests.interop.explorer.hostile import SCHEMAS
from tests.interop.explorer.kitchen import crowd, kitchen
from tests.interop.packages import FASTMCP
from tests.store.redis_server import free_port
from tests.support.processes import ENVIRONMENT, TIME_LIMIT, run, running
from trio_mcp import HttpPolicy, Limits, Registry, serve_http

pytestmark = [pytest.mark.needs("node", "chromium"), pytest.mark.requirement("L7")]

HERE = Path(__file__).parent
EVERYTHING = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
OFFICIAL = HERE.parent / "programs" / "official_high_level.py"
both_eras = pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])


@pytest.fixture
def scripts(npm: Path) -> Path:
    """The scripts of the browser, beside the packages that they use."""
    for each in HERE.glob("*.mjs"):
        shutil.copy(each, npm)
    return npm


async def play(scripts: Path, url: str, scenario: str, **told: Any) -> Any:
    """Have somebody do something with a page; return what they have found."""
    script = str(scripts / "browser.mjs")
    chromium = str(shutil.which("chromium"))
    command = ["node", script, chromium, url, scenario, json.dumps(told)]
    with trio.fail_after(TIME_LIMIT):
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False, env=ENVIRONMENT
        )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@asynccontextmanager
async def serving(registry: Registry, policy: HttpPolicy | None = None) -> AsyncIterator[str]:
    """Serve a registry with its page, and yield the URL of the page."""
    limits = Limits(max_message_bytes=32 * 1024 * 1024, max_outgoing_bytes=64 * 1024 * 1024)
    serve = partial(serve_http, registry, port=0, policy=policy, limits=limits, explorer=True)
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(serve)
        yield handle.url.replace("/mcp", "/explorer")
        handle.stop()


@asynccontextmanager
async def inspecting(*words: str) -> AsyncIterator[str]:
    """Run `trio-mcp inspect --web` and yield the URL of the page."""
    async with running([*COMMAND, "inspect", "--web", *words]) as inspector:
        await inspector.said(b"Ctrl-C ends it")
        assert inspector.process.stdout is not None
        yield (await inspector.process.stdout.receive_some()).decode().strip()


@both_eras
@pytest.mark.parametrize("scenario", ["calls", "progress", "questions", "resources", "changes"])
async def test_in_both_eras(scripts: Path, scenario: str, revision: str) -> None:
    async with serving(kitchen()) as url:
        await play(scripts, url, scenario, revision=revision)


@pytest.mark.parametrize(
    "scenario",
    ["accessible", "forms", "keyboard", "links", "phone", "tasks", "theme", "untrusted"],
)
async def test_in_one(scripts: Path, scenario: str) -> None:
    async with serving(kitchen()) as url:
        await play(scripts, url, scenario)


async def test_a_server_without_anything(scripts: Path) -> None:
    async with serving(Registry("empty", version="1.0")) as url:
        await play(scripts, url, "empty")


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-03-26", "2024-11-05"])
async def test_older_revisions(scripts: Path, revision: str) -> None:
    async with serving(kitchen()) as url:
        await play(scripts, url, "progress", revision=revision)


async def test_a_message_that_is_copied_as_a_command_can_be_sent_again(scripts: Path) -> None:
    async with serving(kitchen()) as url:
        command, message = await play(scripts, url, "messages")
        assert message["params"]["arguments"] == {"a": 1, "b": 3}
        done = await run([*shlex.split(command), "--silent"])
        assert b'"structuredContent":{"total":4}' in done.stdout


async def test_ten_thousand_tools(scripts: Path) -> None:
    async with serving(crowd(10_000)) as url:
        print(await play(scripts, url, "many"))


async def test_results_of_ten_megabytes(scripts: Path) -> None:
    async with serving(kitchen()) as url:
        print(await play(scripts, url, "long"))


async def test_a_server_that_needs_a_token(scripts: Path) -> None:
    async with serving(kitchen(), HttpPolicy(tokens={"0c1f0e1d5b": "ann"})) as url:
        await play(scripts, url, "token", token="0c1f0e1d5b")


@both_eras
@pytest.mark.parametrize("scenario", ["calls", "progress", "questions", "resources", "changes"])
async def test_a_process_through_the_relay(scripts: Path, scenario: str, revision: str) -> None:
    async with inspecting("--", sys.executable, "-m", "tests.interop.explorer.kitchen") as url:
        await play(scripts, url, scenario, revision=revision)


async def test_a_process_that_dies_is_told_and_started_again(scripts: Path) -> None:
    async with inspecting("--", sys.executable, "-m", "tests.interop.explorer.kitchen") as url:
        await play(scripts, url, "crash")


async def test_a_process_that_does_not_start(scripts: Path) -> None:
    async with inspecting("--", sys.executable, "-c", "raise SystemExit('no luck')") as url:
        await play(scripts, url, "broken")


@both_eras
async def test_a_url_through_the_relay(scripts: Path, revision: str) -> None:
    async with serving(kitchen()) as url, inspecting(url.replace("/explorer", "/mcp")) as page:
        for scenario in ("questions", "progress", "changes"):
            await play(scripts, page, scenario, revision=revision)


async def test_a_server_that_means_harm(scripts: Path) -> None:
    async with inspecting("--", sys.executable, str(HERE / "hostile.py")) as url:
        await play(scripts, url, "hostile", schemas=[*SCHEMAS])


ECHO: dict[str, Any] = {"tool": "echo", "values": {"message": "hey"}, "says": "Echo: hey"}


async def test_everything_over_stdio(scripts: Path) -> None:
    async with inspecting("--", "node", str(scripts / EVERYTHING)) as url:
        await play(scripts, url, "foreign", speaks="2025-11-25", resource="architecture.md", **ECHO)


@asynccontextmanager
async def listening(command: Sequence[str], **variables: str) -> AsyncIterator[None]:
    """Run a server until it takes connections at the port that `PORT` has."""
    environment = {**ENVIRONMENT, **variables}
    quiet = subprocess.DEVNULL
    async with running([*command], env=environment, stdin=quiet, stdout=quiet, stderr=quiet):
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", int(variables["PORT"]))
            except OSError:
                await trio.sleep(0.05)
            else:
                await stream.aclose()
                yield
                return


@pytest.mark.parametrize(
    ("transport", "path", "speaks"),
    [("streamableHttp", "mcp", "2025-11-25"), ("sse", "sse", "2024-11-05")],
)
async def test_everything_over_http(scripts: Path, transport: str, path: str, speaks: str) -> None:
    port = str(free_port())
    async with listening(["node", str(scripts / EVERYTHING), transport], PORT=port):
        async with inspecting(f"http://127.0.0.1:{port}/{path}") as url:
            await play(scripts, url, "foreign", speaks=speaks, **ECHO)


@pytest.mark.needs("sdk-server")
async def test_the_official_python_sdk(scripts: Path) -> None:
    async with inspecting("--", sys.executable, str(OFFICIAL)) as url:
        told = {"tool": "text", "values": {"words": "hey"}, "says": "hey"}
        await play(scripts, url, "foreign", speaks="2026-07-28", **told)


@pytest.mark.needs("fastmcp")
async def test_fastmcp(scripts: Path, tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(
        "from fastmcp import FastMCP\n"
        "mcp = FastMCP('fast')\n"
        "@mcp.tool\n"
        "def shout(words: str) -> str:\n"
        "    return words.upper()\n"
        "mcp.run(show_banner=False)\n"
    )
    async with inspecting("--", str(FASTMCP.python), str(server)) as url:
        told = {"tool": "shout", "values": {"words": "hey"}, "says": "HEY"}
        await play(scripts, url, "foreign", speaks="2026-07-28", **told)
