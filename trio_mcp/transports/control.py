"""Named servers in one process, behind a control protocol.

A host sends a control request that names a server and holds one MCP message; it gets a control
response that holds the server's answer:

    {"type": "control_request", "request_id": "r1",
     "request": {"subtype": "mcp_message", "server_name": "calculator", "message": {…}}}

    {"type": "control_response",
     "response": {"subtype": "success", "request_id": "r1", "response": {"mcp_response": {…}}}}

An error in the envelope is reported in the envelope (`"subtype": "error"`); an error in
the message, or in the name of the server, is an MCP error in `mcp_response`. `data` has
the details of either. A request without a `request_id` gets an answer without one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from itertools import permutations
from typing import Any, Final

from attrs import frozen

from trio_mcp.peer.lines import decoded
from trio_mcp.public import public
from trio_mcp.registry import Registry, catalogue_of
from trio_mcp.registry.tools import unknown_tool
from trio_mcp.threads import offload
from trio_mcp.transports.memory import Embedded
from trio_mcp.wire import codec
from trio_mcp.wire.errors import METHOD_NOT_FOUND, McpError
from trio_mcp.wire.jsonrpc import UNKNOWN_ID, Json, encode, is_id, json_type
from trio_mcp.wire.jsonrpc import error_line as encode_error
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.weight import is_heavier
from trio_mcp.wire.wildcards import fits_pattern

Patterns = tuple[str, ...] | None
"""Names of tools as hosts have them, with `*` for any characters; `None` for all tools."""

_PREFIX: Final = "mcp__"
_BETWEEN: Final = "__"


@frozen
class AllowedTools:
    """The tools of one server that may be called."""

    server: str
    registry: Registry
    patterns: Patterns

    def names(self) -> Iterator[str]:
        """Yield the tools that there are now, as the registry has them."""
        return filter(self.allows, self.registry.tools)

    def full_name(self, tool: str) -> str:
        """Return what hosts call a tool."""
        return f"{_PREFIX}{self.server}{_BETWEEN}{tool}"

    def allows(self, tool: str) -> bool:
        if self.patterns is None:
            return True
        whole, name = f"{_PREFIX}{self.server}", self.full_name(tool)
        return any(pattern == whole or fits_pattern(name, pattern) for pattern in self.patterns)

    def refusal(self, message: Json) -> McpError | None:
        """Return the error for a call of a tool that is not allowed; `None` for other messages."""
        params = message.get("params") if isinstance(message, dict) else None
        if not isinstance(params, dict) or message.get("method") != "tools/call":
            return None
        name = params.get("name")
        if not isinstance(name, str) or self.allows(name):
            return None
        error = unknown_tool(name, list(self.names()))
        error.data = {**(error.data or {}), "requestId": message.get("id")}
        return error

    def shown(self, messages: list[Json], answer: Json) -> Json:
        """Leave out of answers to `tools/list` what is not allowed."""
        requests = [message for message in messages if isinstance(message, dict)]
        lists = [one.get("id") for one in requests if one.get("method") == "tools/list"]
        for reply in answer if isinstance(answer, list) else [answer]:
            if reply is not None and reply.get("id") in lists and "result" in reply:
                tools = reply["result"]["tools"]
                reply["result"]["tools"] = [tool for tool in tools if self.allows(tool["name"])]
        return answer


def checked_patterns(allowed: Iterable[str] | None, servers: Iterable[str]) -> Patterns:
    """Return patterns that each mean tools of one of these servers, or raise `ValueError`."""
    if allowed is None:
        return None
    if isinstance(allowed, str):
        raise TypeError(f"allowed must be a list of names, not {allowed!r:.100}")
    for one, other in permutations(servers, 2):
        if f"{other}{_BETWEEN}".startswith(f"{one}{_BETWEEN}"):
            raise ValueError(
                f"allowed: hosts could have one name for a tool of {one!r} and one of {other!r}; "
                "call one of these servers otherwise"
            )
    wholes = [f"{_PREFIX}{server}" for server in servers]
    patterns = tuple(allowed)
    for pattern in patterns:
        head = pattern.partition("*")[0]
        begins = (f"{whole}{_BETWEEN}" for whole in wholes)
        if pattern not in wholes and not any(
            head.startswith(begin) or ("*" in pattern and begin.startswith(head))
            for begin in begins
        ):
            raise ValueError(f"allowed: {pattern!r:.100} means no tool of {', '.join(wholes)}")
    return patterns


@public
class ControlRouter:
    """Routes the MCP messages in control requests to named servers.

    Each server keeps one conversation: what a legacy `initialize` agreed on is valid for the
    messages after it. If a registry has a lifespan, use the router as an async context manager,
    which opens it. Registries are never closed.

    Args:
        servers: Registries by name.
        limits: The bounds that each server keeps: time-outs, concurrency, batch length.
        allowed: The tools that are approved beforehand, by the names that hosts have for them:
            `mcp__SERVER__TOOL`, where `*` stands for any characters, or `mcp__SERVER` for all of a
            server. Others are not listed, and unknown to who calls them. `None` for all tools.

    Raises:
        ValueError: There is no server to route to, a name in `allowed` means none, or `allowed` is
            given and the servers' names leave open whose a tool is: `shop` and `shop__eu`.
        TypeError: One of them is not a registry.

    Example:
        >>> async def route(request: dict[str, object], registry: Registry) -> object:
        ...     async with ControlRouter({"calculator": registry}) as router:
        ...         return await router.handle(request)
    """

    def __init__(
        self,
        servers: Mapping[str, Registry],
        *,
        limits: Limits | None = None,
        allowed: Iterable[str] | None = None,
    ) -> None:
        if not servers:
            raise ValueError("there is no server to route to")
        patterns = checked_patterns(allowed, servers)
        self._allowed = {
            name: AllowedTools(name, registry, patterns) for name, registry in servers.items()
        }
        self._limits = limits or Limits()
        self._servers = {name: Embedded(each, limits) for name, each in servers.items()}
        self._lifespans = AsyncExitStack()
        self._closed = False

    async def __aenter__(self) -> ControlRouter:
        """Open the registries' lifespans."""
        async with AsyncExitStack() as opening:
            for name, allowed in self._allowed.items():
                lifespan = catalogue_of(allowed.registry).opened(self._limits)
                opened = await opening.enter_async_context(lifespan)
                self._servers[name].open(opened)
            self._lifespans = opening.pop_all()
        return self

    async def __aexit__(self, *raised: Any) -> bool | None:
        """Take no more messages, and close the lifespans."""
        self.close()
        return await self._lifespans.__aexit__(*raised)

    def close(self) -> None:
        """Accept no more messages. The registries are not touched; closing twice is fine."""
        self._closed = True

    @property
    def allowed_tools(self) -> list[str]:
        """The names of all tools that can be called now, as hosts have them."""
        return [
            server.full_name(tool) for server in self._allowed.values() for tool in server.names()
        ]

    async def handle(self, request: Json) -> dict[str, Json]:
        """Answer one control request.

        Args:
            request: The request, parsed.

        Returns:
            The control response. `mcp_response` is `null` for a notification.

        If cancelled, the call in the request is cancelled.
        """
        problem = self._problem_with(request)
        if problem is not None:
            return _failure(request, problem)
        body = request["request"]
        answer = await self._route(body["server_name"], body["message"])
        return _response(request, "success", {"response": {"mcp_response": answer}})

    async def handle_bytes(self, request: bytes) -> bytes:
        """Answer one control request that is not parsed yet. Otherwise like `handle`."""
        try:
            parsed = await offload(self._parsed, request)
        except ValueError as error:
            why = str(error)
            problem = _Problem(f"The control request is not JSON: {why}", {"reason": why})
            return codec.dumps(_failure(None, problem))
        return encode(await self.handle(parsed))[:-1]

    def _parsed(self, request: bytes) -> Json:
        limit = self._limits.max_message_values
        if is_heavier(request, limit):
            raise ValueError(f"it has more than {limit} values")
        codec.loads(request)  # strict, but it rounds long integers
        return json.loads(request)

    async def _route(self, name: str, message: Json) -> Json:
        server = self._servers.get(name)
        if server is None:
            data = {"server": name, "known": list(self._servers)}
            missing = McpError(METHOD_NOT_FOUND, f"Server not found: {name}", data)
            return _error_answer(message, missing)
        allowed, several = self._allowed[name], message if isinstance(message, list) else [message]
        errors = [allowed.refusal(member) for member in several]
        refused = [_error_answer(m, e) for m, e in zip(several, errors, strict=True) if e]
        if not refused:
            return allowed.shown(several, await self._answer(server, message))
        if not isinstance(message, list):
            return refused[0]
        passed = [m for m, e in zip(several, errors, strict=True) if e is None]
        answers = allowed.shown(passed, await self._answer(server, passed) if passed else [])
        return [*(answers or ()), *refused] if isinstance(answers, list | None) else answers

    async def _answer(self, server: Embedded, message: Json) -> Json:
        # Neither side is to be able to change what the other one holds.
        copied = await decoded(encode(message)[:-1], self._limits)
        line = None if copied is None else await server.answer(copied)
        return None if line is None else await offload(json.loads, line)

    def _problem_with(self, request: Json) -> _Problem | None:
        """Say what is wrong with a control request; `None` if it can be routed."""
        if self._closed:
            return _Problem("The router is closed", {})
        if not isinstance(request, dict):
            got = json_type(request)
            return _Problem(f"A control request must be an object, not {got}", {"got": got})
        for path, expected, fits in _ENVELOPE:
            found, value = _find(request, path.split("."))
            if not found or not fits(value):
                got = _told(value) if found else "nothing"
                data = {"field": path, "expected": expected, "got": got}
                return _Problem(f'"{path}" must be {expected}, not {got}', data)
        return self._problem_with_lifespan(request["request"]["server_name"])

    def _problem_with_lifespan(self, name: str) -> _Problem | None:
        server = self._servers.get(name)
        if server is None or server.is_open:
            return None
        if catalogue_of(self._allowed[name].registry).needs_running:
            what = f"The lifespan of server {name} is not open; use the router in `async with`"
            return _Problem(what, {"server": name})
        return None


