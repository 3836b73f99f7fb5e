"""The methods that a client may call, and which revision has them.

Each function takes the dispatcher, the request, its caller and its session, and returns the
result, or a call for what takes time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from trio_mcp.peer.exchange import Call
from trio_mcp.registry import Registry
from trio_mcp.registry.changes import KINDS, Listener
from trio_mcp.registry.tools import unknown_tool
from trio_mcp.schema import ArgumentError
from trio_mcp.server.caller import Caller, log_level
from trio_mcp.server.calllog import INVALID_ARGUMENTS, NOT_FOUND, log_refusal
from trio_mcp.server.handlercall import not_found
from trio_mcp.server.lists import LISTINGS, caching_hints
from trio_mcp.server.othercalls import CompletionCall, PromptCall, ReadCall
from trio_mcp.server.subscriptions import Listen, read_filter
from trio_mcp.server.toolcall import ToolCall, tool_failure
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import INVALID_PARAMS, METHOD_NOT_FOUND, McpError
from trio_mcp.wire.jsonrpc import Json, Request, json_type
from trio_mcp.wire.methods import BY_REVISION, CAPABILITIES
from trio_mcp.wire.revisions import LEGACY, MODERN, NEWEST_LEGACY, SINCE, Revision

if TYPE_CHECKING:
    from trio_mcp.server.dispatcher import Dispatcher, Session

Method = Callable[["Dispatcher", Request, Caller, "Session"], "dict[str, Json] | Call"]


def initialize(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> dict[str, Json]:
    """Agree on a legacy revision (2025-11-25, "Lifecycle")."""
    params = request.params
    wanted = _param(params, "protocolVersion")
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
        "capabilities": capabilities_of(registry, revision, tells=session.listener is not None),
    }
    if session.listener is not None:
        session.listener.kinds = {kind for kind in KINDS if kind in registry.offers}
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
        "capabilities": capabilities_of(registry, caller.revision),
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


def list_items(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> dict[str, Json]:
    """List what there is of one kind, in the order of its registration."""
    _require(dispatcher.registry, LISTINGS[request.method].kind, request.method)
    cursor = request.params.get("cursor")
    return dict(dispatcher.lists.page(request.method, caller.revision, cursor))


def call_tool(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> dict[str, Json] | ToolCall:
    """Check a call's arguments, so that it is ready to run."""
    params = request.params
    registry = dispatcher.registry
    name = params.get("name")
    tool = registry.tools.get(name) if name.__class__ is str else None
    if tool is None:
        log_refusal("Tool", None, NOT_FOUND, request, session)
        _require(registry, "tools", request.method)
        raise unknown_tool(name, list(registry.tools))
    arguments = params.get("arguments")
    try:
        keywords = tool.bind({} if arguments is None else arguments)
    except ArgumentError as error:
        log_refusal("Tool", tool.name, INVALID_ARGUMENTS, request, session)
        message = f"Invalid arguments for tool {tool.name}: {error}"
        if caller.revision.argument_errors_are_results and isinstance(arguments, dict | None):
            return tool_failure(message)
        raise McpError(INVALID_PARAMS, message) from None
    timeout = registry.timeout_of(tool, dispatcher.limits)
    return ToolCall(dispatcher, request, tool, keywords, caller, session, timeout)


