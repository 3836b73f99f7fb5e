"""Our line transports, by the tests that others can run, too."""

from __future__ import annotations

from functools import partial

import pytest
import trio.testing

from trio_mcp.peer.lines import StreamLines
from trio_mcp.testing import LineEnds, LineTransportSuite
from trio_mcp.transports.memory_connection import memory_lines_pair

MOST = 256 * 1024


class TestMemory(LineTransportSuite):
    @pytest.fixture
    def ends(self) -> LineEnds:
        one, other = memory_lines_pair()
        return LineEnds(one, other, partial(one.__exit__, None, None, None))


class TestStream(LineTransportSuite):
    @pytest.fixture
    def ends(self) -> LineEnds:
        one, other = trio.testing.memory_stream_pair()

        def close() -> None:
            for channel in (one.send_stream, one.receive_stream):
                assert isinstance(
                    channel, trio.testing.MemorySendStream | trio.testing.MemoryReceiveStream
                )
                channel.close()

        return LineEnds(StreamLines(one, MOST), StreamLines(other, MOST), close)
