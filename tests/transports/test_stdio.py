"""Readers, writers and the diversion of `open_stdio`, on descriptors of our own making."""

import errno
import fcntl
import io
import os
import pty
import socket
import stat
import sys
import threading
import tty
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
import trio
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from trio_mcp.transports.stdio import descriptors, diversion, open_stdio, readers, writers
from trio_mcp.transports.stdio.descriptors import adopt
from trio_mcp.transports.stdio.readers import Reader, ThreadReader, open_reader
from trio_mcp.transports.stdio.writers import ThreadWriter, Writer, open_writer

DEADLINE = 120  # seconds, for what must not hang
LARGE = bytes(range(256)) * 4096  # 1 MiB, more than any pipe or socket holds


class Descriptors:
    """Opens descriptors by kind and closes them in the end."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        self._stack = stack
        self._directory = directory

    def own(self, *opened: int) -> None:
        for fd in opened:
            self._stack.callback(self.close, fd)

    @staticmethod
    def close(fd: int) -> None:
        with suppress(OSError):
            os.close(fd)

    def pipe(self) -> tuple[int, int]:
        """Return the reading and the writing end."""
        ends = os.pipe()
        self.own(*ends)
        return ends

    def fifo(self) -> tuple[int, int]:
        path = self._directory / "fifo"
        os.mkfifo(path)
        both = os.open(path, os.O_RDWR)
        ends = os.open(path, os.O_RDONLY), os.open(path, os.O_WRONLY)
        os.close(both)
        self.own(*ends)
        return ends

    def sockets(self) -> tuple[int, int]:
        ends = tuple(end.detach() for end in socket.socketpair())
        self.own(*ends)
        return ends[0], ends[1]

    def terminal(self) -> tuple[int, int]:
        """Return a terminal to read from and the master to write to."""
        master, slave = pty.openpty()
        tty.setraw(slave)
        self.own(master, slave)
        return slave, master

    def terminal_to_write(self) -> tuple[int, int]:
        slave, master = self.terminal()
        return master, slave

    def file(self, content: bytes = b"", flags: int = os.O_RDWR) -> int:
        path = self._directory / f"file-{len(content)}-{flags}"
        path.write_bytes(content)
        fd = os.open(path, flags)
        self.own(fd)
        return fd


Pair = Callable[[Descriptors], tuple[int, int]]
READABLE = [Descriptors.pipe, Descriptors.fifo, Descriptors.sockets, Descriptors.terminal]
WRITABLE = [Descriptors.pipe, Descriptors.fifo, Descriptors.sockets, Descriptors.terminal_to_write]
readable = pytest.mark.parametrize("pair", READABLE)
writable = pytest.mark.parametrize("pair", WRITABLE)


@pytest.fixture
def fds(tmp_path: Path) -> Iterator[Descriptors]:
    before = os.listdir("/proc/self/fd")
    with ExitStack() as stack:
        yield Descriptors(stack, tmp_path)
    assert len(os.listdir("/proc/self/fd")) <= len(before)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that does not let pipes and terminals be opened anew."""
    for module in (readers, writers):
        monkeypatch.setattr(module, "reopen", lambda fd, access: None)


@contextmanager
def unchanged(*descriptors: int) -> Iterator[None]:
    """Check that neither the flags nor the identity of *descriptors* change."""

    def look() -> list[tuple[int, ...]]:
        return [
            (*os.fstat(fd)[1:3], fcntl.fcntl(fd, fcntl.F_GETFL), os.get_inheritable(fd))
            for fd in descriptors
        ]

    before = look()
    yield
    assert look() == before


async def cancelled_once_blocked(
    operation: Callable[[], Awaitable[object]], blocked: Callable[[], bool] = lambda: True
) -> None:
    """Check that *operation* waits, and that cancelling it takes effect at once.

    Where a thread does the waiting, *blocked* tells that it has come to it.
    """
    with trio.fail_after(DEADLINE), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ignoring_result, operation)
            await wait_all_tasks_blocked()
            await until(blocked)
            scope.cancel()
    assert scope.cancelled_caught


