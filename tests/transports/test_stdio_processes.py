"""A real process on `open_stdio`: what its parent sees on every kind of descriptor."""

import contextlib
import fcntl
import json
import os
import pty
import socket
import subprocess
import sys
import termios
import tty
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from trio_mcp.system.capabilities import POLLS

PROGRAM = Path(__file__).parent / "programs" / "stdio_echo.py"
ROOT = Path(__file__).parents[2]
LOUD = 1 << 18
DEADLINE = 120  # seconds, for a process that hangs

Ends = tuple[int, int]  # the child's end and ours
Opener = Callable[[ExitStack], Ends]


def owned(stack: ExitStack, *descriptors: int) -> None:
    for fd in descriptors:
        stack.callback(close, fd)


def close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


def input_pipe(stack: ExitStack) -> Ends:
    child, ours = os.pipe()
    owned(stack, child, ours)
    return child, ours


def output_pipe(stack: ExitStack) -> Ends:
    ours, child = os.pipe()
    owned(stack, child, ours)
    return child, ours


def socket_pair(stack: ExitStack) -> Ends:
    child, ours = (end.detach() for end in socket.socketpair())
    owned(stack, child, ours)
    return child, ours


def terminal(stack: ExitStack) -> Ends:
    ours, child = pty.openpty()
    tty.setraw(child)
    owned(stack, child, ours)
    return child, ours


every_kind = pytest.mark.parametrize(
    ("open_input", "open_output"),
    [
        (input_pipe, output_pipe),
        (input_pipe, terminal),
        (socket_pair, output_pipe),
        (socket_pair, socket_pair),
        (terminal, socket_pair),
        (terminal, terminal),
    ],
)


def read_all(fd: int) -> bytes:
    """Read to the end, which a terminal reports as EIO."""
    chunks = []
    with contextlib.suppress(OSError):
        while chunk := os.read(fd, 65536):
            chunks.append(chunk)
    return b"".join(chunks)


@asynccontextmanager
async def running(
    report: Path, *deeds: str, prefix: tuple[str, ...] = (), **options: Any
) -> AsyncIterator[trio.Process]:
    command = [*prefix, sys.executable, str(PROGRAM), str(report), *deeds]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = await trio.lowlevel.open_process(command, env=environment, **options)
    try:
        with trio.fail_after(DEADLINE):
            yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


def assert_restored(report: Path, *, abandoned: int = 0) -> None:
    """The standard descriptors are what they were, and no other stayed open.

    Args:
        report: What the process wrote about them.
        abandoned: The most threads that may still be in a read, each with the copy that it reads
            from: nobody can end such a read, and closing what it reads might give the number to
            another file.
    """
    before, after = json.loads(report.read_text())
    assert before["standard"] == after["standard"]
    assert set(before["open"]) <= set(after["open"])
    assert len(after["open"]) - len(before["open"]) <= abandoned


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return tmp_path / "report.json"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.requirement("A1", "A13", "A14")
@every_kind
async def test_pipes_sockets_and_terminals_echo(
    stack: ExitStack, report: Path, open_input: Opener, open_output: Opener
) -> None:
    stdin, to_child = open_input(stack)
    stdout, from_child = open_output(stack)
    async with running(report, stdin=stdin, stdout=stdout) as process:
        os.write(to_child, b"hello\n")
        assert await trio.to_thread.run_sync(os.read, from_child, 100) == b"hello\n"
        os.close(to_child)
        assert await process.wait() == 0
    assert_restored(report)


@pytest.mark.requirement("A14")
async def test_one_socket_for_everything_as_inetd_hands_over(
    stack: ExitStack, report: Path
) -> None:
    child, ours = socket_pair(stack)
    async with running(report, stdin=child, stdout=child) as process:
        os.write(ours, b"hello\n")
        assert await trio.to_thread.run_sync(os.read, ours, 100) == b"hello\n"
        with socket.socket(fileno=os.dup(ours)) as sock:
            sock.shutdown(socket.SHUT_WR)
        assert await process.wait() == 0
    assert_restored(report)


@pytest.mark.requirement("A14")
async def test_one_terminal_for_everything(stack: ExitStack, report: Path) -> None:
    ours, child = pty.openpty()
    owned(stack, child, ours)
    settings = termios.tcgetattr(child)
    settings[1] &= ~termios.OPOST
    settings[3] = termios.ICANON  # lines and Ctrl-D, but no echo
    termios.tcsetattr(child, termios.TCSANOW, settings)
    async with running(report, stdin=child, stdout=child, stderr=child) as process:
        os.write(ours, b"hello\n")
        assert await trio.to_thread.run_sync(os.read, ours, 100) == b"hello\n"
        os.write(ours, b"\x04")
        assert await process.wait() == 0
    assert_restored(report)


