"""What a handler says and asks while its request is open, and how each era carries it.

Progress and log messages are notifications on the request's own way back. A question is a request
to the client in legacy revisions. In modern ones there is no such thing: the handler is unwound,
the client gets the question as the result of its request (`input_required`), and sends the request
again with the answer. Then the handler runs from its beginning, and every question that has been
answered is answered at once from the record: the answers of earlier rounds, which travel sealed in
`requestState`, and those of the last one.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from contextlib import suppress
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Final, NoReturn

import orjson
import trio

from trio_mcp.peer.channel import ReplyChannel
from trio_mcp.peer.inbound import InboundRequest
from trio_mcp.peer.outbound import ConnectionEnded, DeadlinePassed, notification_line
from trio_mcp.registry.converting import converted
from trio_mcp.registry.handlers import InputRequired
from trio_mcp.server.request import RequestContext
from trio_mcp.wire.bucket import TokenBucket
from trio_mcp.wire.errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import Json, is_id, json_type
from trio_mcp.wire.methods import has_question
from trio_mcp.wire.payloads import LOGGING_LEVELS, LoggingLevel
from trio_mcp.wire.revisions import META_LOG_LEVEL, Revision

if TYPE_CHECKING:  # few requests bring a state
    from trio_mcp.registry.sealing import CheckedState, StateRefused

logger = logging.getLogger("trio_mcp.calls")

_PROGRESS_BURST: Final = 20

_ENDED: Final = "The request has ended, so its client cannot be asked any more"

_ROUND: Final = ("inputResponses", "requestState")
"""Parameters that a request has when it is sent again with answers."""

_OTHERS: Final = 10
"""Checkpoints that a question waits for others that are asked beside it."""


def declares(revision: Revision, declared: Json, capability: tuple[str, ...]) -> bool:
    """Whether a client declares a capability that its revision has a question for."""
    if not has_question(revision, capability):
        return False
    for place, name in enumerate(capability):
        if not isinstance(declared, dict):
            return False
        if capability[:place] == ("elicitation",) and name == "form" and not declared:
            return True  # what an empty object stands for
        if name not in declared:
            return False
        declared = declared[name]
    return True


class QuestionNames:
    """Names for the questions of a handler, so that each is known again when it runs again."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self.given: Final[dict[str, None]] = {}
        """The names so far, in their order."""

    def name_of(self, question: dict[str, Json], key: str | None) -> str:
        """Name a question: by its key, or else by what it asks."""
        if key is None:
            text = orjson.dumps(question, option=orjson.OPT_SORT_KEYS)
            key = hashlib.sha256(text).hexdigest()[:16]
        name = key
        while True:
            self._asked[key] += 1
            if self._asked[key] > 1:  # the same question, or another one of that name
                name = f"{key}-{self._asked[key]}"
            if name not in self.given:
                self.given[name] = None
                return name