async def ignoring_result(operation: Callable[[], Awaitable[object]]) -> None:
    await operation()


async def expecting(error: type[BaseException], operation: Callable[[], Awaitable[object]]) -> None:
    with pytest.raises(error):
        await operation()


async def read_to_end(fd: int) -> bytes:
    return await trio.to_thread.run_sync(_read_to_end, fd)


def _read_to_end(fd: int) -> bytes:
    chunks = []
    with suppress(OSError):  # EIO from a terminal
        while chunk := os.read(fd, 65536):
            chunks.append(chunk)
    return b"".join(chunks)


# Reading


@pytest.mark.requirement("A13", "A14")
@readable
async def test_reading_what_is_there(fds: Descriptors, pair: Pair) -> None:
    source, sink = pair(fds)
    with unchanged(source), closing(open_reader(source)) as reader:
        os.write(sink, b"abcdef")
        with assert_checkpoints():
            assert await reader.receive_some(4) == b"abcd"
        assert await reader.receive_some() == b"ef"
        os.close(sink)
        assert await reader.receive_some() == b""


@pytest.mark.requirement("A14")
@pytest.mark.usefixtures("shared")
@readable
async def test_reading_where_nothing_can_be_opened_anew(fds: Descriptors, pair: Pair) -> None:
    await test_reading_what_is_there(fds, pair)


@pytest.mark.requirement("A14")
async def test_a_fifo_whose_writer_has_left_ends(fds: Descriptors) -> None:
    source, sink = fds.fifo()
    os.write(sink, b"all of it")
    os.close(sink)
    with closing(open_reader(source)) as reader, trio.fail_after(DEADLINE):
        assert await reader.receive_some() == b"all of it"
        assert await reader.receive_some() == b""


@pytest.mark.requirement("B8")
@readable
async def test_an_idle_read_is_cancelled_at_once_and_loses_nothing(
    fds: Descriptors, pair: Pair
) -> None:
    source, sink = pair(fds)
    with closing(open_reader(source)) as reader:
        await cancelled_once_blocked(reader.receive_some)
        os.write(sink, b"late")
        assert await reader.receive_some() == b"late"


@readable
async def test_only_one_task_reads(fds: Descriptors, pair: Pair) -> None:
    source, sink = pair(fds)
    with closing(open_reader(source)) as reader:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.receive_some)
            await wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError):
                await reader.receive_some()
            os.write(sink, b"for the first")


@readable
async def test_closing_wakes_the_reader(fds: Descriptors, pair: Pair) -> None:
    source, _ = pair(fds)
    reader = open_reader(source)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expecting, trio.ClosedResourceError, reader.receive_some)
        await wait_all_tasks_blocked()
        await reader.aclose()
    await reader.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await reader.receive_some()


async def test_closing_between_wake_up_and_read(
    fds: Descriptors, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = open_reader(fds.pipe()[0])

    async def closed_meanwhile(fd: int) -> None:
        await trio.lowlevel.checkpoint()
        reader.close()

    monkeypatch.setattr(trio.lowlevel, "wait_readable", closed_meanwhile)
    with pytest.raises(trio.ClosedResourceError):
        await reader.receive_some()


async def test_another_process_that_reads_first_costs_a_retry(fds: Descriptors) -> None:
    source, sink = fds.pipe()
    got: list[bytes] = []

    async def read(reader: Reader) -> None:
        got.append(await reader.receive_some(1))

    with closing(open_reader(source)) as one, closing(open_reader(source)) as two:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, one)
            nursery.start_soon(read, two)
            await wait_all_tasks_blocked()
            os.write(sink, b"1")
            await wait_all_tasks_blocked()
            assert got == [b"1"]
            os.write(sink, b"2")
    assert got == [b"1", b"2"]


@pytest.mark.requirement("B8")
async def test_a_hung_up_terminal_is_at_its_end(fds: Descriptors) -> None:
    source, master = fds.terminal()
    with closing(open_reader(source)) as reader:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expecting_end, reader)
            await wait_all_tasks_blocked()
            os.close(master)


