"""A server, and a client, that speak JSON and nothing else: what is sent is seen as it is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio
from attrs import define, field
from trio.testing import memory_stream_pair

from trio_mcp import Registry, serve_stream
from trio_mcp.client.connect import ClientConnection, connect

Message = dict[str, Any]
MODERN, LEGACY = "2026-07-28", "2025-11-25"
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


@define(eq=False)
class Wire:
    """Messages over a stream, as JSON."""

    stream: trio.abc.Stream
    _received: bytearray = field(factory=bytearray)
    _turn: trio.Lock = field(factory=trio.Lock)

    async def send(self, **message: Any) -> None:
        async with self._turn:
            await self.stream.send_all(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def receive(self) -> Message | None:
        while b"\n" not in self._received:
            chunk = await self.stream.receive_some()
            if not chunk:
                return None
            self._received += chunk
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received[:] = rest
        message: Message = json.loads(line)
        return message


@define(eq=False)
class RoughServer:
    """Answers each method with what a test has put there."""

    era: str
    answers: dict[str, Any]
    """By method, the result; or a function of the wire and the request that answers it."""
    heard: list[Message] = field(factory=list)
    news: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)
    wires: list[Wire] = field(factory=list)
    nursery: Any = None

    def open(self, **options: Any) -> ClientConnection:
        """Begin a connection to it, as `connect` does (`Remote.connector`)."""
        ours, theirs = memory_stream_pair()
        self.nursery.start_soon(self._serve, Wire(theirs))
        return connect(ours, **{"era": self.era, **options})

    async def _serve(self, wire: Wire) -> None:
        self.wires.append(wire)
        async with wire.stream, trio.open_nursery() as nursery:
            while (message := await wire.receive()) is not None:
                self.heard.append(message)
                self.news.unpark_all()
                if "method" in message and "id" in message:
                    nursery.start_soon(self._answer, wire, message)

    async def _answer(self, wire: Wire, message: Message) -> None:
        answer = self.answers.get(message["method"])
        if callable(answer):
            answer = await answer(wire, message)
        if answer is None:
            answer = {"code": -32601, "message": f"no {message['method']} here"}
        kind = "error" if "code" in answer else "result"
        with suppress(trio.BrokenResourceError):  # its client may leave without waiting for it
            await wire.send(id=message["id"], **{kind: answer})

    async def until(self, found: Callable[[Message], bool]) -> Message:
        """Wait until it has heard a message."""
        while True:
            for message in self.heard:
                if found(message):
                    return message
            await self.news.park()


@define(eq=False)
class RoughClient:
    """Sends requests, and keeps all that is sent to it."""

    wire: Wire
    era: str
    capabilities: Message
    got: list[Message] = field(factory=list)
    answer: Callable[[Message], Awaitable[Message]] | None = None
    _news: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)
    _ids: int = 0

    async def begin(self, method: str, params: Message, meta: Message | None = None) -> int:
        """Send a request; return its id."""
        self._ids += 1
        if self.era == "modern":
            own = {VERSION: MODERN, CAPABILITIES: self.capabilities}
            params = {**params, "_meta": {**own, **(meta or {})}}
        elif meta is not None:
            params = {**params, "_meta": meta}
        await self.wire.send(id=self._ids, method=method, params=params)
        return self._ids

    async def ask(self, method: str, params: Message, meta: Message | None = None) -> Message:
        """Send a request, and wait for its response."""
        id = await self.begin(method, params, meta)
        return await self.until(lambda message: message.get("id") == id and "method" not in message)

    async def until(self, found: Callable[[Message], bool]) -> Message:
        """Wait for a message."""
        while True:
            for message in self.got:
                if found(message):
                    return message
            await self._news.park()

    async def listen(self) -> None:
        while (message := await self.wire.receive()) is not None:
            self.got.append(message)
            self._news.unpark_all()
            if "method" in message and "id" in message and self.answer is not None:
                await self.wire.send(id=message["id"], result=await self.answer(message))


@asynccontextmanager
async def rough_client(
    registry: Registry, era: str, capabilities: Message | None = None
) -> AsyncIterator[RoughClient]:
    """A client of a registry, with its handshake done."""
    ours, theirs = memory_stream_pair()
    client = RoughClient(Wire(ours), era, capabilities or {})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, registry, theirs)
        nursery.start_soon(client.listen)
        if era == "legacy":
            await client.ask(
                "initialize",
                {
                    "protocolVersion": LEGACY,
                    "capabilities": client.capabilities,
                    "clientInfo": {"name": "rough", "version": "1"},
                },
            )
            await client.wire.send(method="notifications/initialized")
        yield client
        nursery.cancel_scope.cancel()
