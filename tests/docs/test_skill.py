"""The skill for coding agents: it is served as it stands, and what it shows runs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import LANGUAGES, blocks_of, run_page
from tests.support.processes import ENVIRONMENT, EXAMPLES, ROOT, TIME_LIMIT
from trio_mcp import Registry, connect
from trio_mcp.extensions.skills import Skills, SkillsClient

SKILLS = EXAMPLES / "skills"
SKILL = SKILLS / "trio-mcp-server" / "SKILL.md"
URI = "skill://trio-mcp-server/SKILL.md"

pytestmark = pytest.mark.requirement("K4")


@pytest.mark.long
def test_what_the_skill_shows_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = list(blocks_of(SKILL))
    assert {block.language for block in blocks} <= LANGUAGES
    for block in blocks:
        assert block.file or block.is_run_in_a_shell, f"{block.place} is not run"
    names: dict[str, Any] = {"__name__": "skill"}
    run_page(SKILL, names, tmp_path, capsys)


def test_the_skill_is_short_enough_to_be_read_whole() -> None:
    assert len(SKILL.read_text().split()) <= 900


async def test_the_skill_is_served_and_verified() -> None:
    skills = SkillsClient("ours")
    async with connect(Registry("shelf", extensions=[Skills(SKILLS)]), extensions=[skills]):
        assert URI in [entry.uri for entry in await skills.list()]
        skill = await skills.load(URI)
    assert skill.text == SKILL.read_text()


@pytest.mark.long
def test_the_command_reads_the_skill_from_a_server(tmp_path: Path) -> None:
    server = tmp_path / "shelf.py"
    server.write_text(
        "from trio_mcp import Registry\n"
        "from trio_mcp.extensions.skills import Skills\n"
        f"registry = Registry('shelf', extensions=[Skills({str(SKILLS)!r})])\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "trio_mcp.cli", "read", str(server), URI],
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
    )
    assert (done.returncode, done.stdout.strip()) == (0, SKILL.read_text().strip()), done.stderr
