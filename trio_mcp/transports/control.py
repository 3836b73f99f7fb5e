"""Named servers in one process, behind a control protocol.

A host sends a control request that names a server and holds one MCP message; it gets a control
response that holds the server's answer:

    {"type": "control_request", "request_id": "r1",
     "request": {"subtype": "mcp_message", "server_name": "calculator", "message": {…}}}

    {"type": "control_response",
     "response": {"subtype": "success", "request_id": "r1", "response": {"mcp_response": {…}}}}

What is wrong with the envelope is told in the envelope (`"subtype": "error"`); what is wrong with
the message, or with the server that it names, is told as an MCP error in `mcp_response`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final

import orjson

from trio_mcp.public import public
from trio_mcp.registry import Registry
from trio_mcp.transports.memory import Embedded
from trio_mcp.wire.errors import METHOD_NOT_FOUND, McpError
from trio_mcp.wire.jsonrpc import UNKNOWN_ID, Id, Json, decode, encode, is_id, json_type
from trio_mcp.wire.jsonrpc import error_line as encode_error
from trio_mcp.wire.limits import Limits

_SUBTYPE: Final = "mcp_message"


@public
class ControlRouter:
    """Passes MCP messages to the server that they are meant for.

    Each server keeps one conversation: what a legacy `initialize` agreed on holds for the messages
    after it. Used as an async context manager, it opens the registries' lifespans; that is needed
    only where there are any. Registries are never closed.

    Args:
        servers: Registries by name.
        limits: The bounds that each server keeps: time-outs, concurrency, batch length.

    Raises:
        ValueError: There is no server to route to.
        TypeError: One of them is no registry.

    Example:
        >>> async def route(request: dict[str, object], registry: Registry) -> object:
        ...     async with ControlRouter({"calculator": registry}) as router:
        ...         return await router.handle(request)
    """

    def __init__(self, servers: Mapping[str, Registry], *, limits: Limits | None = None) -> None:
        if not servers:
            raise ValueError("there is no server to route to")
        self._registries = dict(servers)
        self._max_batch = (limits or Limits()).max_batch
        self._servers = {name: Embedded(each, limits) for name, each in servers.items()}
        self._lifespans = AsyncExitStack()
        self._closed = False

    async def __aenter__(self) -> ControlRouter:
        """Open the registries' lifespans."""
        async with AsyncExitStack() as opening:
            for name, registry in self._registries.items():
                state = await opening.enter_async_context(registry.state())
                self._servers[name].open(state)
            self._lifespans = opening.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Take no more messages, and close the lifespans."""
        self.close()
        return await self._lifespans.__aexit__(kind, error, traceback)

    def close(self) -> None:
        """Take no more messages. The registries are not touched; closing twice is fine."""
        self._closed = True

    async def handle(self, request: Json) -> dict[str, Json]:
        """Answer one control request.

        Args:
            request: The request, parsed.

        Returns:
            The control response. `mcp_response` is `null` for a notification.

        Cancelled, the call in it is cancelled.
        """
        request_id = request.get("request_id") if isinstance(request, dict) else None
        problem = self._problem_with(request)
        if problem is not None:
            return _response({"subtype": "error", "request_id": request_id, "error": problem})
        body = request["request"]
        answer = await self._route(body["server_name"], body["message"])
        return _response(
            {"subtype": "success", "request_id": request_id, "response": {"mcp_response": answer}}
        )

    async def handle_bytes(self, request: bytes) -> bytes:
        """Answer one control request that is not parsed yet; otherwise as `handle`."""
        try:
            orjson.loads(request)  # strict, but it rounds long integers
        except ValueError as error:
            problem = f"The control request is not JSON: {error}"
            return orjson.dumps(
                _response({"subtype": "error", "request_id": None, "error": problem})
            )
        return encode(await self.handle(json.loads(request)))[:-1]

    async def _route(self, name: str, message: Json) -> Json:
        server = self._servers.get(name)
        if server is None:
            data = {"server": name, "known": list(self._servers)}
            error = McpError(METHOD_NOT_FOUND, f"Server not found: {name}", data)
            return orjson.loads(encode_error(_id_of(message), error))
        # Neither side is to be able to change what the other one holds.
        copied = decode(encode(message)[:-1], self._max_batch)
        line = None if copied is None else await server.answer(copied)
        return None if line is None else json.loads(line)

    def _problem_with(self, request: Json) -> str | None:
        """Say what is wrong with a control request; `None` if it can be routed."""
        if self._closed:
            return "The router is closed"
        if not isinstance(request, dict):
            return f"A control request must be an object, not {json_type(request)}"
        if request.get("type") != "control_request":
            return '"type" must be "control_request"'
        if not is_id(request.get("request_id")):
            return '"request_id" must be a string or an integer'
        body = request.get("request")
        if not isinstance(body, dict):
            return f'"request" must be an object, not {json_type(body)}'
        if body.get("subtype") != _SUBTYPE:
            return f'"request.subtype" must be "{_SUBTYPE}"'
        if not isinstance(body.get("server_name"), str):
            return (
                f'"request.server_name" must be a string, not {json_type(body.get("server_name"))}'
            )
        if "message" not in body:
            return '"request.message" is missing'
        return self._problem_with_lifespan(body["server_name"])

    def _problem_with_lifespan(self, name: str) -> str | None:
        server = self._servers.get(name)
        if server is not None and not server.is_open and self._registries[name].needs_running:
            return f"The lifespan of server {name} is not open; use the router in `async with`"
        return None


def _response(response: dict[str, Json]) -> dict[str, Json]:
    return {"type": "control_response", "response": response}


def _id_of(message: Json) -> Id:
    id: Json = message.get("id") if isinstance(message, dict) else None
    if is_id(id):
        known: Id = id
        return known
    return UNKNOWN_ID
