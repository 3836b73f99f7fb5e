"""A lifespan that fails: every command says so, and in which line of whose code."""

from pathlib import Path

import pytest

from tests.cli.support import COMMAND, CommandLine
from tests.support.processes import ENVIRONMENT, lines, ping, run

WINDOWSILL = """
from contextlib import asynccontextmanager
import trio
from trio_mcp import Registry

@asynccontextmanager
async def lifespan(registry):
    plants = {}
    {opening}
    yield plants
    {closing}

registry = Registry("plants", lifespan=lifespan)

@registry.tool
async def count() -> int:
    return 0
"""
ROSE = "the server's lifespan failed: KeyError: 'Rose' ("
WAY_OUT = "; TRIO_MCP_DEBUG=1 shows the whole traceback"


@pytest.fixture
def plants(tmp_path: Path) -> Path:
    path = tmp_path / "plants.py"
    path.write_text(windowsill(opening='plants["Rose"]'))
    return path


def windowsill(*, opening: str = "pass", closing: str = "pass") -> str:
    return WINDOWSILL.replace("{opening}", opening).replace("{closing}", closing)


@pytest.mark.parametrize(
    "words",
    [
        ["tools", "plants.py"],
        ["call", "plants.py", "count"],
        ["call", "plants.py", "count", "--era", "legacy"],
        ["resources", "plants.py"],
        ["read", "plants.py", "plants://Rose"],
        ["prompts", "plants.py"],
        ["prompt", "plants.py", "holiday"],
        ["inspect", "plants.py"],
        ["bench", "plants.py", "count"],
        ["install", "plants.py", "--host", "generic", "--yes"],
    ],
    ids=str,
)
def test_every_command_says_so(words: list[str], plants: Path, cli: CommandLine) -> None:
    outcome = cli(*words)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error.startswith(ROSE)
    assert outcome.error.endswith(f"plants.py, line 9){WAY_OUT}")


def test_the_doctor_says_so(plants: Path, cli: CommandLine) -> None:
    (finding,) = cli("doctor", "plants.py", "--json").json["findings"]
    assert finding["code"] == "does-not-start"
    assert f"it exited with status 1: {ROSE}{plants}, line 9)" in finding["message"]


@pytest.mark.parametrize("options", [[], ["--http", "127.0.0.1:0"]], ids=["stdio", "http"])
async def test_so_does_the_server_itself(options: list[str], plants: Path) -> None:
    command = [*COMMAND, "serve", str(plants), *options, "--log-level", "error"]
    done = await run(command, lines(ping(1)))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"trio-mcp: {ROSE}{plants}, line 9){WAY_OUT}\n"
    settings = {**ENVIRONMENT, "TRIO_MCP_DEBUG": "1"}
    done = await run(command, lines(ping(1)), env=settings)
    assert b"Traceback" in done.stderr


@pytest.mark.parametrize(
    ("opening", "closing", "told"),
    [
        (
            "open('/none')",
            "pass",
            "FileNotFoundError: [Errno 2] No such file or directory: '/none'",
        ),
        ("raise ConnectionRefusedError('no database')", "pass", "ConnectionRefusedError: no data"),
        ("await trio.open_tcp_stream('127.0.0.1', 1)", "pass", "OSError: all attempts to connect"),
        ("pass", "plants['Rose']", "KeyError: 'Rose'"),
    ],
)
async def test_an_error_of_the_system_is_not_taken_for_one_of_ours(
    opening: str, closing: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / "plants.py").write_text(windowsill(opening=opening, closing=closing))
    places = [] if closing != "pass" else ["--http", "127.0.0.1:0"]
    done = await run([*COMMAND, "serve", "plants.py", *places], cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith(f"trio-mcp: the server's lifespan failed: {told}")
    assert "plants.py, line " in last
