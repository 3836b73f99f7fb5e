"""A server elsewhere, as a part that can be mounted in a registry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Literal

import trio
from attrs import evolve, field, frozen

from trio_mcp.background import background_nursery
from trio_mcp.client.cache import ttl_of
from trio_mcp.client.client import Client, list_pages, session_of
from trio_mcp.client.connect import ClientConnection, check_limits, connect
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.client.negotiation import era_of
from trio_mcp.client.opening import Target, check_target
from trio_mcp.client.state import ClientState, Disconnected
from trio_mcp.compose.callers import CallerConnections, CallerKey
from trio_mcp.compose.calls import OpenCalls
from trio_mcp.compose.following import follow_lists
from trio_mcp.compose.offers import (
    NONE,
    Abilities,
    Offers,
    abilities_in,
    abilities_of,
    capabilities_of,
    is_named,
)
from trio_mcp.compose.supervised import WAIT, Backoff, SupervisedConnection
from trio_mcp.compose.suspended import SuspendedCalls
from trio_mcp.compose.tasks import KnowsTasks, PassedTasks
from trio_mcp.compose.upstream import PassedCalls, Upstream, open_for_caller
from trio_mcp.compose.watching import WatchedResources
from trio_mcp.errors import ClientError
from trio_mcp.loggers import logger_of
from trio_mcp.public import public
from trio_mcp.registry import Context
from trio_mcp.registry.changes import Kind
from trio_mcp.registry.completions import Completer
from trio_mcp.registry.entrances import check_trio
from trio_mcp.registry.forwarding import Answer, ArgumentRef, forwarded_entry
from trio_mcp.registry.kinds import (
    CALLED,
    COMPLETION,
    LISTED,
    PROMPT,
    RESOURCE,
    TOOL,
    ListedKind,
    RefType,
    Table,
)
from trio_mcp.registry.provider import Provider
from trio_mcp.registry.resources import Resource
from trio_mcp.threads import convert, offload
from trio_mcp.transports.process import ProcessOptions
from trio_mcp.wire.bounds import bound
from trio_mcp.wire.content import ResourceDescription
from trio_mcp.wire.conversion import from_wire
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.payloads import LoggingLevel
from trio_mcp.wire.revisions import META_CLIENT_CAPABILITIES, Era
from trio_mcp.wire.unknown import unknown_members

logger = logger_of("trio_mcp.compose")

_LONGEST_NAME: Final = 1000
"""Characters of a name or a URI; what has a longer one is left out."""
_TOLD: Final = 10
"""So many of the things that are left out are named in the log."""

_CAPABILITIES: Final = frozenset(kind.capability for kind in LISTED.values())


@frozen(kw_only=True)
class _Bounds:
    """The numbers of a `Remote`, refused by their names."""

    connect_timeout: float = field(validator=bound())
    timeout: float = field(validator=bound())
    reconnect_timeout: float = field(validator=bound(zero=True))
    wait: float = field(validator=bound(zero=True))
    max_callers: int = field(validator=bound(whole=True))
    caller_idle: float = field(validator=bound(zero=True))
    max_held: int = field(validator=bound(whole=True, zero=True))
    max_items: int = field(validator=bound(whole=True, zero=True))


@public
class Remote(Provider):
    """A server elsewhere, of any transport and revision, to be mounted in a registry.

    It is connected while the registry is served, and connected again whenever it is lost. What it
    has appears in the registry, and disappears, as it changes. Calls are passed on as they are,
    with their progress, log messages, questions, cancellation and errors. Arguments are checked by
    the server alone.

    A caller is shown what the server lists for a client with the same capabilities.

    All callers share one connection. If the server speaks a legacy revision, callers that can be
    asked something have connections of their own: such a server asks on the connection, where it
    is not clear whom it means, and lists by what its client can do. For a command, each of these is
    a process, so they are bounded.

    Args:
        target: As for `connect`: a command, a URL, a `Registry`; but no stream, which could not be
            opened again.
        name: What messages and the log call it.
        era: Speak a `modern` or a `legacy` revision, instead of detecting what the server speaks.
        process_options: How a command is run and ended.
        http: How a URL is reached: headers, credentials. The callers' own credentials are never
            passed on.
        connect_timeout: Seconds for start and handshake.
        timeout: Seconds that a call may take, without the time of questions.
        reconnect_timeout: Seconds that a call waits for the server while it is not there.
        wait: Seconds that serving, and the first list for callers with other capabilities, wait
            for what the server has. What it has later appears then, and clients are notified that
            the lists have changed.
        backoff: How soon it is tried again.
        max_callers: How many connections there may be for single callers.
        caller_idle: Seconds after which such a connection is closed if it is not used.
        max_held: How many calls may wait for answers of modern callers.
        max_items: How many tools, resources, templates and prompts are taken, of each. Now and then
            Python's garbage collector looks at all of them, and everything else waits: about 4 ms
            for a thousand tools, and 9 ms for a thousand templates.
        tasks: The extension of the registry by which callers ask for tasks of the server's.
        rename: Makes the names of tools and prompts from the server's; they have to stay apart.
        dereference_schemas: Whether the schemas of tools are shown with as few references (`$ref`)
            as can be, as those of a `Registry` are; else as the server has them.
        limits: The bounds of each connection.
        log_level: The least severe level of log messages that a legacy server is asked for at
            first. It is asked for less severe ones once a caller wants them.
        on_state: Called with each state of the shared connection.

    Raises:
        TypeError: The target is none of those.
        ValueError: The URL is invalid, a number cannot be a bound, or `limits` sets one that only a
            server has.

    Example:
        >>> registry = Registry("all")
        >>> registry.mount(Remote("https://example.com/mcp", name="web"), prefix="web")
    """

    def __init__(
        self,
        target: Target,
        *,
        name: str = "remote",
        era: Era | None = None,
        process_options: ProcessOptions | None = None,
        http: HttpOptions | None = None,
        connect_timeout: float = 30.0,
        timeout: float = 600.0,
        reconnect_timeout: float = 10.0,
        wait: float = WAIT,
        backoff: Backoff | None = None,
        max_callers: int = 32,
        caller_idle: float = 300.0,
        max_held: int = 1000,
        max_items: int = 5000,
        rename: Callable[[str], str] | None = None,
        dereference_schemas: bool = False,
        tasks: PassedTasks | None = None,
        limits: Limits | None = None,
        log_level: LoggingLevel = "info",
        on_state: Callable[[ClientState], object] = lambda state: None,
    ) -> None:
        if isinstance(target, trio.abc.Stream):
            raise TypeError("a stream cannot be opened again; Remote takes a command or a URL")
        check_target(type(self).__name__, target)
        check_limits("Remote", target, limits or Limits(), "timeout")
        era_of(None, era)
        super().__init__(name)
        self._bounds = _Bounds(
            connect_timeout=connect_timeout,
            timeout=timeout,
            reconnect_timeout=reconnect_timeout,
            wait=wait,
            max_callers=max_callers,
            caller_idle=caller_idle,
            max_held=max_held,
            max_items=max_items,
        )
        self.tool_timeout = timeout
        self.connector: Callable[..., ClientConnection] = partial(
            connect,
            target,
            era=era,
            process_options=process_options,
            http=http,
            connect_timeout=connect_timeout,
            list_tools=False,
            limits=limits,
            extensions=[] if tasks is None else [KnowsTasks()],
        )
        self._rename = rename
        self._dereference_schemas = dereference_schemas
        self._tasks = tasks
        self._log_level = log_level
        self._backoff = backoff or Backoff()
        self._question_timeout = (limits or Limits()).question_timeout
        self._on_state = on_state
        self._offers = Offers()
        self._taking = trio.Lock()
        self._upstreams: dict[Upstream, float] = {}  # and since when
        self._shared: Upstream | None = None
        self._watched = WatchedResources(name, self.changes.resource_updated)
        self._has_resources = False
        self._is_listed = False
        self._declared: Mapping[str, Json] | None = None  # by the server, once that is known
        # What the results of lists have besides their items, and since when.
        self._members: dict[Table, tuple[Mapping[str, Json], float]] = {}
        self._outdated: set[Table] = set()
        self._outdated_lot = trio.lowlevel.ParkingLot()
        self.declared_capabilities: Collection[str] = _CAPABILITIES  # until it is known
        self._real_names: dict[str, str] = {}  # of prompts, for completions
        self._answers = {method: partial(_answer, method) for method in CALLED}

    # -- its life -------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Any]:
        """Connect, and share the connection with every registry that is served during the block.

        Without it, each registry that is served has connections of its own.

        Raises:
            RuntimeError: It is running already.
        """
        check_trio("Remote.running")
        if self._shared is not None:
            raise RuntimeError(f"Remote {self.name!r} is running already")
        async with self._connected() as self._shared:
            try:
                yield self._shared
            finally:
                self._shared = None

    @property
    def shared_state(self) -> Upstream | None:
        """The connections, while it is `running`."""
        return self._shared

    @asynccontextmanager
    async def lifespan(self, limits: Limits) -> AsyncIterator[Upstream]:
        """Connect for as long as a registry is served."""
        if self._shared is not None:
            yield self._shared
            return
        async with self._connected() as upstream:
            yield upstream

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Upstream]:
        async with background_nursery() as nursery:
            upstream = self._upstream(nursery)
            self._upstreams[upstream] = trio.current_time()
            nursery.start_soon(upstream.main.run)
            try:
                yield upstream
            finally:
                del self._upstreams[upstream]

    @property
    def needs_running(self) -> bool:
        """Whether it has to be opened before anything of it can be called."""
        return self._shared is None

    @property
    def state(self) -> ClientState:
        """The state of the connection: the latest one, if there are several."""
        upstream = next(reversed(self._upstreams), None)
        return Disconnected() if upstream is None else upstream.main.state

    @property
    def status(self) -> str:
        """The state as a word."""
        return type(self.state).__name__.lower()

    async def ready(self, limits: Limits | None = None) -> None:
        """Wait until it is known what the server has, or that it is not there.

        However often it is waited for, `wait` seconds after it was begun it is waited for no more.
        """
        for upstream, begun in list(self._upstreams.items()):
            with trio.move_on_at(begun + self._bounds.wait):
                await upstream.main.settled.wait()
                if not upstream.main.was_lost:  # one that is lost now and then is not waited for
                    with trio.move_on_after(self._bounds.connect_timeout):
                        await upstream.listed.wait()

    def _upstream(self, nursery: trio.Nursery) -> Upstream:
        calls = OpenCalls()
        main = SupervisedConnection(
            self.name,
            partial(self.connector, on_log=calls.on_log),
            backoff=self._backoff,
            timeout=self._bounds.reconnect_timeout,
            on_state=self._on_state,
            attend=lambda client: self._attend(client, upstream),
        )
        callers = CallerConnections(
            self.name,
            partial(open_for_caller, partial(self.connector, log_level=self._log_level)),
            nursery,
            attend=self._attend_caller,
            limit=self._bounds.max_callers,
            idle=self._bounds.caller_idle,
            timeout=self._bounds.reconnect_timeout,
        )
        suspended = SuspendedCalls(nursery, self._bounds.max_held, self._question_timeout)
        upstream = Upstream(
            main,
            calls,
            callers,
            suspended,
            nursery,
            self._log_level,
            self._tasks,
            self._offers,
            self._list_for,
        )
        return upstream

    # -- what it has ----------------------------------------------------------------------

    async def _attend(self, client: Client, upstream: Upstream) -> None:
        """Keep the tables like the server's, and pass on changes of resources."""
        self.completes = "completions" in client.capabilities
        self.declared_capabilities = _CAPABILITIES.intersection(client.capabilities)
        self.logs = "logging" in client.capabilities
        self._declared = client.capabilities
        self._has_resources = "resources" in client.capabilities
        await self._refresh_all(client, NONE)
        upstream.listed.set()
        self._is_listed = True
        self.note_filled()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watched.follow, client, upstream.main.note_failure)
            nursery.start_soon(self._renew_lists, client)
            refresh = partial(self._refresh, client)
            await follow_lists(client, refresh, upstream.main.note_failure)

    async def _attend_caller(self, client: Client, key: CallerKey) -> None:
        """Follow what a legacy server lists for callers with some abilities; one at a time does."""
        abilities = abilities_in(capabilities_of(key[-1]))
        async with self._offers.turn(abilities):
            await self._refresh_all(client, abilities)
            refresh = partial(self._refresh, client, abilities=abilities)
            await follow_lists(client, refresh, lambda error: None)

    async def _list_for(self, client: Client, abilities: Abilities) -> None:
        """Find out what a modern server lists for callers with some abilities."""
        async with self._offers.turn(abilities):
            if not self._offers.is_known(abilities):
                await self._refresh_all(client, abilities)

    async def _refresh_all(self, client: Client, abilities: Abilities) -> None:
        for kind in LISTED.values():
            if kind.capability in client.capabilities:
                await self._refresh_table(client, kind, abilities)
                continue
            if abilities == NONE:
                self._members.pop(kind.table, None)
            await self._take(client, kind, abilities, [])
        self._offers.note_followed(abilities, client)

    async def _renew_lists(self, client: Client) -> None:
        """Ask again for lists that are out of date, where the server tells of no changes."""
        while True:
            while not self._outdated:
                await self._outdated_lot.park()
            table = self._outdated.pop()
            await self._refresh_table(client, LISTED[table])

    async def _refresh(self, client: Client, capability: Kind, abilities: Abilities = NONE) -> None:
        others = self._offers.others if client.era == "modern" else []
        for kind in LISTED.values():
            if kind.capability == capability:
                for wanted in (abilities, *others):
                    await self._refresh_table(client, kind, wanted)

    async def _refresh_table(
        self, client: Client, kind: ListedKind, abilities: Abilities = NONE
    ) -> None:
        method, table = kind.list.name, kind.table
        params = None if abilities == NONE else _asked_with(client, abilities)
        try:
            listed, members = await list_pages(client, method, kind.items, params)
        except (ClientError, McpError) as error:
            logger.warning("Server %s: %s failed: %s", self.name, method, error)
            return
        if len(listed) > self._bounds.max_items:
            told = "Server %s lists %d %s; the first %d are taken"
            logger.warning(told, self.name, len(listed), table, self._bounds.max_items)
            listed = listed[: self._bounds.max_items]
        if abilities == NONE:
            self._members[table] = members, trio.current_time()
        await self._take(client, kind, abilities, listed)

    async def _take(
        self, client: Client, kind: ListedKind, abilities: Abilities, listed: list[Json]
    ) -> None:
        """Have a table show what is listed, each to whom it is listed for."""
        async with self._taking:
            if not self._offers.put(kind, abilities, listed) and abilities != NONE:
                return
            nameless = [item for item in listed if not is_named(item, kind.key)]
            await self._show(client, kind, [*self._offers.merged(kind), *nameless])

    async def _show(self, client: Client, kind: ListedKind, listed: list[Json]) -> None:
        table = kind.table
        if kind is TOOL:
            await session_of(client).take_tools(listed)
        if kind is PROMPT:  # what was there before must not be kept forever
            self._real_names = {}
        aside = convert if self._dereference_schemas else offload  # a small list may get large
        found, refused = await aside(partial(self._items, kind), listed)
        refused += await self.replace(table, found)
        for why in refused[:_TOLD]:
            logger.warning("Server %s: something of %s is left out: %.300s", self.name, table, why)

    def _items(self, kind: ListedKind, listed: list[Json]) -> tuple[list[Any], list[Exception]]:
        """Make entries of a server's list, and collect the errors of those that cannot be made."""
        found: list[Any] = []
        refused: list[Exception] = []
        for wire in listed:
            try:
                found.append(self._item(kind, wire))
            except (ValueError, TypeError) as error:
                refused.append(error)
        return found, refused

    def _item(self, kind: ListedKind, wire: Json) -> Any:
        """Make an entry of an item of a server's list.

        Raises:
            ValueError: It is not what it should be.
        """
        key, payload, answer = kind.key, kind.description_type, self._answers[kind.call.name]
        name = wire.get(key) if isinstance(wire, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
            raise ValueError(f"it needs a {key} of 1 to {_LONGEST_NAME} characters")
        described = from_wire(wire, payload)
        if self._rename is not None and key == "name":
            described = evolve(described, name=self._rename(name))
            if kind is PROMPT:
                self._real_names[described.name] = name
            answer = partial(_answer_renamed, answer, name)
        pass_on = PassedCalls(name) if kind is TOOL else None
        extra = unknown_members(wire, described)
        made: Any = forwarded_entry(described, answer, pass_on=pass_on)
        if self._dereference_schemas and kind is TOOL:
            made = made.dereferenced()
        rules = self._offers.rules(kind.table, name)
        if extra or rules:
            made = evolve(made, extra_fields=extra, visible=rules)
        return made

    def is_ready_for(self, caller: Context) -> bool:
        return caller.lifespan is None or self._offers.is_known(abilities_of(caller))

    async def ready_for(self, caller: Context) -> None:
        upstream: Upstream = caller.lifespan
        with trio.move_on_after(min(self._bounds.wait, self._bounds.reconnect_timeout)):
            await upstream.find_lists(caller)

    def may_get(self, name: str) -> bool:
        """Whether the server has not yet said what it has."""
        return not self._is_listed

    def details_of(self, capability: str) -> Mapping[str, Json]:
        """Return what the server has declared of a capability, once that is known."""
        if self._declared is None:
            return super().details_of(capability)
        details = self._declared.get(capability)
        return details if isinstance(details, dict) else {}

    def list_members(self, table: Table) -> Mapping[str, Json]:
        """Return what the server's list had besides its items.

        Where the server tells of no changes, the time for which it may be kept goes by. A caller
        that asks later still gets the list that there is, and has it asked for again.
        """
        members, since = self._members.get(table, ({}, 0.0))
        found = {"ttlMs": 0, "cacheScope": "private", **members}
        if self.details_of(LISTED[table].capability).get("listChanged") is not True:
            age = round((trio.current_time() - since) * 1000)
            found["ttlMs"] = max(ttl_of(found) - age, 0)
            if not found["ttlMs"] and ttl_of(members):
                self._outdated.add(table)
                self._outdated_lot.unpark_all()
        return found

    # -- resources ------------------------------------------------------------------------

    def find_unlisted(self, uri: str) -> Resource | None:
        """Make an entry for a URI that the server does not list: the server decides."""
        if not self._has_resources or len(uri) > _LONGEST_NAME:
            return None
        answer = self._answers[RESOURCE.call.name]
        return forwarded_entry(ResourceDescription(uri, uri), answer)

    def watched(self, uri: str) -> None:
        """Follow the changes of a resource."""
        self._watched.watch(uri, self.changes.owner_of(uri))

    def unwatched(self, uri: str) -> None:
        """Stop to follow them."""
        self._watched.unwatch(uri)

    async def confirm(self, uris: Collection[str]) -> Collection[str]:
        """Wait until the server has confirmed subscriptions, as long as a call waits for it."""
        return await self._watched.confirm(uris, self._bounds.reconnect_timeout)

    def roots_changed(self, state: Any, connection_id: str, principal: str | None) -> None:
        """Notify the server, on the caller's connections, that its roots have changed."""
        if state is not None:  # what is mounted may not be open yet
            state.roots_changed(connection_id, principal)

    # -- completion -----------------------------------------------------------------------

    def find_completer(self, kind: RefType, target: str, argument: str) -> Completer:
        """Make a completer that asks the server."""
        key: Literal["name", "uri"] = "name" if kind == "ref/prompt" else "uri"
        answer = self._answers[COMPLETION.call.name]
        target = self._real_names.get(target, target)
        return forwarded_entry(ArgumentRef({"type": kind, key: target}, argument), answer)


def _asked_with(client: Client, abilities: Abilities) -> dict[str, Json] | None:
    """Return the parameters by which a modern server is asked for a list as if by such a caller."""
    if client.era == "legacy":
        return None
    session = session_of(client)
    own = session.options.identity.capabilities_in(
        session.negotiated.revision, session.shared_extensions
    )
    return {"_meta": {META_CLIENT_CAPABILITIES: {**own, **capabilities_of(abilities)}}}


async def _answer(method: str, params: dict[str, Json], context: Context) -> Mapping[str, Json]:
    upstream: Upstream = context.lifespan
    return await upstream.answer(method, params, context)


async def _answer_renamed(
    answer: Answer, name: str, params: dict[str, Json], context: Context
) -> Mapping[str, Json]:
    return await answer({**params, "name": name}, context)
