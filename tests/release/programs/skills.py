"""`skills`: a directory with a skill, served and loaded."""

from pathlib import Path

import trio

from trio_mcp import Registry, connect
from trio_mcp.extensions.skills import Skills

skill = Path("skills", "watering")
skill.mkdir(parents=True, exist_ok=True)
(skill / "SKILL.md").write_text(
    "---\nname: watering\ndescription: How to water.\n---\nWith a can.\n"
)
registry = Registry("shelf", extensions=[Skills("skills")])


async def main() -> None:
    async with connect(registry) as client:
        assert "With a can." in (await client.read_resource("skill://watering/SKILL.md")).text


trio.run(main)
