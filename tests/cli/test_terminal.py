"""The command line on a terminal: asking, questions of the server, the interactive session, Ctrl-C.

What needs no terminal of its own, because nobody types while something else goes on, is tested in
this process: there `FORCE_COLOR` makes a terminal of what is written.
"""

import re
from pathlib import Path

import pytest

from tests.cli.support import (
    CTRL_C,
    CTRL_D,
    CTRL_U,
    SHOP,
    TAB,
    UP,
    CommandLine,
    Terminal,
    faulty,
)
from tests.support.processes import EXAMPLES
from trio_mcp.cli.screen import Screen

PROMPT = "mcp>"


@pytest.mark.long
def test_arguments_and_a_form(shop: str, tmp_path: Path) -> None:
    terminal = Terminal("call", shop, "order", "book=Emma", cwd=tmp_path)
    assert "How many." in terminal.sees("count (integer):")
    terminal.types("three")
    terminal.sees("must be an integer")
    terminal.sees("count (integer):")
    terminal.types("3")
    terminal.sees("The server asks: Where to?")
    terminal.sees("accept, decline or cancel?")
    terminal.types("x")
    terminal.sees("please type one of: accept, decline, cancel")
    terminal.sees("accept, decline or cancel?")
    terminal.types("a")
    terminal.sees("name (string):")
    terminal.types("")
    terminal.sees("Missing required")
    terminal.sees("name (string):")
    terminal.types("Ada")
    terminal.sees("express (yes or no, optional): no")
    terminal.types(f"{CTRL_U}perhaps")
    terminal.sees("must be yes or no")
    terminal.sees("express (yes or no, optional): no")
    terminal.types(f"{CTRL_U}Yes")
    terminal.sees("size (small|large, optional): small")
    terminal.types(f"{CTRL_U}medium")
    terminal.sees("must be one of")
    terminal.sees("size (small|large, optional): small")
    terminal.types(f"{CTRL_U}LARGE")
    terminal.sees("3 x Emma for Ada, large, express")
    assert terminal.leaves()[0] == 0


@pytest.mark.long
def test_ctrl_c_in_a_form_ends_the_command(shop: str, tmp_path: Path) -> None:
    words = ("order", "book=Emma", "count=1", "--era", "legacy")
    terminal = Terminal("call", shop, *words, cwd=tmp_path)
    terminal.sees("accept, decline or cancel?")
    terminal.presses(CTRL_C)
    status, last = terminal.leaves()
    assert status == 130
    assert "trio-mcp" not in last
    assert "ordered" not in last


def test_an_interactive_session(tmp_path: Path) -> None:
    terminal = Terminal("inspect", SHOP, cwd=tmp_path)
    terminal.sees("Connected to shop 2.0, which speaks 2026-07-28.")
    terminal.sees("Order books, and pay for them.")
    terminal.sees(PROMPT)
    terminal.types("list prompts")
    terminal.sees("Ask for a review.")
    terminal.sees(PROMPT)
    terminal.types("read shop://stock")
    terminal.sees('{"Emma":3}')
    terminal.sees(PROMPT)
    terminal.types("prompt review 'book=Mansfield Park'")
    terminal.sees("Write a kind review of Mansfield Park.")
    terminal.sees(PROMPT)
    terminal.types('call types {"text": "two words"}')
    terminal.sees('"text": "two words"')
    terminal.sees(PROMPT)
    terminal.types("dance")
    terminal.sees("inspect has no command 'dance'")
    terminal.sees(PROMPT)
    terminal.types("call types text='")
    terminal.sees("cannot be split into words")
    terminal.sees(PROMPT)
    terminal.types("call escape")
    terminal.sees("before ␛[31m␛]0;title␇ after")  # it must not obey
    terminal.sees(PROMPT)
    terminal.types("quit")
    assert terminal.leaves()[0] == 0


