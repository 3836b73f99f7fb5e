"""A server process, line by line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio
from attrs import define, field

from trio_mcp.background import background_nursery
from trio_mcp.cli.probing.base import Answer, Probe, Reaction, Timeouts, read_message
from trio_mcp.peer.lines import lines_of
from trio_mcp.transports.process import ProcessOptions, StdioTransport, open_process
from trio_mcp.wire.errors import METHOD_NOT_FOUND
from trio_mcp.wire.jsonrpc import Id, Json, encode, is_id
from trio_mcp.wire.revisions import Era

_MAX_KEPT: Final = 100
_MAX_NAME: Final = 200


@define(eq=False)
class _Waiting:
    arrived: trio.Event = field(factory=trio.Event)
    message: dict[str, Json] | None = None


class StdioProbe(Probe):
    """A conversation with a server process. Made by `open_stdio_probe`."""

    on_lines = True

    def __init__(self, era: Era, transport: StdioTransport, timeouts: Timeouts) -> None:
        super().__init__(era, timeouts)
        self.transport: Final = transport
        self.closed: Final = trio.Event()
        """Set when its stdout has ended."""
        self._sending = trio.Lock()
        self._questions, self._next_question = trio.open_memory_channel[dict[str, Json]](_MAX_KEPT)
        self._waiting: dict[Id, _Waiting] = {}
        self._given_up: set[Id] = set()
        """Requests that were not answered in time, but still may be."""
        self.answered: set[Id] = set()
        self._reaction: _Waiting | None = None
        self._late_reactions = 0
        """How many malformed lines had no reaction in time, but still may have one."""

    @property
    def gone(self) -> str | None:
        status = self.transport.returncode
        if status is None:
            return "closed its stdout" if self.closed.is_set() else None
        return f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"

    async def send(self, message: dict[str, Json], timeout: float | None = None) -> Answer | None:
        waiting, id = _Waiting(), message.get("id")
        if id is not None:
            self._waiting[id] = waiting
        began = trio.current_time()
        try:
            with trio.move_on_after(self.timeouts.answer if timeout is None else timeout):
                if await self._send(encode(message)) and id is not None:
                    await waiting.arrived.wait()
            if waiting.message is None and self.closed.is_set():
                await self._await_exit()
        finally:
            if id is not None and self._waiting.pop(id, None) is not None:
                self._given_up.add(id)
        return _answer(waiting, began)

    async def send_malformed(self, data: bytes, then: str, id: Id | None = None) -> Reaction:
        waiting = self._reaction = _Waiting()
        if id is not None:
            self._waiting[id] = waiting
        began = trio.current_time()
        with trio.move_on_after(self.timeouts.answer):
            await self._send(data + b"\n")
        alive = await self.send_request(then)
        with trio.move_on_after(self.timeouts.reaction):
            await waiting.arrived.wait()
        self._reaction = None
        if id is not None and self._waiting.pop(id, None) is not None:
            self._given_up.add(id)
        if waiting.message is None:
            self._late_reactions += 1
        return Reaction(_answer(waiting, began), alive)

    async def close_stdin(self, timeout: float) -> float | None:
        """Close its stdin; return the seconds until it exited, or `None` if it did not."""
        began = trio.current_time()
        await self.transport.aclose()
        with trio.move_on_after(timeout):
            await self.transport.exited.wait()
        if self.transport.returncode is None:
            return None
        await self.transport.exited.wait()  # its last words are read for another moment
        return trio.current_time() - began

    async def _send(self, line: bytes) -> bool:
        """Send a line; return whether it may be answered."""
        try:
            async with self._sending:  # an answer to what it asks may come between
                if self.closed.is_set() or self.stuck:
                    return False
                await self.transport.send_all(line)
        except trio.Cancelled:
            self.stuck = True  # and has got half a message, so that no other can follow
            raise
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await self._await_exit()
            return False
        return True

    async def _await_exit(self) -> None:
        """Wait until a process that closed a pipe has exited, to know its status."""
        with trio.move_on_after(self.timeouts.exit):
            await self.transport.exited.wait()

    async def read(self) -> None:
        async with background_nursery(self._answer_questions):
            async for line in lines_of(self.transport):
                self._take(line)
        self.closed.set()
        for waiting in [*self._waiting.values(), self._reaction]:
            if waiting is not None:
                waiting.arrived.set()

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        message, stray = read_message(line)
        if stray is not None and len(self.stray) < _MAX_KEPT:
            self.stray.append(stray)
        if message is None:
            return
        if "method" not in message:
            self._deliver(message)
        elif "id" in message:
            self.requests_received.append(str(message["method"])[:_MAX_NAME])
            with suppress(trio.WouldBlock):  # there are more than it reads answers to
                self._questions.send_nowait(message)

    def _deliver(self, message: dict[str, Json]) -> None:
        id: Json = message.get("id")
        known = id if is_id(id) else None
        waiting = self._waiting.pop(known, None) if known is not None else None
        if waiting is None and self._is_reaction(message, known):
            waiting, self._reaction = self._reaction, None
        if waiting is not None:
            if known is not None:
                self.answered.add(known)
            waiting.message = message
            waiting.arrived.set()
        elif known is not None and known in self._given_up:
            self._given_up.remove(known)
            self.answered.add(known)
        elif self._late_reactions and "error" in message and id in (None, ""):
            self._late_reactions -= 1
        else:
            kept = (
                self.repeated_answers
                if known is not None and known in self.answered
                else self.stray_answers
            )
            if len(kept) < _MAX_KEPT:
                kept.append(id)

    def _is_reaction(self, message: dict[str, Json], id: Id | None) -> bool:
        if self._reaction is None or "error" not in message:
            return False
        return not id or id not in self.answered  # else it is a second answer, and just late

    async def _answer_questions(self) -> None:
        async for message in self._next_question:
            answer: dict[str, Json] = {"jsonrpc": "2.0", "id": message["id"]}
            if message["method"] == "ping":
                answer["result"] = {}
            else:
                answer["error"] = {"code": METHOD_NOT_FOUND, "message": "Method not found"}
            with trio.move_on_after(self.timeouts.answer):
                await self._send(encode(answer))


def _answer(waiting: _Waiting, began: float) -> Answer | None:
    message = waiting.message
    if message is None:
        return None
    seconds = trio.current_time() - began
    return Answer(result=message.get("result"), error=message.get("error"), seconds=seconds)


@asynccontextmanager
async def open_stdio_probe(
    command: Sequence[str], options: ProcessOptions, era: Era, timeouts: Timeouts
) -> AsyncIterator[StdioProbe]:
    """Start a server and talk to it for the length of a block."""
    async with open_process(command, options) as transport:
        probe = StdioProbe(era, transport, timeouts)
        async with background_nursery(probe.read):
            yield probe
