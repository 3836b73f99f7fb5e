"""The command line logs in at a certified authorization server, and is let in from then on."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.auth.support import SECRET, credentials_of, oidc_provider, protected
from tests.support.processes import ENVIRONMENT, run

pytestmark = [pytest.mark.needs("node"), pytest.mark.requirement("J6", "J7", "J8")]

BROWSER = f"{sys.executable} -m tests.interop.auth.person %s &"


async def trio_mcp(home: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a command. Returns its status, and what it says on stdout and on stderr."""
    command = [sys.executable, "-m", "trio_mcp.cli", *arguments]
    variables = {"BROWSER": BROWSER, "XDG_DATA_HOME": str(home), "SECRET": SECRET}
    done = await run(command, env={**ENVIRONMENT, **variables})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def said_by(home: Path, *arguments: str) -> Any:
    """What a command that is done prints as JSON."""
    status, stdout, stderr = await trio_mcp(home, *arguments, "--json")
    assert status == 0, stderr
    return json.loads(stdout)


async def test_a_login_is_kept_until_it_is_forgotten(npm: Path, tmp_path: Path) -> None:
    async with oidc_provider(npm) as issuer, protected(issuer) as url:
        status, _, stderr = await trio_mcp(tmp_path, "login", url)
        assert status == 0, stderr
        found = (await said_by(tmp_path, "call", url, "whoami"))["structuredContent"]
        assert (found["subject"], found["scopes"]) == ("alice", ["mcp"])

        _, shown, _ = await trio_mcp(tmp_path, "whoami", "--json")
        assert url in shown
        (kept,) = tmp_path.rglob("tokens.json")
        (login,) = json.loads(kept.read_text())["logins"]
        for secret in ("access_token", "refresh_token"):
            assert login["token"][secret] not in shown

        assert (await trio_mcp(tmp_path, "logout", url))[0] == 0
        assert login["token"]["access_token"] not in kept.read_text()
        status, _, stderr = await trio_mcp(tmp_path, "call", url, "whoami")
        assert (status, f"trio-mcp login {url}" in stderr) == (1, True), stderr


async def test_who_lacks_a_scope_is_told_how_to_get_it(npm: Path, tmp_path: Path) -> None:
    async with oidc_provider(npm) as issuer, protected(issuer) as url:
        assert (await trio_mcp(tmp_path, "login", url))[0] == 0
        status, _, stderr = await trio_mcp(tmp_path, "call", url, "write")
        (command,) = re.findall(r"trio-mcp (login .*) \(", stderr)
        assert (status, "files:write" in command) == (1, True), stderr
        assert (await trio_mcp(tmp_path, *command.split()))[0] == 0
        status, stdout, _ = await trio_mcp(tmp_path, "call", url, "write")
        assert (status, stdout.strip()) == (0, "written")


async def test_a_program_shows_who_it_is(npm: Path, tmp_path: Path) -> None:
    async with oidc_provider(npm, clients=[credentials_of("nightly")]) as issuer:
        async with protected(issuer) as url:
            who = ["--client-id", "nightly", "--client-secret-env", "SECRET", "--issuer", issuer]
            found = await said_by(tmp_path, "call", url, "whoami", *who)
    assert found["structuredContent"]["client_id"] == "nightly"
