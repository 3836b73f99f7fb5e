"""The methods that a client may call, and which revision has them.

Each function takes a request in its context, and returns the result, or a call for what takes time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from trio_mcp.layers.answering import not_found
from trio_mcp.layers.call_log import INVALID_ARGUMENTS, NOT_FOUND, note_refusal
from trio_mcp.peer.inbound import InboundRequest
from trio_mcp.registry.catalogue import Catalogue
from trio_mcp.registry.changes import Listener
from trio_mcp.registry.kinds import LISTED, ListedKind
from trio_mcp.registry.tools import tool_failure, unknown, unknown_tool
from trio_mcp.schema import ArgumentError
from trio_mcp.server.caller import Caller, fits, invalid, log_level
from trio_mcp.server.handlercall import HandlerCall
from trio_mcp.server.lists import without_hints
from trio_mcp.server.request import (
    MethodHandler,
    RequestContext,
    check_subscriptions,
    misfit,
    params_of,
    size_of,
)
from trio_mcp.server.scopes import find_resource, hides, names_seen, view_of
from trio_mcp.server.subscriptions import Listen, Subscribe, read_filter, told_kinds
from trio_mcp.wire.conversion import Misfit, to_wire
from trio_mcp.wire.errors import INVALID_PARAMS, METHOD_NOT_FOUND, McpError
from trio_mcp.wire.handshake import DiscoverResult, InitializeParams, InitializeResult
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.methods import BY_REVISION, CAPABILITIES, modern_only
from trio_mcp.wire.revisions import (
    LEGACY,
    META_CLIENT_CAPABILITIES,
    META_VERSION,
    MODERN,
    NEWEST_LEGACY,
    SINCE,
    Revision,
)

# What other calls than those of tools need is imported by the first of them: no server has to wait
# for it before it answers its first request.
if TYPE_CHECKING:
    from trio_mcp.registry.kinds import RefType
    from trio_mcp.registry.prompts import Prompt
    from trio_mcp.registry.tools import Tool


class Methods(Protocol):
    """Who answers what, in one revision."""

    def get(self, method: str, /) -> MethodHandler | None: ...


def unknown_method(catalogue: Catalogue, method: str, caller: Caller) -> McpError:
    """Make the error for a method that the caller's revision does not have."""
    methods, data = catalogue.methods, _data_of(catalogue, method)
    if modern_only(method, methods):  # and the request does not say that it is modern
        needed = f"_meta fields {META_VERSION} and {META_CLIENT_CAPABILITIES}"
        return invalid(f"{method} needs the {needed}", data)
    message = f"Method not found: {method[:200]}"
    if method in methods and methods[method].sender == "client":
        message += f" (in revision {caller.revision.name})"
    return McpError(METHOD_NOT_FOUND, message, data)


def _data_of(catalogue: Catalogue, method: str) -> dict[str, Json]:
    """What errors about a method say besides."""
    return {"server": catalogue.name, "method": method[:200]}


def initialize(context: RequestContext) -> dict[str, Json]:
    """Agree on a legacy revision (2025-11-25, "Lifecycle")."""
    caller = context.session.caller = newcomer(context)
    revision = caller.revision
    registry, catalogue = context.server.registry, context.server.catalogue
    if context.session.listener is not None:
        context.session.listener.kinds = set(told_kinds(catalogue))
    result = InitializeResult(
        protocol_version=revision.name,
        server_info=to_wire(registry.info, revision),
        capabilities=capabilities_of(
            catalogue, revision, tells=context.session.listener is not None
        ),
        instructions=registry.instructions,
    )
    return {**without_hints(catalogue.handshake_members), **to_wire(result, revision)}


def newcomer(context: RequestContext) -> Caller:
    """Read from the parameters of `initialize` who the client is.

    Raises:
        McpError: The parameters are not what they should be, or too large to be kept (`-32602`).
    """
    params = params_of(context, InitializeParams)
    revision = LEGACY.get(params.protocol_version, NEWEST_LEGACY)
    capabilities = params.capabilities if isinstance(params.capabilities, dict) else {}
    caller = Caller(revision, capabilities, params.client_info)
    return caller.kept(context.server.limits.max_client_bytes)


