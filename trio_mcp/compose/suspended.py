"""Calls that are suspended while their caller answers a question.

A legacy server asks within a call, and goes on when it has the answer. A modern caller gets the
question as a result, and comes back with the answer in another request. In between, the call of the
server is held open here: in a task of its own, for a bounded time, and no more than a bounded
number of them.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, ClassVar, Final

import trio
from attrs import Factory, define, field

from trio_mcp.compose.calls import Relay, owner_of
from trio_mcp.registry import Context
from trio_mcp.wire.errors import INTERNAL_ERROR, INVALID_PARAMS, McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.shares import one_that_goes

_OTHERS: Final = 10
"""Checkpoints that a question waits for others that are asked beside it."""


@define(eq=False)
class _Question:
    """A server's question that waits for its answer."""

    method: str
    params: dict[str, Json]
    answer: Json = None
    done: trio.Event = Factory(trio.Event)


@define(eq=False)
class SuspendedCall:
    """A call that lasts from one request of its caller to the next."""

    busy: ClassVar = True

    about: Json
    """What it is about, and whose it is."""
    owner: str
    """To whose share it counts."""
    relay: Relay
    scope: trio.CancelScope = Factory(trio.CancelScope)
    state: str | None = None
    """What resumes it, while it is suspended."""
    _questions: dict[str, _Question] = field(factory=dict)
    _asked: int = 0
    _changed: trio.lowlevel.ParkingLot = Factory(trio.lowlevel.ParkingLot)
    _resumed: trio.lowlevel.ParkingLot = Factory(trio.lowlevel.ParkingLot)
    _result: dict[str, Json] | None = None
    _error: Exception | None = None
    _is_over: bool = False

    async def run(self, work: Callable[[], Awaitable[dict[str, Json]]]) -> None:
        """Do the work, and keep its outcome until the caller fetches it or runs out of time."""
        with self.scope:
            try:
                self._result = await work()
            except Exception as error:  # raised again where the result is fetched
                self._error = error
            finally:
                self._is_over = True
                self._changed.unpark_all()
            while self.state is not None:
                await self._resumed.park()

    def hold(self, state: str, deadline: float) -> None:
        """Wait for a request with this state, until the deadline."""
        self.state = state
        self.scope.deadline = deadline

    def resume(self, context: Context, answers: Json) -> None:
        """Go on with the caller's answers. What is not answered is asked again."""
        self.state = None
        self.scope.deadline = inf
        self._resumed.unpark_all()
        self.relay.context = context
        for key, answer in answers.items() if isinstance(answers, dict) else ():
            question = self._questions.pop(key, None)
            if question is not None:
                question.answer = answer
                question.done.set()

    async def ask(self, method: str, params: dict[str, Json]) -> Json:
        """Ask the caller, and wait for the answer."""
        self._asked += 1
        key = f"question-{self._asked}"
        question = self._questions[key] = _Question(method, params)
        self._changed.unpark_all()
        try:
            await question.done.wait()
        finally:
            self._questions.pop(key, None)
        return question.answer

    async def next(self) -> dict[str, Json]:
        """Wait for the result, or for questions. If cancelled, so is the call.

        Returns:
            The result; or the questions, without a state.

        Raises:
            Exception: Whatever the call raised.
        """
        try:
            while not (self._is_over or self._questions):
                await self._changed.park()
            for _ in range(_OTHERS if self._questions else 0):
                await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            self.scope.cancel(reason=cancelled.reason)
            raise
        if not self._is_over:
            asked = {
                key: {"method": each.method, "params": each.params}
                for key, each in self._questions.items()
            }
            return {"resultType": "input_required", "inputRequests": asked}
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise McpError(INTERNAL_ERROR, "The answer came too late: the call was given up")
        return self._result


class SuspendedCalls:
    """The suspended calls, by the states that resume them."""

    def __init__(self, nursery: trio.Nursery, limit: int, timeout: float) -> None:
        self._nursery = nursery
        self._limit = limit
        self._timeout = timeout
        self._suspended: dict[str, SuspendedCall] = {}

    def __len__(self) -> int:
        return len(self._suspended)

    def begin(
        self,
        about: Json,
        context: Context,
        work: Callable[[SuspendedCall], Awaitable[dict[str, Json]]],
    ) -> SuspendedCall:
        """Begin a call that may have to be suspended.

        Raises:
            McpError: There are too many already, and no other owner has more of them.
        """
        owner = owner_of(context)
        self._make_room(owner)
        call = SuspendedCall(about, owner, Relay(context, self._nursery))
        self._nursery.start_soon(self._run, call, work)
        return call

    def _make_room(self, newcomer: str) -> None:
        """Give up a call of the owner who has the most, if there are too many for another one's."""
        if len(self._suspended) < self._limit:
            return
        found = one_that_goes(newcomer, self._suspended.values())
        if found is None or found.state is None:
            raise McpError(INTERNAL_ERROR, "Too many questions are open; try again later")
        self._suspended.pop(found.state).scope.cancel()

    async def _run(
        self, call: SuspendedCall, work: Callable[[SuspendedCall], Awaitable[dict[str, Json]]]
    ) -> None:
        await call.run(lambda: work(call))
        if call.state is not None:  # its caller has not come back
            self._suspended.pop(call.state, None)

    def resume(self, state: Json, about: Json, context: Context, answers: Json) -> SuspendedCall:
        """Resume a call with its caller's answers.

        Raises:
            McpError: It is not held any more, or is another caller's.
        """
        call = self._suspended.get(state) if isinstance(state, str) else None
        if call is None or call.about != about:
            why = "The request state is not acceptable; send the request again, without it."
            raise McpError(INVALID_PARAMS, why)
        assert isinstance(state, str)
        del self._suspended[state]
        call.resume(context, answers)
        return call

    async def answer(self, call: SuspendedCall) -> dict[str, Json]:
        """Wait for a call's result, or for questions, which suspend it."""
        result = await call.next()
        if result.get("resultType") != "input_required":
            return result
        try:
            self._make_room(call.owner)
        except McpError:
            call.scope.cancel()
            raise
        state = secrets.token_urlsafe(16)
        self._suspended[state] = call
        call.hold(state, trio.current_time() + self._timeout)
        return {**result, "requestState": state}


def about(method: str, params: dict[str, Any], context: Context) -> Json:
    """Identify a call and its caller, for whom alone a state is good."""
    named = [params.get(key) for key in ("name", "uri", "arguments")]
    return [method, *named, context.principal]
