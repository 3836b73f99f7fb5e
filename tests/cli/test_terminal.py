"""The command line on a terminal: asking, questions of the server, the interactive session, Ctrl-C."""

import re
from pathlib import Path

import pytest

from tests.cli.support import CTRL_C, CTRL_D, CTRL_U, SHOP, TAB, UP, Terminal, faulty
from tests.support.processes import EXAMPLES

PROMPT = "mcp>"


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_arguments_and_a_form(era: str, tmp_path: Path) -> None:
    terminal = Terminal("call", SHOP, "order", "book=Emma", "--era", era, cwd=tmp_path)
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


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_ctrl_c_in_a_form_ends_the_command(era: str, tmp_path: Path) -> None:
    terminal = Terminal("call", SHOP, "order", "book=Emma", "count=1", "--era", era, cwd=tmp_path)
    terminal.sees("accept, decline or cancel?")
    terminal.presses(CTRL_C)
    status, last = terminal.leaves()
    assert status == 130
    assert "trio-mcp" not in last
    assert "ordered" not in last


def test_ctrl_c_ends_a_call(tmp_path: Path) -> None:
    terminal = Terminal("call", SHOP, "slow", "seconds=60", cwd=tmp_path)
    terminal.sees("packing")
    terminal.presses(CTRL_C)
    status, last = terminal.leaves()
    assert status == 130
    assert "Traceback" not in last


@pytest.mark.parametrize("unwanted", [True, False])
def test_colour(unwanted: bool, tmp_path: Path) -> None:
    variables = {"NO_COLOR": "1" if unwanted else ""}
    terminal = Terminal("tools", SHOP, cwd=tmp_path, **variables)
    _, shown = terminal.leaves()
    assert "Order a book." in shown
    assert ("\x1b[36m" in shown) == (not unwanted)


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
    terminal.types("call order book=Emma")
    terminal.sees("count (integer):")
    terminal.types("2")
    terminal.sees("accept, decline or cancel?")
    terminal.types("d")
    terminal.sees("not ordered: decline")
    terminal.sees(PROMPT)
    terminal.types("quit")
    assert terminal.leaves()[0] == 0


def test_questions_progress_and_messages(tmp_path: Path) -> None:
    terminal = Terminal("inspect", SHOP, cwd=tmp_path)
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
    terminal.types("call escape")
    terminal.sees("before ␛[31m␛]0;title␇ after")  # it must not obey
    terminal.sees(PROMPT)
    terminal.types("call types")
    terminal.sees("text (string):")
    terminal.presses(CTRL_D)
    terminal.sees("text is required, and was not given")
    terminal.sees(PROMPT)
    terminal.types("quit")
    assert terminal.leaves()[0] == 0


def test_ctrl_c_cancels_the_call_and_not_the_session(tmp_path: Path) -> None:
    terminal = Terminal("inspect", SHOP, cwd=tmp_path)
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


def test_subscriptions_history_and_completion(tmp_path: Path) -> None:
    terminal = Terminal("inspect", SHOP, cwd=tmp_path)
    terminal.sees(PROMPT)
    terminal.types("subscribe shop://stock shop://elsewhere")
    terminal.sees("Subscribed to shop://stock.")
    terminal.sees("does not tell of changes of 'shop://elsewhere'")
    terminal.sees(PROMPT)
    terminal.presses(f"cal{TAB}")
    terminal.sees("call")
    terminal.presses(f" rest{TAB}")
    terminal.sees("restock")
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
    terminal.types("quit")
    assert terminal.leaves()[0] == 0
    history = tmp_path / "state" / "trio-mcp" / "history"
    assert "+call restock\n" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0, "arguments may be secrets"
    terminal = Terminal("inspect", SHOP, cwd=tmp_path)
    terminal.sees(PROMPT)
    terminal.presses(UP)
    terminal.sees("quit")
    terminal.presses(f"{CTRL_U}{CTRL_D}")
    assert terminal.leaves()[0] == 0


def test_a_server_that_dies_is_started_again(tmp_path: Path) -> None:
    terminal = Terminal("inspect", SHOP, cwd=tmp_path)
    terminal.sees(PROMPT)
    terminal.types("call die")
    terminal.sees("trio-mcp: the server exited with status 3")
    terminal.sees("The next command connects again.")
    terminal.sees(PROMPT)
    terminal.types("call say words=again")
    terminal.sees("returned: again")
    terminal.types("quit")
    assert terminal.leaves()[0] == 0