def discover(context: RequestContext) -> dict[str, Json]:
    """Say what this server is and speaks (2026-07-28, "Discovery")."""
    registry, catalogue = context.server.registry, context.server.catalogue
    result = DiscoverResult(
        supported_versions=list(MODERN),
        capabilities=capabilities_of(catalogue, context.revision),
        ttl_ms=round(catalogue.options.cache_ttl * 1000),
        cache_scope=catalogue.options.cache_scope,
        instructions=registry.instructions,
    )
    return {**to_wire(result, context.revision), **catalogue.handshake_members}


def ping(context: RequestContext) -> dict[str, Json]:
    """Show that the server is there."""
    return {}


def shutdown(context: RequestContext) -> dict[str, Json]:
    """End the connection gracefully (not of MCP; only where a client has it to itself)."""
    if context.session.stop is None:
        data = _data_of(context.server.catalogue, context.method)
        message = "Method not found: shutdown (it is for connections that are one client's own)"
        raise McpError(METHOD_NOT_FOUND, message, data)
    context.session.stop()
    return {}


def call_tool(context: RequestContext, *, waits: bool = True) -> dict[str, Json] | InboundRequest:
    """Check a call's arguments, so that it is ready to run."""
    params = context.params
    catalogue = context.server.catalogue
    name = params.get("name")
    tool = catalogue.tools.get(name) if name.__class__ is str else None
    if tool is None or (tool.visible and hides(context, tool)):
        if waits and (waiting := _waiting(context, partial(call_tool, waits=False))):
            return waiting
        note_refusal("tool", None, NOT_FOUND, context, name)
        _require(context, "tools")
        raise unknown_tool(name, names_seen(context, catalogue.tools))
    if tool.delegate is not None:
        return _delegated(context, tool, waits)
    return _bound(context, tool)


def _bound(context: RequestContext, entry: Tool | Prompt) -> dict[str, Json] | HandlerCall:
    """Make the call of a tool or a prompt, if its arguments fit."""
    arguments = context.params.get("arguments")
    try:
        keywords = entry.bind({} if arguments is None else arguments)
    except ArgumentError as error:
        return _refused(context, entry, error)
    if entry.relay is None:
        return HandlerCall(context, entry, keywords)
    from trio_mcp.server.relayedcall import RelayedCall  # of servers elsewhere alone

    return RelayedCall(context, entry, keywords)


def _delegated(
    context: RequestContext, tool: Tool, waits: bool
) -> dict[str, Json] | InboundRequest:
    """Make the call of what a tool is to call."""
    from trio_mcp.registry.delegation import target_of

    arguments, named = context.params.get("arguments"), tool
    try:
        given = {} if arguments is None else arguments
        target = target_of(tool, given, lambda entry: not hides(context, entry))
        named = target.entry
        entry, keywords = target.ready(tool)
        return HandlerCall(context, entry, keywords)
    except ArgumentError as error:
        if waits and (waiting := _waiting(context, partial(call_tool, waits=False))):
            return waiting
        return _refused(context, tool, error, named)


def _refused(
    context: RequestContext, entry: Tool | Prompt, error: ArgumentError, named: Any = None
) -> dict[str, Json]:
    """Answer a call whose arguments do not fit: for what is named, if that is not the entry."""
    named = entry if named is None else named
    note_refusal(named.kind, named.name, INVALID_ARGUMENTS, context)
    message = f"Invalid arguments for {named.kind} {named.name}: {error}"
    is_result = entry.kind == "tool" and context.revision.argument_errors_are_results
    if is_result and isinstance(context.params.get("arguments"), dict | None):
        return tool_failure(message)
    raise McpError(INVALID_PARAMS, message, named.refusal_data(error, context.id)) from None


