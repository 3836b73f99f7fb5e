"""The methods that a client may call, and which revision has them.

Each function takes the dispatcher, the request, its caller and its session, and returns the
result, or a `ToolCall` for what takes time.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from trio_mcp.registry import Registry
from trio_mcp.registry.tools import unknown_tool
from trio_mcp.schema import ArgumentError
from trio_mcp.server.caller import Caller
from trio_mcp.server.toolcall import ToolCall, tool_failure
from trio_mcp.wire import revisions
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import INVALID_PARAMS, METHOD_NOT_FOUND, McpError
from trio_mcp.wire.jsonrpc import Json, Request, json_type
from trio_mcp.wire.revisions import LEGACY, MODERN, NEWEST_LEGACY, Revision

if TYPE_CHECKING:
    from trio_mcp.server.dispatcher import Dispatcher, Session

Method = Callable[["Dispatcher", Request, Caller, "Session"], "dict[str, Json] | ToolCall"]


def initialize(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> dict[str, Json]:
    """Agree on a legacy revision (2025-11-25, "Lifecycle")."""
    params = request.params
    wanted = _param(params, "protocolVersion", str)
    revision = LEGACY.get(wanted, NEWEST_LEGACY)
    capabilities = params.get("capabilities")
    session.caller = Caller(
        revision,
        capabilities if isinstance(capabilities, dict) else {},
        params.get("clientInfo"),
    )
    registry = dispatcher.registry
    result = {
        "protocolVersion": revision.name,
        "serverInfo": to_wire(registry.info, revision),
        "capabilities": capabilities_of(registry),
    }
    if registry.instructions is not None:
        result["instructions"] = registry.instructions
    return result


def discover(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> dict[str, Json]:
    """Say what this server is and speaks (2026-07-28, "Discovery")."""
    registry = dispatcher.registry
    result = {
        "supportedVersions": list(MODERN),
        "capabilities": capabilities_of(registry),
        **caching_hints(registry),
    }
    if registry.instructions is not None:
        result["instructions"] = registry.instructions
    return result


def ping(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> dict[str, Json]:
    """Show that the server is there."""
    return {}


def shutdown(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> dict[str, Json]:
    """End the connection gracefully (not of MCP; only where a client has it to itself)."""
    if session.stop is None:
        raise McpError(METHOD_NOT_FOUND, "Method not found: shutdown")
    session.stop()
    return {}


def list_tools(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> dict[str, Json]:
    """List the tools, in the order of their registration."""
    registry = dispatcher.registry
    _require_tools(registry, request.method)
    cursor = request.params.get("cursor")
    return dict(dispatcher.lists.tools(caller.revision, cursor))


def call_tool(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> dict[str, Json] | ToolCall:
    """Check a call's arguments, so that it is ready to run."""
    params = request.params
    registry = dispatcher.registry
    name = params.get("name")
    tool = registry.tools.get(name) if name.__class__ is str else None
    if tool is None:
        _require_tools(registry, request.method)
        raise unknown_tool(name, list(registry.tools))
    arguments = params.get("arguments")
    try:
        keywords = tool.bind({} if arguments is None else arguments)
    except ArgumentError as error:
        message = f"Invalid arguments for tool {tool.name}: {error}"
        if caller.revision.argument_errors_are_results and isinstance(arguments, dict | None):
            return tool_failure(message)
        raise McpError(INVALID_PARAMS, message) from None
    timeout = registry.timeout_of(tool, dispatcher.limits)
    return ToolCall(dispatcher, request, tool, keywords, caller, session, timeout)


def _require_tools(registry: Registry, method: str) -> None:
    if not registry.tools:
        data = {"server": registry.name}
        raise McpError(METHOD_NOT_FOUND, f"{method} handler not registered", data)


def capabilities_of(registry: Registry) -> dict[str, Json]:
    """Say what a registry offers: what is there is supported, what is not is not."""
    return {"tools": {}} if registry.tools else {}


def caching_hints(registry: Registry) -> dict[str, Json]:
    """Say how long a list may be kept, and by whom (2026-07-28, "Caching")."""
    return {"ttlMs": round(registry.cache_ttl * 1000), "cacheScope": registry.cache_scope}


def _param(params: Mapping[str, Json], name: str, kind: type) -> Json:
    value = params.get(name)
    if value.__class__ is kind:
        return value
    got = "it is missing" if name not in params else f"not {json_type(value)}"
    raise McpError(INVALID_PARAMS, f'Invalid params: "{name}" must be a string, {got}')


class ListCache:
    """The lists of a registry, page by page, kept until the registry changes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._changes = -1
        self._pages: dict[tuple[Revision, str | None], dict[str, Json]] = {}

    def tools(self, revision: Revision, cursor: Json) -> dict[str, Json]:
        """Return one page of the tools.

        Raises:
            McpError: The cursor is not one of ours (`-32602`).
        """
        if self._changes != self._registry.changes:
            self._pages.clear()
            self._changes = self._registry.changes
        if cursor is not None and not isinstance(cursor, str):
            raise _invalid_cursor()
        page = self._pages.get((revision, cursor))
        if page is None:
            page = self._pages[revision, cursor] = self._page(revision, cursor)
        return page

    def _page(self, revision: Revision, cursor: str | None) -> dict[str, Json]:
        tools = list(self._registry.tools.values())
        start = 0 if cursor is None else _start_of(cursor, [each.name for each in tools])
        end = start + (self._registry.page_size or len(tools))
        result: dict[str, Json] = {"tools": []}
        for tool in tools[start:end]:
            shown = to_wire(tool.description, revision)
            if revision.structured_objects_only and not tool.object_output:
                shown.pop("outputSchema", None)
            result["tools"].append(shown)
        if end < len(tools):
            result["nextCursor"] = _cursor_after(tools[end - 1].name)
        if revision.modern:
            result |= caching_hints(self._registry)
        return result


def _cursor_after(name: str) -> str:
    return base64.urlsafe_b64encode(f"after:{name}".encode()).decode()


def _start_of(cursor: str, names: list[str]) -> int:
    try:
        kind, _, name = (
            base64.b64decode(cursor, altchars=b"-_", validate=True).decode().partition(":")
        )
        if kind == "after":
            return names.index(name) + 1
    except (binascii.Error, ValueError):
        pass
    raise _invalid_cursor()


def _invalid_cursor() -> McpError:
    return McpError(INVALID_PARAMS, "Invalid cursor; ask for the list again from its beginning")


_METHODS: Final[Mapping[str, Method]] = {
    "initialize": initialize,
    "server/discover": discover,
    "ping": ping,
    "shutdown": shutdown,
    "tools/list": list_tools,
    "tools/call": call_tool,
}

TABLE: Final[Mapping[Revision, Mapping[str, Method]]] = {
    revision: {name: method for name, method in _METHODS.items() if name in revision.methods}
    for revision in revisions.ALL
}

MODERN_ONLY: Final = frozenset.union(*(each.methods for each in MODERN.values())).difference(
    *(each.methods for each in LEGACY.values())
)
