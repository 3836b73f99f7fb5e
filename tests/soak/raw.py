"""Calls as prepared bytes, so that most of the work is the server's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import count
from typing import Final

import trio
from attrs import define, field

from benchmarks.wrk import META, MODERN_HEADERS

WINDOW: Final = 64
"""Calls that are in flight on stdio."""
_CHUNK: Final = 1 << 16
_LENGTH: Final = re.compile(rb"content-length: (\d+)\r\n", re.IGNORECASE)
_ID: Final = re.compile(rb'"id":"raw-(\d+)"')


def call(id: str, text: str) -> bytes:
    """Write a call of the echo tool, as revision 2026-07-28 has it."""
    params = {"name": "echo", "arguments": {"text": text}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
    return json.dumps(message).encode()


# -- HTTP ----------------------------------------------------------------------------------------


def request(id: str, text: str) -> bytes:
    """Write a call as a request over HTTP."""
    body = call(id, text)
    headers = {**MODERN_HEADERS, "Host": "localhost", "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


async def echo(stream: trio.SocketStream, number: int) -> None:
    """Make one call on a connection that has no other, and check its answer."""
    id, text = f"raw-{number}", f"soak {number}"
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


async def _some(stream: trio.abc.ReceiveStream) -> bytes:
    chunk = bytes(await stream.receive_some(_CHUNK))
    assert chunk, "the server has closed the connection"
    return chunk


# -- stdio ---------------------------------------------------------------------------------------

_LINE: Final = call("raw-NUMBER", "soak") + b"\n"


@define(eq=False)
class Shared(trio.abc.Stream):
    """A server's pipes, for a client and for prepared calls beside it."""

    _process: trio.Process
    _on_answer: Callable[[], None]
    """Called for each prepared call that was answered."""
    _in_flight: set[int] = field(factory=set)
    _numbers: count[int] = field(factory=count)
    _lock: trio.Lock = field(factory=trio.Lock)
    """A line is written in one piece."""

    async def start(self) -> None:
        """Make the first calls; each answer that is received makes another."""
        await self.send_all(self._calls(WINDOW))

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write what the client, or `start`, has to say."""
        assert self._process.stdin is not None
        async with self._lock:
            await self._process.stdin.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Be a stream."""
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive lines for the client; those for prepared calls are kept from it."""
        assert self._process.stdout is not None
        while True:
            received = bytearray(await _some(self._process.stdout))
            while not received.endswith(b"\n"):
                received += await _some(self._process.stdout)
            lines = received.splitlines(keepends=True)
            others = b"".join(line for line in lines if not self._is_ours(line))
            if len(self._in_flight) < WINDOW:
                # This waits for nobody: all that is in flight fits into the pipes.
                await self.send_all(self._calls(WINDOW - len(self._in_flight)))
            if others:
                return others

    async def aclose(self) -> None:
        """End the server's input, and wait for its exit."""
        assert self._process.stdin is not None
        await self._process.stdin.aclose()
        await self._process.wait()

    def _calls(self, number: int) -> bytes:
        numbers = [next(self._numbers) for _ in range(number)]
        self._in_flight.update(numbers)
        return b"".join(_LINE.replace(b"NUMBER", b"%d" % each) for each in numbers)

    def _is_ours(self, line: bytes) -> bool:
        if (found := _ID.search(line)) is None:
            return False
        self._in_flight.remove(int(found[1]))  # a second answer is a failure
        assert b'"text":"soak"' in line, line
        self._on_answer()
        return True
