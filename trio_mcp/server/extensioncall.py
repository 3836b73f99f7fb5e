"""Where extensions come in: methods of their own, and what they run around calls."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from trio_mcp.layers.call import Call, Handler, Layer
from trio_mcp.layers.call_log import NOT_DECLARED, note_refusal
from trio_mcp.layers.extending import AroundCalls
from trio_mcp.registry.extension import ExtensionRequest
from trio_mcp.server.extended import request_for
from trio_mcp.server.handlercall import HandlerCall
from trio_mcp.server.methods import HANDLERS
from trio_mcp.server.request import MethodHandler, RequestContext
from trio_mcp.server.server import Server
from trio_mcp.wire.extensions import declared_settings, missing
from trio_mcp.wire.revisions import ALL, Revision


def extended_handlers(server: Server) -> dict[Revision, dict[str, MethodHandler]]:
    """Make the tables of methods, with those that extensions add to them."""
    extensions = server.catalogue.extensions
    assert extensions is not None
    return {
        revision: {
            **HANDLERS[revision],
            **{
                name: begin_method
                for name in extensions.methods
                if extensions.has_method(name, revision)
            },
        }
        for revision in ALL
    }


def begin_method(context: RequestContext) -> HandlerCall:
    """Make the call of an extension's method.

    Raises:
        McpError: The client has to have declared the extension, and has not (`-32021`).
    """
    extensions, capabilities = context.server.catalogue.extensions, context.caller.capabilities
    assert extensions is not None
    method = extensions.methods[context.method]
    identifier = method.extension.identifier
    if not method.open_to_all and declared_settings(capabilities, identifier) is None:
        note_refusal(method.kind, method.name, NOT_DECLARED, context)
        raise missing(capabilities, identifier)
    return HandlerCall(context, method, {})


def requesting_layer(extension: Any) -> Layer:
    """Make the layer that gives a method of an extension its request."""

    def layer(inner: Handler) -> Handler:
        def run(call: Call) -> Awaitable[Any]:
            call.arguments = {"request": request_of(extension, call)}
            return inner(call)

        return run

    return layer


def request_of(extension: AroundCalls, call: Call) -> ExtensionRequest:
    """Make what an extension gets of a call."""
    exchange, identifier = call.exchange, extension.identifier
    context, option = call.make_context(), call.entry.extensions.get(identifier)
    answers = exchange.begin_conversation().answers
    return request_for(identifier, exchange.context, context, option, answers)