def read_resource(context: RequestContext) -> HandlerCall:
    """Find the resource at a URI, so that it is ready to be read."""
    from trio_mcp.wire.offers import ResourceParams

    _require(context, "resources")
    uri = params_of(context, ResourceParams).uri
    found = find_resource(context, uri)
    if found is None:
        note_refusal("resource", None, NOT_FOUND, context)
        raise not_found(context.revision, uri)
    resource, keywords = found
    return HandlerCall(context, resource, keywords, uri)


def subscribe(context: RequestContext) -> dict[str, Json] | Subscribe:
    """Begin to tell of a resource's changes (legacy)."""
    from trio_mcp.wire.offers import ResourceParams

    _require(context, "resources")
    catalogue = context.server.catalogue
    if not catalogue.details_of("resources").get("subscribe"):
        raise _not_registered(context)
    uri = params_of(context, ResourceParams).uri
    if find_resource(context, uri) is None:
        raise not_found(context.revision, uri)
    listener = _listener(context)
    if uri not in listener.uris:
        size = size_of((uri, *listener.uris))
        check_subscriptions(context, len(listener.uris), size)
    listener.watch(uri)
    return Subscribe(context, uri) if catalogue.mounts else {}


def unsubscribe(context: RequestContext) -> dict[str, Json]:
    """Tell of a resource's changes no more (legacy)."""
    from trio_mcp.wire.offers import ResourceParams

    _require(context, "resources")
    _listener(context).unwatch(params_of(context, ResourceParams).uri)
    return {}


def _listener(context: RequestContext) -> Listener:
    if context.session.listener is None:
        method = context.method
        raise McpError(METHOD_NOT_FOUND, f"{method} needs a connection that stays open")
    return context.session.listener


def listen(context: RequestContext) -> Listen:
    """Open a stream of changes (2026-07-28, "Subscriptions")."""
    limits = context.server.limits
    # A character may take four bytes. Middleware has all of the request for as long as it is open.
    most = limits.max_client_bytes + 4 * limits.max_subscription_bytes
    if not fits(context.params, most):
        raise invalid(f"a subscription may take {most:,} bytes of memory")
    wanted = read_filter(context)
    session, size = context.session, wanted.size
    check_subscriptions(context, session.subscriptions, session.subscription_bytes + size)
    lean = context.lean({"notifications": wanted.wire()})
    session.subscriptions += 1
    session.subscription_bytes += size
    return Listen(lean, wanted)


def get_prompt(context: RequestContext, *, waits: bool = True) -> dict[str, Json] | InboundRequest:
    """Check a prompt's arguments, so that it is ready to be written."""
    from trio_mcp.wire.offers import GetPromptParams

    catalogue = context.server.catalogue
    _require(context, "prompts")
    name = params_of(context, GetPromptParams).name
    prompt = catalogue.prompts.get(name)
    if prompt is None or hides(context, prompt):
        if waits and (waiting := _waiting(context, partial(get_prompt, waits=False))):
            return waiting
        note_refusal("prompt", None, NOT_FOUND, context, name)
        raise unknown("prompt", name, names_seen(context, catalogue.prompts))
    return _bound(context, prompt)


def complete(context: RequestContext) -> HandlerCall:
    """Find who completes an argument (2026-07-28, "Completion")."""
    from trio_mcp.wire.offers import CompleteParams

    catalogue = context.server.catalogue
    _require(context, "completions")
    params = params_of(context, CompleteParams)
    kind, target = params.ref.type, params.ref.target
    if target is None:
        path = "ref.name" if kind == "ref/prompt" else "ref.uri"
        raise misfit(Misfit(path, "a string", "nothing"))
    try:
        _check_seen(context, kind, target)
        completer = catalogue.find_completer(kind, target, params.argument.name)
    except McpError:
        note_refusal("completion", None, NOT_FOUND, context)
        raise
    keywords = completer.keywords(params.argument.value, _chosen(params.context))
    return HandlerCall(context, completer, keywords)


