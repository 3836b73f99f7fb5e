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
