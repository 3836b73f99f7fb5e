"""The connections to a server behind ours, and the way of a request to it.

| The server is | the caller | goes by | its questions |
|---|---|---|---|
| modern | modern | the shared connection | are results, and are passed on as they are |
| modern | legacy | the shared connection | are results; the caller is asked, the request repeated |
| legacy | cannot be asked | the shared connection | there are none |
| legacy | legacy | a connection of its own | are requests, and are passed on as requests |
| legacy | modern | a connection of its own | become results; the call is held (`suspended.py`) |
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import Any, Final
from weakref import WeakKeyDictionary

import trio
from attrs import define, field, frozen

from trio_mcp.background import run_all
from trio_mcp.client.client import Client, session_of
from trio_mcp.client.result import is_not_found
from trio_mcp.client.session import ClientRequest, ClientSession
from trio_mcp.compose.callers import CallerConnection, CallerConnections, CallerKey
from trio_mcp.compose.calls import Ask, OpenCall, OpenCalls, ProxiedHandlers, Relay, owner_of
from trio_mcp.compose.offers import Abilities, Offers, abilities_of, declared_by
from trio_mcp.compose.supervised import SupervisedConnection
from trio_mcp.compose.suspended import SuspendedCalls, about
from trio_mcp.compose.tasks import PassedTasks
from trio_mcp.errors import ClientError, ProtocolError, ServerUnavailable
from trio_mcp.loggers import logger_of
from trio_mcp.registry import Context
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError, ResourceNotFound, ToolError
from trio_mcp.wire.extensions import TASKS
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.methods import CALL_TOOL, READ_RESOURCE
from trio_mcp.wire.payloads import LOGGING_LEVELS, LoggingLevel
from trio_mcp.wire.revisions import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_HOPS,
    META_LOG_LEVEL,
    META_VERSION,
    MODERN,
)

logger = logger_of("trio_mcp.compose")

_QUESTIONS: Final = ("elicitation", "sampling", "roots")
"""The capabilities of who can be asked something."""
_BETWEEN: Final = frozenset({META_VERSION, "progressToken"})
"""Fields of `_meta` that only concern our caller and us."""
_MODERN_ONLY: Final = frozenset({META_CLIENT_CAPABILITIES, META_CLIENT_INFO, META_LOG_LEVEL})
"""Fields that a legacy server got in the handshake."""
_TASK: Final = "task"
_NOT_ASKED_FOR: Final = "the server answered with a task that its caller did not ask for"

_MOST_ROUNDS: Final = 10
_MOST_HOPS: Final = 16
"""So many servers pass a request on, one after the other: two may be mounted in each other."""

Params = dict[str, Json]


@define(eq=False, repr=False)
class Upstream:
    """The connections to one server."""

    main: SupervisedConnection
    _calls: OpenCalls
    callers: CallerConnections
    """The connections of single callers."""
    suspended: SuspendedCalls
    """Calls that wait for their callers."""
    nursery: trio.Nursery
    _log_level: LoggingLevel
    _tasks: PassedTasks | None
    _offers: Offers
    _list_for: Callable[[Client, Abilities], Awaitable[None]]
    """Finds out what a modern server lists for callers with some abilities."""
    listed: trio.Event = field(factory=trio.Event, init=False)
    """Set when it is known for the first time what the server has."""
    # The least severe level that a legacy server was asked for, if that is another one.
    _logged: WeakKeyDictionary[Client, LoggingLevel] = field(factory=WeakKeyDictionary, init=False)
    _seen: Client | None = field(default=None, init=False)
    _modern: ClientSession | None = field(default=None, init=False)
    _revision: str | None = field(default=None, init=False)

    async def answer(self, method: str, params: Params, context: Context) -> Params:
        """Pass a request on, and return the result.

        Raises:
            McpError: The server answered with an error.
            ToolError: It is not there, or was lost meanwhile.
        """
        try:
            client = self.main.current or await self.main.client()
            if client.era == "modern":
                if context.revision in MODERN:
                    return await self._by_main(client, method, params, context)
                return await self._asking(client, method, params, context)
            declared = _askable(context)
            if not declared:
                return await self._by_main(client, method, params, context)
            return await self._for_caller(declared, method, params, context)
        except McpError as error:
            uri = str(params.get("uri"))
            if method == READ_RESOURCE.name and is_not_found(error, uri):
                raise ResourceNotFound(uri) from None  # each revision has an error of its own
            raise
        except ClientError as error:
            self.main.note_failure(error)
            raise self._told(error) from None

    # -- unchanged ------------------------------------------------------------------------

    def unchanged(self, call: Any, name: str) -> tuple[ClientSession | _HeardCall, Params] | None:
        """Return how a call is passed on unchanged: by what, and with which parameters.

        That is where nothing but progress can be said on the way: between a modern caller and a
        modern server, if the caller wants no log messages. Questions are results there.

        Returns:
            `None` for other calls.
        """
        client = self.main.current
        if client is not self._seen:  # looked up once for each connection
            self._seen = client
            is_modern = client is not None and client.era == "modern"
            self._modern = session_of(client) if client is not None and is_modern else None
            self._revision = None if client is None else client.revision
        session, params = self._modern, call.exchange.params
        meta = params.get("_meta")
        if session is None or not isinstance(meta, dict):
            return None
        if META_CLIENT_CAPABILITIES not in meta or META_LOG_LEVEL in meta:
            return None
        if "requestState" in params or "inputResponses" in params:
            return None
        declared = meta[META_CLIENT_CAPABILITIES]
        if "extensions" in declared:
            return None
        hops = _hops(meta) if META_HOPS in meta else 0
        if hops >= _MOST_HOPS:
            return None
        sent = meta.copy()  # which takes half as long as to write one out
        sent[META_VERSION], sent[META_HOPS] = self._revision, hops + 1
        params = params.copy()
        params.update(call.arguments)
        params["name"], params["_meta"] = name, sent
        if "progressToken" in meta:
            return _HeardCall(self.nursery, session, sent, call.make_context), params
        return session, params

    async def passed_on(self, outcome: Awaitable[Params]) -> Params:
        """Return the result of a call that was passed on unchanged.

        Raises:
            McpError: The server answered with an error.
            ToolError: It is not there, or was lost meanwhile.
        """
        try:
            result = await outcome
            if result.get("resultType") == _TASK:
                raise ProtocolError(_NOT_ASKED_FOR)
            return result
        except ClientError as error:
            self.main.note_failure(error)
            raise self._told(error) from None

    def _told(self, error: ClientError) -> ToolError:
        """Make the error for a caller, without internals such as the server's stderr."""
        name = self.main.name
        if isinstance(error, ServerUnavailable):
            return ToolError(f"Server {name} is not available")
        logger.warning("A request to server %s failed: %s", name, error)
        return ToolError(f"Server {name} did not answer ({type(error).__name__})")

    # -- by the shared connection ---------------------------------------------------------

    async def _by_main(
        self, client: Client, method: str, params: Params, context: Context
    ) -> Params:
        relay = Relay(context, self.nursery)
        return await self._exchange(client, self._calls, method, params, relay, context.ask)

    async def _asking(
        self, client: Client, method: str, params: Params, context: Context
    ) -> Params:
        """Ask a legacy caller a modern server's questions, and repeat the request."""
        for _ in range(_MOST_ROUNDS):
            result = await self._by_main(client, method, params, context)
            if result.get("resultType") != "input_required":
                return result
            asked = result.get("inputRequests")
            params = {key: params[key] for key in params if key != "requestState"}
            params["inputResponses"] = await _answers(asked, context)
            if "requestState" in result:
                params["requestState"] = result["requestState"]
        name = self.main.name
        raise McpError(INTERNAL_ERROR, f"Server {name} asked {_MOST_ROUNDS} times in a row")

    # -- by a connection of the caller's own ----------------------------------------------

    async def _for_caller(
        self, declared: Params, method: str, params: Params, context: Context
    ) -> Params:
        """Pass a request on to a legacy server, which may ask this caller."""
        if context.revision not in MODERN:
            relay = Relay(context, self.nursery)
            return await self._in_session(declared, method, params, relay, context.ask)
        subject = about(method, params, context)
        if "requestState" in params:
            state, answers = params["requestState"], params.get("inputResponses")
            call = self.suspended.resume(state, subject, context, answers)
        else:
            in_session = partial(self._in_session, declared, method, params)
            call = self.suspended.begin(
                subject, context, lambda call: in_session(call.relay, call.ask)
            )
        return await self.suspended.answer(call)

    async def _in_session(
        self, declared: Params, method: str, params: Params, relay: Relay, ask: Ask
    ) -> Params:
        async with self._borrowed(relay.context, declared) as (client, calls):
            return await self._exchange(client, calls, method, params, relay, ask)

    @asynccontextmanager
    async def _borrowed(
        self, context: Context, declared: Params
    ) -> AsyncIterator[tuple[Client, OpenCalls]]:
        """Use a connection of a caller's own for the length of the block."""
        caller = context.connection_id
        key = (caller, context.principal, encode(declared))
        connection = await self.callers.connection(key, owner_of(context), alone=caller is None)
        try:
            with connection.used():
                yield await self._opened(connection), connection.calls
        finally:
            self.callers.note_free()

    async def find_lists(self, context: Context) -> None:
        """Have it found out what the server lists for a caller, and wait for that."""
        abilities, client = abilities_of(context), self.main.current
        try:
            if client is None or client.era == "legacy":
                async with self._borrowed(context, declared_by(context)):
                    await self._offers.wait_until_known(abilities)
            else:
                self.nursery.start_soon(self._list_for, client, abilities)
                await self._offers.wait_until_known(abilities)
        except ClientError as error:
            told = "It is not known what server %s lists for a caller: %s"
            logger.warning(told, self.main.name, error)

    async def _opened(self, connection: CallerConnection) -> Client:
        await connection.settled.wait()
        if connection.client is None or connection.error is not None:
            raise ServerUnavailable(self.main.name, connection.error)
        return connection.client

    def roots_changed(self, connection_id: str, principal: str | None) -> None:
        """Notify the server, on that caller's connections, that its roots have changed."""
        for connection in self.callers.open:
            if connection.key[:2] == (connection_id, principal) and not connection.tells_of_roots:
                connection.tells_of_roots = True
                self.nursery.start_soon(self._tell_of_roots, connection)

    async def _tell_of_roots(self, connection: CallerConnection) -> None:
        try:
            client = await self._opened(connection)
            await client.notify("notifications/roots/list_changed", {})
        except ClientError as error:
            logger.debug("Server %s gets no notification of other roots: %s", self.main.name, error)
        finally:
            connection.tells_of_roots = False

    # -- a request ------------------------------------------------------------------------

    async def _exchange(
        self, client: Client, calls: OpenCalls, method: str, params: Params, relay: Relay, ask: Ask
    ) -> Params:
        """Send a request to the server, and relay what it says meanwhile."""
        context = relay.context
        if client.era == "legacy":
            await self._have_logged(client, context.log_level)
        meta = context.meta or {}
        sent = self._meta_for(client, meta, context)
        params = {**params, "_meta": sent}
        call = OpenCall(_owner_of(context, relay), relay, ask)
        calls.calls[call] = None
        try:
            on_progress = relay.progress if "progressToken" in meta else None
            request = ClientRequest(
                method=method, params=params, timeout=inf, on_progress=on_progress
            )
            result = await session_of(client).exchange(request)
        except McpError as error:
            calls.note_error(error, relay)
            raise
        finally:
            del calls.calls[call]
        await relay.drained()
        if result.get("resultType") == _TASK:
            if self._tasks is None or TASKS not in _extensions_in(sent):
                raise ProtocolError(_NOT_ASKED_FOR)
            result = self._tasks.adopt(result, context, self._about_task)
        return result

    async def _have_logged(self, client: Client, level: LoggingLevel | None) -> None:
        """Lower the log level of a legacy server to what a caller wants to hear.

        It goes on logging that, for all who share the connection. Each of them hears only what it
        wants itself (`Context.log`).
        """
        asked = self._logged.get(client, self._log_level)
        is_new = level is not None and LOGGING_LEVELS[level] < LOGGING_LEVELS[asked]
        if level is None or not is_new or "logging" not in client.capabilities:
            return
        self._logged[client] = level  # at once: calls that come now need not ask as well
        try:
            await client.set_log_level(level)
        except McpError as error:
            logger.debug("Server %s keeps its log level: %s", self.main.name, error)
        except BaseException:  # whether it arrived is not known: the next call asks again
            if self._logged[client] == level:
                self._logged[client] = asked
            raise

    def _meta_for(self, client: Client, meta: Params, context: Context) -> Params:
        """Return the part of a request's `_meta` that is for the server, and count the hop.

        Raises:
            McpError: It has been passed on too often.
        """
        hops = _hops(meta)
        if hops >= _MOST_HOPS:
            why = f"The request was passed on {hops} times: servers may be mounted in each other"
            raise McpError(INTERNAL_ERROR, why)
        left_out = _BETWEEN | _MODERN_ONLY if client.era == "legacy" else _BETWEEN
        kept = {key: value for key, value in meta.items() if key not in left_out}
        kept[META_HOPS] = hops + 1
        if client.era == "legacy":
            return kept
        if META_CLIENT_CAPABILITIES in kept:
            declared = kept[META_CLIENT_CAPABILITIES]
            kept[META_CLIENT_CAPABILITIES] = self._passed_capabilities(client, declared)
        else:
            kept[META_CLIENT_CAPABILITIES] = _askable(context)
            if context.log_level is not None:
                kept[META_LOG_LEVEL] = context.log_level
        return kept

    def _passed_capabilities(self, client: Client, declared: Params) -> Params:
        """Return a modern caller's capabilities, without extensions that cannot be passed on."""
        kept = {key: value for key, value in declared.items() if key != "extensions"}
        extensions = declared.get("extensions")
        if self._tasks is not None and TASKS in client.extensions and isinstance(extensions, dict):
            kept["extensions"] = {key: extensions[key] for key in extensions if key == TASKS}
        return kept

    async def _about_task(self, method: str, params: Params) -> Params:
        """Send the server a request about a task.

        Raises:
            McpError: The server answered with an error.
            ToolError: It is not there, or was lost meanwhile.
        """
        try:
            client = await self.main.client()
            return await session_of(client).exchange(ClientRequest(method=method, params=params))
        except ClientError as error:
            self.main.note_failure(error)
            raise self._told(error) from None


