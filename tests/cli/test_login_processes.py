"""Logging in as real processes, on terminals and off them: what is shown where, and what is left."""

from __future__ import annotations

import json
import shlex
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import httpx2
import pytest

from tests.cli.protected import Authority, authority, behind, browser
from tests.cli.support import COMMAND, CTRL_C, SHOP, Terminal, served
from tests.support.client import MODERN, modern_meta
from tests.support.processes import ENVIRONMENT, TIME_LIMIT, run, running
from tests.support.tools import echo, registry_of


@pytest.fixture
def issuer() -> Iterator[Authority]:
    with authority() as found:
        yield found


@pytest.fixture
def shop(issuer: Authority) -> Iterator[str]:
    with served(registry_of(echo), behind(issuer, "shop")) as url:
        yield url


@pytest.fixture
def open_shop() -> Iterator[str]:
    with served(registry_of(echo)) as url:
        yield url


def page_of(terminal: Terminal) -> str:
    """The address that the person is shown."""
    terminal.sees("page on this machine:")
    return terminal.sees("Waiting until you have done so (Ctrl-C gives up).").split()[0]


def is_open(page: str) -> bool:
    """Whether the browser could come back."""
    back = urlsplit(parse_qs(urlsplit(page).query)["redirect_uri"][0])
    with socket.socket() as probe:
        return probe.connect_ex((back.hostname or "", back.port or 0)) == 0


NO_BROWSER = {"BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": ""}


@pytest.mark.long
def test_a_terminal_with_a_browser(shop: str, tmp_path: Path) -> None:
    """What the command and the browser say on their way is not among the results."""
    words = shlex.join([*COMMAND, "call", shop, "echo", "text=hi", "--json"])
    shell = Terminal(
        cwd=tmp_path, command=["/bin/sh", "-c", f"{words} > out"], BROWSER=browser(tmp_path)
    )
    shell.sees("Your browser opens this page;")
    shell.sees("You are logged in.")
    assert shell.leaves()[0] == 0
    assert json.loads((tmp_path / "out").read_text())["content"][0]["text"] == "hi"


@pytest.mark.long
def test_a_terminal_without_a_browser(shop: str, issuer: Authority, tmp_path: Path) -> None:
    connection = "192.0.2.1 50000 192.0.2.2 22"
    terminal = Terminal("tools", shop, cwd=tmp_path, **NO_BROWSER, SSH_CONNECTION=connection)
    terminal.sees("page on this machine:")
    page = terminal.sees("If your browser is elsewhere").split()[0]
    assert page.startswith(f"{issuer.url}/authorize?")
    port = urlsplit(parse_qs(urlsplit(page).query)["redirect_uri"][0]).port
    terminal.sees(f": ssh -N -L {port}:127.0.0.1:{port} 192.0.2.2")
    with urlopen(page) as answer:
        assert b"You can close this page" in answer.read()
    terminal.sees("echo")
    assert terminal.leaves()[0] == 0
    again = Terminal("tools", shop, cwd=tmp_path, **NO_BROWSER)
    assert "log in" not in again.sees("echo")
    assert again.leaves()[0] == 0


@pytest.mark.long
@pytest.mark.parametrize("command", ["login", "doctor"])
def test_ctrl_c_while_a_login_is_awaited(
    command: str, shop: str, issuer: Authority, tmp_path: Path
) -> None:
    terminal = Terminal(command, shop, cwd=tmp_path, **NO_BROWSER)
    page = page_of(terminal)
    assert is_open(page)
    terminal.presses(CTRL_C)
    status, last = terminal.leaves()
    assert status == 130
    assert "Traceback" not in last
    assert not (tmp_path / "data" / "trio-mcp" / "tokens.json").exists()
    assert issuer.forms == []


@pytest.mark.long
def test_a_terminal_that_is_closed_while_a_login_is_awaited(shop: str, tmp_path: Path) -> None:
    terminal = Terminal("login", shop, cwd=tmp_path, **NO_BROWSER)
    assert is_open(page_of(terminal))
    assert terminal.hangs_up() == signal.SIGHUP


LOOK = """
import sys
from trio_mcp.cli.app import run
status = run(sys.argv[1:])
heavy = {"httpx2", "joserfc", "cryptography", "keyring"}
print(status, *sorted(heavy & {each.split(".")[0] for each in sys.modules}), file=sys.stderr)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["--version"], []),
        (["tools", SHOP], []),
        (["whoami"], []),
        (["tools", "OPEN"], ["httpx2"]),
    ],
    ids=str,
)
async def test_nothing_is_imported_that_is_not_needed(
    words: list[str], needed: list[str], open_shop: str, tmp_path: Path
) -> None:
    words = [open_shop if each == "OPEN" else each for each in words]
    settings = {**ENVIRONMENT, "XDG_DATA_HOME": str(tmp_path)}
    done = await run([sys.executable, "-c", LOOK, *words], b"", env=settings)
    assert done.stderr.decode().splitlines()[-1].split() == ["0", *needed]


@pytest.mark.long
async def test_serving_behind_an_issuer(issuer: Authority) -> None:
    resource = "https://mcp.example.com/mcp"
    options = ["--issuer", issuer.url, "--resource", resource, "--scope", "shop", "--scope", "more"]
    async with running([*COMMAND, "serve", SHOP, "--http", "127.0.0.1:0", *options]) as server:
        await server.said(b"/mcp\n")
        url = server.stderr.partition(b" at ")[2].split()[0].decode()
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/list",
            "params": {"_meta": modern_meta()},
        }
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN[0],
            "mcp-method": "tools/list",
            "host": "mcp.example.com",
        }
        statuses = []
        async with httpx2.AsyncClient(timeout=TIME_LIMIT, trust_env=False) as client:
            for token in (
                "made-up",
                issuer.issuer.token(aud=resource, scope="shop"),
                issuer.issuer.token(aud=url, scope="shop more"),
                issuer.issuer.token(aud=resource, scope="shop more"),
            ):
                headers["authorization"] = f"Bearer {token}"
                answer = await client.post(url, json=body, headers=headers)
                statuses.append(answer.status_code)
        assert statuses == [401, 403, 401, 200]
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0