async def test_a_master_whose_terminal_is_closed_is_at_its_end(fds: Descriptors) -> None:
    slave, master = fds.terminal()
    os.close(slave)
    with closing(open_reader(master)) as reader:
        await expecting_end(reader)


@pytest.mark.requirement("B8")
async def test_a_reset_socket_is_at_its_end(fds: Descriptors) -> None:
    source, peer = fds.sockets()
    os.write(source, b"the peer never reads this")
    os.write(peer, b"last words")
    os.close(peer)
    with closing(open_reader(source)) as reader:
        assert await reader.receive_some() == b"last words"
        await expecting_end(reader)


async def expecting_end(reader: Reader) -> None:
    with trio.fail_after(DEADLINE):
        assert await reader.receive_some() == b""


async def test_a_size_of_nothing_is_refused(fds: Descriptors) -> None:
    with closing(open_reader(fds.pipe()[0])) as reader:
        with pytest.raises(ValueError, match="at least 1"):
            await reader.receive_some(0)


async def test_what_cannot_be_read_is_broken(tmp_path: Path, fds: Descriptors) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    fds.own(directory)
    listening = socket.socket()
    with listening, closing(open_reader(listening.fileno())) as unconnected:
        with pytest.raises(trio.BrokenResourceError):
            await unconnected.receive_some()
    with closing(open_reader(directory)) as reader:
        with pytest.raises(trio.BrokenResourceError):
            await reader.receive_some()


@pytest.mark.requirement("A14")
async def test_stdin_that_cannot_be_read_is_at_its_end(fds: Descriptors) -> None:
    write_only = os.open(os.devnull, os.O_WRONLY)  # nohup leaves such a stdin
    fds.own(write_only)
    for source in (None, write_only, fds.pipe()[1]):
        with closing(open_reader(source)) as reader:
            with assert_checkpoints():
                assert await reader.receive_some() == b""


@pytest.mark.requirement("A14")
async def test_a_file_is_read_from_where_it_stands(fds: Descriptors) -> None:
    source = fds.file(b"0123456789")
    os.lseek(source, 2, os.SEEK_SET)
    with closing(open_reader(source)) as reader:
        with assert_checkpoints():
            assert await reader.receive_some(5) == b"23456"
        assert os.lseek(source, 0, os.SEEK_CUR) == 7
        assert [chunk async for chunk in reader] == [b"789"]


@pytest.mark.requirement("A14", "B8")
async def test_an_abandoned_file_read_loses_nothing(
    fds: Descriptors, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = fds.file(b"content")
    pread, started, release = os.pread, threading.Event(), threading.Event()

    def slow(fd: int, size: int, position: int) -> bytes:
        started.set()
        release.wait()
        return pread(fd, size, position)

    monkeypatch.setattr(os, "pread", slow)
    with closing(open_reader(source)) as reader:
        await cancelled_once_blocked(reader.receive_some, started.is_set)
        release.set()
        assert await reader.receive_some() == b"content"


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Tells that a thread has come to its read."""
    read, started = os.read, threading.Event()

    def announced(fd: int, size: int) -> bytes:
        started.set()
        return read(fd, size)

    monkeypatch.setattr(os, "read", announced)
    return started


@pytest.mark.requirement("B8")
async def test_a_read_that_is_stuck_in_its_thread_is_abandoned(
    fds: Descriptors, reading: threading.Event
) -> None:
    source, sink = fds.pipe()
    file = os.fstat(source)
    reader = ThreadReader(os.dup(source), by_position=False)
    await cancelled_once_blocked(reader.receive_some, reading.is_set)
    reader.close()
    # The stuck thread still holds the number, so that no other file can get it.
    assert holders(file) == 3
    os.write(sink, b"x")
    await until(lambda: holders(file) == 2)


@pytest.mark.requirement("B8")
async def test_closing_wakes_a_reader_that_waits_for_its_thread(
    fds: Descriptors, reading: threading.Event
) -> None:
    source, sink = fds.pipe()
    file = os.fstat(source)
    reader = ThreadReader(os.dup(source), by_position=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expecting, trio.ClosedResourceError, reader.receive_some)
        await until(reading.is_set)
        await reader.aclose()
    os.close(sink)
    await until(lambda: holders(file) == 1)  # the thread that was left behind has let go


def holders(file: os.stat_result) -> int:
    """Count the descriptors of this process that refer to *file*."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            count += os.path.samestat(os.fstat(int(name)), file)
    return count


async def until(condition: Callable[[], bool]) -> None:
    """Let threads run until *condition* holds."""
    with trio.fail_after(DEADLINE):
        while not condition():
            await trio.to_thread.run_sync(os.sched_yield)


# Writing


@pytest.mark.requirement("A13", "A14")
@writable
async def test_writing_more_than_fits(fds: Descriptors, pair: Pair) -> None:
    source, sink = pair(fds)
    got: list[bytes] = []

    async def collect() -> None:
        got.append(await read_to_end(source))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect)
        with unchanged(sink), closing(open_writer(sink)) as writer:
            for data in (b"", b"first", bytearray(LARGE), memoryview(b"last")):
                with assert_checkpoints():
                    await writer.send_all(data)
            with assert_checkpoints():
                await writer.wait_send_all_might_not_block()
        os.close(sink)
    assert got == [b"first" + LARGE + b"last"]


