"""Pages of the documentation as sessions: their files are written, their programs and commands run.

A page is read from its beginning to its end, in a folder of its own:

- Python whose first line is a comment with a file's name (`# shop.py`) is written to that file;
  other Python is one program, whose names go on from block to block.
- Commands (`sh`) run in that folder, where `docs` leads to the documentation.
- What a program or a command prints stands in the `text` block that follows it. `…` stands for
  anything that differs from run to run.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.support.processes import ENVIRONMENT, ROOT, TIME_LIMIT

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"python", "json", "sh", "text", "toml", "ini", "nginx"}
FILE = re.compile(r"# ([\w/-]+\.py)\n")

NOT_RUN = {"pip", "git", "make", "claude", "systemctl", "docker", "nginx", "npx"}
"""Programs that would change the machine, or need what it may not have. Their effect is tested
elsewhere, or is not ours."""

SHELL = ENVIRONMENT | {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    "NO_COLOR": "1",
    "TERM": "dumb",
    "COLUMNS": "100",
}


@attrs.frozen
class Block:
    """A fenced code block."""

    page: str
    line: int
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The file that it is, if it is one."""
        name = FILE.match(self.text) if self.language == "python" else None
        return name[1] if name else None

    @property
    def is_server(self) -> bool:
        """Whether it serves as soon as it is run."""
        return re.search(r"^trio\.run\(serve", self.text, re.MULTILINE) is not None

    @property
    def is_program(self) -> bool:
        """Whether it is run to its end, and prints something."""
        return self.language == "python" and self.text.endswith("\ntrio.run(main)\n")

    @property
    def is_run_in_a_shell(self) -> bool:
        """Whether it is commands that this machine can run."""
        return self.language == "sh" and shlex.split(self.text, comments=True)[0] not in NOT_RUN


def blocks_of(page: Path) -> Iterator[Block]:
    """The code blocks of a page, in their order."""
    text = page.read_text()
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(page.name, line, found[2], found[3])


def run_page(
    page: Path, names: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Do what a page says, and compare what is printed with what it says is printed."""
    (folder / "docs").symlink_to(ROOT / "docs")
    for block, following in pairwise([*blocks_of(page), None]):
        assert block is not None
        told = following.text if following is not None and following.language == "text" else None
        place = f"{block.page}:{block.line}"
        if block.file is not None:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text)
        elif block.language == "python":
            exec(compile(block.text, place, "exec", dont_inherit=True), names)
            compare(capsys.readouterr().out, (told or "") if block.is_program else "", place)
        elif block.is_run_in_a_shell:
            run_in_shell(block.text, told, folder, place)


def run_in_shell(commands: str, told: str | None, folder: Path, place: str) -> None:
    """Run commands. They must print, on stdout and stderr, what is told, or else just succeed."""
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", commands],
        cwd=folder,
        env=SHELL,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIME_LIMIT,
        check=False,
    )
    printed = done.stdout.decode()
    if told is None:
        assert done.returncode == 0, f"{place} failed:\n{printed}"
    else:
        compare(printed, told, place)


def compare(printed: str, told: str, place: str) -> None:
    """Compare what was printed with what a page says, where `…` stands for anything."""
    pattern = ".*?".join(map(re.escape, told.split("…")))
    if not re.fullmatch(pattern, printed, re.DOTALL):
        assert printed == told, f"{place} prints something else"
