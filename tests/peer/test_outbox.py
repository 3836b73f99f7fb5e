"""The queue of lines that wait to be written."""

import tracemalloc

import pytest
import trio
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from trio_mcp.peer.outbox import Outbox
from trio_mcp.wire.jsonrpc import encode

pytestmark = pytest.mark.requirement("A5")


class Sink(trio.abc.SendStream):
    """Notes each write; it waits while the gate is shut, and breaks when told to."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.gate = trio.Event()
        self.gate.set()
        self.broken = False

    async def send_all(self, data: bytes) -> None:
        await self.gate.wait()
        if self.broken:
            raise trio.BrokenResourceError
        self.writes.append(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.gate.wait()

    async def aclose(self) -> None:
        raise AssertionError("the outbox does not own its stream")


@pytest.fixture
def sink():
    return Sink()


async def test_a_burst_is_one_write(nursery, sink):
    outbox = Outbox(1000)
    nursery.start_soon(outbox.write_to, sink)
    await wait_all_tasks_blocked()
    for line in (b"a\n", b"b\n", b"c\n"):
        outbox.put_nowait(line)
    outbox.wake()
    outbox.wake()
    await outbox.wait_empty()
    assert sink.writes == [b"a\nb\nc\n"]
    assert (outbox.sent, outbox.dropped) == (3, 0)


async def test_what_was_put_before_writing_began_is_written(nursery, sink):
    outbox = Outbox(1000)
    outbox.put_nowait(b"a\n")
    nursery.start_soon(outbox.write_to, sink)
    await outbox.wait_empty()
    assert sink.writes == [b"a\n"]


async def test_who_puts_waits_for_room(nursery, sink):
    outbox = Outbox(10)
    sink.gate = trio.Event()
    nursery.start_soon(outbox.write_to, sink)
    outbox.put_nowait(b"x" * 10)
    assert not outbox.full
    outbox.put_nowait(b"x")
    assert outbox.full
    put = []

    async def put_more() -> None:
        await outbox.put(b"y")
        put.append(True)

    nursery.start_soon(put_more)
    await wait_all_tasks_blocked()
    assert put == []
    sink.gate.set()
    await wait_all_tasks_blocked()
    assert put == [True]
    assert not outbox.full


async def test_a_put_that_is_cancelled_drops_its_line(nursery, sink):
    outbox = Outbox(1)
    sink.gate = trio.Event()
    nursery.start_soon(outbox.write_to, sink)
    outbox.put_nowait(b"a\n")
    with trio.CancelScope() as scope:
        scope.cancel()
        await outbox.put(b"b\n")
    assert scope.cancelled_caught
    sink.gate.set()
    await outbox.wait_empty()
    assert sink.writes == [b"a\n"]
    assert (outbox.sent, outbox.dropped) == (1, 1)


async def test_a_broken_stream_frees_everybody(nursery, sink):
    outbox = Outbox(1)
    sink.gate = trio.Event()
    sink.broken = True
    outbox.put_nowait(b"a\n")

    async def write() -> None:
        with pytest.raises(trio.BrokenResourceError):
            await outbox.write_to(sink)

    nursery.start_soon(write)
    await wait_all_tasks_blocked()
    for _ in range(3):
        nursery.start_soon(outbox.put, b"b\n")
    nursery.start_soon(outbox.wait_empty)
    await wait_all_tasks_blocked()
    sink.gate.set()
    await wait_all_tasks_blocked()
    outbox.put_nowait(b"c\n")
    outbox.wake()
    await outbox.wait_empty()
    assert not outbox.full
    assert (outbox.sent, outbox.dropped) == (0, 5)


@pytest.mark.requirement("B8")
async def test_a_writer_that_is_cancelled_drops_what_is_pending(sink):
    outbox = Outbox(100)
    sink.gate = trio.Event()
    outbox.put_nowait(b"a\n")
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.write_to, sink)
            await wait_all_tasks_blocked()
            outbox.put_nowait(b"b\n")
            scope.cancel()
    assert (outbox.sent, outbox.dropped) == (0, 2)


@pytest.mark.parametrize("fits", [0, 1, 3, 4, 9])
async def test_flush_writes_what_fits_and_the_writer_does_the_rest(nursery, sink, fits):
    direct: list[bytes] = []

    def send_nowait(data: bytes) -> int:
        direct.append(data[:fits])
        return min(fits, len(data))

    outbox = Outbox(100, send_nowait)
    nursery.start_soon(outbox.write_to, sink)
    await wait_all_tasks_blocked()
    outbox.put_nowait(b"one\n")
    outbox.put_nowait(b"two\n")
    outbox.flush()
    await outbox.wait_empty()
    assert b"".join(direct + sink.writes) == b"one\ntwo\n"
    assert (outbox.sent, outbox.dropped) == (2, 0)


async def test_flush_does_not_overtake_the_writer(nursery, sink):
    direct: list[bytes] = []

    def send_nowait(data: bytes) -> int:
        direct.append(data)
        return len(data)

    outbox = Outbox(100, send_nowait)
    sink.gate = trio.Event()
    outbox.put_nowait(b"first\n")
    nursery.start_soon(outbox.write_to, sink)
    await wait_all_tasks_blocked()
    outbox.put_nowait(b"second\n")
    outbox.flush()
    assert direct == []
    sink.gate.set()
    await outbox.wait_empty()
    assert sink.writes == [b"first\n", b"second\n"]


async def test_waiting_while_there_is_nothing_to_wait_for():
    outbox = Outbox(100)
    await outbox.wait_empty()
    await outbox.wait_for_room()
    outbox.put_nowait(b"x")
    with trio.move_on_after(0), assert_checkpoints():
        await outbox.wait_empty()


async def test_what_waits_takes_no_more_memory_than_it_is_long() -> None:
    """The encoder's lines own a buffer of kilobytes each, so they are not what is kept."""
    outbox = Outbox(10_000_000)
    tracemalloc.start()
    try:
        for number in range(5_000):
            outbox.put_nowait(encode({"jsonrpc": "2.0", "id": number, "result": {}}))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    outbox.close()
    assert size < 4 * outbox.dropped * 50
    assert outbox.dropped == 5_000