def test_a_server_that_dies_while_nobody_types(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text(
        "import os, threading\n"
        "from trio_mcp import Registry\n"
        "registry = Registry('short')\n"
        "threading.Timer(0.8, os._exit, [4]).start()\n"
    )
    terminal = Terminal("inspect", "short.py", cwd=tmp_path)
    terminal.sees(PROMPT)
    terminal.sees("trio-mcp: the server exited with status 4")
    terminal.sees(PROMPT)
    (tmp_path / "short.py").unlink()
    terminal.types("list")
    terminal.sees("there is no file short.py")
    terminal.sees(PROMPT)
    terminal.presses(CTRL_D)
    assert terminal.leaves()[0] == 0


def test_values_are_completed(tmp_path: Path) -> None:
    """What was on the screen already is not written again: hence the ends of words."""
    terminal = Terminal("inspect", SHOP, cwd=tmp_path)
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
    terminal.types("quit")
    assert terminal.leaves()[0] == 0
    terminal = Terminal("inspect", str(EXAMPLES / "completion.py"), cwd=tmp_path)
    terminal.sees(PROMPT)
    terminal.presses(f"prompt trip country=I{TAB}")
    terminal.sees("taly")
    terminal.presses(f" ci{TAB}")
    terminal.sees("ty=")
    terminal.presses(f"R{TAB}")
    terminal.sees("ome")
    terminal.presses("\r")
    terminal.sees("Plan a spring trip to Rome in Italy.")
    terminal.types("quit")
    assert terminal.leaves()[0] == 0


def test_findings_of_the_doctor_stand_in_columns(tmp_path: Path) -> None:
    terminal = Terminal("doctor", "--", *faulty("no-version-of-jsonrpc"), cwd=tmp_path)
    terminal.sees("examining ")
    status, shown = terminal.leaves()
    lines = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", each).rstrip() for each in shown.split("\r\n")]
    (first,) = (each for each in lines if each.startswith("✗ error    what it writes"))
    rest = lines[lines.index(first) + 1 :]
    assert len(rest) > 3, "the message takes more than one line, and then there is the way out"
    assert {each[:11] for each in rest[:-2]} == {" " * 11}
    assert rest[-2:] == ["1 error", ""]
    assert status == 1


def test_lines_of_a_difference_are_never_wrapped(tmp_path: Path) -> None:
    project = tmp_path / ("a-directory-with-a-long-name-" * 5)
    project.mkdir()
    (project / "shop.py").write_text(Path(SHOP).read_text())
    words = ("install", str(project / "shop.py"), "--host", "generic", "--dry-run")
    terminal = Terminal(*words, cwd=tmp_path)
    status, shown = terminal.leaves()
    lines = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", each) for each in shown.split("\r\n")]
    assert status == 0
    assert f'+        "{project}/shop.py"' in lines
    assert {each[:1] for each in lines if each} <= set("+-@ ")


def test_installing_asks_first(tmp_path: Path) -> None:
    words = ("install", SHOP, "--host", "generic")
    terminal = Terminal(*words, cwd=tmp_path)
    terminal.sees('"mcpServers"')
    terminal.sees("Write this? [y/N]")
    terminal.types("")
    terminal.sees("Nothing was changed.")
    assert terminal.leaves()[0] == 1
    assert not (tmp_path / "mcp.json").exists()
    terminal = Terminal(*words, cwd=tmp_path)
    terminal.sees("Write this? [y/N]")
    terminal.types("y")
    terminal.sees("Written: ")
    assert terminal.leaves()[0] == 0
    assert "serve" in (tmp_path / "mcp.json").read_text()
    terminal = Terminal("install", "https://x.example", *words[2:], "--name", "shop", cwd=tmp_path)
    terminal.sees("There is a server 'shop'. Change it? [y/N]")
    terminal.types("n")
    terminal.sees("Nothing was changed.")
    assert terminal.leaves()[0] == 1


def test_a_server_on_a_terminal_is_not_silent(tmp_path: Path) -> None:
    terminal = Terminal("serve", SHOP, cwd=tmp_path)
    terminal.sees(
        "Serving shop on stdin and stdout, where a host is to talk to it; to try it out: "
    )
    terminal.sees(f"trio-mcp inspect {SHOP}")
    terminal.presses(CTRL_D)
    assert terminal.leaves()[0] == 0
