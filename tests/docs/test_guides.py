"""The guides: their servers are the examples, and their programs print what is said."""

import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from tests.docs.pages import LANGUAGES, blocks_of, run_page
from tests.docs.test_readme import table
from tests.support.processes import EXAMPLES, ROOT
from trio_mcp import Context, ElicitResult, Handlers, Registry, ToolError, connect
from trio_mcp.client.negotiation import Era

GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
DEPLOYING = sorted((ROOT / "docs" / "guides" / "deploy").glob("*.md"))
START_PROCESSES = {
    *("asyncio", "authorization", "cancellation", "client", "deployment", "do-i-need-trio"),
    *("explorer", "fastapi", "from-fastmcp", "from-official-sdk", "many-servers", "migrating"),
    *("proxies", "results", "revisions"),
    *(
        "http-clients",
        "safe-tools",
        "security",
        "stopping",
        "tasks",
        "testing",
        "testing-parts",
        "timeouts",
        "tools",
    ),
}
"""Guides that show how servers and commands are started: that takes long."""
EXAMPLE = re.compile(r"\[examples/(\w+\.py)\]\(\.\./examples/\1\)")

every_guide = pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
COMMANDS = sorted((ROOT / "docs" / "cli").glob("*.md"))
every_page = pytest.mark.parametrize(
    "guide", [*GUIDES, *DEPLOYING, *COMMANDS], ids=lambda guide: f"{guide.parent.stem}/{guide.stem}"
)


PROVIDERS = sorted((ROOT / "docs" / "guides" / "providers").glob("*.md"))


@pytest.mark.parametrize("page", PROVIDERS, ids=lambda page: page.stem)
def test_what_a_page_of_a_provider_shows_can_be_made(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    run_page(page, names, tmp_path, capsys)
    assert names["auth"].callback_url == "https://mcp.example.com/auth/callback"


def examples_of(guide: Path) -> list[Path]:
    """The examples that a guide says it is about."""
    return [EXAMPLES / name for name in EXAMPLE.findall(guide.read_text())]


def test_every_guide_is_in_the_menu_once() -> None:
    assert GUIDES
    pages = (ROOT / "docs" / "index.md").read_text().splitlines()
    assert [guide.stem for guide in GUIDES if pages.count(f"guides/{guide.stem}") != 1] == []
    deploy = [f"guides/deploy/{page.stem}" for page in DEPLOYING]
    assert [page for page in deploy if pages.count(page) != 1] == []


@every_page
def test_every_block_is_found_and_has_a_language_that_is_known(guide: Path) -> None:
    blocks = list(blocks_of(guide))
    assert guide.read_text().count("```") == 2 * len(blocks)
    assert {block.language for block in blocks} <= LANGUAGES


@every_guide
def test_examples_are_shown_whole(guide: Path) -> None:
    """All of each is shown, in its order, but for its docstring and its last lines."""
    shown = [block.text for block in blocks_of(guide) if block.language == "python"]
    for example in examples_of(guide):
        _, _, text = example.read_text().partition('"""\n\n')
        text, _, _ = text.partition('\n\nif __name__ == "__main__":')
        of_the_example = [block for block in shown if block in f"{text}\n"]
        assert re.sub(r"\n+", "\n", "".join(of_the_example)) == re.sub(r"\n+", "\n", text)


@pytest.mark.parametrize(
    "guide",
    [
        pytest.param(
            guide,
            id=guide.stem,
            marks=[pytest.mark.long] if guide.stem in START_PROCESSES else [],
        )
        for guide in GUIDES
    ],
)
def test_what_a_guide_shows_runs_and_prints_what_it_says(
    guide: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STATE_KEYS", Fernet.generate_key().decode())
    monkeypatch.syspath_prepend(EXAMPLES)  # some of them use others
    examples = examples_of(guide)
    names: dict[str, Any] = {"__name__": "guide", "__file__": str(examples[0] if examples else "")}
    run_page(guide, names, tmp_path, capsys)
    assert any(
        block.is_program or block.is_run_in_a_shell or block.file for block in blocks_of(guide)
    ), "a guide shows something that runs"


@pytest.mark.long
@pytest.mark.parametrize("page", DEPLOYING, ids=lambda page: page.stem)
def test_what_a_page_on_deployment_shows_runs_and_prints_what_it_says(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its recipes are files, which `test_deploy_*.py` try."""
    monkeypatch.syspath_prepend(EXAMPLES / "deploy")
    run_page(page, {"__name__": "page"}, tmp_path, capsys)


@pytest.mark.parametrize(("era", "runs"), [("modern", [3, 2, 1]), ("legacy", [1, 1, 1])])
async def test_what_comes_before_a_question_runs_as_often_as_the_guide_says(
    era: Era, runs: list[int]
) -> None:
    """Before the first question, between the two, and after them."""
    registry = Registry("counter")
    parts = [0, 0, 0]

    @registry.tool
    async def count(context: Context) -> None:
        parts[0] += 1
        await context.elicit("First?", bool)
        parts[1] += 1
        await context.elicit("Second?", bool)
        parts[2] += 1

    async def yes(params: Any) -> Any:
        return {"action": "accept", "content": {"value": True}}

    async with connect(registry, era=era, handlers=Handlers(elicitation=yes)) as client:
        assert (await client.call_tool("count")).success
    assert parts == runs


def test_refusals_are_worded_as_the_guide_says() -> None:
    guide = ROOT / "docs" / "guides" / "asking.md"
    for action, _, value in table(guide, "`answer.action`"):
        if action == "`accept`":
            assert ElicitResult("accept", 7).value == 7
            continue
        answer: ElicitResult[int] = ElicitResult(action.strip("`"))  # type: ignore[arg-type]
        with pytest.raises(ToolError) as refused:
            _ = answer.value
        assert f'"{refused.value}"' in value
