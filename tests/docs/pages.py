"""Pages of the documentation as sessions: their files are written, their programs and commands run.

A page is read from its beginning to its end, in a folder of its own, or one that it shares with the
pages before it:

- Python, TOML and INI whose first line is a comment with a file's name is that file (`# shop.py`),
  is added to it (`# shop.py, at the end`), or takes the place of one of its lines
  (`# shop.py, in place of: import trio`); other Python is one program, whose names go on from block
  to block.
- Commands (`sh`) run in that folder, where `docs` leads to the documentation. `trio-mcp serve` over
  HTTP, at 127.0.0.1:8000, or uvicorn at that port is started, and ended when another one is or the
  page ends; there and in all commands after it the port is one that is free.
- What a program or a command prints stands in the `text` block that follows it. `…` stands for
  anything that differs from run to run. Where a line ends with `⏎`, the command runs on a terminal,
  and its last word is typed. Programs in tabs of one set print the same: the block after the last.
"""

import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from threading import Timer
from typing import Any

import attrs
import pexpect
import pytest

from tests.support.processes import ENVIRONMENT, ROOT, TIME_LIMIT

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
NEXT_TAB = re.compile(r"\s*:{3,}\n:{3,}\{tab-item\} .*(\n:[\w-]+:.*)*\s*```")
LANGUAGES = {"python", "json", "sh", "text", "toml", "ini", "nginx"}
FILE = re.compile(r"# ([\w./-]+\.(?:py|toml|ini|service))(?:, (at the end)|, in place of: (.+))?\n")
SERVES_HTTP = re.compile(r"\b(trio-mcp serve .*--http 127\.0\.0\.1:|uvicorn .*--port )8000\b")

NOT_RUN = {"pip", "git", "make", "claude", "systemctl", "docker", "nginx", "npx", "sudo"}
NOT_RUN |= {"caddy", "kubectl"}
NOT_HERE = re.compile(r"\bredis://|doctor https://")
"""Programs that would change the machine, or need what it may not have. Their effect is tested
elsewhere, or is not ours. Commands with one of them in a block are not run, any of them; nor are
those that want a Redis, or a server that only you have."""

SHELL = {key: value for key, value in ENVIRONMENT.items() if not key.startswith(("PYTEST", "XDG"))}
SHELL |= {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    "NO_COLOR": "1",
    "TERM": "dumb",
    "COLUMNS": "100",
    "PROMPT_TOOLKIT_NO_CPR": "1",
}
BASH = ["bash", "-u", "-c"]
STRICT_BASH = ["bash", "-eu", "-o", "pipefail", "-c"]


@attrs.frozen
class Block:
    """A fenced code block."""

    page: str
    line: int
    language: str
    text: str
    has_another_tab: bool = False
    """Whether the block after it is in the next tab of its set."""

    @property
    def place(self) -> str:
        """Where it is."""
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """The file that it is, or is a part of, if it is one."""
        head = FILE.match(self.text) if self.language in ("python", "toml", "ini") else None
        return head[1] if head else None

    @property
    def is_server(self) -> bool:
        """Whether it is a server that is complete, and adds."""
        return "def add(" in self.text and 'Registry("calculator")' in self.text

    @property
    def is_program(self) -> bool:
        """Whether it is run to its end, and prints something."""
        return self.language == "python" and self.text.endswith(
            ("\ntrio.run(main)\n", "\nasyncio.run(main())\n")
        )

    @property
    def is_run_in_a_shell(self) -> bool:
        """Whether it is commands that this machine can run."""
        programs = set(re.findall(r"^(?:\w+=\S+ )*([\w-]+)", self.text, re.MULTILINE))
        is_possible = not programs & NOT_RUN and not NOT_HERE.search(self.text)
        return self.language == "sh" and is_possible


def blocks_of(page: Path) -> Iterator[Block]:
    """The code blocks of a page, in their order."""
    text = page.read_text()
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        has_another_tab = NEXT_TAB.match(text, found.end()) is not None
        yield Block(page.name, line, found[2], found[3], has_another_tab)


def told_after(blocks: list[Block]) -> list[str | None]:
    """For each block, what the page says that it prints, if the page says it."""
    found: list[str | None] = []
    after: str | None = None
    for block, following in reversed([*pairwise([*blocks, None])]):
        assert block is not None
        if not block.has_another_tab:
            after = following.text if following and following.language == "text" else None
        found.append(after)
    return found[::-1]


def run_page(
    page: Path,
    names: dict[str, Any],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    python: Path | None = None,
) -> None:
    """Do what a page says, and compare what is printed with what it says is printed.

    Its commands run with what is installed beside `python`, if it is given, and with nothing of ours.
    """
    if not (folder / "docs").exists():
        (folder / "docs").symlink_to(ROOT / "docs")
    with shell_in(folder, python) as shell:
        blocks = [*blocks_of(page)]
        for block, told in zip(blocks, told_after(blocks), strict=True):
            if block.file is not None:
                write(block, folder / block.file)
            elif block.language == "python":
                exec(compile(block.text, block.place, "exec", dont_inherit=True), names)
                printed = capsys.readouterr().out
                compare(printed, (told or "") if block.is_program else "", block.place)
            elif block.is_run_in_a_shell:
                shell.run(block, told)


def write(block: Block, file: Path) -> None:
    """Do to a file what the block's first line says."""
    head = FILE.match(block.text)
    assert head is not None
    part = block.text[head.end() :]
    if head[2] is not None:
        text = f"{file.read_text()}\n\n{part}"
    elif head[3] is not None:
        before = file.read_text()
        assert before.count(f"{head[3]}\n") == 1, f"{block.place}: {head[3]!r} is not in {file}"
        text = before.replace(f"{head[3]}\n", part)
    else:
        text = block.text
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


