"""A request that goes through middleware: a task of its own, whatever it asks.

Innermost is what would have answered the request without middleware: an answer at once, or a call.
A call keeps its own scope and its own time limit inside of the request's, so its failures, its
time-out and its questions are results that the middleware sees. While it runs, it is what is
cancelled and what is overdue, as if there were nothing around it. What the client cancels, and what
the end of the server cuts off, then goes on through the middleware as `trio.Cancelled`.

One line answers it in the end, as for any other request: `Inbound` sees to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Any, Final

import trio
from attrs import evolve

from trio_mcp.layers.answering import CANCELLED, not_found, unwrapped, with_request_id
from trio_mcp.layers.call_log import fields_of, log_call
from trio_mcp.loggers import logger_of
from trio_mcp.peer.inbound import Cause, InboundRequest, Scope
from trio_mcp.registry.context import Context
from trio_mcp.registry.invalid import invalid_result
from trio_mcp.registry.middleware import McpRequest, chained, check_request
from trio_mcp.registry.provider import Provider
from trio_mcp.registry.tools import tool_failure
from trio_mcp.server.request import MethodHandler, RequestContext
from trio_mcp.server.scopes import handlers_of, hides
from trio_mcp.threads import is_large
from trio_mcp.wire.answers import Answer, Result, as_answer
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError, ResourceNotFound, ToolError
from trio_mcp.wire.jsonrpc import Json, sendable_text
from trio_mcp.wire.methods import CALL_TOOL

logger = logger_of("trio_mcp")

_LONGEST_LABEL: Final = 100


class RequestCall(InboundRequest):
    """A request in its middleware."""

    may_notify = True
    timeout: float = 0.0  # in place of the property
    _cause: Cause | None = None
    _answered = False
    _scope: Scope | None = None

    def __init__(self, begin: MethodHandler, context: RequestContext) -> None:
        self.context = context
        self.timeout = context.server.usual_timeout
        self._begin = begin
        self._inner: InboundRequest | None = None  # the call inside, while it runs
        self._inside: Result | None = None  # what was answered last as without middleware
        self._handshake: trio.Event | None = None
        if context.method == "initialize":
            # Later requests may be on the same pipe already. What they mean depends on this one.
            self._handshake = context.session.handshake = trio.Event()

    @property
    def label(self) -> str:
        return f"Request {self.context.method[:_LONGEST_LABEL]}"

    # -- how it stands, which the call inside shares ---------------------------------------

    @property
    def long_lived(self) -> bool:  # type: ignore[override]
        """Whether it goes on until it is cancelled: once a subscription has begun inside."""
        return self._inner is not None and self._inner.long_lived

    @property
    def cause(self) -> Cause | None:
        return self._cause

    @cause.setter
    def cause(self, cause: Cause | None) -> None:
        self._cause = cause
        if self._inner is not None:
            self._inner.cause = cause

    @property
    def answered(self) -> bool:
        return self._answered

    @answered.setter
    def answered(self, answered: bool) -> None:
        self._answered = answered
        if self._inner is not None:
            self._inner.answered = answered

    @property
    def scope(self) -> Scope | None:
        """What is cancelled with it: what runs inside, if anything does."""
        return self._scope if self._inner is None else self._inner.scope

    @scope.setter
    def scope(self, scope: Scope | None) -> None:
        self._scope = scope

    # -- in its task -----------------------------------------------------------------------

    async def run(self, scope: Scope) -> Answer | None:
        try:
            try:
                with scope:
                    members = await self._through()
                    large = is_large(members)
                    answer: Answer = Result(members, False, large, self._unsendable, members)
            except BaseException as raised:
                answer = self._failure(unwrapped(raised))
                if scope.cancel_called:
                    return self.unfinished()
            if scope.cancelled_caught or (scope.cancel_called and self.cause != Cause.SHUTDOWN):
                return self.unfinished()
            return answer
        finally:
            self._end_handshake()

    async def _through(self) -> dict[str, Json]:
        context, session = self.context, self.context.session
        if session.handshake not in (None, self._handshake) and not context.revision.modern:
            await session.handshake.wait()
            context.caller = session.caller
        asked = McpRequest(
            method=context.method,
            params=context.params,
            context=self._make_context,
            describe=self._description_of,
            resource_version=partial(_resource_version_of, context.server.catalogue),
        )
        result: Any = await chained(context.server.middleware, self._proceed)(asked)
        if not isinstance(result, Mapping):
            raise self._unsendable(result)
        return context.complete(dict(result))

    def _make_context(self) -> Context:
        asked = McpRequest(method=self.context.method, params=self.context.params)
        return self.context.make_context(asked.target or self.context.method)

    def _description_of(self, request: McpRequest) -> Any:
        found = handlers_of(self.context.server.catalogue, request.method, request.params)
        about = next(found, None)
        if about is None or hides(self.context, about):
            return None
        return getattr(about, "description", None)

    async def _proceed(self, request: McpRequest) -> dict[str, Json]:
        """Answer the request as it would be without middleware."""
        check_request(request, self.context.method)
        if self._inner is not None:
            raise RuntimeError("call_next is running already: await it before you call it again")
        context = evolve(self.context, params=request.params)
        try:
            begun = self._begin(context)
        except McpError as error:
            raise with_request_id(error, context.id) from None
        if isinstance(begun, InboundRequest):
            return await self._run_inside(begun)
        self._inside = None
        return {key: _copied(each) for key, each in context.complete(begun).items()}

    async def _run_inside(self, inner: InboundRequest) -> dict[str, Json]:
        """Run a call in a scope of its own. Meanwhile the request's own time stands still."""
        assert self._scope is not None
        now = trio.current_time()
        left = self._scope.deadline - now
        inner.open(self.inbound, self.id, self.key, self.channel, None, self.size)
        inner.cause, inner.answered = self._cause, self._answered
        inner.started = now
        inner.scope = scope = trio.CancelScope(deadline=now + inner.timeout)
        inner.overseer = self
        self._scope.deadline = inf
        self._inner = inner
        self.end_changed(inner)
        if inner.long_lived:
            self.inbound.release(self)
        try:
            answer = await inner.run(scope)
        finally:
            self._inner = None
            self.left_open |= inner.left_open
            self.move_deadline(trio.current_time() + left)
        if self._cause is not None or self._answered:
            self._scope.cancel()
        if answer is None or answer is CANCELLED:  # there is nothing to go on with
            await trio.lowlevel.checkpoint()
        if isinstance(answer, McpError):
            raise answer
        self._inside = answer
        return {} if answer is None else answer.members

    def end_changed(self, request: InboundRequest) -> None:
        """Pass on that the call inside was cancelled, or has another deadline."""
        if self.overseer is not None:
            self.overseer.end_changed(self)

    def _end_handshake(self) -> None:
        if self._handshake is not None:
            self._handshake.set()
            if self.context.session.handshake is self._handshake:
                self.context.session.handshake = None

    # -- its answer ------------------------------------------------------------------------

    def _unsendable(self, answer: Any) -> McpError:
        inside = self._inside
        if inside is not None and (refusal := inside.encode()) is not None:
            return refusal
        method = self.context.method[:_LONGEST_LABEL]
        error = invalid_result(answer, f"middleware around {method}")
        logger.error("%s: its result cannot be sent: %s", self.label, error.reason)
        return error

    def _failure(self, error: BaseException) -> Answer:
        if isinstance(error, McpError):
            return as_answer(error)
        if isinstance(error, ResourceNotFound):
            return not_found(self.context.revision, str(error))
        method = self.context.method[:_LONGEST_LABEL]
        if isinstance(error, ToolError):
            return self._failed(sendable_text(str(error)) or f"{method} failed")
        logger.error("Middleware failed around %s", method, exc_info=error)
        return self._failed(f"{method} failed: internal error (see the server's log)")

    def _failed(self, text: str) -> Answer:
        """Tell of a failure in words: of a tool call, for the model to read."""
        if self.context.method == CALL_TOOL.name:
            return Result(self.context.complete(tool_failure(text)))
        return McpError(INTERNAL_ERROR, text)

    def unfinished(self) -> Answer | None:
        """Return the answer to a request that was cancelled; without a cause it was too slow."""
        self._end_handshake()
        if self._answered:
            return None
        return self._cut_short() if self._inner is None else self._inner.unfinished()

    def _cut_short(self) -> Answer | None:
        """Return what answers a request that was cancelled while no call ran inside."""
        self._log("timeout" if self._cause is None else "cancelled")
        if self._cause is None:
            method = self.context.method[:_LONGEST_LABEL]
            return self._failed(f"{method} timed out after {self.timeout:g} s")
        return CANCELLED if self._cause is Cause.SHUTDOWN else None

    def _log(self, outcome: str) -> None:
        """Log the end of a request that no call inside has logged."""
        method = self.context.method
        known = method if method in self.context.server.catalogue.methods else None
        duration = trio.current_time() - self.started if self.started else 0.0
        label = "Unknown request" if known is None else f"Request {known}"
        log_call(label, outcome, duration, fields_of("request", known, self.context))


def _resource_version_of(provider: Provider) -> int:
    return hash(
        (
            provider.changes.updates,
            *(_resource_version_of(mount.provider) for mount in provider.mounts),
        )
    )


def _copied(value: Json) -> Json:
    """Copy what lists are kept as, down to their items: middleware may take some out."""
    if not isinstance(value, list):
        return value
    return [dict(item) if isinstance(item, dict) else item for item in value]
