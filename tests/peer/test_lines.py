"""The channel to the writer: what waits in it is bounded, in order, and accounted for."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp.peer.lines import OutgoingLines

pytestmark = pytest.mark.requirement("B2")

BOUND = 1000
MOST_LINES = 256
"""Lines that wait, however short they are."""


class Reader:
    """A transport whose other side reads when it is told to."""

    def __init__(self, reads: bool = True) -> None:
        self.got: list[bytes] = []
        self.writes = 0
        self.breaks = False
        self.gate = trio.Event()
        if reads:
            self.gate.set()

    async def receive(self):
        raise AssertionError

    async def send(self, lines) -> None:
        await self.gate.wait()
        await trio.lowlevel.checkpoint()
        if self.breaks:
            raise trio.BrokenResourceError
        self.got += lines
        self.writes += 1


def numbered(count: int, size: int = 8) -> list[bytes]:
    """Lines of one length that differ."""
    return [b"%0*d\n" % (size - 1, number) for number in range(count)]


# -- order ------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, MOST_LINES, MOST_LINES + 1, 3000])
async def test_lines_are_written_in_the_order_in_which_they_are_put(count, nursery):
    outgoing, reader = OutgoingLines(BOUND), Reader()
    for line in numbered(count):
        outgoing.put_nowait(line)
    nursery.start_soon(outgoing.write_to, reader)
    await outgoing.wait_empty()
    assert reader.got == numbered(count)
    assert (outgoing.sent, outgoing.dropped) == (count, 0)


@pytest.mark.parametrize(
    "size", [2, 100, 256, 257, 258, 259, 520, 1050, 2150, 4500, 9000, 21_850, 65_535, 65_536]
)
async def test_lines_of_any_length_are_all_written(size, nursery, autojump_clock):
    """A write takes so many bytes; it may be the last line in the channel that fills it."""
    outgoing, reader = OutgoingLines(BOUND), Reader()
    lines = numbered(MOST_LINES + 40, size)
    for line in lines:
        outgoing.put_nowait(line)
    nursery.start_soon(outgoing.write_to, reader)
    with trio.fail_after(1):
        await outgoing.wait_empty()
    assert reader.got == lines


@pytest.mark.parametrize("room", [0, 3, 7, 8])
async def test_a_line_is_sent_without_the_writer_as_far_as_there_is_room(room, nursery):
    reader, taken = Reader(), []

    def send_nowait(line: bytes) -> int:
        taken.append(line[:room])
        return len(line[:room])

    outgoing = OutgoingLines(BOUND, send_nowait)
    first, *others = numbered(3)
    outgoing.send_nowait(first)
    assert outgoing.pending == len(first) - room
    nursery.start_soon(outgoing.write_to, reader)
    for line in others:
        outgoing.put_nowait(line)
    await outgoing.wait_empty()
    assert b"".join(taken + reader.got) == first + b"".join(others)
    assert (outgoing.sent, outgoing.dropped) == (3, 0)


async def test_no_line_is_sent_before_those_that_wait(nursery):
    reader, taken = Reader(), []
    outgoing = OutgoingLines(BOUND, lambda line: taken.append(line) or len(line))
    first, second, third = numbered(3)
    outgoing.put_nowait(first)
    outgoing.send_nowait(second)
    nursery.start_soon(outgoing.write_to, reader)
    await outgoing.wait_empty()
    assert (reader.got, taken) == ([first, second], [])
    outgoing.send_nowait(third)
    assert taken == [third]
    outgoing.close()
    outgoing.send_nowait(first)
    assert (taken, outgoing.sent, outgoing.dropped) == ([third], 3, 1)


@pytest.mark.parametrize("attempt", range(10))  # who is woken first is up to Trio
async def test_it_is_not_empty_while_somebody_waits_for_room(attempt, nursery):
    outgoing, reader = OutgoingLines(BOUND), Reader(reads=False)
    outgoing.put_nowait(b"x" * 2 * BOUND)
    nursery.start_soon(outgoing.write_to, reader)
    nursery.start_soon(outgoing.put, b"last words")
    await wait_all_tasks_blocked()
    reader.gate.set()
    await outgoing.wait_empty()
    assert reader.got[1:] == [b"last words"]


# -- bounds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "most"), [(100, BOUND // 100 + 1), (1, MOST_LINES + 1)])
async def test_putting_waits_past_the_bounds(size, most, nursery):
    """Past so many bytes, or so many lines; the one that goes past them is taken."""
    outgoing, reader = OutgoingLines(BOUND), Reader(reads=False)
    put = 0

    async def put_many() -> None:
        nonlocal put
        for _ in range(1000):
            await outgoing.put(b"x" * size)
            put += 1

    nursery.start_soon(put_many)
    await wait_all_tasks_blocked()
    assert put == most
    assert outgoing.full
    reader.gate.set()
    nursery.start_soon(outgoing.write_to, reader)
    while put < 1000:
        await wait_all_tasks_blocked()
    await outgoing.wait_empty()
    assert (outgoing.sent, outgoing.dropped, outgoing.full) == (1000, 0, False)


async def test_what_cannot_wait_is_put_behind_what_is_there(nursery):
    outgoing, reader = OutgoingLines(BOUND), Reader()
    lines = numbered(MOST_LINES + 5, size=50)
    for line in lines:
        outgoing.put_nowait(line)
    assert outgoing.full
    nursery.start_soon(outgoing.write_to, reader)
    await outgoing.put(b"the last\n")
    await outgoing.wait_empty()
    assert reader.got == [*lines, b"the last\n"]


async def test_what_is_ready_is_written_together(nursery):
    outgoing, reader = OutgoingLines(BOUND), Reader()
    for line in numbered(100):
        outgoing.put_nowait(line)
    nursery.start_soon(outgoing.write_to, reader)
    await outgoing.wait_empty()
    assert reader.writes == 1


# -- what is not written ----------------------------------------------------------------------


async def test_a_line_whose_sender_is_cancelled_is_dropped(nursery, autojump_clock):
    outgoing, reader = OutgoingLines(BOUND), Reader()
    outgoing.put_nowait(b"x" * 2 * BOUND)
    with trio.move_on_after(1) as scope:
        await outgoing.put(b"nobody waits")
    assert scope.cancelled_caught
    nursery.start_soon(outgoing.write_to, reader)
    await outgoing.wait_empty()
    assert (outgoing.sent, outgoing.dropped) == (1, 1)
    assert b"nobody waits" not in reader.got


async def test_a_writer_that_breaks_drops_everything(nursery):
    outgoing, reader = OutgoingLines(BOUND), Reader()
    for line in numbered(MOST_LINES + 10):
        outgoing.put_nowait(line)
    nursery.start_soon(outgoing.put, b"waits")
    await wait_all_tasks_blocked()
    reader.breaks = True
    with pytest.raises(trio.BrokenResourceError):
        await outgoing.write_to(reader)
    assert (outgoing.sent, outgoing.dropped) == (0, MOST_LINES + 11)
    await outgoing.wait_empty()  # there is nothing more to wait for
    await outgoing.put(b"after the end")
    outgoing.put_nowait(b"after the end")
    assert outgoing.dropped == MOST_LINES + 13


async def test_closing_drops_once_and_wakes_everybody(nursery):
    outgoing = OutgoingLines(BOUND)
    outgoing.put_nowait(b"x" * 2 * BOUND)
    nursery.start_soon(outgoing.put, b"one")
    nursery.start_soon(outgoing.put, b"two")
    await wait_all_tasks_blocked()
    outgoing.close()
    outgoing.close()
    await wait_all_tasks_blocked()
    assert (outgoing.sent, outgoing.dropped, outgoing.full) == (0, 3, False)
