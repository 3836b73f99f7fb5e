"""A request that calls a function of the author's: a scope, a chain of layers, an answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import trio

from trio_mcp.layers.answering import CANCELLED, with_request_id
from trio_mcp.layers.call import Call
from trio_mcp.layers.call import Handler as Chain
from trio_mcp.layers.call_log import fields_of, log_call, logger
from trio_mcp.layers.concurrency import HeldSlots
from trio_mcp.peer.inbound import Cause, InboundRequest, Scope
from trio_mcp.registry import Context
from trio_mcp.registry.handlers import Handler
from trio_mcp.registry.invalid import InvalidResult, invalid_result
from trio_mcp.server.lending import Lending
from trio_mcp.server.request import RequestContext
from trio_mcp.server.scopes import view_of
from trio_mcp.wire.answers import Answer, Result
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import META_LOG_LEVEL, Revision

if TYPE_CHECKING:  # most servers hide nothing
    from trio_mcp.server.view import View


class HandlerCall(InboundRequest):
    """A request with checked arguments, ready to run (an `Exchange` of its call).

    Args:
        entry: What it asks for.
        name: What was asked for, where that is not the entry's name: of a template, a URI.
    """

    label: str = ""  # in place of the property
    timeout: float = 0.0
    _lending: Lending | None = None
    sent: Any = None

    def __init__(
        self, context: RequestContext, entry: Handler, arguments: Any, name: str | None = None
    ) -> None:
        self.context = context
        self.entry: Any = entry
        self.arguments = arguments
        self.name = entry.name if name is None else name
        self.label = entry.label
        timeout = entry.timeout
        self.timeout = context.server.usual_timeout if timeout is None else timeout
        self.revision: Revision = context.caller.revision
        self.outcome = "cancelled"
        self.conversation: Any = None  # a `RequestConversation`, once it has begun

    def run(self, scope: Scope) -> Awaitable[Answer | None]:
        context, arguments = self.context, self.arguments
        is_bound = arguments.__class__ is dict
        chain: Chain = context.server.chains.of(context.method, context.params, is_bound)
        return chain(Call(self, self.entry, self.name, arguments))

    def ended(self, outcome: str, answer: Answer) -> Answer:
        self.outcome = outcome
        if self.conversation is not None:
            self.conversation.finish()
        if logger.isEnabledFor(logging.INFO):
            self._log()
        return self.context.completed(answer) if self.revision.modern else answer

    def cut_short(self) -> Answer | None:
        conversation = self.conversation
        if conversation is None:
            return self.unfinished()
        conversation.close()
        if self.answered or self.cause is not None or not conversation.unwinding:
            return self.unfinished()
        try:
            question = Result(conversation.input_required())
        except (ValueError, TypeError) as error:  # more answers than a state can hold
            logger.error("%s: %s", self.label, error, extra=self.log_fields())
            text = f"{self.entry.label} failed: too much was asked"
            return self.ended("error", self.entry.failed(text))
        return self.ended("input required", question)

    def unfinished(self) -> Answer | None:
        """Return the answer to a cancelled call; without a cause it was the deadline."""
        if self.answered:  # while it went on
            return None
        self.outcome = "timeout" if self.cause is None else "cancelled"
        if logger.isEnabledFor(logging.INFO):
            self._log()
        if self.cause is None:
            text = f"{self.entry.label} timed out after {self.timeout:g} s"
            return self.context.completed(self.entry.failed(text))
        return CANCELLED if self.cause is Cause.SHUTDOWN else None

    @property
    def finished_in_time(self) -> bool:
        scope: Any = self.scope
        unwound = self.conversation is not None and self.conversation.unwinding
        return self.cause is Cause.SHUTDOWN and not (unwound or scope.cancelled_caught)

    # -- what its layers ask for (`Exchange` says what each is) ----------------------------

    @property
    def may_notify(self) -> bool:  # type: ignore[override]  # of others, it is an attribute
        """Whether anything may be sent before the answer: only what the caller asks to hear."""
        if not self.converses:
            return False
        meta, caller = self.context.meta or {}, self.context.caller
        asked = META_LOG_LEVEL in meta or "progressToken" in meta
        return asked or not caller.revision.modern or "extensions" in caller.capabilities

    @property
    def converses(self) -> bool:
        chains = self.context.server.chains
        gets_context: bool = self.entry.gets_context
        return gets_context or chains.converse(self.context.method, self.entry)

    @property
    def params(self) -> dict[str, Json]:
        return self.context.params

    @property
    def capabilities(self) -> dict[str, Json]:
        return self.context.caller.capabilities

    @property
    def threads(self) -> trio.CapacityLimiter:
        return self.context.server.threads

    def view(self) -> View | None:
        return view_of(self.context)

    def context_of(self, call: Call) -> Context:
        return self.context.make_context(call.name, self.begin_conversation(), call.provider)

    def state_of(self, provider: Any) -> Any:
        return self.context.server.state_of(provider)

    def state_keeper(self, provider: Any) -> Any:
        return self.context.state_keeper(provider)

    @property
    def lending(self) -> Lending:
        if self._lending is None:  # few calls wait for their client
            self._lending = Lending()
        return self._lending

    def lends(self, slots: HeldSlots) -> None:
        self.lending.add(slots)

    def begin_conversation(self) -> Any:
        if self.conversation is None:  # the modules are not imported before they are needed
            if self.revision.modern:
                from trio_mcp.server.modern_conversation import ModernConversation

                self.conversation = ModernConversation(self.context, self)
            else:
                from trio_mcp.server.legacy_conversation import LegacyConversation

                self.conversation = LegacyConversation(self.context, self)
        return self.conversation

    async def hash_binding(self) -> None:
        await self.context.hash_binding(self.entry.kind)

    def unsendable(self, value: Any) -> McpError:
        error = invalid_result(value, f"{self.entry.kind} {self.entry.name}")
        self.outcome = "error"
        self.log_unsendable(error)
        return error

    def log_unsendable(self, error: McpError) -> None:
        with_request_id(error, self.context.id)
        reason = error.reason if isinstance(error, InvalidResult) else error.message
        message = "%s: its result cannot be sent: %s"
        logger.error(message, self.label, reason, extra=self.log_fields())

    def log_error(self, message: str, error: BaseException) -> None:
        logger.error(message, self.label, exc_info=error, extra=self.log_fields())

    def _log(self) -> None:
        waited = self.scope is None and self.sent is None  # it never ran
        duration = 0.0 if waited else trio.current_time() - self.started
        log_call(self.label, self.outcome, duration, self.log_fields())

    def log_fields(self) -> dict[str, Json]:
        return fields_of(self.entry.kind, self.entry.name, self.context)
