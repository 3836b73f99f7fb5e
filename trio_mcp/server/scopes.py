"""Which scopes a message needs, and what of a registry a caller sees.

Scopes are a matter of those transports whose callers have access tokens, and there they are checked
before a message is let in: then all that it needs can be named in one refusal.

What a caller does not see is treated everywhere as what is not there. What it only lacks scopes for
is hidden in lists and suggestions, if the registry wants that; who calls it learns what is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from trio_mcp.registry.catalogue import Catalogue
from trio_mcp.registry.handlers import Handler
from trio_mcp.registry.kinds import CALLED, RESOURCE
from trio_mcp.schema import ArgumentError
from trio_mcp.server.request import RequestContext
from trio_mcp.server.server import Server
from trio_mcp.wire.jsonrpc import Batch, Json, Message, Request
from trio_mcp.wire.methods import LISTEN, SUBSCRIBE

if TYPE_CHECKING:  # most servers hide nothing
    from trio_mcp.server.view import View

_MOST_NAMES: Final = 1000


def needed_scopes(
    message: Message, server: Server, context_of: Callable[[Request], RequestContext]
) -> frozenset[str]:
    """Return the scopes that a message needs: of a batch, those of all its requests.

    Where the catalogue has no scopes of single entries (`has_scopes`), these are its own.

    Args:
        message: The message.
        server: What is served.
        context_of: Makes the context of a request, as far as its sender is known. It is called only
            for entries with visibility rules: what is hidden from the sender needs nothing.
    """
    catalogue = server.catalogue
    needed = catalogue.scopes
    for request in message.messages if isinstance(message, Batch) else (message,):
        if isinstance(request, Request):
            sees = partial(_sees, context_of, request)
            entries = handlers_of(catalogue, request.method, request.params, sees)
            # A request for more than that is refused in any case.
            for entry in islice(entries, server.limits.max_subscriptions):
                if sees(entry):
                    needed |= entry.scopes
    return needed


def _sees(
    context_of: Callable[[Request], RequestContext], request: Request, entry: Handler
) -> bool:
    return not entry.visible or _shows(context_of(request), entry)


def view_of(context: RequestContext) -> View | None:
    """Return what the caller sees in lists; `None` if that is everything."""
    catalogue, authorization = context.server.catalogue, context.authorization
    by_scopes = authorization is not None and catalogue.options.filter_lists
    if not (by_scopes or catalogue.has_visibility_rules):
        return None
    from trio_mcp.server.view import View

    scopes = authorization.scopes if by_scopes and authorization is not None else None
    return View(
        scopes, context.make_context(context.method) if catalogue.has_visibility_rules else None
    )


def hides(context: RequestContext, handler: Handler) -> bool:
    """Whether a thing is not there for the caller.

    If that goes by the caller, all that it goes by may not have been known when the scopes of the
    message were looked at: those of its session, or what only such callers are shown elsewhere. So
    it is there only for a token that has them.
    """
    if not handler.visible:
        return False
    allowed = context.authorization
    if allowed is not None and not handler.scopes <= allowed.scopes:
        return True
    return not _shows(context, handler)


def _shows(context: RequestContext, handler: Handler) -> bool:
    from trio_mcp.server.view import is_shown

    return is_shown(handler, context.make_context(context.method))


def find_resource(context: RequestContext, uri: str) -> tuple[Any, dict[str, Any]] | None:
    """Find who says what is at a URI, if the caller sees it (`Registry.find_resource`)."""
    found = context.server.catalogue.find_resource(uri)
    return None if found is None or hides(context, found[0]) else found


def names_seen(context: RequestContext, items: Mapping[str, Handler]) -> list[str]:
    """Some of the names that the caller sees, as many as are compared with a wrong one."""
    view = view_of(context)
    some = list(islice(list(items.items()), _MOST_NAMES))  # threads may change the registry
    return [name for name, each in some if view is None or view.shows(each)]


# -- whom a request is for ------------------------------------------------------------------


def handlers_of(
    catalogue: Catalogue,
    method: str,
    params: Mapping[str, Json],
    sees: Callable[[Handler], bool] = lambda entry: True,
) -> Iterator[Handler]:
    """What a request is about, as far as there is such a thing.

    Args:
        catalogue: What is served.
        method: The method.
        params: The parameters.
        sees: Says what the caller may reach by a tool that calls others.
    """
    kind = RESOURCE if method == SUBSCRIBE.name else CALLED.get(method)
    if method == LISTEN.name:
        yield from _watched(catalogue, params)
    elif kind is not None:
        found = kind.find(catalogue, params)
        if found is not None:
            yield found
            if getattr(found, "delegate", None) is not None:
                yield from _target(found, params.get("arguments"), sees)
    elif catalogue.extensions is not None and method in catalogue.extensions.methods:
        yield catalogue.extensions.methods[method]


def _target(tool: Any, arguments: Json, sees: Callable[[Handler], bool]) -> Iterator[Handler]:
    """What a tool is to call, if that is there for the caller."""
    from trio_mcp.registry.delegation import target_of

    with suppress(ArgumentError):
        yield target_of(tool, arguments, sees).entry


def _watched(catalogue: Catalogue, params: Mapping[str, Json]) -> Iterator[Handler]:
    match params.get("notifications"):
        case {"resourceSubscriptions": list(uris)}:
            for uri in dict.fromkeys(text for text in uris if isinstance(text, str)):
                found = RESOURCE.find(catalogue, {"uri": uri})
                yield from () if found is None else (found,)
