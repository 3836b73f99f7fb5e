"""What can be mounted in a registry: tables of what there is, kept in step with those above.

The catalogue of a registry is a provider, and so is a server that runs elsewhere. A registry that
mounts a provider has entries of its own for those of the provider, made once, when it is mounted or
when something is added to it. So a lookup, a list and a call look at one table, however deep the
providers are.

Whatever is put into a table is first made for all the tables above. Only if none of them refuses it
is it put anywhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from trio_mcp.public import public_in
from trio_mcp.registry.changes import Changes
from trio_mcp.registry.handlers import Handler
from trio_mcp.registry.kinds import LISTED, RefType, Table
from trio_mcp.schema import ArgumentError, SchemaError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.methods import CAPABILITIES

# Many servers have tools and nothing else, and are started for every client.
if TYPE_CHECKING:
    from trio_mcp.layers.log_bridge import LogBridge
    from trio_mcp.registry.completions import Completer
    from trio_mcp.registry.context import Context
    from trio_mcp.registry.prompts import Prompt
    from trio_mcp.registry.resources import Resource, ResourceTemplate
    from trio_mcp.registry.tools import Tool

_AT_ONCE: Final = 100
"""So many entries are replaced before others get their turn: some 5 ms for each level."""


class Follower(Protocol):
    """Where a provider is mounted: makes entries of its own for those of the provider."""

    def propagate_add(self, table: Table, item: Any) -> Iterator[tuple[Provider, Table, Any]]:
        """Yield the entries to make for an entry of the provider, here and further up.

        Raises:
            SchemaError: One of them cannot be made.
        """

    def propagate_remove(self, table: Table, name: str) -> Iterator[tuple[Provider, Table, str]]:
        """Yield the entries that were made for an entry of the provider, here and further up."""

    def note_log_bridge(self) -> None: ...

    def note_filled(self) -> None: ...


@public_in("trio_mcp.compose")
class Provider:
    """Something with tools, resources and prompts of its own, which `Registry.mount` takes.

    A `Registry` has one for its own. Write a subclass for other things: a server elsewhere, or
    tools that come from a database. Fill its tables with `replace`, before it is mounted or at any
    time later; what is in them appears wherever the provider is mounted. `forwarded_entry`
    makes entries whose requests are passed on as they are.

    Args:
        name: What the log and messages call it.

    Example:
        >>> class Echo(Provider):
        ...     async def ready(self, limits: Limits) -> None:
        ...         shown = ToolDescription("echo", {"type": "object"})
        ...         await self.replace("tools", [forwarded_entry(shown, self.answer)])
        ...
        ...     async def answer(self, params: dict, context: Context) -> dict:
        ...         return {"content": [{"type": "text", "text": str(params["arguments"])}]}
        >>> registry = Registry("all")
        >>> registry.mount(Echo("echo"), "far")
    """

    scopes: frozenset[str] = frozenset()
    """What a caller's access token must allow for any of its entries."""
    tool_timeout: float | None = None
    """Seconds that its handlers may take, unless they have a limit of their own; `None` for what
    holds where it is mounted."""
    declared_capabilities: Collection[str] = ()
    """What is declared to clients, of `tools`, `resources`, `prompts` and `completions`, even while
    there is nothing of it."""
    logs: bool = True
    """Whether its handlers may send log messages to callers, so that `logging` is declared."""
    completes: bool = False
    """Whether it completes arguments: `find_completer` will be asked."""
    mounts: Sequence[Any] = ()
    """Where providers are mounted in it: only the catalogue of a registry has such."""
    is_loaded: bool = False
    """Whether its tables are filled when it is mounted, so that names in `Registry.mount` which it
    does not know are mistakes."""

    def __init__(self, name: str) -> None:
        self.__name = name
        self._tools: dict[str, Tool] = {}
        self._resources: dict[str, Resource] = {}
        self._templates: dict[str, ResourceTemplate] = {}
        self._prompts: dict[str, Prompt] = {}
        self._tables: Final[dict[Table, dict[str, Any]]] = {
            "tools": self._tools,
            "resources": self._resources,
            "resource_templates": self._templates,
            "prompts": self._prompts,
        }
        self._has_scopes = False
        self._has_visibility_rules = False
        self.tools: Final[Mapping[str, Tool]] = MappingProxyType(self._tools)
        """The tools by name, in the order of their registration."""
        self.resources: Final[Mapping[str, Resource]] = MappingProxyType(self._resources)
        """The resources by URI, in the order of their registration."""
        self.resource_templates: Final = MappingProxyType(self._templates)
        """The resource templates by URI template, in the order of their registration."""
        self.prompts: Final[Mapping[str, Prompt]] = MappingProxyType(self._prompts)
        """The prompts by name, in the order of their registration."""
        self.changes: Final = Changes(self.watched, self.unwatched)
        """What has changed, and who wants to know."""
        self.log_bridge: LogBridge | None = None
        """Forwards the standard library's log; `None` until `Registry.log_handler` is called."""
        self.log_bridges_made = 0
        """Changes when a log bridge is made here, or in something that is mounted here."""
        self.followers: Final[list[Follower]] = []
        """Where it is mounted."""

    @property
    def name(self) -> str:
        """What the log and messages call it."""
        return self.__name

    @property
    def has_scopes(self) -> bool:
        """Whether anything that can be reached, or ever could, needs scopes of its own."""
        mounts = self.mounts
        return self._has_scopes or (
            bool(mounts) and any(mount.provider.has_scopes for mount in mounts)
        )

    @property
    def has_visibility_rules(self) -> bool:
        """Whether anything that can be reached, or ever could, may be hidden from a caller."""
        mounted = (mount.provider.has_visibility_rules for mount in self.mounts)
        return self._has_visibility_rules or any(mounted)

    @property
    def status(self) -> str | None:
        """How it stands, in a word, where that can be one way or another; else `None`."""
        return None

    def note_log_bridge(self) -> None:
        """Note, here and wherever this is mounted, that there is another log bridge."""
        self.log_bridges_made += 1
        for follower in self.followers:
            follower.note_log_bridge()

    def note_filled(self) -> None:
        """Note, here and wherever this is mounted, that it is known by now what there is.

        Call it once the tables are filled, if that may be after `ready`: names that were chosen
        where this is mounted, and are not there, are logged then.
        """
        for follower in self.followers:
            follower.note_filled()

    def may_get(self, name: str) -> bool:
        """Whether something of a name, or `tag:` and a tag, may come that is not known yet.

        By default, until there is anything.
        """
        return not (self.is_loaded or any(self._tables.values()))

    def all_providers(self) -> list[Provider]:
        """Return the providers that are mounted in it, and theirs, each once and before its own."""
        found: dict[Provider, None] = {}
        ahead = [self]
        for parent in ahead:
            for provider in [mount.provider for mount in parent.mounts]:
                if provider not in found:
                    found[provider] = None
                    ahead.append(provider)
        return list(found)

    def check_extensions(self, provider: Provider, prefix: str | None) -> None:
        """Raise `SchemaError` unless all that a provider has beside entries can be here."""

    def details_of(self, capability: str) -> Mapping[str, Json]:
        """Return what is declared of a capability: which changes clients can hear of.

        By default, all that a registry has, such as `{"listChanged": True}` for `tools`.
        """
        return CAPABILITIES[capability].details

    def list_members(self, table: Table) -> Mapping[str, Json] | None:
        """Return the members of a result that lists its entries, besides these.

        Such are `ttlMs`, `cacheScope` and `_meta`. By default `None`, for those that the registry
        has which is served. Where several providers have entries in a list, the shortest time and
        the narrowest scope count, and the rest is left out.
        """
        return None

    # -- what there is --------------------------------------------------------------------

    def table(self, table: Table) -> Mapping[str, Any]:
        """Return what there is of one kind, in the order of its registration."""
        return self._tables[table]

    def add(self, table: Table, *items: Handler) -> None:
        """Add entries, here and wherever this is mounted.

        An entry takes the place of the one of the same name, if that is this provider's own to
        change.

        Raises:
            SchemaError: Where this is mounted, there is something of that name already, or the
                entry cannot be shown as it has to be there. Nothing has been added then.
        """
        own = self._tables[table]
        known: Iterator[Any] = ((own[item.name], item) for item in items if item.name in own)
        moved = [new.name for old, new in known if old.description.tags != new.description.tags]
        places = [place for item in items for place in self.propagate_add(table, item)]
        self.add_all(places)
        if moved:  # where tags choose what appears, something may have gone
            put = {(id(provider), where, item.name) for provider, where, item in places}
            found = [place for name in moved for place in self.propagate_remove(table, name)]
            self._remove_all(place for place in found if (id(place[0]), *place[1:]) not in put)

    def add_all(self, propagate_add: Iterable[tuple[Provider, Table, Any]]) -> None:
        """Put entries where `propagate_add` has found that they have to be.

        Raises:
            SchemaError: One of them cannot be put there. Nothing has been added then.
        """
        found = list(propagate_add)
        _check_apart(found)
        for provider, where, item in found:
            provider._tables[where][item.name] = item
            provider._has_scopes |= bool(item.scopes)
            provider._has_visibility_rules |= bool(item.visible)
        _tell(found)

    def remove(self, table: Table, *names: str) -> None:
        """Remove entries, here and wherever this is mounted. Calls that run are not disturbed.

        Raises:
            KeyError: There is no such entry.
        """
        own = self._tables[table]
        for name in names:
            own[name]  # before anything is removed
        self._remove_all(place for name in names for place in self.propagate_remove(table, name))

    def _remove_all(self, propagate_remove: Iterable[tuple[Provider, Table, str]]) -> None:
        found = list(propagate_remove)
        for provider, where, name in found:
            provider._tables[where].pop(name, None)
        _tell(found)

    async def replace(self, table: Table, items: Sequence[Handler]) -> list[SchemaError]:
        """Have a table hold these entries and no others.

        Entries whose description has not changed stay as they are. What cannot be added, mostly
        because its name is taken where this is mounted, is left out.

        Returns:
            Why entries were left out; mostly nothing.

        However many entries there are, other tasks get their turn meanwhile. If cancelled, some
        have been replaced and others not.
        """
        wanted = {item.name: item for item in items}
        current = self._tables[table]
        for names in _chunks([name for name in current if name not in wanted]):
            self.remove(table, *(name for name in names if name in current))
            await trio.lowlevel.checkpoint()
        refused: list[SchemaError] = []
        for chunk in _chunks(list(wanted.values())):
            new = [item for item in chunk if not _is_same(current.get(item.name), item)]
            refused += self._put_what_can_be(table, new)
            await trio.lowlevel.checkpoint()
        return refused

    def _put_what_can_be(self, table: Table, items: Sequence[Handler]) -> list[SchemaError]:
        try:
            self.add(table, *items)
        except SchemaError as error:
            if len(items) > 1:
                return [why for item in items for why in self._put_what_can_be(table, [item])]
            if items[0].name in self._tables[table]:  # what it was to replace goes, too
                self.remove(table, items[0].name)
            return [error]
        return []

    def around(self, item: Any) -> Any:
        """Return an entry with what is run around all that is here: by default, as it is."""
        return item

    def propagate_add(self, table: Table, item: Any) -> Iterator[tuple[Provider, Table, Any]]:
        """Yield where an entry has to be put: here, and what is made of it further up.

        Raises:
            SchemaError: It cannot be put somewhere.
        """
        item = self.around(item)
        yield self, table, item
        for follower in self.followers:
            yield from follower.propagate_add(table, item)

    def propagate_remove(self, table: Table, name: str) -> Iterator[tuple[Provider, Table, str]]:
        """Yield where there is something to remove: here, and further up."""
        yield self, table, name
        for follower in self.followers:
            yield from follower.propagate_remove(table, name)

    # -- resources that are asked for -----------------------------------------------------

    def find_resource(self, uri: str) -> tuple[Resource | ResourceTemplate, dict[str, Any]] | None:
        """Return the resource or template for a URI, and the arguments for its function.

        A resource comes before a template; of several templates that match, the first one
        registered whose variables have the right types.
        """
        resource = self._resources.get(uri)
        if resource is not None:
            return resource, {}
        for template in self._templates.values():
            values = template.template.match(uri)
            if values is not None:
                try:
                    return template, template.arguments.bind(values)
                except ArgumentError:
                    continue
        unlisted = self.find_unlisted(uri)
        return None if unlisted is None else (unlisted, {})

    def find_unlisted(self, uri: str) -> Resource | None:
        """Return the resource for a URI that is in no list, if there is one."""
        return None

    def notify_resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to a resource that its contents have changed.

        You can call this in any thread. Several calls before a notification is sent become one.
        """
        self.changes.resource_updated(uri)

    def watched(self, uri: str) -> None:
        """Take note that a resource has its first watcher. `confirm` is called when it matters."""

    def unwatched(self, uri: str) -> None:
        """Take note that a resource has lost its last watcher."""

    async def confirm(self, uris: Collection[str]) -> Collection[str]:
        """Wait until no change of these resources can be missed, which are watched already.

        Returns:
            Those whose changes will be noticed: clients are promised no others. By default all, at
            once.

        A subscription waits for it, so it has to return in the end.
        """
        return uris

    # -- completion -----------------------------------------------------------------------

    def find_completer(self, kind: RefType, target: str, argument: str) -> Completer:
        """Return what completes an argument of a prompt, or a variable of a template.

        Raises:
            McpError: There is no such thing (`-32602`).
        """
        raise NotImplementedError

    # -- lifespan -------------------------------------------------------------------------

    @property
    def needs_running(self) -> bool:
        """Whether it has to be opened before anything of it is called, and is not open."""
        return False

    def roots_changed(self, state: Any, connection_id: str, principal: str | None) -> None:
        """Take note that a caller has other roots now. Called by the server.

        Args:
            state: What the provider's lifespan yielded.
            connection_id: The caller's connection.
            principal: Who the caller was proved to be.
        """

    @property
    def shared_state(self) -> Any:
        """What its lifespan yielded, where that stays open independent of servers; else `None`."""
        return None

    @asynccontextmanager
    async def lifespan(self, limits: Limits) -> AsyncIterator[Any]:
        """Open what it needs, for as long as the registry that it is mounted in is served.

        It is opened after that registry's own lifespan and after the providers that were mounted
        before, and closed before them. What it yields is `Context.lifespan` of its handlers. What
        is opened here should not wait for anything slow: see `ready`.

        Raises:
            LifespanError: It cannot be opened; then the registry cannot be served.
        """
        yield None

    def is_ready_for(self, caller: Context) -> bool:
        """Whether it is known what a caller sees: that may depend on what the caller can do.

        If not, `ready_for` is awaited before it is listed for that caller.
        """
        return True

    async def ready_for(self, caller: Context) -> None:
        """Find out what a caller sees, or do so for a bounded time: its request waits."""

    async def ready(self, limits: Limits) -> None:
        """Wait until its tables are filled, or for a bounded time: it holds up all of the others.

        All providers are waited for at the same time, when all of them are open, and nothing is
        served before. Whatever it raises ends serving.
        """


def _is_same(old: Any, new: Any) -> bool:
    return (
        old is not None
        and old.description == new.description
        and old.extra_fields == new.extra_fields
        and old.visible == new.visible
    )


def _chunks(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))


def _check_apart(found: Sequence[tuple[Provider, Table, Any]]) -> None:
    if len(found) == 1:
        return
    taken: set[tuple[int, Table, str]] = set()
    for provider, table, item in found:
        place = (id(provider), table, item.name)
        if place in taken:
            what = f"{LISTED[table].label} {item.name!r:.200}"
            raise SchemaError(f"{what} would be in {provider.name!r} twice; names must be unique.")
        taken.add(place)


def _tell(found: Iterable[tuple[Provider, Table, Any]]) -> None:
    changed = {(id(provider), LISTED[table].capability): provider for provider, table, _ in found}
    for (_, kind), provider in changed.items():
        provider.changes.list_changed(kind)