@frozen
class PassedCalls:
    """Passes on the calls of a tool that can be passed on unchanged (a `PassOn`)."""

    name: str
    """What the server calls it."""

    def forward(self, call: Any) -> Awaitable[Params] | None:
        upstream: Upstream = call.state
        way = upstream.unchanged(call, self.name)
        if way is None:
            return None
        session, params = way
        return upstream.passed_on(session.forward(CALL_TOOL.name, params))

    def begin(self, call: Any, deadline: float, on_news: Callable[[Any], object]) -> Any:
        way = call.state.unchanged(call, self.name)
        if way is None:
            return None
        session, params = way
        return session.begin(CALL_TOOL.name, params, deadline, on_news)

    def receive(self, call: Any, sent: Any) -> Awaitable[Params]:
        upstream: Upstream = call.state
        return upstream.passed_on(sent.owner.receive(CALL_TOOL.name, sent.outcome()))


@define(eq=False, repr=False)
class _HeardCall:
    """A call that is passed on unchanged, and the progress that its caller wants to hear of."""

    _nursery: trio.Nursery
    _session: ClientSession
    _meta: Params
    _make_context: Callable[[], Context]
    """Makes the caller's context, at the first progress: most calls have none."""
    _on_news: Callable[[Any], object] = lambda request: None
    _request: Any = field(default=None, init=False)
    _relay: Relay | None = field(default=None, init=False)
    _progress_id: Json = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._progress_id = self._meta["progressToken"] = self._session.hear_progress(self._tell)

    # -- as the session does it -----------------------------------------------------------

    def forward(self, method: str, params: Params) -> Awaitable[Params]:
        return self._heard(self._session.forward(method, params))

    def begin(
        self, method: str, params: Params, deadline: float, on_news: Callable[[Any], object]
    ) -> Any:
        self._on_news = on_news
        self._request = self._session.begin(method, params, deadline, self._ended, self)
        if self._request is None:
            self._forget()
        return self._request

    def receive(self, method: str, outcome: Awaitable[Json]) -> Awaitable[Params]:
        return self._heard(self._session.receive(method, outcome))

    # -- what is heard --------------------------------------------------------------------

    async def _heard(self, result: Awaitable[Params]) -> Params:
        """Return its result, once its progress has been passed on."""
        try:
            members = await result
        finally:
            self._forget()
        if self._relay is not None:
            await self._relay.drained()
        return members

    def _tell(self, progress: float, total: float | None, message: str | None) -> None:
        if self._relay is None:
            self._relay = Relay(self._make_context(), self._nursery)
            self._on_news(self._request)
        self._relay.progress(progress, total, message)

    def _ended(self, request: Any) -> None:
        self._forget()
        self._on_news(request)

    def _forget(self) -> None:
        self._request = None  # which knows this: a cycle
        self._session.notifications.forget_progress(self._progress_id)


