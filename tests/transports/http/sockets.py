"""Servers on real sockets, and a client that sees just what travels; h11 judges the HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import h11
import trio

from tests.support.client import LEGACY
from tests.transports.http.support import (
    Event,
    Headers,
    LegacyClient,
    ModernClient,
    event_of,
)
from trio_mcp import Registry, ServerState, serve_http

TIME_LIMIT = 120  # seconds, for what hangs
_CHUNK = 65536


class Reply:
    """A response as it comes from a connection."""

    def __init__(self, stream: trio.abc.Stream, protocol: h11.Connection) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self._stream = stream
        self._protocol = protocol
        self._partial = ""
        self._blocks: list[str] = []

    async def head(self) -> int:
        """Wait for the head, and return the status."""
        while not self.status:
            event = await self._next()
            if isinstance(event, h11.Response):
                self.status = event.status_code
                self.headers = {name.decode(): value.decode() for name, value in event.headers}
        return self.status

    async def whole(self) -> Reply:
        """Wait for all of it."""
        await self.head()
        while await self._piece():
            pass
        return self

    async def event(self) -> Event | None:
        """Wait for the next event of a stream; `None` at its end."""
        while not self._blocks:
            size = len(self.body)
            if not await self._piece():
                return None
            text = self._partial + self.body[size:].decode()
            *self._blocks, self._partial = text.split("\n\n")
        return event_of(self._blocks.pop(0))

    async def message(self) -> Any:
        """Wait for the next message of a stream; `None` at its end."""
        await self.head()
        while (event := await self.event()) is not None:
            if event.message is not None:
                return event.message
        return None

    async def messages(self) -> list[Any]:
        """Wait for the end, and return what there was."""
        await self.head()
        if self.headers.get("content-type") != "text/event-stream":
            await self.whole()
            return [self.json()]
        found = []
        while (message := await self.message()) is not None:
            found.append(message)
        return found

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    async def _piece(self) -> bool:
        event = await self._next()
        if isinstance(event, h11.Data):
            self.body += bytes(event.data)
            return True
        assert isinstance(event, h11.EndOfMessage), event
        return False

    async def _next(self) -> Any:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(bytes(await self._stream.receive_some(_CHUNK)))
        return event


class Wire:
    """A connection to a server."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=1_000_000)

    async def send(
        self, method: str, path: str = "/mcp", headers: Headers | None = None, body: bytes = b""
    ) -> Reply:
        """Send a request; its response will come."""
        if self._protocol.our_state is h11.DONE:
            self._protocol.start_next_cycle()
        given: Headers = {"host": "localhost", "content-length": str(len(body)), **(headers or {})}
        fields = [
            (name.encode(), value.encode() if isinstance(value, str) else value)
            for name, value in given.items()
            if value is not None
        ]
        data = self._protocol.send(h11.Request(method=method, target=path, headers=fields))
        data = (data or b"") + (self._protocol.send(h11.Data(data=body)) or b"")
        self._protocol.send(h11.EndOfMessage())
        await self.stream.send_all(data)
        return Reply(self.stream, self._protocol)

    async def post(self, maker: ModernClient | LegacyClient, message: Any, **more: Any) -> Reply:
        """POST a message with the headers of a client."""
        headers = {**maker.headers_for(message), **more}
        return await self.send("POST", headers=headers, body=json.dumps(message).encode())

    async def rest(self) -> bytes:
        """Everything up to the end of the connection, however it ends."""
        data = b""
        try:
            while chunk := await self.stream.receive_some(_CHUNK):
                data += chunk
        except trio.BrokenResourceError:
            pass
        return data


class Served:
    """A running server and the way to it."""

    def __init__(self, handle: Any, address: tuple[str, int] | str) -> None:
        self.handle = handle
        self.address = address
        self.modern = ModernClient(None)  # type: ignore[arg-type]  # it makes messages only
        self.legacy = LegacyClient(None, LEGACY[-1])  # type: ignore[arg-type]

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Wire]:
        """Open a connection, and close it in the end."""
        wire = Wire(await self.open())
        try:
            yield wire
        finally:
            await trio.aclose_forcefully(wire.stream)

    async def open(self) -> trio.SocketStream:
        """Open a socket."""
        if isinstance(self.address, str):
            return await trio.open_unix_socket(self.address)
        return await trio.open_tcp_stream(*self.address)

    async def ask(self, message: Any, **headers: Any) -> Reply:
        """Send a modern message on a connection of its own."""
        async with self.connect() as wire:
            return await (await wire.post(self.modern, message, **headers)).whole()

    async def get(self, path: str) -> Reply:
        """Get a page on a connection of its own."""
        async with self.connect() as wire:
            return await (await wire.send("GET", path)).whole()

    def call(self, name: str, meta: Any = None, **arguments: Any) -> dict[str, Any]:
        """A modern call of a tool."""
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        return self.modern.request_of(
            "tools/call", {**params, "_meta": meta} if meta is not None else params
        )

    async def initialize(self, wire: Wire) -> None:
        """Begin the session of the legacy client."""
        reply = await wire.post(self.legacy, self.legacy.initialize_request())
        await reply.whole()
        assert reply.status == 200
        self.legacy.session = reply.headers["mcp-session-id"]

    async def resume(self, wire: Wire, after: str | None = None) -> Reply:
        """Open a stream of the legacy client, once its last reader is known to have left."""
        headers = {**self.legacy.session_headers(), "accept": "text/event-stream"}
        if after is not None:
            headers["last-event-id"] = after
        while True:
            reply = await wire.send("GET", headers=headers)
            if await reply.head() != 409:
                return reply
            await reply.whole()


@asynccontextmanager
async def served(
    registry: Registry, *, unix_socket: Path | None = None, **options: Any
) -> AsyncIterator[Served]:
    """Serve a registry, and have the server return in the end."""
    failure: BaseException | None = None
    with trio.fail_after(TIME_LIMIT):
        async with trio.open_nursery() as nursery:
            start = partial(
                serve_http, registry, "127.0.0.1", 0, unix_socket=unix_socket, **options
            )
            handle = await nursery.start(start)
            try:
                address = str(unix_socket) if unix_socket else ("127.0.0.1", handle.port)
                yield Served(handle, address)
            except BaseException as error:  # raised again below, outside of any exception group
                failure = error
                nursery.cancel_scope.cancel()
            handle.stop()
            await handle.wait_for(ServerState.STOPPED)
    if failure is not None:
        raise failure
