"""What servers say does nothing to a terminal: no sequence, no forged line, no text reversed."""

import re
import sys
from pathlib import Path

import pytest

from tests.cli.programs.hostile import EVIL
from tests.cli.support import CTRL_D, CTRL_U, PROGRAMS, TAB, CommandLine, Outcome, Terminal

SERVER = ["--", sys.executable, "-I", "-S", str(PROGRAMS / "hostile.py")]
OBEYED = re.compile("\x1b\\]|[\x07\b\x7f\x9b\u202e\u2066\u2028]|\r(?![\x1b\r\n])")
"""A bar of progress, which is ours, goes back to the line's begin, and then clears it."""


@pytest.fixture(autouse=True)
def _on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "300")


def check(text: str) -> None:
    found = OBEYED.search(text)
    assert found is None, ascii(text[max(found.start() - 100, 0) : found.end() + 10])


def lines_of(text: str) -> list[str]:
    return [line.strip("\x1b[0123456789;m") for line in text.splitlines()]


def check_outcome(outcome: Outcome, *, is_quoted: bool = False) -> None:
    """Nothing is obeyed, and no line of ours is forged; a result may have lines of its own."""
    check(outcome.out)
    check(outcome.err)
    for text in (outcome.err,) if is_quoted else (outcome.out, outcome.err):
        assert [line for line in lines_of(text) if line.startswith("FORGED")] == []


@pytest.mark.parametrize(
    ("words", "is_quoted"),
    [
        (["tools"], False),
        (["tools", "good"], True),
        (["tools", f"evil{EVIL}"], True),
        (["tools", "godo"], False),
        (["resources"], False),
        (["read", "a://x"], True),
        (["prompts"], False),
        (["prompt", "p"], True),
        (["prompt", "none"], False),
        (["call", "good"], True),
        (["call", "good", "--json"], True),
        (["call", "failing"], False),
        (["call", "refused"], False),
        (["call", "good", "b=x"], False),
        (["tasks", "get", "x"], False),
        (["bench", "refused"], False),
        (["bench", "failing"], False),
        (["doctor", "--timeout", "5"], False),
        (["doctor", "--timeout", "5", "--json"], False),
    ],
)
def test_no_command_obeys_what_a_server_says(
    words: list[str], is_quoted: bool, cli: CommandLine
) -> None:
    outcome = cli(words[0], *words[1:], *SERVER)
    assert outcome.out + outcome.err
    check_outcome(outcome, is_quoted=is_quoted)


@pytest.mark.parametrize("debug", ["", "1"])
def test_a_session_obeys_nothing(
    debug: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIO_MCP_DEBUG", debug)
    script = ["list", "tool good", "call good", "call refused", "read a://x", "prompt p", "help"]
    script += [
        f"call evil{EVIL.partition(chr(10))[0]}",
        "complete p x=1",
        "subscribe tools",
        "nonsense",
    ]
    outcome = cli("inspect", *SERVER, stdin="\n".join([*script, ""]))
    assert "Connected to hostile" in outcome.err
    check_outcome(outcome, is_quoted=True)


def test_a_traceback_obeys_nothing(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIO_MCP_DEBUG", "1")
    outcome = cli("call", "refused", *SERVER)
    assert "Traceback" in outcome.err
    check_outcome(outcome)


@pytest.mark.long
def test_questions_and_suggestions_obey_nothing(tmp_path: Path) -> None:
    terminal = Terminal("inspect", *SERVER, cwd=tmp_path)
    seen = [terminal.sees("mcp>")]
    terminal.types("call ask b=plain")
    seen.append(terminal.sees("accept, decline or cancel?"))
    terminal.types("accept")
    seen.append(terminal.sees("optional):"))
    assert "owned" in seen[-1], "the label of what is asked for"
    terminal.types("x")
    seen.append(terminal.sees("optional):"))
    terminal.types("3")
    seen.append(terminal.sees("optional):"))
    terminal.presses(TAB)
    seen.append(terminal.sees("plain"))
    terminal.types("")
    seen.append(terminal.sees("mcp>"))
    terminal.types("call visit b=plain")
    seen.append(terminal.sees("a page of good.example:"))
    seen.append(terminal.sees("accept, decline or cancel?"))
    terminal.types("decline")
    seen.append(terminal.sees("mcp>"))
    terminal.presses(f"complete p x={TAB}")
    seen.append(terminal.sees("x="))
    terminal.presses(f"{CTRL_U}{CTRL_D}")
    status, last = terminal.leaves()
    assert status == 0
    for text in (*seen, last):
        # What prompt_toolkit itself does with the terminal is no matter here.
        assert not re.search("\x1b]0;owned|\x07|\x9b|\u202e|\u2066|\u2028|\r\b", text)
        assert not re.search(r"(^|\n|\r)FORGED", text)
