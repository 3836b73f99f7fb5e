"""The command line in this process, for all tests of it, and a server that is there already."""

import logging
import subprocess
import sys
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
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TRIO_MCP_LOGINS"):
        monkeypatch.delenv(name, raising=False)
    return CommandLine(capsys)


@pytest.fixture
def importing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process import files of a test, as a server's process does, and forget them."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(logging.getLogger(), "handlers", logging.getLogger().handlers.copy())
    yield
    for name, module in list(sys.modules.items()):
        place = str(getattr(module, "__file__", None) or "")
        if name not in before and not {"site-packages", "trio_mcp"} & set(place.split("/")):
            del sys.modules[name]


@pytest.fixture(scope="session")
def shop() -> Iterator[str]:
    """The URL of the shop, for the many tests that do not mind how it is reached."""
    command = [*COMMAND, "serve", SHOP, "--http", "127.0.0.1:0"]
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdout=nowhere, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if " at http://" in line)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield line.split(" at ")[1].strip()
        process.terminate()
