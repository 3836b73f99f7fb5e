"""The command line in this process, for all tests of it, and a server that is there already."""

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import COMMAND, SHOP, CommandLine
from tests.support.processes import ENVIRONMENT


@pytest.fixture
def cli(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> CommandLine:
    """Run command lines in this process, in a directory and a home of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return CommandLine(capsys)


@pytest.fixture(scope="session")
def shop() -> Iterator[str]:
    """The URL of the shop, for the many tests that do not mind how it is reached."""
    command = [*COMMAND, "serve", SHOP, "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if " at http://" in line)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield line.split(" at ")[1].strip()
        process.terminate()
