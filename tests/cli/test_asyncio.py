"""Registries whose handlers are written for asyncio, under the commands of the command line."""

from pathlib import Path

import pytest

from tests.cli.support import CommandLine

SERVER = """
import asyncio
from trio_mcp.aio import Registry

registry = Registry("napping")

@registry.tool
async def nap(seconds: float) -> str:
    '''Rest for a while.

    Args:
        seconds: How long.
    '''
    await asyncio.sleep(seconds)
    return "rested"
"""


@pytest.mark.long
@pytest.mark.requirement("S5")
def test_the_command_line_takes_a_file_with_a_registry_for_asyncio(
    cli: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "napping.py"
    file.write_text(SERVER)
    project = '[project]\nname = "napping"\nversion = "1"\ndependencies = ["trio-mcp"]\n'
    (tmp_path / "pyproject.toml").write_text(project)
    assert cli("call", str(file), "nap", "seconds=0.01").out == "rested\n"
    assert "Rest for a while" in cli("tools", str(file)).out
    assert cli("doctor", str(file)).status == 0
    assert cli("bundle", "napping.py", "--author", "A").status == 0
    shown = cli("install", str(file), "--host", "generic", "--file", "x.json", "--yes")
    assert shown.status == 0
