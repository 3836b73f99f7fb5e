"""Which scopes a message needs, and what a caller with fewer may see.

Scopes are a matter of those transports whose callers have access tokens, and there they are checked
before a message is let in: then all that it needs can be named in one refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeVar

from trio_mcp.registry import Registry
from trio_mcp.registry.handlers import Handler
from trio_mcp.server.request import RequestContext
from trio_mcp.wire.jsonrpc import Batch, Json, Message, Request
from trio_mcp.wire.limits import Limits

H = TypeVar("H", bound=Handler)


def needed_scopes(registry: Registry, message: Message, limits: Limits) -> frozenset[str]:
    """Return the scopes that a message needs: of a batch, those of all that is in it."""
    needed = registry.scopes
    if not registry.has_scopes:
        return needed
    for each in message.messages if isinstance(message, Batch) else (message,):
        if isinstance(each, Request):
            handlers = handlers_of(registry, each.method, each.params)
            # Of more than that, all are refused; nobody has us look for a hundred thousand.
            for handler in islice(handlers, limits.max_subscriptions):
                needed |= handler.scopes
    return needed


def allows(context: RequestContext, handler: Handler) -> bool:
    """Whether the caller sees that there is such a thing."""
    authorization = context.authorization
    if authorization is None or not context.server.registry.filter_lists:
        return True
    return handler.scopes <= authorization.scopes


def visible(context: RequestContext, items: Mapping[str, H]) -> Mapping[str, H]:
    """What of a list the caller sees."""
    if context.authorization is None or not context.server.registry.filter_lists:
        return items
    # threads may change the registry
    return {name: each for name, each in list(items.items()) if allows(context, each)}


# -- whom a request is for ------------------------------------------------------------------


def handlers_of(registry: Registry, method: str, params: Mapping[str, Json]) -> Iterator[Handler]:
    """What a request is about, as far as there is such a thing."""
    find = _HANDLERS.get(method)
    if find is not None:
        yield from find(registry, params)
    elif registry.extensions is not None and method in registry.extensions.methods:
        yield registry.extensions.methods[method]


def _tool(registry: Registry, params: Mapping[str, Json]) -> Iterator[Handler]:
    name = params.get("name")
    if isinstance(name, str) and name in registry.tools:
        yield registry.tools[name]


def _prompt(registry: Registry, params: Mapping[str, Json]) -> Iterator[Handler]:
    name = params.get("name")
    if isinstance(name, str) and name in registry.prompts:
        yield registry.prompts[name]


def _resource(registry: Registry, params: Mapping[str, Json]) -> Iterator[Handler]:
    uri = params.get("uri")
    found = registry.find_resource(uri) if isinstance(uri, str) else None
    if found is not None:
        yield found[0]


def _completed(registry: Registry, params: Mapping[str, Json]) -> Iterator[Handler]:
    match params.get("ref"):
        case {"type": "ref/prompt", "name": str(name)}:
            yield from _prompt(registry, {"name": name})
        case {"type": "ref/resource", "uri": str(uri)}:
            template = registry.resource_templates.get(uri)
            if template is None:
                yield from _resource(registry, {"uri": uri})
            else:
                yield template


def _watched(registry: Registry, params: Mapping[str, Json]) -> Iterator[Handler]:
    match params.get("notifications"):
        case {"resourceSubscriptions": list(uris)}:
            for uri in dict.fromkeys(each for each in uris if isinstance(each, str)):
                yield from _resource(registry, {"uri": uri})


_HANDLERS: Final[Mapping[str, Callable[[Registry, Mapping[str, Json]], Iterator[Handler]]]] = {
    "tools/call": _tool,
    "prompts/get": _prompt,
    "resources/read": _resource,
    "resources/subscribe": _resource,
    "completion/complete": _completed,
    "subscriptions/listen": _watched,
}
"""Methods that are about something which may need scopes of its own, and what that is."""
