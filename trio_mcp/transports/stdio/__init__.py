"""Stdin and stdout as one Trio stream.

`diversion` moves the two descriptors out of the way, `readers` and `writers` turn them
into streams that suit what they are (pipes, sockets, terminals, files), and this module
holds all of it together for as long as a server runs.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import trio

from trio_mcp.transports.stdio.diversion import divert
from trio_mcp.transports.stdio.readers import Reader, open_reader
from trio_mcp.transports.stdio.writers import Writer, open_writer


@asynccontextmanager
async def open_stdio(
    *, stdin_fd: int = 0, stdout_fd: int = 1, stderr_fd: int = 2
) -> AsyncIterator[trio.StapledStream[Writer, Reader]]:
    """Take over stdin and stdout as one byte stream; give them back on exit.

    Inside the block the process sees an empty stdin, and all that it or its children
    print goes to stderr.  On exit, however it comes about, both descriptors are what
    they were; their blocking mode is never touched, not even in between.  The stream
    raises `trio.BrokenResourceError` when stdout is closed at the other end, and reads
    a stdin that was closed from the start as one at its end.

    Yields:
        The stream.  Closing it leaves the descriptors diverted until the block ends.

    Raises:
        RuntimeError: The descriptors are taken already: one server per process.

    Neither entering nor leaving waits for anything, so that cancellation finds nothing
    to interrupt.
    """
    with divert(stdin_fd, stdout_fd, stderr_fd) as originals:
        with closing(open_reader(originals.stdin)) as reader:
            with closing(open_writer(originals.stdout)) as writer:
                yield trio.StapledStream(writer, reader)
