"""Questions of the modern revisions: the handler is unwound, and runs again with the answer.

There are no requests to the client. The client gets the question as the result of its request
(`input_required`), and sends the request again with the answer. Then the handler runs from its
beginning, and every question that has been answered is answered at once from the record: the
answers of earlier rounds, which travel sealed in `requestState`, and those of the last one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NoReturn

import trio

from trio_mcp.layers.call import InputRequired
from trio_mcp.server.caller import invalid
from trio_mcp.server.conversation import RequestConversation, logger
from trio_mcp.server.request import RequestContext
from trio_mcp.wire import codec
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import INTERNAL_ERROR, INVALID_PARAMS, McpError
from trio_mcp.wire.jsonrpc import Json, json_type
from trio_mcp.wire.questions import InputRequiredResult
from trio_mcp.wire.revisions import META_LOG_LEVEL

if TYPE_CHECKING:  # few requests bring a state
    from trio_mcp.registry.sealing import OpenedState, StateRefused

_ROUND: Final = ("inputResponses", "requestState")
"""Parameters that a request has when it is sent again with answers."""

_OTHERS: Final = 10
"""Checkpoints that a question waits for others that are asked beside it."""


class QuestionNames:
    """Names for the questions of a handler, so that each is known again when it runs again."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self.given: Final[dict[str, None]] = {}
        """The names so far, in their order."""

    def name_of(self, question: dict[str, Json], key: str | None) -> str:
        """Name a question: by its key, or else by what it asks."""
        if key is None:
            text = codec.dumps(question, option=codec.SORTED)
            key = hashlib.sha256(text).hexdigest()[:16]
        name = key
        while True:
            self._asked[key] += 1
            if self._asked[key] > 1:  # the same question, or another one of that name
                name = f"{key}-{self._asked[key]}"
            if name not in self.given:
                self.given[name] = None
                return name


class ModernConversation(RequestConversation):
    """The way back to a caller of a modern revision.

    Raises:
        McpError: The request carries answers that are not answers, or a state that is refused.
    """

    era = "modern"

    def __init__(self, context: RequestContext, call: Any) -> None:
        super().__init__(context, call)
        self._names = QuestionNames()
        self._kept: dict[str, Json] = {}  # what the record of this round has to hold as well
        self._passed_on: dict[str, Json] = {}  # the answers to questions of a server elsewhere
        self._state: OpenedState | None = None  # what the request goes on from
        self._answers = self._recorded_answers(context.params)
        self.questions: Final[dict[str, Json]] = {}
        """What the client has to answer before the handler can go on."""

    @property
    def _wanted_log_level(self) -> Any:
        return self._meta.get(META_LOG_LEVEL)

    @property
    def passes_questions(self) -> bool:  # type: ignore[override]  # of the legacy era, never
        return self._catalogue.methods[self._context.method].may_ask

    @property
    def params(self) -> dict[str, Json]:
        own = {name: each for name, each in self._context.params.items() if name not in _ROUND}
        return {**own, **self._passed_on}

    @property
    def answers(self) -> dict[str, Json]:
        return dict(self._answers)

    async def _ask(self, method: str, params: dict[str, Json], key: str | None) -> Json:
        question: dict[str, Json] = {"method": method, "params": params}
        key = self._names.name_of(question, key)
        if key in self._answers:
            return self._answers[key]
        method_row = self._catalogue.methods[self._context.method]
        if not method_row.may_ask:
            message = f"Revision {self.revision.name} allows no questions during {method_row.name}"
            raise McpError(INTERNAL_ERROR, message)
        self._catalogue.sealer.check_ready()
        self.questions[key] = question
        try:
            for _ in range(_OTHERS):
                await trio.lowlevel.checkpoint()
        except trio.Cancelled:
            if not self.unwinding:  # the handler wants to know no more
                del self.questions[key]
            raise
        return await self._unwind()

    async def _unwind(self) -> NoReturn:
        """Cancel the handler: it is run again when there is an answer."""
        await self._call.hash_binding()
        scope = self._call.scope
        if scope is not None and not scope.cancel_called:
            self.unwinding = True
            scope.cancel()
        await trio.lowlevel.checkpoint()
        raise InputRequired  # in a shield, or from a thread: cancellation does not get there

    def _recorded_answers(self, params: dict[str, Json]) -> dict[str, Json]:
        given = params.get("inputResponses", {})
        if not isinstance(given, dict):
            raise invalid(f"inputResponses must be an object, not {json_type(given)}")
        if "requestState" in params:
            record = self._opened(params["requestState"])
            if "passed_on" in record:
                self._passed_on = {"inputResponses": given, **record["passed_on"]}
                return {}
            pending = {key: given[key] for key in record["asked"] if key in given}
            self._kept = {**pending, **record["answers"]}
        elif given:  # without a state, they may be for a server that the request is passed on to
            self._passed_on = {"inputResponses": given}
        return {**given, **self._kept}

    def _opened(self, state: Json) -> dict[str, Json]:
        from trio_mcp.registry.sealing import StateRefused

        if not isinstance(state, str):
            raise invalid(f"requestState must be a string, not {json_type(state)}")
        try:
            opened = self._catalogue.sealer.open(state, self._binding)
        except StateRefused as refusal:
            raise _refused(refusal) from None
        self._state = opened
        record: dict[str, Json] = opened.content
        return record

    async def consume_state(self) -> None:
        """Note that the state of the request is used, where other processes find it too.

        Raises:
            McpError: It was used before, or that cannot be known now.
        """
        if self._state is None:
            return
        from trio_mcp.registry.sealing import StateRefused

        try:
            await self._context.server.states.consume(self._state)
        except StateRefused as refusal:
            raise _refused(refusal) from None

    def input_required(self) -> dict[str, Json]:
        """Make the result that asks the client, and gives it the record to bring back."""
        answered = {key: self._answers[key] for key in self._names.given if key in self._answers}
        record = {"answers": {**self._kept, **answered}, "asked": list(self.questions)}
        result = InputRequiredResult(
            input_requests=dict(self.questions), request_state=self._sealed(record)
        )
        return to_wire(result)

    def pass_on(self, question: dict[str, Json]) -> dict[str, Json]:
        """Make the result that asks the client what a server elsewhere asks by such a result.

        That server gets its state back, but only with the request that it was given for.

        Raises:
            McpError: Its state is too long to be sealed.
        """
        if not self.passes_questions:
            return super().pass_on(question)
        kept = {name: question[name] for name in ("requestState",) if name in question}
        self._catalogue.sealer.check_ready()
        try:
            state = self._sealed({"passed_on": kept})
        except ValueError:
            why = "The server behind asks with a request state that is too long to be passed on"
            raise McpError(INTERNAL_ERROR, why) from None
        return {**question, "requestState": state}

    @property
    def _binding(self) -> Any:
        return self._context.binding(self._call.entry.kind)

    def _sealed(self, record: dict[str, Json]) -> str:
        sealer, owner = self._catalogue.sealer, self._context.session.owner
        return sealer.seal(record, self._binding, owner)


def _refused(refusal: StateRefused) -> McpError:
    logger.warning("A requestState was refused: %s", refusal.__cause__)
    return McpError(INVALID_PARAMS, str(refusal))
