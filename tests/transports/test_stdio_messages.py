"""Python's stderr while a server runs: nothing that is said waits until it is read."""

import io
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp.transports.stdio.messages import LAST_MOMENT, MOST_BYTES, said_without_waiting

pytestmark = [
    pytest.mark.requirement("G1", "B8"),
    pytest.mark.skipif(sys.platform == "win32", reason="other pipes"),
]

LINE = "x" * 99


class Stderr:
    """A stderr that is read only when a test does so."""

    def __init__(self, ours: int, theirs: int) -> None:
        self.ours, self.fd = ours, theirs
        self.stream = io.TextIOWrapper(os.fdopen(theirs, "wb", closefd=False), line_buffering=True)

    @asynccontextmanager
    async def without_waiting(self) -> AsyncIterator[None]:
        """Have it be Python's stderr, to which things are said without waiting."""
        before, sys.stderr = sys.stderr, self.stream
        try:
            async with said_without_waiting(self.fd):
                yield
        finally:
            sys.stderr = before

    def read_nowait(self) -> bytes:
        """All that is there."""
        os.set_blocking(self.ours, False)
        found = b""
        while True:
            try:
                chunk = os.read(self.ours, 1 << 16)
            except BlockingIOError:
                return found
            if not chunk:
                return found
            found += chunk

    async def read_until(self, text: bytes) -> bytes:
        """What comes, up to a text."""
        found = b""
        while text not in found:
            found += self.read_nowait()
            await trio.lowlevel.checkpoint()
        return found


@pytest.fixture(params=["pipe", "socket"])
def stderr(request: Any) -> Iterator[Stderr]:
    if request.param == "pipe":
        ours, theirs = os.pipe()
    else:
        ours, theirs = (end.detach() for end in socket.socketpair())
    made = Stderr(ours, theirs)
    yield made
    made.stream.detach()
    os.close(ours)
    os.close(theirs)


def flood(bytes_: int) -> int:
    """Say as much in lines, and return how many they were."""
    for number in range(bytes_ // 100):
        print(f"{number:09} {LINE[:89]}", file=sys.stderr)
    return bytes_ // 100


async def test_what_fits_is_out_at_once(stderr: Stderr) -> None:
    async with stderr.without_waiting():
        print("now", file=sys.stderr)
        assert stderr.read_nowait() == b"now\n"


async def test_what_does_not_fit_follows_in_order(stderr: Stderr) -> None:
    async with stderr.without_waiting():
        said = flood(MOST_BYTES)
        await wait_all_tasks_blocked()
        print("the last", file=sys.stderr)
        lines = (await stderr.read_until(b"the last\n")).splitlines()
        print("afterwards", file=sys.stderr)
        assert await stderr.read_until(b"afterwards\n") == b"afterwards\n"
    assert [int(line[:9]) for line in lines[:-1]] == [*range(said)]


async def test_what_is_too_much_is_dropped_and_counted(stderr: Stderr) -> None:
    async with stderr.without_waiting():
        said = flood(10 * MOST_BYTES)
        *numbers, notice = (await stderr.read_until(b"read stderr\n")).splitlines()
        print("and on it goes", file=sys.stderr)
        await stderr.read_until(b"and on it goes\n")
    dropped = int(notice.split()[1])
    assert dropped > 0
    assert [int(line[:9]) for line in numbers] == [*range(said - dropped)]


async def test_threads_may_say_something_too(stderr: Stderr) -> None:
    async with stderr.without_waiting():
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(trio.to_thread.run_sync, flood, MOST_BYTES // 8)
        print("the last", file=sys.stderr)
        lines = (await stderr.read_until(b"the last\n")).splitlines()
    assert sorted(map(len, lines)) == [8, *[99] * (len(lines) - 1)]
    assert len(lines) == 1 + 4 * (MOST_BYTES // 8 // 100)


async def test_the_log_goes_the_same_way_and_back(stderr: Stderr, autojump_clock: object) -> None:
    handler = logging.StreamHandler(stderr.stream)
    logger = logging.getLogger("tests.of_messages")
    logger.addHandler(handler)
    try:
        async with stderr.without_waiting():
            assert handler.stream is sys.stderr is not stderr.stream
            for _ in range(MOST_BYTES // 50):
                logger.warning(LINE)
            await stderr.read_until(b"were dropped")
            await wait_all_tasks_blocked()
            stderr.read_nowait()
        assert handler.stream is stderr.stream
    finally:
        logger.removeHandler(handler)


async def test_the_end_waits_a_moment_for_what_is_kept(stderr: Stderr) -> None:
    async with stderr.without_waiting():
        said = flood(MOST_BYTES)
        kept = sys.stderr
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stderr.read_until, b"the last\n")
            print("the last", file=sys.stderr)
    assert said
    print("afterwards", file=kept)  # as if nothing had been
    assert stderr.read_nowait() == b"afterwards\n"


@pytest.mark.parametrize("stderr", ["pipe"], indirect=True)
async def test_where_nothing_reads_the_end_waits_no_longer_and_neither_does_what_follows(
    stderr: Stderr, autojump_clock: trio.testing.MockClock
) -> None:
    async with stderr.without_waiting():
        flood(MOST_BYTES)
        kept = sys.stderr
    assert trio.current_time() == LAST_MOMENT
    print("late", file=kept)  # which would wait for ever
    stderr.read_nowait()
    print("too late", file=kept)
    assert stderr.read_nowait() == b"too late\n"


# From Python 3.13 on it says so, on stderr, when it drops a stream that cannot be flushed.
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
async def test_a_stderr_that_breaks_holds_up_nothing() -> None:
    ours, theirs = os.pipe()
    stderr = Stderr(ours, theirs)
    async with stderr.without_waiting():
        flood(MOST_BYTES)
        await wait_all_tasks_blocked()
        os.close(ours)
        await wait_all_tasks_blocked()
        with pytest.raises(BrokenPipeError):  # as without all of this
            flood(100)
    stderr.stream.detach()
    os.close(theirs)


@pytest.mark.parametrize("kind", ["file", "closed", "other"])
async def test_what_never_waits_is_left_alone(kind: str, tmp_path: Any) -> None:
    fd = os.open(os.devnull if kind == "other" else tmp_path / "log", os.O_RDWR | os.O_CREAT)
    if kind == "closed":
        os.close(fd)
    before = sys.stderr
    async with said_without_waiting(fd):
        assert sys.stderr is before
    if kind != "closed":
        os.close(fd)
