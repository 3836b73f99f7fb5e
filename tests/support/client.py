"""A client that speaks raw JSON lines, so that tests see just what travels."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from tests.support import official
from trio_mcp import Limits, Registry, ServerHandle, serve_stream

LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
MODERN = ["2026-07-28"]
REVISIONS = LEGACY + MODERN

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO = {"name": "test-client", "version": "1.0"}


def modern_meta(**more: Any) -> dict[str, Any]:
    """The `_meta` of a modern request."""
    return {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
        CAPABILITIES: {},
        **more,
    }


class RawClient:
    """Sends lines, receives lines, and has every message judged by the official schema."""

    def __init__(self, stream: trio.abc.Stream, revision: str = "2025-11-25") -> None:
        self.stream = stream
        self.revision = revision
        self.judging = True
        self.added: tuple[str, ...] = ()
        """Notifications and result types of extensions."""
        self.told: list[Any] = []
        """The notifications that came before an answer."""
        self.answers: dict[str, Callable[[Any], Any]] = {}
        """What to answer to the server's questions, by method."""
        self.capabilities: dict[str, Any] = {}
        """What the client declares."""
        self._ids = itertools.count(1)
        self._methods: dict[Any, str] = {}
        self._buffer = bytearray()

    async def send(self, *messages: Any) -> None:
        """Send messages (JSON values, each on its line) in one write."""
        for message in messages:
            for each in message if isinstance(message, list) else [message]:
                if isinstance(each, dict) and isinstance(each.get("id"), str | int):
                    self._methods[each["id"]] = each.get("method", "")
        await self.send_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in messages))

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        await self.stream.send_all(data)

    async def send_eof(self) -> None:
        """End the input of the server; its output stays open."""
        assert isinstance(self.stream, trio.StapledStream)
        await self.stream.send_stream.aclose()

    async def receive(self) -> Any:
        """Return the next message (a batch is a list); `None` at the end."""
        while b"\n" not in self._buffer:
            chunk = await self.stream.receive_some()
            if not chunk:
                assert not self._buffer, "the output ends within a line"
                return None
            self._buffer += chunk
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        message = json.loads(line)
        if self.judging:
            for each in message if isinstance(message, list) else [message]:
                method = self._methods.get(each.get("id"))
                official.judge(each, self.revision, method, self.added)
        return message

    async def receive_all(self) -> list[Any]:
        """Return all messages up to the end."""
        messages = []
        while (message := await self.receive()) is not None:
            messages.append(message)
        return messages

    def request_of(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Make a request in this client's revision, with a fresh id."""
        params = dict(params or {})
        if self.revision in MODERN:
            meta = modern_meta(**{CAPABILITIES: self.capabilities})
            params["_meta"] = {**meta, **params.get("_meta", {})}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": next(self._ids), "method": method}
        return {**message, "params": params} if params else message

    async def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Send a request and return its answer; see `answer_to`."""
        request = self.request_of(method, params)
        await self.send(request)
        return await self.answer_to(request["id"])

    async def answer_to(self, id: Any) -> Any:
        """Return the next answer, which must be to this request; keep what is told before it.

        What the server asks meanwhile is answered by `answers`.
        """
        while True:
            message = await self.receive()
            assert message is not None
            if "method" not in message:
                assert message["id"] == id
                return message
            if "id" not in message:
                self.told.append(message)
            else:
                result = self.answers[message["method"]](message.get("params"))
                await self.send_bytes(
                    json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
                    + b"\n"
                )

    async def call(self, name: str, **arguments: Any) -> Any:
        """Call a tool and return the whole response."""
        return await self.request("tools/call", {"name": name, "arguments": arguments})

    async def start(self, name: str, **arguments: Any) -> int:
        """Call a tool and return the request's id at once."""
        request = self.request_of("tools/call", {"name": name, "arguments": arguments})
        await self.send(request)
        id: int = request["id"]
        return id

    async def receive_many(self, count: int) -> dict[Any, Any]:
        """Return the next so many messages by id, in the order of their arrival."""
        messages = [await self.receive() for _ in range(count)]
        answers = {each["id"]: each for each in messages}
        assert len(answers) == count, "an id was answered twice"
        return answers

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        await self.send({**message, "params": params} if params else message)

    async def cancel(self, id: Any) -> None:
        """Cancel a request."""
        await self.notify("notifications/cancelled", {"requestId": id})

    async def initialize(self) -> Any:
        """Do the handshake, if this client's revision has one."""
        if self.revision in MODERN:
            return None
        answer = await self.request(
            "initialize",
            {
                "protocolVersion": self.revision,
                "capabilities": self.capabilities,
                "clientInfo": CLIENT_INFO,
            },
        )
        await self.notify("notifications/initialized")
        return answer


@asynccontextmanager
async def serving(
    registry: Registry,
    limits: Limits | None = None,
    *,
    revision: str = "2025-11-25",
    shake_hands: bool = True,
    capabilities: dict[str, Any] | None = None,
    pair: Callable[[], tuple[trio.abc.Stream, trio.abc.Stream]] = trio.testing.memory_stream_pair,
) -> AsyncIterator[tuple[RawClient, ServerHandle]]:
    """Serve a registry over an in-memory stream, with a client that has shaken hands.

    On exit the input is ended and the server must return.
    """
    ours, theirs = pair()
    mocked = isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
    hang = 1e6 if mocked else 600  # seconds; on a mock clock a deadlock jumps there at once
    with trio.fail_after(hang):
        async with trio.open_nursery() as nursery:

            async def run(task_status: trio.TaskStatus[ServerHandle]) -> None:
                await serve_stream(registry, theirs, limits=limits, task_status=task_status)

            handle = await nursery.start(run)
            client = RawClient(ours, revision)
            client.capabilities = capabilities or {}
            if shake_hands:
                await client.initialize()
            yield client, handle
            await ours.aclose()
