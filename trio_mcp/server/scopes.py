"""Which scopes a message needs, and what of a registry a caller sees.

Scopes are a matter of those transports whose callers have access tokens, and there they are checked
before a message is let in: then all that it needs can be named in one refusal.

What a caller does not see is treated everywhere as what is not there. What it only lacks scopes for
is hidden in lists and suggestions, if the registry wants that; who calls it learns what is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from trio_mcp.registry import Registry
from trio_mcp.registry.handlers import Handler
from trio_mcp.server.request import RequestContext
from trio_mcp.wire.jsonrpc import Batch, Json, Message, Request

if TYPE_CHECKING:  # most servers hide nothing
    from trio_mcp.server.view import View

_MOST_NAMES: Final = 1000


def needed_scopes(message: Message, context: RequestContext) -> frozenset[str]:
    """Return the scopes that a message needs: of a batch, those of all that is in it.

    Args:
        message: The message.
        context: Who sends it. What is hidden from the sender needs nothing, like what is not there.
    """
    registry, limits = context.server.registry, context.server.limits
    needed = registry.scopes
    if not registry.has_scopes:
        return needed
    for each in message.messages if isinstance(message, Batch) else (message,):
        if isinstance(each, Request):
            handlers = handlers_of(registry, each.method, each.params)
            # Of more than that, all are refused; nobody has us look for a hundred thousand.
            for handler in islice(handlers, limits.max_subscriptions):
                if not hides(context, handler):
                    needed |= handler.scopes
    return needed


def view_of(context: RequestContext) -> View | None:
    """Return what the caller sees in lists; `None` if that is everything."""
    registry, authorization = context.server.registry, context.authorization
    by_scopes = authorization is not None and registry.filter_lists
    if not (by_scopes or registry.hides_some):
        return None
    from trio_mcp.server.view import View

    scopes = authorization.scopes if by_scopes and authorization is not None else None
    return View(scopes, context.make_context(context.method) if registry.hides_some else None)


def hides(context: RequestContext, handler: Handler) -> bool:
    """Whether a thing is not there for the caller, whose token may allow what it wants."""
    if not handler.visible:
        return False
    from trio_mcp.server.view import is_shown

    return not is_shown(handler, context.make_context(context.method))


def find_resource(context: RequestContext, uri: str) -> tuple[Any, dict[str, Any]] | None:
    """Find who says what is at a URI, if the caller sees it (`Registry.find_resource`)."""
    found = context.server.registry.find_resource(uri)
    return None if found is None or hides(context, found[0]) else found


def names_seen(context: RequestContext, items: Mapping[str, Handler]) -> list[str]:
    """Some of the names that the caller sees, as many as are compared with a wrong one."""
    view = view_of(context)
    some = list(islice(list(items.items()), _MOST_NAMES))  # threads may change the registry
    return [name for name, each in some if view is None or view.shows(each)]


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
