"""A lifespan that fails: every command says so, and in which line of whose code."""

from pathlib import Path

import pytest

from tests.cli.support import COMMAND, CommandLine
from tests.support.processes import lines, ping, run

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
        ["call", "plants.py", "count"],
        ["inspect", "plants.py", "--era", "legacy"],
        ["install", "plants.py", "--host", "generic", "--yes"],
    ],
    ids=str,
)
def test_commands_say_so_that_start_it(words: list[str], plants: Path, cli: CommandLine) -> None:
    outcome = cli(*words)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error.startswith(ROSE)
    assert outcome.error.endswith(f"plants.py, line 9){WAY_OUT}")


@pytest.mark.parametrize("options", [[], ["--http", "127.0.0.1:0"]], ids=["stdio", "http"])
@pytest.mark.usefixtures("importing")
def test_so_does_the_server_itself(
    options: list[str], plants: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["serve", str(plants), *options, "--log-level", "error"]
    outcome = cli(*command)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error == f"{ROSE}{plants}, line 9){WAY_OUT}"
    monkeypatch.setenv("TRIO_MCP_DEBUG", "1")
    assert "Traceback" in cli(*command).err


@pytest.mark.parametrize(
    ("opening", "told"),
    [
        ("open('/none')", "FileNotFoundError: [Errno 2] No such file or directory: '/none'"),
        ("raise ConnectionRefusedError('no database')", "ConnectionRefusedError: no database"),
        ("await trio.open_tcp_stream('127.0.0.1', 1)", "OSError: all attempts to connect"),
    ],
)
@pytest.mark.usefixtures("importing")
def test_an_error_of_the_system_is_not_taken_for_one_of_ours(
    opening: str, told: str, cli: CommandLine
) -> None:
    Path("plants.py").write_text(windowsill(opening=opening))
    outcome = cli("serve", "plants.py", "--http", "127.0.0.1:0")
    assert outcome.status == 1
    assert outcome.error.startswith(f"the server's lifespan failed: {told}")
    assert "plants.py, line " in outcome.error


async def test_a_lifespan_that_fails_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "plants.py").write_text(windowsill(closing="plants['Rose']"))
    done = await run([*COMMAND, "serve", "plants.py"], lines(ping(1)), cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("trio-mcp: the server's lifespan failed: KeyError: 'Rose'")
    assert "plants.py, line 11)" in last
