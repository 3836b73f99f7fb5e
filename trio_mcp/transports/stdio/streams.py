"""Which stream suits which kind of descriptor."""

import os
from collections.abc import Callable

from trio_mcp.system.descriptors import allows
from trio_mcp.transports.stdio import readers, writers
from trio_mcp.transports.stdio.descriptors import Kind, kind_of
from trio_mcp.transports.stdio.readers import EmptyReader, Reader
from trio_mcp.transports.stdio.writers import BrokenWriter, Writer

# By kind, how to read it and how to write it.
_OPENERS: dict[Kind, tuple[Callable[[int], Reader], Callable[[int], Writer]]] = {
    Kind.PIPE: (readers.read_pipe_or_terminal, writers.write_pipe),
    Kind.TERMINAL: (readers.read_pipe_or_terminal, writers.write_terminal),
    Kind.SOCKET: (readers.read_socket, writers.write_socket),
    Kind.FILE: (readers.read_file, writers.write_file),
    Kind.OTHER: (readers.read_other, writers.write_other),
}


def open_reader(fd: int | None) -> Reader:
    """Open a receive stream over a copy of *fd*; it is empty if *fd* cannot be read.

    Must be closed within the same `trio.run`.
    """
    if fd is None or not allows(fd, os.O_RDONLY):
        return EmptyReader()
    return _OPENERS[kind_of(fd)][0](fd)


def open_writer(fd: int | None) -> Writer:
    """Open a send stream over a copy of *fd*; it is broken if *fd* cannot be written.

    Must be closed within the same `trio.run`.
    """
    if fd is None or not allows(fd, os.O_WRONLY):
        return BrokenWriter()
    return _OPENERS[kind_of(fd)][1](fd)