@pytest.mark.requirement("A14")
@pytest.mark.usefixtures("shared")
@writable
async def test_writing_where_nothing_can_be_opened_anew(fds: Descriptors, pair: Pair) -> None:
    await test_writing_more_than_fits(fds, pair)


@pytest.mark.requirement("B8")
@writable
async def test_a_stalled_client_does_not_hold_up_cancellation(fds: Descriptors, pair: Pair) -> None:
    _, sink = pair(fds)
    with closing(open_writer(sink)) as writer:
        await cancelled_once_blocked(lambda: writer.send_all(LARGE))


@pytest.mark.requirement("B8")
@pytest.mark.parametrize("pair", [Descriptors.pipe, Descriptors.sockets])
async def test_waiting_for_a_stalled_client_is_cancelled(fds: Descriptors, pair: Pair) -> None:
    _, sink = pair(fds)
    with closing(open_writer(sink)) as writer:
        await cancelled_once_blocked(lambda: writer.send_all(LARGE))
        await cancelled_once_blocked(writer.wait_send_all_might_not_block)


@writable
async def test_sending_without_waiting(fds: Descriptors, pair: Pair) -> None:
    source, sink = pair(fds)
    with closing(open_writer(sink)) as writer:
        assert writer.send_nowait(b"at once") == len(b"at once")
        assert await trio.to_thread.run_sync(os.read, source, 100) == b"at once"
        assert 0 < writer.send_nowait(LARGE) < len(LARGE)


async def test_sending_without_waiting_where_that_cannot_be(
    fds: Descriptors, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, sink = fds.pipe()
    file = fds.file()
    with closing(open_writer(file)) as writer:
        assert writer.send_nowait(b"x") == 0
    with monkeypatch.context() as patch:
        patch.setattr(writers, "reopen", lambda fd, access: None)
        with closing(open_writer(sink)) as writer:
            assert writer.send_nowait(b"x") == 0
    with closing(open_writer(sink)) as writer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.send_all, LARGE)
            await wait_all_tasks_blocked()
            os.read(source, 1 << 16)
            assert writer.send_nowait(b"not in the middle of another task's") == 0
            nursery.cancel_scope.cancel()
        os.close(source)
        assert writer.send_nowait(b"x") == 0
        with pytest.raises(trio.BrokenResourceError):
            await writer.send_all(b"x")
    assert writer.send_nowait(b"x") == 0


@pytest.mark.requirement("B8")
@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("pair", [Descriptors.pipe, Descriptors.sockets])
async def test_a_stalled_client_on_a_shared_description(fds: Descriptors, pair: Pair) -> None:
    await test_a_stalled_client_does_not_hold_up_cancellation(fds, pair)


@pytest.mark.requirement("B8")
@pytest.mark.usefixtures("shared")
async def test_a_stalled_terminal_on_a_shared_description(fds: Descriptors) -> None:
    slave, master = fds.terminal()
    file = os.fstat(slave)
    with closing(open_writer(slave)) as writer:
        await cancelled_once_blocked(lambda: writer.send_all(LARGE))
    os.close(master)
    await until(lambda: holders(file) == 1)