def _extensions_in(meta: Params) -> Collection[str]:
    """Return the extensions that a modern request declares."""
    return meta.get(META_CLIENT_CAPABILITIES, {}).get("extensions") or ()


def open_for_caller(open_: Callable[..., Any], calls: OpenCalls, key: CallerKey) -> Any:
    """Make a connection with a caller's capabilities, whose questions go to that caller."""
    from trio_mcp.wire import codec

    declared = codec.loads(key[-1])
    handlers = ProxiedHandlers(
        declared=declared, calls=calls, elicitation_complete=calls.on_elicitation_complete
    )
    return open_(handlers=handlers, on_log=calls.on_log)


def _hops(meta: Params) -> int:
    """Return how many servers have passed a request on."""
    hops = meta.get(META_HOPS)
    return hops if type(hops) is int and hops > 0 else 0


def _askable(context: Context) -> Params:
    """Return the capabilities of a caller that let it be asked."""
    declared = context.capabilities
    return {key: declared[key] for key in _QUESTIONS if key in declared and context.supports(key)}


def _owner_of(context: Context, relay: Relay) -> Hashable:
    """Identify the caller; where each request is one by itself, the request."""
    id = context.connection_id
    return relay if id is None else (id, context.principal)


async def _answers(asked: Json, context: Context) -> Params:
    """Ask a caller several questions, side by side, or raise `McpError` if that cannot be."""
    answers: Params = {}

    async def ask(key: str, question: Any) -> None:
        if not isinstance(question, dict) or not isinstance(question.get("method"), str):
            raise McpError(INTERNAL_ERROR, "The server's question is none")
        answers[key] = await context.ask(question["method"], question.get("params"), key=key)

    questions = asked.items() if isinstance(asked, dict) else ()
    await run_all([partial(ask, *question) for question in questions])
    return answers
