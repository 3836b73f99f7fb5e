"""What every line transport does, as tests: a test class that inherits `LineTransportSuite`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
import trio
import trio.testing
from attrs import frozen

from trio_mcp.peer.lines import IO_ERRORS, LineTransport
from trio_mcp.public import public_in

_LINES: Final = (b"{}", b"x", "é𝄞".encode(), b"y" * 1000, b"z" * 200_000, b"\x00\xff", b"last")


@public_in("trio_mcp.testing")
@frozen
class LineEnds:
    """Two line transports that are joined: what one sends, the other receives."""

    one: LineTransport
    other: LineTransport
    close: Callable[[], None]
    """Closes `one` at once."""


@public_in("trio_mcp.testing")
class LineTransportSuite:
    """The tests of a line transport (`trio_mcp.peer.lines.LineTransport`), to be inherited.

    The class, or its module, provides the fixture `ends`: a `LineEnds` whose ends take lines of
    256 KiB.
    """

    async def test_lines_arrive_whole_and_in_order(self, ends: LineEnds) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send, ends.one, _LINES)
            assert await _receive(ends.other, len(_LINES)) == _LINES

    async def test_lines_that_are_sent_together_arrive_as_many(self, ends: LineEnds) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ends.one.send, [line + b"\n" for line in _LINES])
            assert await _receive(ends.other, len(_LINES)) == _LINES

    async def test_both_directions_are_independent(self, ends: LineEnds) -> None:
        async def go_through(source: LineTransport, target: LineTransport) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_send, source, _LINES)
                assert await _receive(target, len(_LINES)) == _LINES

        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_through, ends.one, ends.other)
            nursery.start_soon(go_through, ends.other, ends.one)

    async def test_a_cancelled_receive_loses_nothing(self, ends: LineEnds) -> None:
        for number in range(5):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ends.other.receive)
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
            line = b"%d" % number
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_send, ends.one, [line])
                assert await _receive(ends.other, 1) == (line,)

    async def test_after_the_lines_comes_the_end(self, ends: LineEnds) -> None:
        await ends.one.send([b"first\n"])
        ends.close()
        assert await _receive(ends.other, 1) == (b"first",)
        for _ in range(2):
            assert await _is_over(ends.other)

    async def test_a_receive_that_waits_sees_the_end(self, ends: LineEnds) -> None:
        async with trio.open_nursery() as nursery:

            async def see() -> None:
                assert await _is_over(ends.other)

            nursery.start_soon(see)
            await trio.testing.wait_all_tasks_blocked()
            ends.close()

    async def test_what_cannot_arrive_cannot_be_sent(self, ends: LineEnds) -> None:
        ends.close()
        for transport in (ends.one, ends.other):
            with pytest.raises(IO_ERRORS):
                for _ in range(100):  # what is on its way is not known to be lost
                    await transport.send([b"x" * 100_000 + b"\n"])


async def _send(transport: LineTransport, lines: tuple[bytes, ...] | list[bytes]) -> None:
    for line in lines:
        await transport.send([line + b"\n"])


async def _receive(transport: LineTransport, number: int) -> tuple[object, ...]:
    received: list[object] = []
    while len(received) < number:
        frames = await transport.receive()
        assert frames, "it ended too soon"
        received += frames
    return tuple(received)


async def _is_over(transport: LineTransport) -> bool:
    try:
        return await transport.receive() == []
    except IO_ERRORS:
        return True