# -- commands ---------------------------------------------------------------------------------


@attrs.define
class Shell:
    """Runs commands in a folder, and keeps the server that the last of them may have started."""

    folder: Path
    port: int
    variables: dict[str, str]
    server: subprocess.Popen[bytes] | None = None

    def run(self, block: Block, told: str | None) -> None:
        """Run commands. They must print what is told, or else just succeed."""
        commands = self._with_port(block.text)
        expected = None if told is None else self._with_port(told)
        if SERVES_HTTP.search(block.text):
            self._start(commands, expected, block.place)
        elif expected is not None and "⏎" in expected:
            self._type(commands, expected, block.place)
        else:
            self._run(commands, expected, block.place)

    def stop(self) -> None:
        """End the server, if there is one, and all its processes."""
        if self.server is None:
            return
        server, self.server = self.server, None
        with killed_after(TIME_LIMIT, server):
            signal_all(server, signal.SIGTERM)
            server.communicate()

    def _with_port(self, text: str) -> str:
        return re.sub(r"(\b127\.0\.0\.1(?::| port )|--port )8000\b", rf"\g<1>{self.port}", text)

    def _settings(self, **variables: str) -> dict[str, Any]:
        return {
            "cwd": self.folder,
            "env": {**self.variables, "HOME": str(self.folder), **variables},
        }

    def _run(self, commands: str, told: str | None, place: str) -> None:
        bash = STRICT_BASH if told is None else BASH  # what is told may be a failure
        done = subprocess.run(
            [*bash, commands],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIME_LIMIT,
            check=False,
            **self._settings(),
        )
        printed = done.stdout.decode()
        if told is None:
            assert done.returncode == 0, f"{place} failed:\n{printed}"
        else:
            compare(printed, told, place)

    def _start(self, commands: str, told: str | None, place: str) -> None:
        """Start a server, and wait until it has said where it serves."""
        self.stop()
        self.server = subprocess.Popen(
            [*BASH, commands],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **self._settings(),
        )
        assert self.server.stdout is not None
        printed = ""
        with killed_after(TIME_LIMIT, self.server):
            while f"http://127.0.0.1:{self.port}" not in printed:
                line = self.server.stdout.readline().decode()
                assert line, f"{place} does not serve:\n{printed}"
                printed += line
        if told is not None:
            compare(printed, told, place)

    def _type(self, commands: str, told: str, place: str) -> None:
        """Run commands on a terminal, and type what ends with `⏎` when all before it is there."""
        terminal = pexpect.spawn(
            BASH[0],
            [*BASH[1:], commands],
            encoding="utf-8",
            timeout=TIME_LIMIT,
            **self._settings(TERM="xterm", COLUMNS="250"),  # enough for the path of any folder
        )
        terminal.delaybeforesend = None
        try:
            for line in told.splitlines():
                seen, typed = re.fullmatch(r"(.*?)(?: (\S+)⏎)?", line).groups()  # type: ignore[union-attr]
                terminal.expect(".*?".join(map(re.escape, seen.split("…"))))
                if typed is not None:
                    terminal.send(f"{typed}\r")
            terminal.expect(pexpect.EOF)
        except (pexpect.TIMEOUT, pexpect.EOF):
            pytest.fail(f"{place} does not show {line!r}, but:\n{terminal.before}")
        finally:
            terminal.close(force=True)
        assert terminal.exitstatus == 0, f"{place} failed"


def installed_beside(python: Path) -> dict[str, str]:
    """The variables of a shell in which an environment is active, and nothing of ours is there."""
    path = os.pathsep.join([str(python.parent), os.environ["PATH"]])
    return {key: SHELL[key] for key in SHELL if not key.startswith("PYTHON")} | {"PATH": path}


@contextmanager
def shell_in(folder: Path, python: Path | None = None) -> Iterator[Shell]:
    """A shell in a folder; what it started is ended with the block."""
    shell = Shell(folder, free_port(), SHELL if python is None else installed_beside(python))
    try:
        yield shell
    finally:
        shell.stop()


def free_port() -> int:
    """A port that is free, and not one that the system gives to whoever asks for any."""
    for port in random.sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


@contextmanager
def killed_after(seconds: float, process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a process and its children if the block takes longer."""
    timer = Timer(seconds, signal_all, (process, signal.SIGKILL))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def signal_all(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a process that leads a session, and to its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


SLOW = re.compile(
    r"^(?:\S (?:note|warning) .* \[slow-[a-z-]+\]\n(?: .*\n)+)+(?:(?:, )?\d (?:note|warning)s?)+$",
    re.MULTILINE,
)
"""All that doctor finds wrong with a server, where that is its speed: this machine may be busy."""
AGAIN = re.compile(r"^lost Connecting\(\)$", re.MULTILINE)
"""What is printed of a server that does not start, at a moment at which it is tried again."""


def compare(printed: str, told: str, place: str) -> None:
    """Compare what was printed with what a page says, where `…` stands for anything.

    Pages have no spaces at the ends of their lines, and blocks always end with a line break.
    """
    printed = re.sub(r" +$", "", printed, flags=re.MULTILINE)
    if printed and not printed.endswith("\n"):
        printed += "\n"
    printed = SLOW.sub("Nothing is wrong with it.", printed)
    printed = AGAIN.sub("lost Disconnected(error=CannotStart())", printed)
    pattern = ".*?".join(map(re.escape, told.split("…")))
    if not re.fullmatch(pattern, printed, re.DOTALL):
        pytest.fail(f"{place} prints something else than what it says:\n{printed}")