@pytest.mark.requirement("A14")
async def test_regular_files(report: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    content = os.urandom(3_000_000)
    source.write_bytes(content)
    target.write_bytes(b"kept")
    with source.open("rb") as stdin, target.open("ab") as stdout:
        async with running(report, stdin=stdin, stdout=stdout) as process:
            assert await process.wait() == 0
        assert os.lseek(stdin.fileno(), 0, os.SEEK_CUR) == len(content)
    assert target.read_bytes() == b"kept" + content
    assert_restored(report)


@pytest.mark.requirement("A14")
async def test_the_null_device(report: Path) -> None:
    null = subprocess.DEVNULL
    async with running(report, "loud", stdin=null, stdout=null, stderr=null) as process:
        assert await process.wait() == 0
    assert_restored(report)


@pytest.mark.requirement("A13", "A14")
@pytest.mark.parametrize("open_output", [output_pipe, terminal])
async def test_stdout_and_stderr_share_one_description(
    stack: ExitStack, report: Path, open_output: Opener
) -> None:
    child, ours = open_output(stack)
    async with running(
        report, "loud", stdin=subprocess.DEVNULL, stdout=child, stderr=child
    ) as process:
        os.close(child)
        output = await trio.to_thread.run_sync(read_all, ours)
        assert await process.wait() == 0
    assert output.count(b"o") == output.count(b"e") == LOUD
    assert len(output) == 2 * LOUD  # no complaint about a stderr that would block
    assert_restored(report)


@pytest.mark.requirement("A13")
async def test_whatever_is_printed_goes_to_stderr(report: Path) -> None:
    process = await run(report, "noise", stdin=b"hello\n")
    assert process.stdout == b"hello\n"
    assert process.stderr == (
        b"printed\nwritten\nfrom a child\nfrom a Trio child\nleft in the buffer"
    )
    assert_restored(report)


@pytest.mark.requirement("A13")
async def test_nobody_else_reads_stdin(report: Path) -> None:
    process = await run(report, "read", stdin=b"hello\n")
    assert process.stdout == b"hello\n"
    assert json.loads(process.stderr) == ["", ""]
    assert_restored(report)


@pytest.mark.requirement("A13")
async def test_restored_after_an_exception(report: Path) -> None:
    process = await run(report, "noise", "fail", stdin=b"hello\n")
    assert process.stdout == b""
    assert_restored(report)


@pytest.mark.requirement("A13", "B8")
@pytest.mark.parametrize("open_input", [input_pipe, terminal])
async def test_restored_after_cancellation_of_an_idle_read(
    stack: ExitStack, report: Path, open_input: Opener
) -> None:
    stdin, _ = open_input(stack)
    async with running(report, "cancel", stdin=stdin) as process:
        assert await process.wait() == 0
    assert_restored(report, abandoned=0 if POLLS else 1)


@pytest.mark.requirement("A13")
@pytest.mark.parametrize(
    ("open_input", "open_output"), [(input_pipe, output_pipe), (socket_pair, terminal)]
)
async def test_a_killed_process_leaves_the_blocking_mode_alone(
    stack: ExitStack, report: Path, open_input: Opener, open_output: Opener
) -> None:
    stdin, to_child = open_input(stack)
    stdout, from_child = open_output(stack)
    shared = (stdin, stdout)
    before = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in shared]
    async with running(report, stdin=stdin, stdout=stdout) as process:
        os.write(to_child, b"serving?\n")
        assert await trio.to_thread.run_sync(os.read, from_child, 100) == b"serving?\n"
        assert [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in shared] == before
        process.kill()
        assert await process.wait() < 0
    assert [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in shared] == before
    assert not report.exists()


@pytest.mark.requirement("A14", "B8")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-", "2>&-"])
async def test_descriptors_that_were_closed_before_the_start(report: Path, closed: str) -> None:
    prefix = ("/bin/sh", "-c", f'exec "$@" {closed}', "sh")
    process = await run(report, stdin=b"hello\n", prefix=prefix)
    assert process.stdout == (b"hello\n" if closed == "2>&-" else b"")
    assert process.stderr == b""
    assert_restored(report)


@pytest.mark.requirement("A13")
async def test_prints_go_nowhere_when_stderr_is_closed(report: Path) -> None:
    prefix = ("/bin/sh", "-c", 'exec "$@" 2>&-', "sh")
    process = await run(report, "noise", stdin=b"hello\n", prefix=prefix)
    assert process.stdout == b"hello\n"
    assert_restored(report)


@pytest.mark.requirement("B8")
async def test_a_client_that_closed_stdout(stack: ExitStack, report: Path) -> None:
    child, ours = output_pipe(stack)
    os.close(ours)
    source, to_child = input_pipe(stack)
    os.write(to_child, b"hello\n")
    async with running(report, stdin=source, stdout=child) as process:
        assert await process.wait() == 0
    assert_restored(report)


async def run(
    report: Path, *deeds: str, stdin: bytes, prefix: tuple[str, ...] = ()
) -> "subprocess.CompletedProcess[bytes]":
    """Run the program on pipes to its end."""
    command = [*prefix, sys.executable, str(PROGRAM), str(report), *deeds]
    with trio.fail_after(DEADLINE):
        return await trio.run_process(
            command,
            stdin=stdin,
            capture_stdout=True,
            capture_stderr=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
