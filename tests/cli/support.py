"""The command line, run in this process or on a terminal."""

from __future__ import annotations

import io
import json
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from unittest.mock import patch

import attrs
import pexpect
import pytest
import trio

from tests.support.processes import ENVIRONMENT
from trio_mcp import HttpHandle, HttpPolicy, Registry, serve_http
from trio_mcp.cli.app import run

PROGRAMS = Path(__file__).parent / "programs"
SHOP = str(PROGRAMS / "shop.py")
FAULTY = str(PROGRAMS / "faulty.py")
COMMAND = [sys.executable, "-c", "from trio_mcp.cli import main; main()"]
TIME_LIMIT = 300  # seconds, for what hangs


def faulty(fault: str) -> list[str]:
    """The command that runs a server with a fault."""
    return [sys.executable, "-I", "-S", FAULTY, fault]


@attrs.frozen
class Outcome:
    """What a command line did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it wrote to stdout, as JSON."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line that it wrote to stderr."""
        (line,) = self.err.splitlines()
        assert line.startswith("trio-mcp: ")
        return line.removeprefix("trio-mcp: ")


@attrs.frozen
class CommandLine:
    """Runs command lines in this process."""

    captured: pytest.CaptureFixture[str]

    def __call__(self, *words: str, stdin: str = "") -> Outcome:
        self.captured.readouterr()
        with patch.object(sys, "stdin", io.StringIO(stdin)):
            status = run(words)
        return Outcome(status, *self.captured.readouterr())


@contextmanager
def served(
    registry: Registry, policy: Callable[[str], HttpPolicy | None] | None = None
) -> Iterator[str]:
    """Serve a registry over HTTP in a thread of this process, which costs no start; its URL.

    Args:
        registry: What is served.
        policy: Makes the policy, of the URL.
    """
    begun: SimpleQueue[tuple[HttpHandle, str, trio.lowlevel.TrioToken]] = SimpleQueue()

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp"
            whole = None if policy is None else policy(url)
            handle = await nursery.start(
                partial(serve_http, registry, listeners=listeners, policy=whole)
            )
            begun.put((handle, url, trio.lowlevel.current_trio_token()))

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    handle, url, token = begun.get()
    try:
        yield url
    finally:
        trio.from_thread.run_sync(handle.stop, trio_token=token)
        thread.join()


class Terminal:
    """A command line on a terminal, and the person before it."""

    def __init__(
        self, *words: str, cwd: Path, command: Sequence[str] = COMMAND, **variables: str
    ) -> None:
        plain = {"TERM": "xterm", "NO_COLOR": "1", "PROMPT_TOOLKIT_NO_CPR": "1"}
        state = {"XDG_STATE_HOME": str(cwd / "state"), "COLUMNS": "100", "LINES": "40"}
        state |= {"XDG_DATA_HOME": str(cwd / "data")}
        self._child = pexpect.spawn(
            command[0],
            [*command[1:], *words],
            env={**ENVIRONMENT, **plain, **state, **variables},
            cwd=str(cwd),
            encoding="utf-8",
            dimensions=(40, 100),
            timeout=TIME_LIMIT,
            # As from a shell, also where the tests themselves were started with `nohup`.
            preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
        )
        self._child.delaybeforesend = None  # what is typed has been waited for: a prompt
        self._child.ptyproc.delayafterclose = 0.01

    def sees(self, text: str) -> str:
        """Wait until a text appears; return what came before it."""
        self._child.expect_exact(text)
        return str(self._child.before)

    def types(self, text: str) -> None:
        """Type a line."""
        self._child.send(f"{text}\r")

    def presses(self, keys: str) -> None:
        """Press keys."""
        self._child.send(keys)

    def leaves(self) -> tuple[int | None, str]:
        """Wait for the end; return the exit status, and what came last."""
        self._child.expect(pexpect.EOF)
        last = str(self._child.before)
        self._child.close()
        return self._child.exitstatus, last

    def hangs_up(self) -> int:
        """Close the terminal; return the signal that ended the command."""
        process = self._child.ptyproc
        process.fileobj.close()
        process.wait()
        process.closed = self._child.closed = True
        assert process.signalstatus, f"it ended by itself, with {process.exitstatus}"
        return int(process.signalstatus)


CTRL_C, CTRL_D, CTRL_U, UP, TAB = "\x03", "\x04", "\x15", "\x1b[A", "\t"


async def requests(stream: trio.SocketStream) -> AsyncIterator[tuple[bytes, dict[str, Any]]]:
    """The requests on a connection: their heads, and their JSON (`{}` if it is none)."""
    received = b""
    async for chunk in stream:
        received += chunk
        head, blank, body = received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        if not blank or len(body) < length:
            continue
        received = body[length:]
        try:
            request = json.loads(body[:length])
        except ValueError:
            request = {}
        yield head, request if isinstance(request, dict) else {}
