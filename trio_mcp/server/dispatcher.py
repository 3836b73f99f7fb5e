"""The way of a request, the same for every transport: validate, route, answer.

`begin` finds out who asks and in which revision, and looks the method up in that revision's
table. What needs no waiting is answered at once; a call comes back as a `HandlerCall`, which is run
in a task of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from trio_mcp.layers.answering import with_request_id
from trio_mcp.loggers import logger_of
from trio_mcp.peer.inbound import InboundRequest
from trio_mcp.server.caller import UNKNOWN_CALLER, Caller, caller_of
from trio_mcp.server.chains import Chains
from trio_mcp.server.methods import HANDLERS, Methods, unknown_method
from trio_mcp.server.request import MethodHandler, RequestContext
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session
from trio_mcp.telemetry import is_configured
from trio_mcp.wire.answers import Answer, Result, as_answer
from trio_mcp.wire.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    McpError,
)
from trio_mcp.wire.jsonrpc import Json, Malformed, Notification, Request
from trio_mcp.wire.revisions import Revision

logger = logger_of("trio_mcp")

Handlers = Mapping[Revision, Methods]


class Dispatcher:
    """Answers one client from a registry (a `Handler` of its connection)."""

    def __init__(self, server: Server, session: Session) -> None:
        self.server = server
        self.session = session
        if server.chains is None:
            server.chains = Chains(server)

    @property
    def takes_batches(self) -> bool:
        caller = self.session.caller
        return caller is UNKNOWN_CALLER or caller.revision.batches

    def begin(self, request: Request, in_batch: bool) -> Answer | InboundRequest:
        session = self.session
        try:
            meta = request.params.get("_meta")
            caller = session.caller if meta is None else caller_of(meta) or session.caller
            handlers = self.server.handlers or _handlers_of(self.server)
            handler = handlers[caller.revision].get(request.method)
            if handler is None:
                raise unknown_method(self.server.catalogue, request.method, caller)
            if in_batch:
                self._check_batched(request, caller)
            context = RequestContext(
                self.server,
                request.id,
                request.method,
                request.params,
                caller,
                session,
                session.authorization,
                session.headers,
            )
            answer = handler(context)
            if answer.__class__ is dict:
                return Result(context.complete(answer))
            return answer  # type: ignore[return-value]
        except McpError as error:
            return with_request_id(as_answer(error), request.id)
        except Exception:
            logger.exception("Internal error in %s", request.method)
            return McpError(INTERNAL_ERROR, "Internal error")

    def notified(self, notification: Notification) -> None:
        """Take note of a notification. None needs an answer, and unknown ones are allowed."""
        logger.debug("Notification %s", notification.method[:200])
        if notification.method == "notifications/roots/list_changed":
            self.server.note_roots_of(self.session)
        if self.server.catalogue.extensions is None:
            return
        from trio_mcp.server.extended import take_notification

        session, meta = self.session, notification.params.get("_meta")
        try:
            caller = caller_of(meta) or session.caller
        except McpError as error:
            logger.debug("Notification %s: %s", notification.method[:200], error)
            return
        take_notification(
            RequestContext(
                self.server,
                "",
                notification.method,
                notification.params,
                caller,
                session,
                session.authorization,
                session.headers,
            )
        )

    def malformed(self, message: Malformed, line: bytes) -> McpError:
        """Answer what is not a message: a client wants to know, and so does who runs the server."""
        if message.size:  # else it was too long, which is logged when its end has come
            logger.warning("Malformed message of %d bytes: %s", message.size, message.cause)
        return message.error

    def _check_batched(self, request: Request, caller: Caller) -> None:
        row = self.server.catalogue.methods.get(request.method)
        allowed = row is None or row.batchable  # what is unknown is refused for that
        if caller.revision.modern or not allowed:
            what = "a modern request" if allowed else request.method
            raise McpError(INVALID_REQUEST, f"Invalid request: {what} cannot be part of a batch")


def _handlers_of(server: Server) -> Handlers:
    """Find out who answers what, once lifespans are open: they may set what traces go to."""
    handlers: Handlers = HANDLERS
    if server.catalogue.extensions is not None:
        from trio_mcp.server.extensioncall import extended_handlers  # few have extensions

        handlers = extended_handlers(server)
    if server.middleware:
        handlers = through_middleware(handlers)
    if is_configured():
        from trio_mcp.server.tracing import with_spans

        handlers = with_spans(handlers)
    server.handlers = handlers
    return handlers


def through_middleware(handlers: Mapping[Revision, Methods]) -> dict[Revision, Methods]:
    """Make tables in which every method leads through middleware, unknown ones as well."""
    from trio_mcp.server.requestcall import RequestCall  # few servers have middleware

    def begin(context: RequestContext) -> dict[str, Json] | InboundRequest:
        handler = handlers[context.revision].get(context.method)
        if handler is None:
            raise unknown_method(context.server.catalogue, context.method, context.caller)
        return handler(context)

    every = _EveryMethod(partial(RequestCall, begin))
    return dict.fromkeys(handlers, every)


class _EveryMethod:
    """A table that has the same for each method (a `Methods`)."""

    def __init__(self, handler: MethodHandler) -> None:
        self._handler = handler

    def get(self, method: str, /) -> MethodHandler:
        return self._handler
