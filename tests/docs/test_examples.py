"""`make demo`: what it shows, and that it fails when a server does."""

import os
import pty
import re
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.processes import ENVIRONMENT, ROOT, TIME_LIMIT, run

DEMO = [sys.executable, "-m", "docs.examples.demo"]
WIDE = {key: value for key, value in ENVIRONMENT.items() if key != "NO_COLOR"} | {"COLUMNS": "200"}


@pytest.mark.long
@pytest.mark.requirement("D5")
async def test_the_demo_shows_both_servers() -> None:
    done = await run(DEMO, cwd=ROOT, env=WIDE)
    assert done.returncode == 0
    # Of what goes wrong, the servers log the line that is not JSON, and nothing else.
    [wrong] = [line for line in done.stderr.decode().splitlines() if " INFO " not in line]
    assert "Malformed message of 42 bytes: Parse error: " in wrong
    shown = done.stdout.decode()
    for fact in [
        "← 2  result                    add, subtract, multiply, divide\n",
        '→ 3  tools/call                add {"a":0.1,"b":0.2}\n',
        "← 3  result                    0.30000000000000004\n",
        "← 4  result, isError           Error: Division by zero\n",
        "Argument 'b' must be a number, but a string came ('two').\n",
        "← 6  error                     -32602  Unknown tool: devide\n",
        '← "" error                     -32700  Parse error',
        "← 8  result                    42.0\n",
        '"supportedVersions":["2026-07-28"]',
        'structured {"iso":"',
        '"timezone":"Europe/Vienna"}',
        "← 6  error                     -32022  Unsupported protocol version\n",
    ]:
        assert fact in shown
    assert shown.count("exits with status 0") == 2
    assert shown.endswith("\nEverything was answered as expected.\n")
    assert "\x1b" not in shown
    assert "✗" not in shown


@pytest.mark.long
@pytest.mark.parametrize(
    ("environment", "coloured", "width"),
    [({"COLUMNS": "80"}, True, 80), ({"COLUMNS": "60", "NO_COLOR": "1"}, False, 60)],
)
async def test_on_a_terminal_there_is_colour_unless_it_is_unwanted_and_lines_are_cut_to_its_width(
    environment: dict[str, str], coloured: bool, width: int
) -> None:
    ours, theirs = pty.openpty()
    shown: list[bytes] = []
    with trio.fail_after(TIME_LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, collect, ours, shown)
            try:
                await trio.run_process(DEMO, cwd=ROOT, env={**WIDE, **environment}, stdout=theirs)
            finally:
                os.close(theirs)
    os.close(ours)
    text = b"".join(shown).decode()
    assert "Everything was answered as expected." in text
    assert ("\x1b[" in text) == coloured
    lines = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
    assert max(map(len, lines)) == width


def collect(terminal: int, shown: list[bytes]) -> None:
    """Read a terminal until nobody writes to it any more."""
    try:
        while chunk := os.read(terminal, 65536):
            shown.append(chunk)
    except OSError:  # how Linux says that the last writer has gone
        pass


BROKEN: list[tuple[str, str, str]] = [
    ("a wrong answer", "return a + b", "return a - b"),
    ("a crash", "return a + b", "import os; os._exit(3)"),
    ("a server that does not start", "import trio\n", "import nothing_of_that_name\n"),
]


@pytest.mark.parametrize(("text", "other"), [each[1:] for each in BROKEN], ids=lambda text: text)
@pytest.mark.long
async def test_the_demo_fails_when_a_server_does(text: str, other: str, tmp_path: Path) -> None:
    examples = tmp_path / "docs" / "examples"
    shutil.copytree(ROOT / "docs" / "examples", examples)
    program = examples / "calculator.py"
    assert text in program.read_text()
    program.write_text(program.read_text().replace(text, other, 1))
    done = await run([sys.executable, str(examples / "demo.py")], env=WIDE)
    assert done.returncode == 1
    assert "✗" in done.stdout.decode()
    assert done.stdout.decode().endswith("Something was not as expected.\n")
    assert re.search(r"clock\.py.*exits with status 0", done.stdout.decode(), re.DOTALL)


@pytest.mark.parametrize(
    ("value", "expected", "fits"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": ...}]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": None}, {"a": ...}, True),
        ("1", 1, False),
    ],
)
def test_answers_are_compared(value: Any, expected: Any, fits: bool) -> None:
    contains = runpy.run_path(str(ROOT / "docs" / "examples" / "demo.py"))["contains"]
    assert contains(value, expected) is fits
