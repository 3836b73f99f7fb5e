"""The way of a request, the same for every transport: validate, route, answer.

`begin` finds out who asks and in which revision, and looks the method up in that revision's
table. What needs no waiting is answered at once; a tool call comes back as a `ToolCall`, which
the transport runs in a task of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import trio
from attrs import define, field

from trio_mcp.peer.exchange import Call
from trio_mcp.registry import Registry
from trio_mcp.registry.changes import Listener
from trio_mcp.server import methods, tracing
from trio_mcp.server.caller import UNKNOWN_CALLER, Caller, caller_of, is_modern
from trio_mcp.server.handlercall import HandlerCall
from trio_mcp.server.lists import ListCache
from trio_mcp.wire import revisions
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    McpError,
)
from trio_mcp.wire.jsonrpc import (
    Json,
    Malformed,
    Notification,
    Request,
    error_line,
    result_line,
)
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.methods import BY_REVISION, METHODS, modern_only
from trio_mcp.wire.revisions import META_CLIENT_CAPABILITIES, META_SERVER_INFO, Revision

logger = logging.getLogger("trio_mcp")

Observe = Callable[[HandlerCall], AbstractContextManager[None]]


class Dispatcher:
    """Answers requests from one registry, for any number of connections.

    Args:
        registry: What is served.
        limits: The bounds to keep.
        state: What the registry's lifespan yielded.
        observe: Entered around each call that runs a handler.
    """

    def __init__(
        self,
        registry: Registry,
        limits: Limits,
        state: Json = None,
        observe: Observe | None = None,
    ) -> None:
        self.registry = registry
        self.limits = limits
        self.state = state
        self.threads = trio.CapacityLimiter(limits.max_worker_threads)
        self.observe = _with_tracing(observe)
        self.lists = ListCache(registry)
        self._meta: dict[Revision, Json] = {}

    def begin(self, request: Request, session: Session, in_batch: bool = False) -> bytes | Call:
        """Answer a request with a line, or with the call that will make one."""
        try:
            meta = request.params.get("_meta")
            if meta is not None and is_modern(meta):
                caller = caller_of(meta)
            else:
                caller = session.caller
            method = methods.TABLE[caller.revision].get(request.method)
            if method is None:
                raise self._unknown_method(request, caller)
            if in_batch:
                _check_batched(request, caller)
            answer = method(self, request, caller, session)
            if answer.__class__ is dict:
                return result_line(request.id, self.complete(answer, caller.revision))
            return answer  # type: ignore[return-value]
        except McpError as error:
            return error_line(request.id, error)
        except Exception:
            logger.exception("Internal error in %s", request.method)
            return error_line(request.id, McpError(INTERNAL_ERROR, "Internal error"))

    def complete(self, result: dict[str, Json], revision: Revision) -> dict[str, Json]:
        """Add to a result what the modern revisions want in every result."""
        if not revision.modern:
            return result
        meta = self._meta.get(revision)
        if meta is None:
            meta = {META_SERVER_INFO: to_wire(self.registry.info, revision)}
            self._meta[revision] = meta
        own = result.get("_meta")
        result.setdefault("resultType", "complete")
        result["_meta"] = {**meta, **own} if own else meta
        return result

    def _unknown_method(self, request: Request, caller: Caller) -> McpError:
        method = request.method
        data = {"server": self.registry.name}
        if method in BY_REVISION[caller.revision]:
            return McpError(METHOD_NOT_FOUND, f"{method} handler not registered", data)
        if modern_only(method):  # and the request does not say that it is modern
            needed = f"_meta fields {revisions.META_VERSION} and {META_CLIENT_CAPABILITIES}"
            return McpError(INVALID_PARAMS, f"Invalid params: {method} needs the {needed}", data)
        message = f"Method not found: {method[:200]}"
        if method in METHODS:
            message += f" (in revision {caller.revision.name})"
        return McpError(METHOD_NOT_FOUND, message, data)


def _with_tracing(observe: Observe | None) -> Observe | None:
    """Add spans, if the application traces."""
    if not tracing.is_traced():
        return observe
    if observe is None:
        return tracing.observe_call

    @contextmanager
    def both(call: HandlerCall) -> Iterator[None]:
        with tracing.observe_call(call), observe(call):
            yield

    return both


def _check_batched(request: Request, caller: Caller) -> None:
    allowed = METHODS[request.method].batchable
    if caller.revision.modern or not allowed:
        what = "a modern request" if allowed else request.method
        raise McpError(INVALID_REQUEST, f"Invalid request: {what} cannot be part of a batch")


@define(eq=False)
class Session:
    """What one connection knows of its client: in legacy revisions, what `initialize` said."""

    dispatcher: Dispatcher
    connection_id: str = ""
    stop: Callable[[], None] | None = None
    """Ends the connection; `None` where a client may not."""
    caller: Caller = field(default=UNKNOWN_CALLER)
    principal: str | None = None
    """Who the client was proved to be; `None` where nothing was proved."""
    log_level: str = "info"
    """What a legacy client wants to hear (`logging/setLevel`)."""
    subscriptions: int = 0
    """How many `subscriptions/listen` are open."""
    listener: Listener | None = None
    """The changes that a legacy client is told of; `None` where it cannot be."""

    def begin(self, request: Request, in_batch: bool) -> bytes | Call:
        """Answer a request of this connection."""
        return self.dispatcher.begin(request, self, in_batch)

    def notified(self, notification: Notification) -> None:
        """Take note of a notification. None needs an answer, and unknown ones are allowed."""
        logger.debug("Notification %s", notification.method[:200])

    def malformed(self, message: Malformed, line: bytes) -> bytes:
        """Answer what is no message: a client wants to know."""
        return error_line(message.id, message.error)
