"""The tutorial, from its first page to its last, in one folder; and the server that it ends with."""

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import LANGUAGES, blocks_of, run_page
from tests.support.processes import EXAMPLES, ROOT, TIME_LIMIT, python
from trio_mcp import Handlers, ResourceNotFound, connect
from trio_mcp.transports.process import ProcessOptions

PAGES = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
BLOCKS = [block for page in PAGES for block in blocks_of(page)]
EXAMPLE = EXAMPLES / "plants.py"

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def without_docstring(text: str) -> str:
    """A module without what comes before its first import."""
    return text[re.search(r"^(import|from) ", text, re.MULTILINE).start() :]  # type: ignore[union-attr]


@pytest.mark.long
def test_what_the_tutorial_says_happens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it, word for word; then the server is the example."""
    names: dict[str, Any] = {"__name__": "tutorial"}
    for page in PAGES:
        run_page(page, names, tmp_path, capsys)
    written = (tmp_path / "plants.py").read_text()
    assert without_docstring(written) == without_docstring(EXAMPLE.read_text())


def test_pages_follow_each_other() -> None:
    assert [page.stem[0] for page in PAGES] == [str(number + 1) for number in range(len(PAGES))]
    for page, following in pairwise(PAGES):
        (title,) = re.findall(r"^# (.*)$", following.read_text().split("```")[0], re.MULTILINE)
        assert page.read_text().endswith(f"\nNext: [{title}]({following.name}).\n")
        assert f"[{title}]({following.name})" in PAGES[0].read_text()


@every_page
def test_every_block_is_found_and_has_a_language_that_is_known(page: Path) -> None:
    blocks = list(blocks_of(page))
    assert page.read_text().count("```") == 2 * len(blocks)
    assert {block.language for block in blocks} <= LANGUAGES


def test_the_unit_starts_the_server_that_the_last_page_tries_out() -> None:
    (unit,) = (block.text for block in BLOCKS if block.language == "ini")
    (started,) = re.findall(r"^ExecStart=((?:.*\\\n)*.*)$", unit, re.MULTILINE)
    tried = next(block for block in reversed(BLOCKS) if "trio-mcp serve" in block.text)
    _, _, command = tried.text.partition("\n")

    def words(line: str) -> list[str]:
        return [Path(word).name for word in shlex.split(line.replace("\\\n", " "))]

    assert words(started) == words(command)


@pytest.mark.long
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_example_is_a_server(era, tmp_path: Path) -> None:
    async def yes(params: Any) -> Any:
        return {"action": "accept", "content": {"value": True}}

    variables = {"PLANTS_FILE": str(tmp_path / "plants.json"), "PYTHONPATH": str(ROOT)}

    def connected() -> Any:
        return connect(
            python(EXAMPLE),
            era=era,
            handlers=Handlers(elicitation=yes),
            process_options=ProcessOptions(env=variables),
            tool_timeout=TIME_LIMIT,
        )

    async with connected() as client:
        assert (await client.call_tool("water", {"name": "Fern", "day": "2026-05-05"})).success
        early = await client.call_tool("water", {"name": "Fern", "day": "2026-05-01"})
        assert early.error == "Fern had water later than that, on 2026-05-05"
        said = await client.call_tool("give_away", {"name": "Cactus"})
        assert said.text == "Cactus is given away."
    async with connected() as client:
        plants = json.loads((await client.read_resource("plants://all")).text)
        assert [plant["name"] for plant in plants] == ["Basil", "Fern"]
        assert '"watered":"2026-05-05"' in (await client.read_resource("plants://Fern")).text
        with pytest.raises(ResourceNotFound):
            await client.read_resource("plants://Cactus")
        days = {"leaving": "2026-05-10", "back": "2026-05-20"}
        (message,) = (await client.get_prompt("holiday", days)).messages
        assert message.content.text.startswith("I am away from 2026-05-10 for 10 days.")
