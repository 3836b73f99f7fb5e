"""The README, followed by a stranger with a clean clone and a fresh environment, word for word.

What is installed comes from the network and takes a while, so this is no part of `make test`: `make
clone` runs it. `make test` cannot run itself either; here it runs a folder that is quick.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pexpect
import pytest

from tests.docs.pages import Block, blocks_of
from tests.support.processes import ROOT

TIME_LIMIT = 900  # seconds, for an installation over a slow network
QUICK = "tests/wire"
OURS = re.compile(r"PYTHON|PYTEST|COVERAGE|VIRTUAL_ENV|XDG|TRIO_MCP|MAKE|MFLAGS")
LIST_TOOLS = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'


@attrs.frozen
class Stranger:
    """Somebody with a clone, an environment and a home of their own, and nothing of ours."""

    clone: Path
    environment: Path
    home: Path

    @property
    def variables(self) -> dict[str, str]:
        """What a shell of theirs has: the environment is active."""
        inherited = {key: value for key, value in os.environ.items() if not OURS.match(key)}
        ours = str(Path(sys.prefix) / "bin")
        places = [each for each in os.environ["PATH"].split(os.pathsep) if each != ours]
        path = os.pathsep.join([str(self.environment / "bin"), *places])
        return {**inherited, "PATH": path, "PYTEST_ADDOPTS": QUICK}

    def run(self, command: str, *, typed: str = "") -> str:
        """Run a command, which must succeed; return what it prints on stdout."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.clone,
            env=self.variables,
            input=typed,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=False,
        )
        said = f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert done.returncode == 0, f"{command!r} failed with status {done.returncode}:\n{said}"
        return done.stdout

    def agree(self, command: str) -> str:
        """Run a command on a terminal, and agree to what it asks; return what it shows."""
        variables = {**self.variables, "HOME": str(self.home), "NO_COLOR": "1"}
        terminal = pexpect.spawn(
            "bash", ["-c", command], cwd=self.clone, env=variables, encoding="utf-8", timeout=60
        )
        try:
            terminal.expect_exact("[y/N]")
            asked = str(terminal.before)
            terminal.sendline("y")
            terminal.expect(pexpect.EOF)
        finally:
            terminal.close(force=True)
        assert terminal.exitstatus == 0, f"{command!r} failed:\n{asked}{terminal.before}"
        return asked

    def run_until(self, command: str, words: str) -> str:
        """Run a command until it shows some words, and interrupt it; return what came before."""
        terminal = pexpect.spawn(
            "bash",
            ["-c", command],
            cwd=self.clone,
            env=self.variables,
            encoding="utf-8",
            timeout=60,
        )
        try:
            terminal.expect_exact(words)
            shown = str(terminal.before)
            terminal.sendintr()
            terminal.expect(pexpect.EOF)
        finally:
            terminal.close(force=True)
        return shown


@pytest.fixture
def stranger(tmp_path: Path) -> Stranger:
    """A clone of what is committed, and an empty environment."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.fail(f"{ROOT} is no git repository, or there is no git: there is nothing to clone")
    clone, environment, home = (tmp_path / name for name in ("clone", "environment", "home"))
    home.mkdir()
    for command in (
        ["git", "clone", "--quiet", ROOT.as_uri(), str(clone)],
        [sys.executable, "-m", "venv", str(environment)],
    ):
        subprocess.run(command, check=True, timeout=TIME_LIMIT)
    return Stranger(clone, environment, home)


def commands_of(blocks: list[Block]) -> Iterator[str]:
    """The commands in blocks, one by one."""
    for block in blocks:
        if block.language == "sh":
            lines = block.text.replace("\\\n", "").splitlines()
            yield from lines


def test_a_stranger_gets_through_the_readme(stranger: Stranger) -> None:
    blocks = list(blocks_of(stranger.clone / "README.md"))
    first = next(block for block in blocks if block.is_server)
    (stranger.clone / "calculator.py").write_text(first.text)

    said: dict[str, str] = {}
    for command in commands_of(blocks):
        if command.startswith("trio-mcp install "):
            said[command] = stranger.agree(command)
        elif command.startswith("trio-mcp inspect --web "):
            said[command] = stranger.run_until(command, "Ctrl-C ends it.")
        else:
            said[command] = stranger.run(command, typed=LIST_TOOLS)
    assert said["make demo"].endswith("\nEverything was answered as expected.\n")
    assert re.search(r"\d+ passed", said["make test"])
    assert any(command.startswith("pip install ") for command in said)
    assert stranger.run("command -v trio-mcp").startswith(str(stranger.environment))

    # The first server: by hand, and as the host that now has it would do it.
    assert said["trio-mcp call calculator.py add a=1 b=2"] == "3.0\n"
    (config,) = stranger.home.rglob("claude_desktop_config.json")
    entry = json.loads(config.read_text())["mcpServers"]["calculator"]
    words = shlex.join([entry["command"], *entry["args"]])
    answer = json.loads(stranger.run(words, typed=LIST_TOOLS))
    assert [tool["name"] for tool in answer["result"]["tools"]] == ["add"]

    (client,) = (block for block in blocks if block.language == "python" and not block.is_server)
    (stranger.clone / "program.py").write_text(client.text)
    assert stranger.run("python program.py") == "3.0\n"
