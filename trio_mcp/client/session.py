"""A session with a server: its requests, from the handshake to the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import Factory, define, evolve, field, frozen

from trio_mcp.background import run_all
from trio_mcp.client.negotiation import ClientIdentity, Negotiated, negotiate
from trio_mcp.client.notifications import ProgressCallback
from trio_mcp.client.result import payload
from trio_mcp.client.state import Disconnected, StateLog
from trio_mcp.client.tools import ToolTable
from trio_mcp.client.transport import ClientTransport, InboundHandler, Params
from trio_mcp.errors import CallTimeout, ClientError, NotConnected, ProtocolError
from trio_mcp.peer.outbound import ConnectionEnded, DeadlinePassed
from trio_mcp.peer.requests import RelayedRequest, has_short_texts, is_large_request
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.registry.entrances import check_trio
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.errors import METHOD_NOT_FOUND, McpError
from trio_mcp.wire.jsonrpc import Id, Json, json_type
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.messages import SetLevelParams
from trio_mcp.wire.methods import CALL_TOOL, GET_PROMPT, METHODS, READ_RESOURCE, Method
from trio_mcp.wire.payloads import LOGGING_LEVELS, LoggingLevel
from trio_mcp.wire.questions import InputRequest, InputRequiredResult, Root
from trio_mcp.wire.revisions import META_LOG_LEVEL, Era, Revision

if TYPE_CHECKING:  # few clients have any
    from trio_mcp.registry.middleware import McpRequest, Middleware

_MOST_ROUNDS: Final = 10
_MOST_QUESTIONS: Final = 1000
_LONG: Final = frozenset({CALL_TOOL.name, READ_RESOURCE.name, GET_PROMPT.name})
"""The methods that run something of the server's author's, which may report progress."""


Finish = Callable[["ClientRequest", dict[str, Json], TimeLimit], Awaitable[dict[str, Json]]]
"""Makes the final result of a request of one that an extension deals with, in the time there is."""


Started = RelayedRequest
"""A request that was sent, and that no task waits for (`ClientSession.start`)."""


def _block_was_left() -> ClientError:
    return NotConnected("the block of connect() was left, and the connection ended with it")


@frozen(kw_only=True)
class ConnectOptions:
    """The options of `connect`, as every transport needs them."""

    identity: ClientIdentity
    states: StateLog
    inbound: InboundHandler
    era: Era | None = None
    connect_timeout: float = 30.0
    tools: ToolTable
    list_tools: bool = True
    request_timeout: float = 30.0
    max_timeout: float = 120.0
    limits: Limits = field(factory=Limits)
    log_level: LoggingLevel | None = None
    methods: Mapping[str, Method] = METHODS
    """All methods that there are, those of extensions among them."""
    agree: Callable[[Any, ClientSession], object] = lambda client, session: None
    """Enables the extensions that the server has, too."""
    middleware: Sequence[Middleware] = ()


@define(kw_only=True)  # not frozen, which would take twice the time to make
class ClientRequest:
    """A request to be sent. Treat it as immutable."""

    method: str
    params: Params = field(factory=dict)
    timeout: float | None = None
    """Seconds to wait; `None` for the session's default."""
    is_exact: bool = Factory(lambda self: self.timeout is not None, takes_self=True)
    """Whether it waits no longer than that. Otherwise progress puts its end off."""
    on_progress: ProgressCallback | None = None
    id: Id | None = None
    """Its id, where that has to be known beforehand."""

    @property
    def what(self) -> str:
        if self.method == CALL_TOOL.name:
            return f"tool {self.params.get('name')!r}"
        return self.method

    @property
    def setting(self) -> str:
        """The option that sets its time limit, unless the call itself did."""
        if self.is_exact:
            return ""
        if self.method == CALL_TOOL.name:
            return (
                "call_tool(timeout=...) or connect(tool_timeout=...), where None leaves it to the "
                "server"
            )
        return "timeout=... or connect(request_timeout=...)"