@writable
async def test_only_one_task_writes(fds: Descriptors, pair: Pair) -> None:
    _, sink = pair(fds)
    with closing(open_writer(sink)) as writer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.send_all, LARGE)
            await wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError):
                await writer.send_all(b"x")
            with pytest.raises(trio.BusyResourceError):
                await writer.wait_send_all_might_not_block()
            nursery.cancel_scope.cancel()


@writable
async def test_closing_wakes_the_writer(fds: Descriptors, pair: Pair) -> None:
    _, sink = pair(fds)
    writer = open_writer(sink)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expecting, trio.ClosedResourceError, lambda: writer.send_all(LARGE))
        await wait_all_tasks_blocked()
        await writer.aclose()
    await writer.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await writer.send_all(b"x")


async def test_closing_between_wake_up_and_write(
    fds: Descriptors, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = open_writer(fds.pipe()[1])

    async def closed_meanwhile(fd: int) -> None:
        await trio.lowlevel.checkpoint()
        writer.close()

    monkeypatch.setattr(trio.lowlevel, "wait_writable", closed_meanwhile)
    with pytest.raises(trio.ClosedResourceError):
        await writer.send_all(LARGE)


@pytest.mark.requirement("B8")
async def test_a_full_pipe_takes_nothing_at_first(fds: Descriptors) -> None:
    source, sink = fds.pipe()
    os.set_blocking(sink, False)
    with suppress(BlockingIOError):
        while True:
            os.write(sink, bytes(4096))
    with closing(open_writer(sink)) as writer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.send_all, b"last")
            await wait_all_tasks_blocked()
            received = os.read(source, 1 << 20)
    assert os.read(source, 100) == b"last"
    assert received.count(0) == len(received)


@pytest.mark.requirement("B8")
@writable
async def test_a_client_that_is_gone_breaks_the_writer(fds: Descriptors, pair: Pair) -> None:
    source, sink = pair(fds)
    with closing(open_writer(sink)) as writer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expecting, trio.BrokenResourceError, lambda: writer.send_all(LARGE))
            await wait_all_tasks_blocked()
            os.close(source)
        with pytest.raises(trio.BrokenResourceError):
            await writer.send_all(b"x")


async def test_a_terminal_that_is_hung_up_breaks_the_writer(fds: Descriptors) -> None:
    slave, master = fds.terminal()
    with closing(open_writer(slave)) as writer:
        await writer.send_all(b"fits")
        os.close(master)
        with pytest.raises(trio.BrokenResourceError):
            await writer.send_all(b"x")


@pytest.mark.requirement("A14", "B8")
async def test_stdout_that_cannot_be_written_is_broken(fds: Descriptors) -> None:
    for sink in (None, fds.file(b"", os.O_RDONLY), fds.pipe()[0]):
        with closing(open_writer(sink)) as writer:
            with assert_checkpoints(), pytest.raises(trio.BrokenResourceError):
                await writer.send_all(b"x")
            with assert_checkpoints(), pytest.raises(trio.BrokenResourceError):
                await writer.wait_send_all_might_not_block()


@pytest.mark.requirement("A14")
async def test_a_full_device_is_broken(fds: Descriptors) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    fds.own(full)
    with closing(open_writer(full)) as writer:
        with pytest.raises(trio.BrokenResourceError):
            await writer.send_all(b"x")


@pytest.mark.requirement("A14")
async def test_a_file_is_written_in_pieces(fds: Descriptors) -> None:
    sink = fds.file(b"kept", os.O_RDWR | os.O_APPEND)
    data = LARGE * 2 + b"the rest"
    with closing(open_writer(sink)) as writer:
        for piece in (b"", data):
            with assert_checkpoints():
                await writer.send_all(piece)
        with assert_checkpoints():
            await writer.wait_send_all_might_not_block()
    assert os.pread(sink, len(data) + 10, 0) == b"kept" + data


