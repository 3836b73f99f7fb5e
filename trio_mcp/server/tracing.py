"""A span and a measured duration for each request, where the application uses OpenTelemetry.

It stands outside of everything else that is done about a request, middleware included: what has to
wait runs within its span, from the arrival of the request; what is answered at once has one, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import Any, Final

from trio_mcp.peer.inbound import InboundRequest, Scope
from trio_mcp.registry.handlers import Handler
from trio_mcp.server.methods import Methods, unknown_method
from trio_mcp.server.request import MethodHandler, RequestContext
from trio_mcp.server.scopes import handlers_of
from trio_mcp.telemetry import OTHER, Telemetry, request_attributes
from trio_mcp.wire.answers import Answer, Result
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.methods import LISTEN
from trio_mcp.wire.revisions import Revision

_LISTED: Final = {"tool", "prompt"}


def with_spans(handlers: Mapping[Revision, Methods]) -> dict[Revision, Methods]:
    """Make tables in which every method is traced, unknown ones as well.

    Args:
        handlers: Who answers what.
    """
    telemetry = Telemetry("server")
    return {revision: _Traced(telemetry, methods) for revision, methods in handlers.items()}


class _Traced:
    """A table whose requests are traced (a `Methods`)."""

    def __init__(self, telemetry: Telemetry, methods: Methods) -> None:
        self._telemetry = telemetry
        self._methods = methods

    def get(self, method: str, /) -> MethodHandler:
        return partial(self._begin, self._methods.get(method))

    def _begin(
        self, handler: MethodHandler | None, context: RequestContext
    ) -> dict[str, Json] | InboundRequest:
        began = perf_counter()
        try:
            if handler is None:
                raise unknown_method(context.server.catalogue, context.method, context.caller)
            answer = handler(context)
        except Exception as error:
            self._answered(context, began, error)
            raise
        if isinstance(answer, InboundRequest):
            run = partial(self._run, context, began, answer.run)
            answer.run = run  # type: ignore[method-assign]
            answer.relay = None  # its span is of the task that it runs in
        else:
            self._answered(context, began, answer)
        return answer

    def _answered(self, context: RequestContext, began: float, answer: object) -> None:
        ago = perf_counter() - began
        with self._telemetry.request(_attributes(context), context.meta or {}, ago=ago) as outcome:
            outcome.note(answer)

    async def _run(
        self, context: RequestContext, began: float, run: Any, scope: Scope
    ) -> Answer | None:
        ago = perf_counter() - began
        with self._telemetry.request(_attributes(context), context.meta or {}, ago=ago) as outcome:
            answer: Answer | None = await run(scope)
            outcome.note(answer.members if isinstance(answer, Result) else answer)
        return answer


def _attributes(context: RequestContext) -> dict[str, Any]:
    """Return what a span tells of a request; what it names, only if there is such a thing."""
    method, session, catalogue = context.method, context.session, context.server.catalogue
    entry: Handler | None = None
    if method != LISTEN.name:  # which may name any number of resources
        for named in handlers_of(catalogue, method, context.params):
            entry = named if entry is None or named.kind == entry.kind else entry  # what it calls
    caller = session.caller if method == "initialize" else context.caller
    found = request_attributes(
        method if method in catalogue.methods else OTHER,
        entry.name if entry is not None and entry.kind in _LISTED else None,
        caller.revision.name,
        context.id,
        session.network,
    )
    if entry is not None and entry.kind == "resource":
        found["mcp.resource.uri"] = entry.name
    if session.connection_id is not None:
        found["mcp.session.id"] = session.connection_id
    if session.address:
        found["client.address"] = session.address
    return found
