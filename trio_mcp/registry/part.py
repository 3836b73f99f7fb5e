"""What can be mounted in a registry: tables of what there is, kept in step with those above.

A registry is a part, and so is a server that runs elsewhere. A registry that mounts a part has
entries of its own for whatever the part has, made once, when the part is mounted or something is
added to it. So a lookup, a list and a call look at one table, however deep the parts are.

Whatever is put into a table is first made for all the tables above. Only if none of them refuses it
is it put anywhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import trio

from trio_mcp.public import public
from trio_mcp.registry.changes import Changes, Kind
from trio_mcp.registry.handlers import Handler
from trio_mcp.schema import ArgumentError, SchemaError
from trio_mcp.wire.collector import collector_spared
from trio_mcp.wire.limits import Limits

# Many servers have tools and nothing else, and are started anew for every client.
if TYPE_CHECKING:
    from trio_mcp.registry.completions import Completer
    from trio_mcp.registry.log_bridge import LogBridge
    from trio_mcp.registry.prompts import Prompt
    from trio_mcp.registry.resources import Resource, ResourceTemplate
    from trio_mcp.registry.tools import Tool

Table = Literal["tools", "resources", "resource_templates", "prompts"]
RefType = Literal["ref/prompt", "ref/resource"]

KIND_OF: Final[Mapping[Table, Kind]] = {
    "tools": "tools",
    "resources": "resources",
    "resource_templates": "resources",
    "prompts": "prompts",
}
NOUN_OF: Final[Mapping[Table, str]] = {
    "tools": "Tool",
    "resources": "Resource",
    "resource_templates": "Resource template",
    "prompts": "Prompt",
}

_MANY: Final = 5000
_AT_ONCE: Final = 100
"""So many entries are replaced before others get their turn: some 5 ms for each level."""


class Follower(Protocol):
    """Where a part is mounted: makes entries of its own for those of the part."""

    def placements(self, table: Table, item: Any) -> Iterator[tuple[Part, Table, Any]]:
        """Make the entries for an entry of the part, here and further up.

        Raises:
            SchemaError: There is something of that name already, or it cannot be shown so.
        """

    def removals(self, table: Table, name: str) -> Iterator[tuple[Part, Table, str]]:
        """Name the entries that there are for an entry of the part, here and further up."""


@public
class Part:
    """Something with tools, resources and prompts of its own, which `Registry.mount` takes.

    A `Registry` is one. Write a subclass for what is not: a server elsewhere, or tools that come
    from a database. Fill its tables with `replace`, before it is mounted or at any time later; what
    is in them appears wherever the part is mounted. `forwarded_tool`, `forwarded_resource` and so
    on make entries whose requests are passed on as they are.

    Args:
        name: What the log and messages call it.

    Example:
        >>> class Echo(Part):
        ...     async def ready(self, limits: Limits) -> None:
        ...         shown = ToolDescription("echo", {"type": "object"})
        ...         await self.replace("tools", [forwarded_tool(shown, self.answer)])
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
    may_offer: Collection[str] = ()
    """What clients are told that there may be, of `tools`, `resources`, `prompts` and
    `completions`, even while there is nothing of it."""
    completes: bool = False
    """Whether it completes arguments: `find_completer` will be asked."""
    is_settled: bool = False
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
        self.has_scopes = False
        """Whether anything that was ever registered needs scopes of its own."""
        self.hides_some = False
        """Whether anything that was ever registered may be hidden from a caller."""
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
        self.followers: Final[list[Follower]] = []
        """Where it is mounted."""

    @property
    def name(self) -> str:
        """What the log and messages call it."""
        return self.__name

    @property
    def mounts(self) -> Sequence[Any]:
        """Where parts are mounted in it. Only a registry has such."""
        return ()

    @property
    def status(self) -> str | None:
        """How it stands, in a word, where that can be one way or another; else `None`."""
        return None

    def all_parts(self) -> list[Part]:
        """Return the parts that are mounted in it, and theirs, each once and before its own."""
        found: dict[Part, None] = {}
        ahead = [self]
        for each in ahead:
            for part in [mount.part for mount in each.mounts]:
                if part not in found:
                    found[part] = None
                    ahead.append(part)
        return list(found)

    def check_extensions(self, part: Part) -> None:
        """Make sure that there is here what a part needs of extensions and of middleware.

        Raises:
            SchemaError: There is not.
        """

    # -- what there is --------------------------------------------------------------------

    def table(self, table: Table) -> Mapping[str, Any]:
        """Return what there is of one kind, in the order of its registration."""
        return self._tables[table]

    def put(self, table: Table, *items: Handler) -> None:
        """Add entries, here and wherever this is mounted.

        An entry takes the place of the one of the same name, if that is this part's own to change.

        Raises:
            SchemaError: Where this is mounted, there is something of that name already, or the
                entry cannot be shown as it has to be there. Nothing has been added then.
        """
        self.put_all(each for item in items for each in self.placements(table, item))

    def put_all(self, placements: Iterable[tuple[Part, Table, Any]]) -> None:
        """Put entries where `placements` has found that they have to be.

        Raises:
            SchemaError: One of them cannot be put there. Nothing has been added then.
        """
        found = list(placements)
        _check_apart(found)
        for part, where, item in found:
            part._tables[where][item.name] = item
            part.has_scopes |= bool(item.scopes)
            part.hides_some |= bool(item.visible)
        _tell(found)

    def take(self, table: Table, *names: str) -> None:
        """Remove entries, here and wherever this is mounted. Calls that run are not disturbed.

        Raises:
            KeyError: There is no such entry.
        """
        own = self._tables[table]
        for name in names:
            own[name]  # before anything is removed
        found = [each for name in names for each in self.removals(table, name)]
        for part, where, name in found:
            part._tables[where].pop(name, None)
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
        wanted = {each.name: each for each in items}
        current = self._tables[table]
        for names in _chunks([name for name in current if name not in wanted]):
            self.take(table, *(each for each in names if each in current))
            await trio.lowlevel.checkpoint()
        refused: list[SchemaError] = []
        for chunk in _chunks(list(wanted.values())):
            # There may be so many that the collector would take long to look at them.
            with collector_spared() if len(wanted) > _MANY else nullcontext():
                new = [each for each in chunk if not _is_same(current.get(each.name), each)]
                refused += self._put_what_can_be(table, new)
            await trio.lowlevel.checkpoint()
        return refused

    def _put_what_can_be(self, table: Table, items: Sequence[Handler]) -> list[SchemaError]:
        if not items:
            return []
        try:
            self.put(table, *items)
        except SchemaError:
            return [error for each in items for error in self._refusal(table, each)]
        return []

    def _refusal(self, table: Table, item: Handler) -> list[SchemaError]:
        try:
            self.put(table, item)
        except SchemaError as error:
            if item.name in self._tables[table]:
                self.take(table, item.name)  # what it was to take the place of is not there either
            return [error]
        return []

    def placements(self, table: Table, item: Any) -> Iterator[tuple[Part, Table, Any]]:
        """Yield where an entry has to be put: here, and what is made of it further up.

        Raises:
            SchemaError: It cannot be put somewhere.
        """
        yield self, table, item
        for each in self.followers:
            yield from each.placements(table, item)

    def removals(self, table: Table, name: str) -> Iterator[tuple[Part, Table, str]]:
        """Yield where there is something to remove: here, and further up."""
        yield self, table, name
        for each in self.followers:
            yield from each.removals(table, name)

    # -- resources that are asked for -----------------------------------------------------

    def find_resource(self, uri: str) -> tuple[Resource | ResourceTemplate, dict[str, Any]] | None:
        """Find who says what is at a URI, and the arguments for its function.

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
                    return template, template.bind(values)
                except ArgumentError:
                    continue
        unlisted = self.find_unlisted(uri)
        return None if unlisted is None else (unlisted, {})

    def find_unlisted(self, uri: str) -> Resource | None:
        """Find who says what is at a URI that is in no list. Here, nobody does."""
        return None

    def has_resource(self, uri: str) -> bool:
        """Whether there is somebody to say what is at a URI."""
        return self.find_resource(uri) is not None

    def notify_resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to a resource that its contents have changed.

        You can call this in any thread. Several calls before a client is told become one.
        """
        self.changes.resource_updated(uri)

    def watched(self, uri: str) -> None:
        """Take note that somebody wants to know of changes of a resource, and nobody did before."""

    def unwatched(self, uri: str) -> None:
        """Take note that nobody wants to know of them any more."""

    # -- completion -----------------------------------------------------------------------

    def find_completer(self, kind: RefType, target: str, argument: str) -> Completer:
        """Return who completes an argument of a prompt, or a variable of a template.

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
        """Take note that a caller has other roots now. Whoever serves the part calls it.

        Args:
            state: What the part's lifespan yielded.
            connection_id: The caller's connection.
            principal: Who the caller was proved to be.
        """

    @property
    def shared_state(self) -> Any:
        """What its lifespan yielded, where it is open whoever is served; else `None`."""
        return None

    @asynccontextmanager
    async def lifespan(self, limits: Limits) -> AsyncIterator[Any]:
        """Open what it needs, for as long as the registry that it is mounted in is served.

        It is opened after that registry's own lifespan and after the parts that were mounted
        before, and closed before them. What it yields is `Context.state` of its handlers. What is
        opened here should not wait for anything slow: see `ready`.

        Raises:
            LifespanError: It cannot be opened; then the registry cannot be served.
        """
        yield None

    async def ready(self, limits: Limits) -> None:
        """Wait until its tables are filled, or as long as it makes sense to wait.

        All parts are waited for at the same time, when all of them are open, and nothing is served
        before. Whatever it raises ends serving.
        """


def _is_same(old: Any, new: Any) -> bool:
    return old is not None and old.description == new.description and old.foreign == new.foreign


def _chunks(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))


def _check_apart(found: Sequence[tuple[Part, Table, Any]]) -> None:
    """Make sure that no two new entries are to have the same place."""
    if len(found) == 1:
        return
    taken: set[tuple[int, Table, str]] = set()
    for part, table, item in found:
        place = (id(part), table, item.name)
        if place in taken:
            what = f"{NOUN_OF[table]} {item.name!r:.200}"
            raise SchemaError(f"{what} would be in {part.name!r} twice; names must be unique.")
        taken.add(place)


def _tell(found: Iterable[tuple[Part, Table, Any]]) -> None:
    """Tell of changed tables, each once."""
    changed = {(id(part), KIND_OF[table]): part for part, table, _ in found}
    for (_, kind), part in changed.items():
        part.changes.list_changed(kind)