@pytest.mark.long
def test_questions_progress_and_ctrl_c(tmp_path: Path) -> None:
    terminal = Terminal("inspect", SHOP, "--era", "legacy", cwd=tmp_path)
    terminal.sees("which speaks 2025-11-25.")
    for answer, action in (("d\r", "decline"), ("cancel\r", "cancel"), (CTRL_D, "cancel")):
        terminal.sees(PROMPT)
        terminal.types("call order book=Emma count=1")
        terminal.sees("accept, decline or cancel?")
        terminal.presses(answer)
        terminal.sees(f"not ordered: {action}")
    terminal.sees(PROMPT)
    terminal.types("call pay")
    terminal.sees("The server asks: Please pay.")
    terminal.sees("a page of shop.example.com:")
    terminal.sees("https://shop.example.com/pay/7")
    terminal.sees("accept, decline or cancel?")
    terminal.types("a")
    terminal.sees("paid: accept")
    terminal.sees(PROMPT)
    terminal.types("call slow seconds=0.5")
    terminal.sees("packing")
    terminal.sees("info: the second step")
    terminal.sees("10/10")
    terminal.sees("packed")
    terminal.sees(PROMPT)
    terminal.types("call types")
    terminal.sees("text (string):")
    terminal.presses(CTRL_D)
    terminal.sees("text is required, and was not given")
    terminal.sees(PROMPT)
    terminal.types("call slow seconds=60")
    terminal.sees("packing")
    terminal.presses(CTRL_C)
    terminal.sees("Cancelled.")
    terminal.sees(PROMPT)
    terminal.types("call order book=Emma count=1")
    terminal.sees("accept, decline or cancel?")
    terminal.presses(CTRL_C)
    terminal.sees("Cancelled.")
    terminal.sees(PROMPT)
    terminal.presses(f"half a line{CTRL_C}")
    terminal.sees(PROMPT)
    terminal.types("ping")
    terminal.sees(" ms")
    terminal.sees(PROMPT)
    terminal.presses(CTRL_D)
    assert terminal.leaves()[0] == 0


@pytest.mark.long
def test_subscriptions_history_and_completion(shop: str, tmp_path: Path) -> None:
    """What was on the screen already is not written again: hence the ends of words."""
    terminal = Terminal("inspect", shop, cwd=tmp_path)
    terminal.sees(PROMPT)
    terminal.types("subscribe shop://stock shop://elsewhere")
    terminal.sees("Subscribed to shop://stock.")
    terminal.sees("does not tell of changes of 'shop://elsewhere'")
    terminal.sees(PROMPT)
    terminal.presses(f"unsub{TAB}")
    terminal.sees("scribe")
    terminal.presses(f"{CTRL_U}call rest{TAB}")
    terminal.sees("ock")
    terminal.presses("\r")
    terminal.sees("Changed: shop://stock")
    terminal.sees(PROMPT)
    terminal.types("unsubscribe all")
    terminal.sees("No longer subscribed to shop://stock.")
    terminal.sees(PROMPT)
    terminal.presses(f"{UP}{UP}")
    terminal.sees("call restock")
    terminal.presses("\r")
    assert "Changed" not in terminal.sees("restocked")
    terminal.sees(PROMPT)
    for typed, completed in (
        ("call wrap p", "aper="),
        ("g", "old foil'"),
        (" r", "ibbon="),
        ("t", "rue"),
    ):
        terminal.presses(f"{typed}{TAB}")
        terminal.sees(completed)
    terminal.presses("\r")
    terminal.sees("wrapped in gold foil with a ribbon")
    terminal.sees(PROMPT)
    terminal.types("quit")
    assert terminal.leaves()[0] == 0
    history = tmp_path / "state" / "trio-mcp" / "history"
    assert "+call restock\n" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0, "arguments may be secrets"


@pytest.mark.long
def test_values_are_completed_by_the_server(tmp_path: Path) -> None:
    history = tmp_path / "state" / "trio-mcp" / "history"
    history.parent.mkdir(parents=True)
    history.write_text("\n# 2026-01-01 00:00:00\n+ping of an earlier session\n")
    terminal = Terminal("inspect", str(EXAMPLES / "completion.py"), cwd=tmp_path)
    terminal.sees(PROMPT)
    terminal.presses(UP)
    terminal.sees("ping of an earlier session")
    terminal.presses(f"{CTRL_U}prompt trip country=I{TAB}")
    terminal.sees("taly")
    terminal.presses(f" ci{TAB}")
    terminal.sees("ty=")
    terminal.presses(f"R{TAB}")
    terminal.sees("ome")
    terminal.presses("\r")
    terminal.sees("Plan a spring trip to Rome in Italy.")
    terminal.sees(PROMPT)
    terminal.presses(CTRL_D)
    assert terminal.leaves()[0] == 0