@pytest.mark.requirement("A14")
async def test_a_file_piece_on_its_way_is_finished(
    fds: Descriptors, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, started = fds.file(), trio.Event()
    write, token = os.write, trio.lowlevel.current_trio_token()

    def cancelled_meanwhile(fd: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", write)
        trio.from_thread.run_sync(scope.cancel, trio_token=token)
        trio.from_thread.run_sync(started.set, trio_token=token)
        return write(fd, data)

    monkeypatch.setattr(os, "write", cancelled_meanwhile)
    with closing(open_writer(sink)) as writer:
        with trio.CancelScope() as scope:
            await writer.send_all(LARGE * 3)
        assert started.is_set()
        assert scope.cancelled_caught
        assert os.fstat(sink).st_size == len(LARGE)  # one whole piece, and no second
        await writer.send_all(b"and on it goes")
    assert os.fstat(sink).st_size == len(LARGE) + len(b"and on it goes")


async def test_closing_a_file_between_two_pieces(
    fds: Descriptors, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = fds.file()
    writer, write = open_writer(sink), os.write
    token = trio.lowlevel.current_trio_token()

    def closed_meanwhile(fd: int, data: bytes) -> int:
        trio.from_thread.run_sync(writer.close, trio_token=token)
        return write(fd, data)

    monkeypatch.setattr(os, "write", closed_meanwhile)
    with pytest.raises(trio.ClosedResourceError):
        await writer.send_all(LARGE * 2)
    assert os.fstat(sink).st_size == len(LARGE)


@pytest.mark.requirement("B8")
async def test_a_write_that_is_stuck_in_its_thread_is_abandoned(fds: Descriptors) -> None:
    source, sink = fds.pipe()
    file = os.fstat(sink)
    writer = ThreadWriter(os.dup(sink), may_block=True)
    await cancelled_once_blocked(lambda: writer.send_all(LARGE))
    with pytest.raises(trio.BrokenResourceError):
        await writer.send_all(b"nobody knows where this would land")
    writer.close()
    os.close(source)
    await until(lambda: holders(file) == 1)


async def test_closing_wakes_a_writer_that_waits_for_its_thread(fds: Descriptors) -> None:
    source, sink = fds.pipe()
    file = os.fstat(sink)
    writer: Writer = ThreadWriter(os.dup(sink), may_block=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expecting, trio.ClosedResourceError, lambda: writer.send_all(LARGE))
        await wait_all_tasks_blocked()
        await writer.aclose()
    os.close(source)
    await until(lambda: holders(file) == 1)  # the thread that was left behind has let go


# Descriptors


@pytest.mark.requirement("A13")
async def test_a_socket_keeps_its_mode_under_a_default_time_out(fds: Descriptors) -> None:
    source, _ = fds.sockets()
    socket.setdefaulttimeout(5)
    try:
        with unchanged(source), closing(open_reader(source)), closing(open_writer(source)):
            assert os.get_blocking(source)
    finally:
        socket.setdefaulttimeout(None)


def test_what_is_no_socket_is_not_adopted(fds: Descriptors) -> None:
    copy = os.dup(fds.pipe()[0])
    with pytest.raises(OSError, match="socket"):
        adopt(copy)
    assert not descriptors.is_open(copy)


def test_only_the_same_file_counts_as_opened_anew(
    fds: Descriptors, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _ = fds.pipe()
    monkeypatch.setattr(os.path, "samestat", lambda one, two: False)
    assert descriptors.reopen(source, os.O_RDONLY) is None


def test_what_cannot_be_opened_anew(fds: Descriptors) -> None:
    _, master = fds.terminal()
    assert descriptors.reopen(master, os.O_RDONLY) is None
    read_end, write_end = fds.fifo()
    os.close(read_end)
    assert descriptors.reopen(write_end, os.O_WRONLY) is None  # nobody reads it


def test_errors_other_than_a_bad_descriptor_are_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(fd: int) -> os.stat_result:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", broken)
        with pytest.raises(OSError, match="broken"):
            descriptors.is_open(0)


def test_a_lease_ends_with_its_last_holder(fds: Descriptors) -> None:
    lease = descriptors.Lease(os.dup(fds.pipe()[0]))
    with lease as fd:
        lease.close()
        assert descriptors.is_open(fd)
    assert not descriptors.is_open(fd)
    with pytest.raises(OSError, match="Bad file descriptor"), lease:
        raise AssertionError


# The whole


@pytest.mark.requirement("A13")
async def test_descriptors_are_diverted_and_given_back(fds: Descriptors) -> None:
    stdin, to_stdin = fds.pipe()
    from_stdout, stdout = fds.pipe()
    from_stderr, stderr = fds.pipe()
    with unchanged(stdin, stdout, stderr):
        async with open_stdio(stdin_fd=stdin, stdout_fd=stdout, stderr_fd=stderr) as stream:
            os.write(to_stdin, b"request")
            assert os.read(stdin, 10) == b""
            assert await stream.receive_some() == b"request"
            os.write(stdout, b"printed")
            await stream.send_all(b"response")
            assert os.read(from_stdout, 100) == b"response"
            assert os.read(from_stderr, 100) == b"printed"
            assert os.get_inheritable(stdin)
            assert os.get_inheritable(stdout)
        with pytest.raises(trio.ClosedResourceError):
            await stream.receive_some()
        os.write(stdout, b"after")
        assert os.read(from_stdout, 100) == b"after"


@pytest.mark.requirement("A13")
async def test_given_back_after_failure(fds: Descriptors) -> None:
    (stdin, _), (_, stdout) = fds.pipe(), fds.pipe()
    with unchanged(stdin, stdout):
        with pytest.raises(LookupError):
            async with open_stdio(stdin_fd=stdin, stdout_fd=stdout):
                raise LookupError
        with trio.CancelScope() as scope:
            async with open_stdio(stdin_fd=stdin, stdout_fd=stdout) as stream:
                scope.cancel()
                await stream.receive_some()
        assert scope.cancelled_caught


@pytest.mark.requirement("A13")
async def test_given_back_when_opening_fails(
    fds: Descriptors, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stdin, _), (_, stdout) = fds.pipe(), fds.pipe()
    full = OSError(errno.EMFILE, "too many open files")

    def fail(fd: int) -> int:
        raise full

    monkeypatch.setattr(readers, "duplicate", fail)
    with unchanged(stdin, stdout), pytest.raises(OSError, match="too many"):
        async with open_stdio(stdin_fd=stdin, stdout_fd=stdout):
            raise AssertionError


@pytest.mark.requirement("A13")
async def test_descriptors_are_taken_once(fds: Descriptors) -> None:
    (stdin, _), (_, stdout) = fds.pipe(), fds.pipe()
    for _ in range(2):
        async with open_stdio(stdin_fd=stdin, stdout_fd=stdout):
            with pytest.raises(RuntimeError, match="already being served"):
                async with open_stdio(stdin_fd=stdin, stdout_fd=stdout):
                    raise AssertionError


@pytest.mark.requirement("A14")
async def test_one_descriptor_for_both(fds: Descriptors) -> None:
    ours, theirs = fds.sockets()
    copy = os.dup(ours)
    fds.own(copy)
    with unchanged(ours, copy):
        async with open_stdio(stdin_fd=ours, stdout_fd=copy) as stream:
            os.write(theirs, b"request")
            await stream.send_all(await stream.receive_some())
            assert os.read(theirs, 100) == b"request"


@pytest.mark.requirement("A14", "B8")
async def test_closed_descriptors_stay_closed(fds: Descriptors) -> None:
    # High numbers, which nothing that is opened meanwhile is given.
    stdin, stdout, stderr = (fcntl.fcntl(fds.pipe()[0], fcntl.F_DUPFD, 500) for _ in range(3))
    for fd in (stdin, stdout, stderr):
        os.close(fd)
    async with open_stdio(stdin_fd=stdin, stdout_fd=stdout, stderr_fd=stderr) as stream:
        assert await stream.receive_some() == b""
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"x")
        assert os.write(stdout, b"to nowhere")
        os.close(stdin)  # as somebody may, who turns the process into a daemon
    assert not any(map(descriptors.is_open, (stdin, stdout, stderr)))


@pytest.mark.requirement("A14")
async def test_a_number_that_was_closed_at_the_start_is_left_to_its_owner(
    fds: Descriptors, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stdin, sink), (_, stdout) = fds.pipe(), fds.pipe()
    monkeypatch.setattr(diversion, "STARTED_WITH", {stdin: "__stdin__", stdout: "__stdout__"})
    monkeypatch.setattr(sys, "__stdin__", None)
    os.write(sink, b"for somebody else")
    async with open_stdio(stdin_fd=stdin, stdout_fd=stdout) as stream:
        assert await stream.receive_some() == b""
        assert os.read(stdin, 100) == b"for somebody else"


@contextmanager
def printing_to(fd: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.TextIOWrapper]:
    """Let *fd* be what ``print`` writes to, with a buffer."""
    with open(fd, "w", closefd=False) as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        yield stream


@pytest.mark.requirement("A13")
async def test_prints_are_prompt_and_never_late(
    fds: Descriptors, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin, _ = fds.pipe()
    from_stdout, stdout = fds.pipe()
    from_stderr, stderr = fds.pipe()
    with printing_to(stdout, monkeypatch) as printer:
        print("before")
        async with open_stdio(stdin_fd=stdin, stdout_fd=stdout, stderr_fd=stderr):
            print("while serving")
            assert os.read(from_stderr, 100) == b"while serving\n"
            print("still in the buffer", end="")
        assert os.read(from_stderr, 100) == b"still in the buffer"
        assert not printer.line_buffering
        print("after")
    os.close(stdout)
    assert os.read(from_stdout, 100) == b"before\nafter\n"


@pytest.mark.requirement("A13")
async def test_prints_that_stderr_refuses_are_dropped(
    fds: Descriptors, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin, _ = fds.pipe()
    from_stdout, stdout = fds.pipe()
    from_stderr, stderr = fds.pipe()
    os.close(from_stderr)
    with printing_to(stdout, monkeypatch) as printer:
        async with open_stdio(stdin_fd=stdin, stdout_fd=stdout, stderr_fd=stderr):
            print("nobody will read this", end="")
        assert not printer.line_buffering
    os.close(stdout)
    assert os.read(from_stdout, 100) == b""


@pytest.mark.requirement("A13")
async def test_a_stdout_object_of_any_sort_will_do(
    fds: Descriptors, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stdin, _), (_, stdout) = fds.pipe(), fds.pipe()
    closed = io.TextIOWrapper(io.BytesIO())
    closed.close()
    elsewhere = io.TextIOWrapper(io.BytesIO())
    lines = io.TextIOWrapper(io.BytesIO(), line_buffering=True)
    for stand_in in (None, io.StringIO(), closed, elsewhere, lines):
        with unchanged(stdin, stdout), monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stand_in)
            async with open_stdio(stdin_fd=stdin, stdout_fd=stdout):
                print("anything", file=stand_in if stand_in is not closed else sys.stderr)
    assert not elsewhere.line_buffering


@pytest.mark.requirement("A13")
async def test_a_stdout_object_closed_while_serving(
    fds: Descriptors, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stdin, _), (_, stdout) = fds.pipe(), fds.pipe()
    with unchanged(stdin, stdout), printing_to(stdout, monkeypatch) as printer:
        async with open_stdio(stdin_fd=stdin, stdout_fd=stdout):
            printer.close()


def test_kinds(fds: Descriptors) -> None:
    assert stat.S_ISREG(os.fstat(fds.file()).st_mode)
    assert descriptors.kind_of(fds.file()) is descriptors.Kind.FILE
    assert descriptors.kind_of(fds.pipe()[0]) is descriptors.Kind.PIPE
    assert descriptors.kind_of(fds.sockets()[0]) is descriptors.Kind.SOCKET
    assert descriptors.kind_of(fds.terminal()[0]) is descriptors.Kind.TERMINAL
    null = os.open(os.devnull, os.O_RDWR)
    fds.own(null)
    assert descriptors.kind_of(null) is descriptors.Kind.OTHER