class ClientSession:
    """Requests to a server, from the handshake to the end of the connection."""

    def __init__(self, transport: ClientTransport, options: ConnectOptions) -> None:
        self._negotiated: Negotiated | None = None
        self._meta: dict[str, Json] | None = None
        self.failure: Callable[[], ClientError] = _block_was_left
        """Makes the error for who uses the session after its end."""
        self.transport: Final = transport
        self.options: Final = options
        self.inbound: Final = options.inbound
        self.notifications: Final = options.inbound.notifications
        self.notifications.on_change = options.tools.note_change
        self.limits: Final = options.limits
        self.request_timeout: Final = options.request_timeout
        self._middleware = options.middleware
        self.now: Final = trio.lowlevel.current_clock().current_time
        """Tells the time, at a third of what `trio.current_time` takes."""
        self.closed: Final = trio.Event()
        """Set when the session has ended, and it is known how."""
        self.stderr: Callable[[], str] = str
        """Gives the end of what the server wrote to stderr, as far as that is known."""
        self.shared_extensions: Mapping[str, dict[str, Json]] = {}
        """The extensions that both sides have, with what the server declares of each."""
        self.unshared_methods: Mapping[str, str] = {}
        """The methods of other extensions, and which one each is of."""
        self.finishers: Final[dict[str, tuple[Collection[str], Finish]]] = {}
        """By `resultType`, which methods may be answered so, and what deals with it."""
        self.subscription_keys: Mapping[str, bool] = {}
        """What extensions add to what can be subscribed to, and whether the server has that."""

    @property
    def negotiated(self) -> Negotiated:
        """The outcome of the handshake; `NotConnected` before that is done."""
        if self._negotiated is None:
            raise NotConnected("the client is not connected yet")
        return self._negotiated

    # -- from the handshake to the end ----------------------------------------------------

    async def negotiate(self, era: Era | None) -> None:
        """Agree with the server on a revision.

        Raises:
            ProtocolError: There is no revision that both speak, or the server speaks none.
            ClientError: As for `send`.
        """
        identity = self.options.identity
        try:
            self._negotiated = await negotiate(self.transport, self._shake_hands, identity, era)
        except ConnectionEnded:
            await self.closed.wait()  # until it is known how the connection ended
            raise self.failure() from None
        revision = self._negotiated.revision
        if identity.extensions:
            from trio_mcp.wire.extensions import shared

            ours = identity.extensions_in(revision)
            self.shared_extensions = shared(ours, self._negotiated.capabilities)
        if revision.modern:
            self.assume(revision, self.shared_extensions)

    def assume(self, revision: Revision, shared: Collection[str] | None = None) -> None:
        """Send requests of a modern revision, with all extensions or those in `shared`."""
        self._meta = self.options.identity.meta(revision, shared)

    async def _shake_hands(self, method: str, params: Params) -> Json:
        """Send a request of the handshake."""
        send = partial(self.forward, method)
        return await (self._through(method, params, send) if self._middleware else send(params))

    def forward(self, method: str, params: Params) -> Awaitable[dict[str, Json]]:
        """Send a request of the handshake, or another client's: as it is (`transmit`)."""
        return self.transmit(method, params)

    def hear_progress(self, on_progress: ProgressCallback) -> Json:
        """Return a token; progress with it goes to the callback, until it is forgotten."""
        return self.notifications.expect_progress(TimeLimit(), on_progress)

    def begin(
        self,
        method: str,
        params: Params,
        deadline: float,
        on_end: Callable[[RelayedRequest], object],
        owner: object = None,
    ) -> RelayedRequest | None:
        """Forward a request as it was parsed, for which no task waits (`OutgoingRequests.begin`).

        It is given up at the deadline, by Trio's clock.

        Returns:
            The request, whose `outcome` is for `receive`; `None` where it needs a task.
        """
        begin = self.transport.begin
        if begin is None:
            return None
        return begin(method, params, TimeLimit(deadline), on_end, owner or self, True)

    def close(self, failure: Callable[[], ClientError] | None) -> None:
        """End the session: by itself (then `failure` tells how) or by leaving the block."""
        if self.closed.is_set():
            return
        # Tasks that wait for `closed` read the failure, and listeners read the last state: both are
        # set before any of them is woken.
        if failure is not None:
            self.failure = failure
            self.options.states.move(Disconnected(failure()))
            self.inbound.lines.end()
        self.notifications.cache.close()
        self.closed.set()

    # -- requests -------------------------------------------------------------------------

    def send(self, request: ClientRequest) -> Awaitable[dict[str, Json]]:
        """Send a request and return its result, answering what the server asks meanwhile.

        Raises, and behaves when it is cancelled, as `Client.request`.
        """
        check_trio("this client")
        return self._send_through(request) if self._middleware else self._send(request)

    async def _send_through(self, request: ClientRequest) -> dict[str, Json]:
        """Send a request through middleware, each time that it calls the next handler."""
        ids = iter([request.id])

        def proceed(params: Params) -> Awaitable[dict[str, Json]]:
            return self._send(evolve(request, params=params, id=next(ids, None)))

        return await self._through(request.method, request.params, proceed)

    async def _through(
        self, method: str, params: Params, send: Callable[[Params], Awaitable[dict[str, Json]]]
    ) -> dict[str, Json]:
        """Run middleware around what sends a request."""
        from trio_mcp.registry.middleware import McpRequest, chained, check_request  # if any

        def proceed(given: McpRequest) -> Awaitable[dict[str, Json]]:
            check_request(given, method)
            return send(given.params)

        cache = self.notifications.cache
        resource_version: Callable[[], int] = partial(getattr, cache, "changes")
        asked = McpRequest(
            method=method,
            params=params,
            describe=self.options.tools.describe,
            resource_version=resource_version,
        )
        result: Any = await chained(self._middleware, proceed)(asked)
        if not isinstance(result, dict):
            what = type(result).__name__
            raise TypeError(f"middleware around {method} must return a dict, not {what}")
        return result

    def start(
        self, request: ClientRequest, on_end: Callable[[Started], object] = lambda sent: None
    ) -> Started | None:
        """Send a request without waiting, where nothing has to be done around it.

        Args:
            request: The request.
            on_end: Called when it has ended, if no task waits for that.

        Returns:
            The request. A task may wait for its `plain_result` at once. Once it has ended,
            `plain_outcome` may have its result, and `finish` has it in any case; who wants none
            calls `withdraw`. `None` where it has to be sent by `send`.

        Raises:
            TypeError: The parameters are not JSON.
        """
        check_trio("this client")
        begin = self.transport.begin
        if begin is None or self._middleware or self.closed.is_set():
            return None
        are_texts = has_short_texts(request.params)
        if not are_texts and is_large_request(request.params):
            return None  # a thread encodes it, for which a task waits
        sent = None
        _, limit, token = self._limited(request)
        try:
            params = self._with_meta(request.params, token)
            # Our own `_meta` has been encoded before, with the first request of the session.
            is_encodable = are_texts and "_meta" not in request.params
            sent = begin(request.method, params, limit, on_end, token, is_encodable)
        finally:
            if sent is None:
                self.notifications.forget_progress(token)
        return sent

    async def plain_result(self, sent: Started) -> dict[str, Json] | None:
        """Wait until a request that was started has ended, and return its `plain_outcome`.

        Cancelled, it withdraws the request.
        """
        try:
            await trio.lowlevel.wait_task_rescheduled(sent.wake_here())
        except BaseException:
            self.notifications.forget_progress(sent.owner)
            raise
        return self.plain_outcome(sent)

    def plain_outcome(self, sent: Started) -> dict[str, Json] | None:
        """Return the result of a request that was started, unless there is more to do with it."""
        response = sent.response
        result = None if response is None or response.error is not None else response.result
        if type(result) is not dict or result.get("resultType", "complete") != "complete":
            return None
        self.notifications.forget_progress(sent.owner)
        return result

    async def finish(
        self, request: ClientRequest, sent: Started, plain: dict[str, Json] | None = None
    ) -> dict[str, Json]:
        """Return the result of a request that was started, as `send` does.

        Args:
            request: The request.
            sent: What was started.
            plain: Its `plain_outcome`.
        """
        return await self._carry_out(request, sent) if plain is None else plain

    def withdraw(self, sent: Started) -> None:
        """Want no result of a request that was started, and tell the server so."""
        self.notifications.forget_progress(sent.owner)
        sent.withdraw(None)

    def _send(self, request: ClientRequest) -> Awaitable[dict[str, Json]]:
        return self._carry_out(request)

    async def _carry_out(
        self, request: ClientRequest, sent: Started | None = None
    ) -> dict[str, Json]:
        if request.method in self.unshared_methods:
            extension = self.unshared_methods[request.method]
            why = (
                f"{request.method} is not sent: the server does not have the extension {extension}"
            )
            raise McpError(METHOD_NOT_FOUND, why)
        params, id = request.params, request.id
        if sent is None:
            timeout, limit, token = self._limited(request)
        else:
            timeout, limit, token = self._timeout_of(request), sent.limit, sent.owner
        try:
            for _ in range(_MOST_ROUNDS):
                if sent is None:
                    result = await self._transmit(request.method, params, token, limit, id)
                else:
                    result, sent = await self.receive(request.method, sent.outcome()), None
                kind = result.get("resultType", "complete")
                if kind == "complete":
                    if params is not request.params:  # it depends on answers, so it is not kept
                        result.pop("ttlMs", None)
                    return result
                if kind != "input_required":
                    self.notifications.forget_progress(token)
                    return await self._finish(request, result, limit)
                with limit.paused():  # a person's time to think is not ours
                    answers = await self.answer_in_time(request, result)
                params = {key: params[key] for key in params if key != "requestState"} | answers
                id = None
        except DeadlinePassed:
            started = limit.latest - self.options.max_timeout
            given = limit.deadline - limit.stood_still - started
            if limit.renewal and given - timeout > 0.001:  # progress has prolonged it
                timeout = round(given, 1)
            raise CallTimeout(request.what, timeout, self.stderr(), request.setting) from None
        finally:
            self.notifications.forget_progress(token)
        raise ProtocolError(
            f"{request.method}: the server asked for input {_MOST_ROUNDS} times in a row"
        )

    async def exchange(self, request: ClientRequest) -> dict[str, Json]:
        """Send a request and return its result unchanged, be it a question or an extension's.

        `_meta` fields that the parameters have take the place of the client's own.

        Raises:
            McpError: The server answered with an error.
            ClientError: As for `Client.request`.

        If cancelled, it tells the server to stop, and ignores a late answer.
        """
        timeout, limit, token = self._limited(request)
        try:
            return await self._transmit(request.method, request.params, token, limit, request.id)
        except DeadlinePassed:
            raise CallTimeout(request.what, timeout, self.stderr(), request.setting) from None
        finally:
            self.notifications.forget_progress(token)

    async def _finish(
        self, request: ClientRequest, result: dict[str, Json], limit: TimeLimit
    ) -> dict[str, Json]:
        """Let an extension make the final result of one of its own kind."""
        kind = result["resultType"]
        if not isinstance(kind, str):
            raise ProtocolError(f"{request.method}: the resultType is {json_type(kind)}")
        finisher = self.finishers.get(kind)
        if finisher is None or request.method not in finisher[0]:
            what = f"a {kind!r:.100} result"
            raise ProtocolError(f"{request.method}: the server answered with {what}")
        if not request.is_exact:  # then how long it takes is the extension's to say
            limit = TimeLimit()
        with limit.scope():
            return await finisher[1](request, result, limit)
        raise DeadlinePassed

    def _timeout_of(self, request: ClientRequest) -> float:
        return self.request_timeout if request.timeout is None else request.timeout

    def _limited(self, request: ClientRequest) -> tuple[float, TimeLimit, Json]:
        """Return the seconds that a request has, its time limit, and a token for its progress.

        Each progress renews the time limit, up to a bound, and goes to the callback. Where that is
        of no use, there is no token.
        """
        timeout, most, now = self._timeout_of(request), self.options.max_timeout, self.now()
        limit = TimeLimit(now + timeout)
        is_renewed = timeout < most and not request.is_exact
        if request.on_progress is None and not (is_renewed and _may_take_long(request)):
            return timeout, limit, None
        if is_renewed:
            limit.renewal, limit.latest = timeout, now + most
        return timeout, limit, self.notifications.expect_progress(limit, request.on_progress)

    def _transmit(
        self, method: str, params: Params, token: Json, limit: TimeLimit, id: Id | None
    ) -> Awaitable[dict[str, Json]]:
        """Add the `_meta` of the revision to a request, and send it."""
        if self.closed.is_set():
            raise self.failure()
        return self.transmit(method, self._with_meta(params, token), limit, id)

    def _with_meta(self, params: Params, token: Json) -> Params:
        """Add the `_meta` of the revision to parameters, and a token for progress."""
        meta = self._meta
        if "_meta" in params:
            meta = {**(meta or {}), **params["_meta"]}
        if token is not None:
            meta = {**(meta or {}), "progressToken": token}
        return params if meta is None else {**params, "_meta": meta}

    def transmit(
        self, method: str, params: Params, limit: TimeLimit | None = None, id: Id | None = None
    ) -> Awaitable[dict[str, Json]]:
        """Send a request that has all its `_meta` fields, and return its result unchanged."""
        return self.receive(method, self.transport.request(method, params, limit, id))

    async def receive(self, method: str, outcome: Awaitable[Json]) -> dict[str, Json]:
        """Return what a request came to: its result."""
        try:
            result = await outcome
        except McpError as error:
            self.notifications.note_error(error)
            raise
        except ConnectionEnded:
            await self.closed.wait()
            raise self.failure() from None
        if not isinstance(result, dict):
            raise ProtocolError(f"{method}: the server's result is not an object")
        if self._negotiated is not None and not self._negotiated.revision.modern:
            kind = result.get("resultType")
            if not (isinstance(kind, str) and kind in self.finishers):
                result.pop("resultType", None)  # it means nothing there, but to an extension
        return result

    async def take_tools(self, listed: Sequence[Json]) -> None:
        """Replace the tools by those that the server lists."""
        tools = self.options.tools
        found = await tools.made_of(listed)
        details = {tool.mcp_name: tool.details for tool in found.values()}
        tools.update(found, await self.transport.learn_tools(details))

    # -- what a modern server asks --------------------------------------------------------

    async def answer(
        self, request: ClientRequest, questions: Mapping[str, Json]
    ) -> dict[str, Json]:
        """Answer questions that an extension has received, on behalf of a request."""
        answers = await self.answer_in_time(request, {"inputRequests": dict(questions)})
        given: dict[str, Json] = answers.get("inputResponses", {})
        return given

    async def answer_in_time(self, request: ClientRequest, result: dict[str, Json]) -> Params:
        """Answer the questions in a result, and return what to send back."""
        timeout = self.limits.question_timeout
        with trio.move_on_after(timeout):
            return await self._input_responses(request, result)
        what = f"the answer to a question of the server ({request.method})"
        setting = "Limits(question_timeout=...)"
        raise CallTimeout(what, timeout, self.stderr(), setting)

    async def _input_responses(self, request: ClientRequest, result: dict[str, Json]) -> Params:
        """Answer the questions in an `input_required` result, side by side."""
        method = request.method
        required = payload(InputRequiredResult, method, result)
        asked = required.input_requests or {}
        if len(asked) > _MOST_QUESTIONS:
            raise ProtocolError(f"the server asked more than {_MOST_QUESTIONS} questions at once")
        answers: dict[str, Json] = {}

        async def answer(key: str, wire: Json) -> None:
            question = payload(InputRequest, method, wire)
            answers[key] = await self.inbound.answer(question.method, question.params or {})

        await run_all([partial(answer, *question) for question in asked.items()])
        extra: Params = {"inputResponses": answers} if asked else {}
        if required.request_state is not None:
            extra["requestState"] = required.request_state
        return extra

    # -- what is not asked for ------------------------------------------------------------

    async def notify(self, method: str, params: Params) -> None:
        check_trio("this client")
        if self.closed.is_set():
            raise self.failure()
        if self._meta is not None or "_meta" in params:
            params = {**params, "_meta": {**(self._meta or {}), **params.get("_meta", {})}}
        await self.transport.notify(method, params or None)

    async def set_roots(self, roots: Sequence[str | Root]) -> None:
        if self.inbound.handlers.roots is None:
            raise ValueError("no roots have been declared: connect with Handlers(roots=[])")
        self.inbound.handlers = evolve(self.inbound.handlers, roots=roots)
        if not self.negotiated.revision.modern:  # a modern server asks each time
            await self.notify("notifications/roots/list_changed", {})

    # -- the log --------------------------------------------------------------------------

    async def set_log_level(self, level: LoggingLevel) -> None:
        if level not in LOGGING_LEVELS:
            raise ValueError(f"no log level {level!r}; there are: {', '.join(LOGGING_LEVELS)}")
        if self._meta is None:
            params = to_wire(SetLevelParams(level))
            await self.send(ClientRequest(method="logging/setLevel", params=params))
        else:
            self._meta = {**self._meta, META_LOG_LEVEL: level}


def _may_take_long(request: ClientRequest) -> bool:
    """Whether progress is wanted without a callback; not where the sender has a token itself."""
    return request.method in _LONG and "progressToken" not in request.params.get("_meta", ())