@frozen
class _Problem:
    """What is wrong with an envelope."""

    message: str
    data: dict[str, Json]


_ENVELOPE: Final[tuple[tuple[str, str, Callable[[Json], bool]], ...]] = (
    ("type", '"control_request"', lambda value: value == "control_request"),
    ("request_id", "a string or an integer, or left out", lambda id: id is None or is_id(id)),
    ("request", "an object", lambda value: isinstance(value, dict)),
    ("request.subtype", '"mcp_message"', lambda value: value == "mcp_message"),
    ("request.server_name", "a string", lambda value: isinstance(value, str)),
    ("request.message", "there", lambda value: True),
)
"""What there is in a control request, what it must be, and whether it is."""

_MOST_OF_A_TEXT: Final = 100


def _find(request: Json, path: list[str]) -> tuple[bool, Json]:
    """Whether there is something at a path, and what; what may be left out is there as `None`."""
    for name in path:
        if name not in request and name != "request_id":
            return False, None
        request = request.get(name)
    return True, request


def _told(value: Json) -> str:
    return json.dumps(value[:_MOST_OF_A_TEXT]) if isinstance(value, str) else json_type(value)


def _failure(request: Json, problem: _Problem) -> dict[str, Json]:
    details = {"data": problem.data} if problem.data else {}
    return _response(request, "error", {"error": problem.message, **details})


def _response(request: Json, subtype: str, body: dict[str, Json]) -> dict[str, Json]:
    """Make the answer to a request; it has the id of one that has an id."""
    id = request.get("request_id") if isinstance(request, dict) else None
    named = {"request_id": id} if is_id(id) else {}
    return {"type": "control_response", "response": {"subtype": subtype, **named, **body}}


def _error_answer(message: Json, error: McpError) -> Json:
    id: Json = message.get("id") if isinstance(message, dict) else None
    return codec.loads(encode_error(id if is_id(id) else UNKNOWN_ID, error))