def read_resource(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> ReadCall:
    """Find the resource at a URI, so that it is ready to be read."""
    registry = dispatcher.registry
    _require(registry, "resources", request.method)
    uri = _param(request.params, "uri")
    found = registry.find_resource(uri)
    if found is None:
        log_refusal("Resource", None, NOT_FOUND, request, session)
        raise not_found(caller, uri)
    resource, keywords = found
    timeout = registry.timeout_of(resource, dispatcher.limits)
    return ReadCall(dispatcher, request, resource, keywords, caller, session, timeout, uri=uri)


def subscribe(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> dict[str, Json]:
    """Begin to tell of a resource's changes (legacy)."""
    _require(dispatcher.registry, "resources", request.method)
    uri = _param(request.params, "uri")
    if not dispatcher.registry.has_resource(uri):
        raise not_found(caller, uri)
    listener = _listener(session, request.method)
    most = dispatcher.limits.max_subscriptions
    if len(listener.uris) >= most and uri not in listener.uris:
        raise McpError(INVALID_PARAMS, f"There are {most} subscriptions already, the most allowed")
    listener.watch(uri)
    return {}


def unsubscribe(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> dict[str, Json]:
    """Tell of a resource's changes no more (legacy)."""
    _require(dispatcher.registry, "resources", request.method)
    _listener(session, request.method).unwatch(_param(request.params, "uri"))
    return {}


def _listener(session: Session, method: str) -> Listener:
    if session.listener is None:
        raise McpError(METHOD_NOT_FOUND, f"{method} needs a connection that lasts")
    return session.listener


def listen(dispatcher: Dispatcher, request: Request, caller: Caller, session: Session) -> Listen:
    """Open a stream of changes (2026-07-28, "Subscriptions")."""
    wanted = read_filter(request.params, dispatcher)
    most = dispatcher.limits.max_subscriptions
    if session.subscriptions >= most:
        raise McpError(INVALID_PARAMS, f"There are {most} subscriptions already, the most allowed")
    session.subscriptions += 1
    return Listen(dispatcher, request, caller.revision, wanted, session)


def get_prompt(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> PromptCall:
    """Check a prompt's arguments, so that it is ready to be written."""
    registry = dispatcher.registry
    _require(registry, "prompts", request.method)
    name = _param(request.params, "name")
    if name not in registry.prompts:
        log_refusal("Prompt", None, NOT_FOUND, request, session)
    prompt = registry.find_prompt(name)
    arguments = request.params.get("arguments")
    try:
        keywords = prompt.bind({} if arguments is None else arguments)
    except ArgumentError as error:
        log_refusal("Prompt", prompt.name, INVALID_ARGUMENTS, request, session)
        message = f"Invalid arguments for prompt {prompt.name}: {error}"
        raise McpError(INVALID_PARAMS, message) from None
    timeout = registry.timeout_of(prompt, dispatcher.limits)
    return PromptCall(dispatcher, request, prompt, keywords, caller, session, timeout)


def complete(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> CompletionCall:
    """Find who completes an argument (2026-07-28, "Completion")."""
    registry = dispatcher.registry
    _require(registry, "completions", request.method)
    match request.params:
        case {
            "ref": {"type": "ref/prompt", "name": str(target)}
            | {"type": "ref/resource", "uri": str(target)},
            "argument": {"name": str(name), "value": str(value)},
        }:
            pass
        case _:
            raise McpError(
                INVALID_PARAMS,
                'Invalid params: completion needs "ref" (of type "ref/prompt" with a "name", or '
                '"ref/resource" with a "uri") and "argument" with a "name" and a "value"',
            )
    kind = request.params["ref"]["type"]
    completer = registry.completers.find(kind, target, name)
    keywords = completer.keywords(value, _chosen(request.params.get("context")))
    timeout = registry.timeout_of(completer, dispatcher.limits)
    return CompletionCall(dispatcher, request, completer, keywords, caller, session, timeout)


def _chosen(context: Json) -> dict[str, str]:
    """The arguments that a client has chosen already."""
    arguments = context.get("arguments", {}) if isinstance(context, dict) else {}
    if not isinstance(arguments, dict):
        return {}
    return {name: each for name, each in arguments.items() if isinstance(each, str)}


def set_log_level(
    dispatcher: Dispatcher, request: Request, caller: Caller, session: Session
) -> dict[str, Json]:
    """Send log messages of this level and above from now on (legacy)."""
    session.log_level = log_level(_param(request.params, "level"))
    return {}


def _require(registry: Registry, offer: str, method: str) -> None:
    if offer not in registry.offers:
        data = {"server": registry.name}
        raise McpError(METHOD_NOT_FOUND, f"{method} handler not registered", data)


def capabilities_of(
    registry: Registry, revision: Revision, *, tells: bool = True
) -> dict[str, Json]:
    """Say what a registry offers: what is there is supported, what is not is not.

    Args:
        registry: What is served.
        revision: The revision that the client speaks.
        tells: Whether the client can be told of changes.
    """
    return {
        offer: dict(capability.details) if tells else {}
        for offer, capability in CAPABILITIES.items()
        if offer in registry.offers and revision in SINCE[capability.since]
    }


def _param(params: Mapping[str, Json], name: str) -> str:
    value = params.get(name)
    if value.__class__ is str:
        text: str = value
        return text
    got = "it is missing" if name not in params else f"not {json_type(value)}"
    raise McpError(INVALID_PARAMS, f'Invalid params: "{name}" must be a string, {got}')


_HANDLERS: Final[Mapping[str, Method]] = {
    "initialize": initialize,
    "server/discover": discover,
    "ping": ping,
    "shutdown": shutdown,
    "tools/call": call_tool,
    "resources/read": read_resource,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
    "subscriptions/listen": listen,
    "prompts/get": get_prompt,
    "completion/complete": complete,
    "logging/setLevel": set_log_level,
    **dict.fromkeys(LISTINGS, list_items),
}

TABLE: Final[Mapping[Revision, Mapping[str, Method]]] = {
    revision: {name: _HANDLERS[name] for name, row in rows.items() if row.sender == "client"}
    for revision, rows in BY_REVISION.items()
}
"""Who answers what. A row of `wire/methods` without a handler fails here, at import."""
