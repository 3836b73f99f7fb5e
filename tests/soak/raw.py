"""Requests over HTTP as prepared bytes, so that most of the work is the server's."""

from __future__ import annotations

import json
import re
from typing import Final

import trio

from benchmarks.wrk import META, MODERN_HEADERS

_LENGTH: Final = re.compile(rb"content-length: (\d+)\r\n", re.IGNORECASE)


def request(id: int, text: str) -> bytes:
    """Write a call of the echo tool, as revision 2026-07-28 has it."""
    params = {"name": "echo", "arguments": {"text": text}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
    body = json.dumps(message).encode()
    headers = {**MODERN_HEADERS, "Host": "localhost", "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


async def echo(stream: trio.SocketStream, id: int) -> None:
    """Make one call on a connection that has no other, and check its answer."""
    text = f"soak {id}"
    await stream.send_all(request(id, text))
    received = bytearray()
    while not (end := received.find(b"\r\n\r\n")) >= 0:
        received += await _some(stream)
    length = _LENGTH.search(received)
    assert length, bytes(received)
    whole = end + 4 + int(length[1])
    while len(received) < whole:
        received += await _some(stream)
    answer = json.loads(received[end + 4 :])
    assert (answer["id"], answer["result"]["content"][0]["text"]) == (id, text), answer


async def _some(stream: trio.SocketStream) -> bytes:
    chunk = bytes(await stream.receive_some())
    assert chunk, "the server has closed the connection"
    return chunk
