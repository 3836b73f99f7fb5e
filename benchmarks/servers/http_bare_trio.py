"""The floor of servers on Trio: each request gets the same bytes; the argument is the port.

One read, one write, and nothing in between but a look at how long the request is.
"""

import os
import re
import sys
from functools import partial

import trio

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
_BODY = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}'
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_BODY),
    _BODY,
)


async def serve(stream: trio.SocketStream) -> None:
    descriptor, data = stream.socket.fileno(), b""
    while True:
        await trio.lowlevel.wait_readable(descriptor)
        try:
            piece = os.read(descriptor, 65536)
        except ConnectionResetError:
            return
        if not piece:
            return
        data += piece
        end = data.find(b"\r\n\r\n") + 4
        length = _LENGTH.search(data, 0, end)
        if end > 3 and len(data) >= end + (int(length[1]) if length else 0):
            os.write(descriptor, _ANSWER)
            data = b""


trio.run(partial(trio.serve_tcp, serve, int(sys.argv[1]), host="127.0.0.1"))
