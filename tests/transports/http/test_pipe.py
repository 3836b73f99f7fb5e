"""The bytes of one connection, where the tests of servers do not get to."""

import os
import socket

import pytest
import trio

from trio_mcp.transports.http.server.pipe import pipe_over


@pytest.mark.skipif(os.name == "nt", reason="a socket is no descriptor there")
async def test_what_has_the_number_of_a_closed_socket_is_let_alone() -> None:
    ours, theirs = socket.socketpair()
    others, far = socket.socketpair()
    number = ours.fileno()
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
    pipe = pipe_over(stream)
    await pipe.open()
    await stream.aclose()
    os.dup2(others.fileno(), number)  # as the next socket to be opened would have it
    with theirs, others, far, socket.socket(fileno=number):
        with pytest.raises(trio.BrokenResourceError):
            pipe.send_nowait(b"not for this one")