MORTAL = """
import os, threading
from trio_mcp import Registry
registry = Registry("mortal")
@registry.tool
def fall_ill() -> str:
    threading.Timer(0.2, os._exit, [4]).start()
    return "not yet"
"""


@pytest.mark.long
def test_a_server_that_dies_while_nobody_types_is_started_again(tmp_path: Path) -> None:
    source = tmp_path / "mortal.py"
    source.write_text(MORTAL)
    terminal = Terminal("inspect", "mortal.py", cwd=tmp_path)
    for _ in range(2):
        terminal.sees(PROMPT)
        terminal.types("call fall_ill")
        terminal.sees("not yet")
        terminal.sees("trio-mcp: the server exited with status 4")
        terminal.sees("The next command connects again.")
    terminal.sees(PROMPT)
    source.unlink()
    terminal.types("list")
    terminal.sees("there is no file mortal.py")
    terminal.sees(PROMPT)
    terminal.presses(CTRL_D)
    assert terminal.leaves()[0] == 0


def test_a_server_on_a_terminal_is_not_silent(tmp_path: Path) -> None:
    terminal = Terminal("serve", SHOP, cwd=tmp_path)
    terminal.sees("Serving shop on stdin and stdout, where a host is to talk to it")
    terminal.sees("trio-mcp inspect")
    terminal.presses(CTRL_D)
    assert terminal.leaves()[0] == 0


# -- what is written on a terminal -------------------------------------------------------


@pytest.fixture
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write as on a terminal of 100 columns."""
    variables = {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "100"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def plain(shown: str) -> list[str]:
    """The lines of what is shown, without its bold and dim."""
    return [each.rstrip() for each in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).split("\n")]


@pytest.mark.parametrize("unwanted", [True, False])
@pytest.mark.usefixtures("on_a_terminal")
def test_colour(
    unwanted: bool, cli: CommandLine, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1" if unwanted else "")
    shown = cli("tools", shop).out
    assert "Order a book." in shown
    assert ("\x1b[36m" in shown) == (not unwanted)


@pytest.mark.usefixtures("on_a_terminal")
def test_findings_of_the_doctor_stand_in_columns(cli: CommandLine) -> None:
    outcome = cli("doctor", "--", *faulty("no-version-of-jsonrpc"))
    assert "examining " in outcome.err
    lines = plain(outcome.out)
    (first,) = (each for each in lines if each.startswith("✗ error    what it writes"))
    rest = lines[lines.index(first) + 1 :]
    assert len(rest) > 3, "the message takes more than one line, and then there is the way out"
    assert {each[:11] for each in rest[:-2]} == {" " * 11}
    assert rest[-2:] == ["1 error", ""]
    assert outcome.status == 1


@pytest.mark.usefixtures("on_a_terminal")
def test_lines_of_a_difference_are_never_wrapped(cli: CommandLine) -> None:
    url = f"https://example.com/{'a-path-with-a-long-name-' * 5}"
    outcome = cli("install", url, "--host", "generic", "--dry-run")
    lines = plain(outcome.out)
    assert outcome.status == 0
    assert f'+      "url": "{url}"' in lines
    assert {each[:1] for each in lines if each} <= set("+-@ ")


def test_installing_asks_first(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Screen, "can_ask", True)
    words = ("install", "https://x.example", "--host", "generic", "--name", "shop")
    refused = cli(*words, stdin="\n")
    assert refused.status == 1
    assert '"mcpServers"' in refused.out
    assert "Write this? [y/N]" in refused.err
    assert refused.err.endswith("Nothing was changed.\n")
    assert not (tmp_path / "mcp.json").exists()
    agreed = cli(*words, stdin="y\n")
    assert agreed.status == 0
    assert "Written: " in agreed.err
    assert "https://x.example" in (tmp_path / "mcp.json").read_text()
    refused = cli("install", "https://y.example", *words[2:], "--replace", stdin="n\n")
    assert refused.status == 1
    assert '-      "url": "https://x.example"' in refused.out
