"""`trio-mcp proxy` and `trio-mcp gateway`."""

import json
import os
import signal
import sys
from pathlib import Path

import httpx2
import pytest
import trio

from tests.cli.support import COMMAND, CommandLine
from tests.cli.test_serve_http import url_of
from tests.support.processes import ENVIRONMENT, EXAMPLES, TIME_LIMIT, running
from trio_mcp import connect

pytestmark = pytest.mark.requirement("L4")
CALCULATOR, STRINGS = str(EXAMPLES / "calculator.py"), str(EXAMPLES / "strings.py")
HTTP = ("--http", "127.0.0.1:0")


def configured(path: Path, **programs: str) -> None:
    """Write an `mcp.json`."""
    entries = {
        name: {"command": sys.executable, "args": [program]} for name, program in programs.items()
    }
    path.write_text(json.dumps({"mcpServers": entries}))


@pytest.mark.long
async def test_a_server_on_stdio_is_served_over_http_and_back_on_stdio() -> None:
    async with running([*COMMAND, "proxy", CALCULATOR, *HTTP]) as server:
        url = await url_of(server)
        async with connect([*COMMAND, "proxy", url]) as client:
            assert client.server_info is not None
            assert client.server_info.name == "calculator"
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3.0"
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0


@pytest.mark.long
async def test_a_gateway_follows_its_file_and_says_how_servers_stand(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    configured(path, calc=CALCULATOR, lost="/nowhere/at/all.py")
    async with running(
        [*COMMAND, "gateway", str(path), "--watch", "--wait", "60", *HTTP]
    ) as server:
        url = await url_of(server)
        async with (
            connect(url) as client,
            httpx2.AsyncClient(timeout=TIME_LIMIT, verify=False) as http,
        ):
            assert (await client.call_tool("calc_add", {"a": 1, "b": 2})).text == "3.0"
            health = (await http.get(url.replace("/mcp", "/health"))).json()
            assert health["servers"]["calc"] == "connected"
            assert health["servers"]["lost"] in ("disconnected", "connecting")
            path.write_text("{")
            await server.said(b"is not JSON")
            configured(path, calc=CALCULATOR, text=STRINGS)
            with trio.fail_after(120):
                while "text_count" not in client.tools:
                    await client.refresh_tools()
                    await trio.sleep(0.05)
            assert (await client.call_tool("calc_add", {"a": 2, "b": 2})).text == "4.0"
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0


@pytest.mark.long
@pytest.mark.requirement("F1")
@pytest.mark.parametrize(("options", "called"), [((), "remote"), (("--name", "sums"), "sums")])
async def test_a_server_is_called_what_the_operator_calls_it(
    options: tuple[str, ...], called: str
) -> None:
    command = ["--", sys.executable, CALCULATOR, "--token=s3cret"]
    async with running([*COMMAND, "proxy", *options, *HTTP, *command]) as server:
        url = await url_of(server)
        async with httpx2.AsyncClient(timeout=TIME_LIMIT, verify=False) as http:
            health = (await http.get(url.replace("/mcp", "/health"))).text
        assert json.loads(health)["servers"] == {called: "connected"}
        assert "s3cret" not in health
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0
        assert b"s3cret" not in server.stderr


@pytest.mark.long
async def test_a_gateway_says_how_deep_what_it_starts_is(tmp_path: Path) -> None:
    told, program = tmp_path / "told", tmp_path / "child.py"
    program.write_text(
        f"import os, pathlib\npathlib.Path({str(told)!r}).write_text(os.environ['TRIO_MCP_DEPTH'])"
    )
    path = tmp_path / "mcp.json"
    configured(path, child=str(program))
    environment = {**ENVIRONMENT, "TRIO_MCP_DEPTH": "3"}
    async with running([*COMMAND, "gateway", str(path)], env=environment):
        with trio.fail_after(120):
            while not (told.exists() and told.read_text()):
                await trio.sleep(0.05)
    assert told.read_text() == "4"


def test_one_that_starts_itself_goes_only_so_deep(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mcp.json"
    configured(path, calc=CALCULATOR)
    monkeypatch.setenv("TRIO_MCP_DEPTH", "8")
    for words in (["gateway", str(path)], ["proxy", CALCULATOR]):
        assert "8 proxies and gateways have started one another" in cli(*words).error


def test_what_is_wrong_is_said_in_one_line(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"a": {"comand": "x"}}}')
    told = f"{path}: server 'a': comand is unknown; did you mean 'command'?"
    assert cli("gateway", str(path)).error == told
    assert cli("gateway", str(tmp_path / "no.json")).error.startswith("there is no file")
    assert cli("gateway", os.devnull).error.startswith(f"{os.devnull} is not JSON")
    assert cli("gateway", os.devnull, "--watch").error.startswith("--watch is for a file")
    assert cli("gateway", str(tmp_path)).error.startswith(f"{tmp_path} is a folder")
    wrong = cli("proxy", CALCULATOR, "--upstream-token-env", "X")
    assert wrong.error == "--upstream-token-env is for a URL; a command takes --env"
    assert "--env is for a command" in cli("proxy", "http://localhost:1", "--env", "A=B").error
    assert "cannot be started" in cli("proxy", "--", "/nowhere/at-all").error


@pytest.mark.requirement("Q1")
@pytest.mark.long
async def test_a_gateway_has_its_tools_found_and_called(tmp_path: Path, cli: CommandLine) -> None:
    path = tmp_path / "mcp.json"
    configured(path, calc=CALCULATOR, words=STRINGS)
    options = ("--search", "--pin", "calc_add", "--wait", "60", *HTTP)
    async with running([*COMMAND, "gateway", str(path), *options]) as server:
        async with connect(await url_of(server)) as client:
            assert list(client.tools) == ["search_tools", "call_tool", "calc_add"]
            told = client.tools["search_tools"].description or ""
            assert told.endswith("There are tools of: calc, words.")
            found = (await client.call_tool("search_tools", {"query": "count the words"})).text
            assert found.startswith("words_count(text: string)\n")
            call = {"name": "calc_add", "arguments": {"a": 1, "b": 2}}
            assert (await client.call_tool("call_tool", call)).text == "3.0"
        server.signal(signal.SIGTERM)
        assert await server.exit() == 0
    assert "--pin is for --search" in cli("gateway", str(path), "--pin", "calc_add").error