def _check_seen(context: RequestContext, kind: RefType, target: str) -> None:
    """Make sure that what is completed is seen, and that no error tells of what is not."""
    view, catalogue = view_of(context), context.server.catalogue
    if view is None:
        return
    known: Mapping[str, Any] = catalogue.prompts
    if kind == "ref/resource":
        known = catalogue.resource_templates
    there = known.get(target)
    if there is None and kind == "ref/resource":
        there = catalogue.resources.get(target)
    if there is None or hides(context, there):
        noun = "prompt" if kind == "ref/prompt" else "resource template"
        raise unknown(noun, target, names_seen(context, known))


def _chosen(context: Json) -> dict[str, str]:
    """The arguments that a client has chosen already; `McpError` (`-32602`) for too many."""
    arguments = context.get("arguments", {}) if isinstance(context, dict) else {}
    if not isinstance(arguments, dict):
        return {}
    if len(arguments) > _MOST_CHOSEN:
        raise invalid(f"the context has more than {_MOST_CHOSEN} arguments")
    return {name: each for name, each in arguments.items() if isinstance(each, str)}


def set_log_level(context: RequestContext) -> dict[str, Json]:
    """Send log messages of this level and above from now on (legacy)."""
    from trio_mcp.wire.messages import SetLevelParams

    _require(context, "logging")
    context.session.log_level = log_level(params_of(context, SetLevelParams).level)
    return {}


def _require(context: RequestContext, offer: str) -> None:
    catalogue = context.server.catalogue
    if offer not in catalogue.offers:
        raise _not_registered(context)


def _not_registered(context: RequestContext) -> McpError:
    data = _data_of(context.server.catalogue, context.method)
    return McpError(METHOD_NOT_FOUND, f"{context.method} handler not registered", data)


def capabilities_of(
    catalogue: Catalogue, revision: Revision, *, tells: bool = True
) -> dict[str, Json]:
    """Return the capabilities of a registry: present means supported.

    Args:
        catalogue: What is served.
        revision: The revision that the client speaks.
        tells: Whether the client can be notified of changes.
    """
    offers = catalogue.offers
    declared: dict[str, Json] = {
        offer: dict(catalogue.details_of(offer)) if tells else {}
        for offer, capability in CAPABILITIES.items()
        if offer in offers and revision in SINCE[capability.since]
    }
    extensions = catalogue.extensions and catalogue.extensions.capabilities(revision)
    return {**declared, "extensions": extensions} if extensions else declared


def _list(kind: ListedKind) -> MethodHandler:
    """Make the handler that lists what there is of one kind, in the order of its registration."""

    def page(context: RequestContext) -> dict[str, Json] | InboundRequest:
        from trio_mcp.wire.messages import ListParams

        lists = context.server.lists
        _require(context, kind.capability)
        cursor = params_of(context, ListParams).cursor
        if lists.takes_long(kind, context.revision):
            from trio_mcp.server.listing import Listing  # few servers have so much

            return Listing(context, kind, cursor)
        return lists.page(kind, context.revision, cursor, view_of(context))

    def list_items(context: RequestContext) -> dict[str, Json] | InboundRequest:
        return _waiting(context, page) or page(context)

    return list_items


def _waiting(context: RequestContext, begin: MethodHandler) -> InboundRequest | None:
    """Have a request wait until it is known what its sender sees; `None` if it is known."""
    catalogue = context.server.catalogue
    if not catalogue.mounts:
        return None
    caller = context.make_context(context.method)
    if catalogue.is_ready_for(caller):
        return None
    from trio_mcp.server.waiting import WaitingRequest  # only servers elsewhere depend on callers

    return WaitingRequest(begin, context, caller)


_MOST_CHOSEN: Final = 1000
_HANDLERS: Final[Mapping[str, MethodHandler]] = {
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
    **{kind.list.name: _list(kind) for kind in LISTED.values()},
}

HANDLERS: Final[Mapping[Revision, Mapping[str, MethodHandler]]] = {
    revision: {name: _HANDLERS[name] for name, row in rows.items() if row.sender == "client"}
    for revision, rows in BY_REVISION.items()
}
"""Who answers what. A row of `wire/methods` without a handler fails here, at import."""
