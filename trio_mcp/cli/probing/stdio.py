"""A server process, line by line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio
from attrs import define, field

from trio_mcp.cli.probing.base import Answer, Era, Probe, Waits
from trio_mcp.transports.beside import beside
from trio_mcp.transports.process import ProcessOptions, StdioTransport, open_process
from trio_mcp.wire.errors import METHOD_NOT_FOUND
from trio_mcp.wire.framing import LineDecoder
from trio_mcp.wire.jsonrpc import Id, Json, encode, is_id
from trio_mcp.wire.limits import Limits

_MOST_KEPT: Final = 100


@define(eq=False)
class _Waiting:
    arrived: trio.Event = field(factory=trio.Event)
    message: dict[str, Json] | None = None


class StdioProbe(Probe):
    """A conversation with a server process. Made by `open_stdio_probe`."""

    def __init__(self, era: Era, transport: StdioTransport, waits: Waits) -> None:
        super().__init__(era, waits)
        self.transport: Final = transport
        self.closed: Final = trio.Event()
        """Set when its stdout has ended."""
        self._waiting: dict[Id, _Waiting] = {}
        self._reaction: _Waiting | None = None

    @property
    def gone(self) -> str | None:
        """How the process ended, if it has."""
        status = self.transport.returncode
        if status is None:
            return "closed its stdout" if self.closed.is_set() else None
        return f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"

    @property
    def stderr(self) -> str:
        """The end of what it wrote to stderr."""
        return self.transport.stderr_tail

    async def ask(
        self, method: str, params: dict[str, Json] | None = None, *, patience: float | None = None
    ) -> Answer | None:
        """Send a request; `None` if there is no answer in time, or will never be one."""
        id = self.next_id()
        waiting = self._waiting[id] = _Waiting()
        began = trio.current_time()
        try:
            with trio.move_on_after(self.waits.answer if patience is None else patience):
                if await self._send(encode(self.request(method, params, id))):
                    await waiting.arrived.wait()
            if waiting.message is None and self.closed.is_set():
                await self._await_exit()
        finally:
            self._waiting.pop(id, None)
        return _answer(waiting, began)

    async def tell(self, method: str, params: dict[str, Json] | None = None) -> None:
        """Send a notification."""
        message: dict[str, Json] = {"jsonrpc": "2.0", "method": method}
        with trio.move_on_after(self.waits.answer):
            await self._send(encode(message if params is None else {**message, "params": params}))

    async def throw(self, data: bytes) -> Answer | None:
        """Send a line that is no message, and see what comes back."""
        waiting = self._reaction = _Waiting()
        began = trio.current_time()
        with trio.move_on_after(self.waits.reaction):
            if await self._send(data + b"\n"):
                await waiting.arrived.wait()
        self._reaction = None
        return _answer(waiting, began)

    async def hang_up(self, patience: float) -> float | None:
        """Close its stdin; return the seconds until it exited, or `None` if it did not."""
        began = trio.current_time()
        await self.transport.aclose()
        with trio.move_on_after(patience):
            await self.transport.exited.wait()
            return trio.current_time() - began
        return None

    async def _send(self, line: bytes) -> bool:
        """Send a line; return whether there is somebody who may answer it."""
        if self.closed.is_set():
            return False
        try:
            await self.transport.send_all(line)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await self._await_exit()
            return False
        return True

    async def _await_exit(self) -> None:
        """Give a process that has closed a pipe the time to exit, so that it is known how."""
        with trio.move_on_after(self.waits.reaction):
            await self.transport.exited.wait()

    async def read(self) -> None:
        """Take in what it writes, to the end."""
        decoder = LineDecoder(Limits().max_message_bytes)
        while chunk := await self.transport.receive_some():
            for line in decoder.feed(chunk):
                if isinstance(line, bytes):
                    await self._take(line)
        self.closed.set()
        for waiting in [*self._waiting.values(), self._reaction]:
            if waiting is not None:
                waiting.arrived.set()

    async def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            if line.strip() and len(self.noise) < _MOST_KEPT:
                self.noise.append(line)
        elif "method" in message:
            if "id" in message:
                await self._answer_question(message)
        else:
            self._deliver(message)

    def _deliver(self, message: dict[str, Json]) -> None:
        id: Json = message.get("id")
        waiting = self._waiting.pop(id, None) if is_id(id) else None
        if waiting is None and self._reaction is not None and "error" in message:
            waiting, self._reaction = self._reaction, None
        if waiting is None:
            if len(self.strays) < _MOST_KEPT:
                self.strays.append(id)
            return
        waiting.message = message
        waiting.arrived.set()

    async def _answer_question(self, message: dict[str, Json]) -> None:
        """Answer what the server asks, as one who can do nothing of it."""
        method = message["method"]
        self.questions.append(str(method))
        answer: dict[str, Json] = {"jsonrpc": "2.0", "id": message["id"]}
        if method == "ping":
            answer["result"] = {}
        else:
            answer["error"] = {"code": METHOD_NOT_FOUND, "message": "Method not found"}
        await self._send(encode(answer))


def _answer(waiting: _Waiting, began: float) -> Answer | None:
    message = waiting.message
    if message is None:
        return None
    seconds = trio.current_time() - began
    return Answer(result=message.get("result"), error=message.get("error"), seconds=seconds)


@asynccontextmanager
async def open_stdio_probe(
    command: Sequence[str], options: ProcessOptions, era: Era, waits: Waits
) -> AsyncIterator[StdioProbe]:
    """Start a server and talk to it for the length of a block.

    Raises:
        CannotStart: The command does not exist, or cannot be executed.
    """
    async with open_process(command, options) as transport:
        probe = StdioProbe(era, transport, waits)
        async with beside(probe.read):
            yield probe