class RequestConversation:
    """The way back to the caller of one request (a `Conversation`).

    Args:
        context: The request, and who sent it.
        inbound: The same, while it is open.
        binding: What the request is about: a sealed state is good for this alone.

    Raises:
        McpError: The request carries answers that are no answers, or a state that is refused.
    """

    def __init__(
        self,
        context: RequestContext,
        inbound: InboundRequest,
        binding: Json,
    ) -> None:
        self.revision = context.revision
        self._context = context
        self._registry = context.server.registry
        self._limits = context.server.limits
        self._inbound = inbound
        self._binding = binding
        self._meta: dict[str, Json] = context.meta or {}
        self._last_progress = -inf
        self._progress_bucket: TokenBucket | None = None
        self._held_back: bytes | None = None  # the last progress, if it was one too many
        self._sending = False  # progress is being sent
        self._over = False
        self._names = QuestionNames()
        self._asking: set[trio.CancelScope] = set()  # questions that wait for the client
        self._kept: dict[str, Json] = {}  # what the record of this round has to hold as well
        self._passed_on: dict[str, Json] = {}  # the answers to somebody else's questions
        self._unused: CheckedState | None = None  # the state, while others have to be told of it
        self._answers = self._recorded_answers(context.params)
        self.questions: Final[dict[str, Json]] = {}
        """What the client has to answer before the handler can go on."""
        self.unwinding = False
        """Whether the handler was cancelled because of these questions."""

    # -- notifications ---------------------------------------------------------------------------

    @property
    def _channel(self) -> ReplyChannel | None:
        """The way back, while something may be sent."""
        channel = self._inbound.channel
        sends = channel.carries_messages and not (self.unwinding or self._has_ended)
        return channel if sends else None

    @property
    def _has_ended(self) -> bool:
        inbound = self._inbound
        return self._over or inbound.answered or inbound.cause is not None

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell how far the work is, if the caller wants to know."""
        await trio.lowlevel.checkpoint()
        if not _is_finite(progress) or not _is_finite(total or 0):
            raise ValueError("progress and total must be finite numbers")
        token = self._meta.get("progressToken")
        channel = self._channel
        if channel is None or not is_id(token) or progress <= self._last_progress:
            return
        self._last_progress = progress
        params: dict[str, Json] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None and self.revision.progress_messages:
            params["message"] = message
        line = notification_line("notifications/progress", params)
        if self._progress_bucket is None:
            rate = self._limits.progress_rate
            self._progress_bucket = TokenBucket(rate, max(_PROGRESS_BURST, rate))
        self._held_back = line
        if not self._sending and self._progress_bucket.take(trio.current_time()):
            await self._send_progress(channel, self._progress_bucket)

    async def _send_progress(self, channel: ReplyChannel, bucket: TokenBucket) -> None:
        """Send the progress, one after the other: tasks side by side must not overtake."""
        self._sending = True
        try:
            line = self._take_held_back()
            while line is not None:
                await channel.send_notification(line)
                more = self._held_back is not None and bucket.take(trio.current_time())
                line = self._take_held_back() if more else None
        finally:
            self._sending = False

    def _take_held_back(self) -> bytes | None:
        line, self._held_back = self._held_back, None
        return line

    def finish(self) -> None:
        """Say what was held back, and no more: the answer comes next."""
        channel = self._channel
        if self._held_back is not None and channel is not None:
            channel.send_notification_nowait(self._held_back)
        self.close()

    def close(self) -> None:
        """Say and ask no more; what is asked still, by threads that were left behind, is off."""
        self._over = True
        for scope in self._asking:
            scope.cancel()

    @property
    def log_level(self) -> LoggingLevel | None:
        """The least severe level of log messages that the caller wants; `None` for no messages."""
        of_session = self._context.session.log_level
        wanted: Any = self._meta.get(META_LOG_LEVEL) if self.revision.modern else of_session
        return wanted if wanted in LOGGING_LEVELS else None

    def logs(self, level: LoggingLevel) -> bool:
        """Whether the caller wants log messages of this level."""
        wanted, severity = self.log_level, LOGGING_LEVELS.get(level)
        if severity is None:
            raise ValueError(f"no log level {level!r}; there are: {', '.join(LOGGING_LEVELS)}")
        return wanted is not None and severity >= LOGGING_LEVELS[wanted]

    async def log(self, level: LoggingLevel, data: Json, source: str | None) -> None:
        """Send a log message."""
        await trio.lowlevel.checkpoint()
        channel = self._channel
        if self.logs(level) and channel is not None:
            await channel.send_notification(log_line(level, data, source))

    def log_nowait(self, level: LoggingLevel, data: Json, source: str | None) -> None:
        """Send a log message without waiting for room."""
        channel = self._channel
        if self.logs(level) and channel is not None:
            channel.send_notification_nowait(log_line(level, data, source))

    async def notify(self, method: str, params: dict[str, Json]) -> None:
        """Send a notification of an extension, if the caller has declared that."""
        from trio_mcp.wire.extensions import declared_settings

        await trio.lowlevel.checkpoint()
        extensions, channel = self._registry.extensions, self._channel
        owner = None if extensions is None else extensions.sent.get(method)
        if owner is None:
            raise ValueError(f"no extension of the registry sends {method!r:.100}")
        settings = declared_settings(self._context.caller.capabilities, owner.identifier)
        era = "modern" if self.revision.modern else "legacy"
        if channel is not None and settings is not None and owner.era in (None, era):
            await channel.send_notification(notification_line(method, params))

    def close_sse_stream(self) -> None:
        """Have the client come back for the rest."""
        channel = self._channel
        if channel is not None:
            channel.close_sse_stream()

    # -- the request ---------------------------------------------------------------------------

    @property
    def params(self) -> dict[str, Json]:
        """The parameters of the request, and, of an earlier round, only what is not ours."""
        own = {name: each for name, each in self._context.params.items() if name not in _ROUND}
        return {**own, **self._passed_on}

    @property
    def capabilities(self) -> dict[str, Json]:
        """What the caller has declared."""
        return self._context.caller.capabilities

    @property
    def passes_questions(self) -> bool:
        """Whether the request may be answered by somebody else's question."""
        return self.revision.modern and self._registry.methods[self._context.method].may_ask

    # -- questions ---------------------------------------------------------------------------

    @property
    def answers(self) -> dict[str, Json]:
        """What the caller has answered in earlier rounds, by the names of the questions."""
        return dict(self._answers)

    @property
    def cannot_ask(self) -> str | None:
        """Why this caller cannot be asked anything; `None` if it can."""
        return None if self.revision.modern else self._inbound.channel.cannot_ask

    def supports(self, *capability: str) -> bool:
        """Whether the caller has declared a capability that its revision has a question for."""
        able = self.cannot_ask is None
        return able and declares(self.revision, self._context.caller.capabilities, capability)

    async def send_request(self, method: str, params: dict[str, Json], key: str | None) -> Json:
        """Ask the caller something, and return its result."""
        await trio.lowlevel.checkpoint()
        if self._has_ended:
            raise McpError(INVALID_REQUEST, _ENDED)
        if self.revision.modern:
            return await self._ask_by_result(method, params, key)
        return await self._ask_by_request(method, params)

    async def _ask_by_request(self, method: str, params: dict[str, Json]) -> Json:
        patience = self._limits.question_timeout
        deadline = trio.current_time() + patience
        waiting = trio.CancelScope()
        self._stop_the_clock(patience, waiting)
        try:
            with waiting:
                return await self._inbound.channel.send_request(method, params, deadline)
            raise McpError(INVALID_REQUEST, _ENDED)
        except DeadlinePassed:
            message = f"The client did not answer {method} within {patience:g} s"
            raise McpError(INTERNAL_ERROR, message) from None
        except ConnectionEnded:
            raise McpError(INTERNAL_ERROR, f"The client left before it answered {method}") from None
        finally:
            self._start_the_clock(waiting)

    def _stop_the_clock(self, patience: float, waiting: trio.CancelScope) -> None:
        """A person's time to think is not the handler's: its deadline waits."""
        scope = self._inbound.scope
        if scope is not None:
            if not self._asking:
                self._left = scope.deadline - trio.current_time()
            self._inbound.move_deadline(trio.current_time() + patience + self._left)
        self._asking.add(waiting)

    def _start_the_clock(self, waiting: trio.CancelScope) -> None:
        self._asking.discard(waiting)
        scope = self._inbound.scope
        if scope is not None and not self._asking:
            self._inbound.move_deadline(trio.current_time() + self._left)

    async def _ask_by_result(self, method: str, params: dict[str, Json], key: str | None) -> Json:
        question: dict[str, Json] = {"method": method, "params": params}
        key = self._names.name_of(question, key)
        if key in self._answers:
            return self._answers[key]
        method_row = self._registry.methods[self._context.method]
        if not method_row.may_ask:
            message = f"Revision {self.revision.name} allows no questions during {method_row.name}"
            raise McpError(INTERNAL_ERROR, message)
        self._registry.sealer.check_ready()
        self.questions[key] = question
        try:
            for _ in range(_OTHERS):
                await trio.lowlevel.checkpoint()
        except trio.Cancelled:
            if not self.unwinding:  # the handler wants to know no more
                del self.questions[key]
            raise
        return await self._unwind()

    async def take_in(self) -> None:
        """Take in what a state will have to be good for, while others get their turn."""
        from trio_mcp.registry.sealing import Bound

        with suppress(TypeError):  # which is told where it is sealed, when nothing can wait
            self._binding = await converted(Bound.of, self._binding)

    async def _unwind(self) -> NoReturn:
        """Cancel the handler: it is run again when there is an answer."""
        await self.take_in()
        scope = self._inbound.scope
        if scope is not None and not scope.cancel_called:
            self.unwinding = True
            scope.cancel()
        await trio.lowlevel.checkpoint()
        raise InputRequired  # in a shield, or from a thread: cancellation does not get there

    def _recorded_answers(self, params: dict[str, Json]) -> dict[str, Json]:
        if not self.revision.modern:
            return {}
        given = params.get("inputResponses", {})
        if not isinstance(given, dict):
            message = f"Invalid params: inputResponses must be an object, not {json_type(given)}"
            raise McpError(INVALID_PARAMS, message)
        if "requestState" in params:
            record = self._opened(params["requestState"])
            if "passed_on" in record:
                self._passed_on = {"inputResponses": given, **record["passed_on"]}
                return {}
            pending = {key: given[key] for key in record["asked"] if key in given}
            self._kept = {**pending, **record["answers"]}
        elif given:  # without a state, they may be for whoever the request is passed on to
            self._passed_on = {"inputResponses": given}
        return {**given, **self._kept}

    def _opened(self, state: Json) -> dict[str, Json]:
        from trio_mcp.registry.sealing import StateRefused

        if not isinstance(state, str):
            message = f"Invalid params: requestState must be a string, not {json_type(state)}"
            raise McpError(INVALID_PARAMS, message)
        try:
            record: dict[str, Json]
            if self._context.server.use_state is None:
                record = self._registry.sealer.open(state, self._binding)
            else:
                self._unused = self._registry.sealer.check(state, self._binding)
                record = self._unused.content
        except StateRefused as refusal:
            raise _refused(refusal) from None
        return record

    async def use_state(self) -> None:
        """Have all who share a record know that the state of the request is used.

        Raises:
            McpError: It was used before, or nobody knows.
        """
        use, state = self._context.server.use_state, self._unused
        if use is None or state is None:
            return
        self._unused = None
        if not await use(self._context.session.principal, state.id, state.seconds):
            from trio_mcp.registry.sealing import StateRefused

            raise _refused(StateRefused("replayed", "it was used before, or too many were"))

    def input_required(self) -> dict[str, Json]:
        """Make the result that asks the client, and gives it the record to bring back."""
        answered = {key: self._answers[key] for key in self._names.given if key in self._answers}
        record = {"answers": {**self._kept, **answered}, "asked": list(self.questions)}
        return {
            "resultType": "input_required",
            "inputRequests": dict(self.questions),
            "requestState": self._registry.sealer.seal(record, self._binding),
        }

    def pass_on(self, question: dict[str, Json]) -> dict[str, Json]:
        """Make the result that asks the client what somebody else has asked by such a result.

        Their state comes back to them, but only with the request that it was given for.
        """
        if not self.passes_questions:
            message = "A question cannot be the answer to this request; Context.ask can ask it"
            raise McpError(INTERNAL_ERROR, message)
        kept = {name: question[name] for name in ("requestState",) if name in question}
        self._registry.sealer.check_ready()
        return {
            **question,
            "requestState": self._registry.sealer.seal({"passed_on": kept}, self._binding),
        }


def _refused(refusal: StateRefused) -> McpError:
    logger.warning("A requestState was refused: %s", refusal.cause)
    return McpError(INVALID_PARAMS, str(refusal))


def _is_finite(number: float) -> bool:
    try:
        return isfinite(number)
    except OverflowError:  # an integer that no float can hold
        return False


def log_line(level: str, data: Json, source: str | None) -> bytes:
    """Write a log message as a line.

    Raises:
        TypeError: The data is not JSON.
    """
    params: dict[str, Json] = {"level": level, "data": data}
    if source is not None:
        params["logger"] = source
    return notification_line("notifications/message", params)
