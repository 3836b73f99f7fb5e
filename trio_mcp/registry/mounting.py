"""A provider in a registry: the entries that the registry has for those of the provider.

An entry is made when the provider is mounted, or when the provider gets one: the same function with
another name. It keeps its `MountInfo`, so that the function runs as in the provider itself: with
the state of the provider's lifespan, and with the names that the provider knows.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, frozen

from trio_mcp.loggers import logger_of
from trio_mcp.registry.context import Context, inside
from trio_mcp.registry.kinds import LISTED, RefType, Table
from trio_mcp.registry.mount_info import MountInfo
from trio_mcp.registry.provider import Provider
from trio_mcp.registry.selection import TAG, check_chosen, described, means, unknown_choices
from trio_mcp.registry.tools import LONGEST_NAME, NAME_CHARACTERS
from trio_mcp.registry.uri_prefix import add_prefix, remove_prefix, translated, translator
from trio_mcp.schema import SchemaError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.safe_repr import safe_repr

if TYPE_CHECKING:
    from trio_mcp.registry.completions import Completer
    from trio_mcp.registry.delegation import Target
    from trio_mcp.registry.transform import Transform

logger = logger_of("trio_mcp.registry")

_MOST_REACHED: Final = 1000
"""Entries that are kept of those that no list has."""


@frozen
class View:
    """Which entries of a provider appear, and how."""

    prefix: str | None
    only: Collection[str] | None
    """Names, URIs and tags; `None` for all."""
    changes: Mapping[str, Mapping[str, Transform | None]]
    """By capability, how they appear, by name or tag; `None` for those that do not."""

    @property
    def chooses(self) -> bool:
        """Whether it names anything."""
        return self.only is not None or any(self.changes.values())

    def changes_of(self, table: Table, item: Any) -> list[Transform | None]:
        """Return what is said of the name of an entry, or else of its tags."""
        given = self.changes[LISTED[table].capability]
        if not given:
            return []
        if item.name in given:
            return [given[item.name]]
        return [given[name] for name in given if means([name], item.name, item.description)]

    def shows(self, table: Table, item: Any) -> bool:
        """Whether an entry of the provider appears."""
        chosen = self.only is None or means(self.only, item.name, item.description)
        return chosen and None not in self.changes_of(table, item)

    def name_of(self, table: Table, name: str) -> str:
        """Return the name by which an entry of the provider appears, if it does."""
        kind = LISTED[table].capability
        if kind == "resources":
            return add_prefix(self.prefix, name)
        change = self.changes[kind].get(name)
        own = name if change is None or change.name is None else change.name
        return own if self.prefix is None else f"{self.prefix}_{own}"


class Mount:
    """A provider, where it is mounted (a `Follower`)."""

    def __init__(self, parent: Provider, provider: Provider, view: View) -> None:
        self.parent: Final = parent
        self.provider: Final = provider
        self.view: Final = view
        self._watched: Final[set[str]] = set()  # the provider's URIs
        self.number: Final = 1 + max((mount.number for mount in parent.mounts), default=0)
        self._reached: Final[dict[tuple[Table, str], tuple[Any, Any]]] = {}
        self._ranks: Final[dict[tuple[int, ...], tuple[int, ...]]] = {}
        self.is_late: Final = not provider.is_loaded
        """Whether what the provider has was not known yet."""
        self._translate: Final = (
            None if view.prefix is None else translator(view.prefix, provider.resources)
        )

    def open(self) -> None:
        """Make entries for all of the provider's, or for none of them, and raise `SchemaError`."""
        self.parent.add_all(
            place
            for table in LISTED
            for item in list(self.provider.table(table).values())
            for place in self.propagate_add(table, item)
        )
        self.provider.followers.append(self)
        for watched in list(self.parent.changes.watchers):
            if isinstance(watched, str):
                self.watch(watched)

    def close(self) -> None:
        self.provider.followers.remove(self)
        for inner in self._watched:
            self.provider.changes.remove_watcher(inner, self)
        self._watched.clear()
        for table in LISTED:
            made = self.parent.table(table).items()
            self.parent.remove(table, *[name for name, each in made if self._has_made(each)])

    def unknown(self) -> Iterator[str]:
        """Say of each name and tag in its view that nothing of the provider has."""
        return unknown_in(self.provider, self.view)

    def is_ready_for(self, caller: Context) -> bool:
        return self.provider.is_ready_for(self._inside(caller))

    async def ready_for(self, caller: Context) -> None:
        await self.provider.ready_for(self._inside(caller))

    def _inside(self, caller: Context) -> Context:
        return inside(caller, self.provider, caller.tool)

    # -- entries --------------------------------------------------------------------------

    def propagate_add(self, table: Table, item: Any) -> Iterator[tuple[Provider, Table, Any]]:
        if not self.view.shows(table, item):
            return
        name = self.view.name_of(table, item.name)
        there = self.parent.table(table).get(name)
        if there is not None and not self._has_made(there, item.name):
            raise SchemaError(self._clash(table, item.name, name, there))
        yield from self.parent.propagate_add(table, self._made(table, item, name))

    def propagate_remove(self, table: Table, name: str) -> Iterator[tuple[Provider, Table, str]]:
        there = self.parent.table(table).get(self.view.name_of(table, name))
        if there is not None and self._has_made(there, name):
            yield from self.parent.propagate_remove(table, there.name)

    def reached(self, target: Target) -> Target | None:
        """Return what of the provider is called by a tool, as it is here, in a list or in none."""
        entry, key = target.entry, (target.table, target.entry.name)
        item, made = self._reached.get(key, (None, None))
        if item is not entry:
            made = self._to_reach(target.table, entry)
            if target.is_called:
                self._reached[key] = entry, made
            if len(self._reached) > _MOST_REACHED:
                del self._reached[next(iter(self._reached))]
        uri = None if target.uri is None else add_prefix(self.view.prefix, target.uri)
        return None if made is None else evolve(target, entry=made, uri=uri)

    def _to_reach(self, table: Table, item: Any) -> Any:
        if None in self.view.changes_of(table, item):
            return None
        name = self.view.name_of(table, item.name)
        if table == "tools" and len(name) > LONGEST_NAME:  # no list has it
            name = item.name
        try:
            return self.parent.around(self._made(table, item, name))
        except SchemaError as error:  # it was not there when the provider was mounted
            logger.warning("%s %r is left out: %s", LISTED[table].label, item.name, error)
            return None

    def inner_name(self, table: Table, name: str) -> str:
        """Return what the provider calls what has a name here, if it has that."""
        if LISTED[table].capability == "resources":
            return self.inward(name) or name
        prefix, changes = self.view.prefix, self.view.changes[LISTED[table].capability]
        own = name if prefix is None else name.removeprefix(f"{prefix}_")
        return next((key for key in changes if self.view.name_of(table, key) == name), own)

    def _has_made(self, entry: Any, name: str | None = None) -> bool:
        origin = entry.origin
        mine = isinstance(origin, MountInfo) and origin.mount is self
        return mine and name in (None, origin.name)

    def _clash(self, table: Table, name: str, made: str, there: Any) -> str:
        noun, mounted, parent = LISTED[table].label, self.provider.name, self.parent.name
        of = "" if there.origin is None else f" from {there.origin.mount.provider.name!r}"
        return (
            f"{noun} {name!r:.200} of {mounted!r} cannot be {made!r:.200} in {parent!r}, which has "
            f"one of that name{of} already; mount {mounted!r} with another prefix, or give it "
            "another name"
        )

    def _made(self, table: Table, item: Any, name: str) -> Any:
        changes = [change for change in self.view.changes_of(table, item) if change is not None]
        for change in changes:
            from trio_mcp.registry.transform import transformed  # few mounts transform anything

            item = transformed(item, change)
        shown = evolve(item.description, **{LISTED[table].attribute: name})
        fields = self._fields(item, name) | {"description": shown}
        rules = [partial(one.visible, shown) for one in changes if one.visible is not None]
        fields["visible"] = (*fields["visible"], *rules)
        made = evolve(item, **item.renamed_fields(fields))
        return _with_page(made, self.view.prefix) if table == "tools" else made

    def _fields(self, item: Any, name: str) -> dict[str, Any]:
        inner = () if item.origin is None else item.origin.rank
        rank = self._ranks.setdefault(inner, (self.number, *inner))  # shared by many
        origin = MountInfo(self, item.name, item.origin, item, rank)
        return {
            "name": name,
            "timeout": self.provider.tool_timeout if item.timeout is None else item.timeout,
            "scopes": item.scopes | self.provider.scopes,
            "origin": origin,
            "visible": tuple(partial(origin.shows, rule) for rule in item.visible),
            "middleware": (),  # what the provider has runs inside of it
        }

    def completer(self, kind: RefType, name: str, argument: str, target: str) -> Completer:
        """Make the entry for what completes an argument of an entry, by its name there and here."""
        found = self.provider.find_completer(kind, name, argument)
        return evolve(found, **self._fields(found, f"{argument} of {target}"))

    def unlisted(self, uri: str) -> Any:
        inner = self.inward(uri)
        found = None if inner is None else self.provider.find_unlisted(inner)
        if found is None or None in self.view.changes_of("resources", found):
            return None
        return self._made("resources", found, uri)

    # -- URIs -----------------------------------------------------------------------------

    def inward(self, uri: str) -> str | None:
        """Return what the provider calls a URI; `None` if the provider has no such URI."""
        return remove_prefix(self.view.prefix, uri)

    def outward(self, result: dict[str, Json]) -> dict[str, Json]:
        return result if self._translate is None else translated(result, self._translate)

    # -- changes --------------------------------------------------------------------------

    def watch(self, uri: str) -> None:
        """Watch a resource, if it is the provider's that is read here: another may have it, too."""
        inner, found = self.inward(uri), self.parent.find_resource(uri)
        if inner is not None and found is not None and self._has_made(found[0]):
            self._watched.add(inner)
            self.provider.changes.add_watcher(inner, self)

    async def confirm(self, uris: Collection[str]) -> list[str]:
        """Wait until the provider has confirmed resources, and return those that it has."""
        inner = {uri: self.inward(uri) or uri for uri in uris}
        confirmed = await self.provider.confirm(inner.values())
        return [uri for uri in uris if inner[uri] in confirmed]

    def owner_of(self, uri: str) -> Hashable:
        return self.parent.changes.owner_of(add_prefix(self.view.prefix, uri))

    def note_log_bridge(self) -> None:
        self.parent.note_log_bridge()

    def note_filled(self) -> None:
        self.parent.note_filled()

    def may_get(self, name: str) -> bool:
        """Whether something that would have a name here may come, and is not known yet."""
        prefix = self.view.prefix
        if prefix is None or name.startswith(TAG) or ":" in name:
            return self.provider.may_get(name)
        own = name.removeprefix(f"{prefix}_")
        return own != name and self.provider.may_get(own)

    def unwatch(self, uri: str) -> None:
        inner = self.inward(uri)
        if inner in self._watched:
            self._watched.discard(inner)
            self.provider.changes.remove_watcher(inner, self)

    def note(self, change: Any) -> None:
        """Pass on that a resource has changed. May be called in any thread."""
        self.parent.changes.resource_updated(add_prefix(self.view.prefix, change.uri))


def _with_page(tool: Any, prefix: str | None) -> Any:
    """Have a tool name its page by the URI that this has here (SEP-1865)."""
    match tool.description.meta:
        case {"ui": {"resourceUri": str(page)}} as meta:
            ui = {**meta["ui"], "resourceUri": add_prefix(prefix, page)}
            return evolve(tool, description=evolve(tool.description, meta={**meta, "ui": ui}))
    return tool


# -- what is mounted ------------------------------------------------------------------------


def check_mount(parent: Provider, provider: Provider, view: View) -> None:
    """Raise `SchemaError` or `TypeError` unless a provider can be mounted in this way."""
    if not isinstance(provider, Provider):
        raise TypeError(
            "mount takes a Registry, a Remote for a server elsewhere, or another Provider, "
            f"not {provider!r:.100}"
        )
    prefix: Any = view.prefix
    if prefix is not None and not (isinstance(prefix, str) and NAME_CHARACTERS.fullmatch(prefix)):
        raise SchemaError(
            f"prefix {prefix!r:.100} is not valid: it needs one or more of A-Z, a-z, 0-9, '_', '-' "
            "and '.'; leave it out to have no prefix"
        )
    if parent is provider or parent in provider.all_providers():
        raise SchemaError(
            f"{provider.name!r} cannot be mounted in {parent.name!r}, which is a part of it: it "
            "would contain itself"
        )
    parent.check_extensions(provider, view.prefix)
    check_chosen("only", view.only or ())
    for kind, changes in view.changes.items():
        _check_changes(kind, changes)
    problem = next(unknown_in(provider, view), None) if provider.is_loaded else None
    if problem is not None:
        raise SchemaError(problem)


def _check_changes(kind: str, changes: Any) -> None:
    if not isinstance(changes, Mapping):
        raise SchemaError(f"{kind} must be a dict, by name, not {safe_repr(changes)}")
    noun = kind.removesuffix("s")
    for name, each in changes.items():
        from trio_mcp.registry.transform import Transform  # few mounts have any

        what = f"{noun} {name!r:.200}"
        if not isinstance(each, Transform | None):
            raise SchemaError(
                f"{what} needs a Transform, or None to hide it, not {safe_repr(each)}"
            )
        if each is not None:
            each.check(what, noun)
            if each.name is not None and name.startswith(TAG):
                raise SchemaError(f"{what} may be several, which cannot have one name")


def unknown_in(provider: Provider, view: View) -> Iterator[str]:
    """Say of each name or tag that a view has and its provider does not: what there is none of.

    Of what may be there later, nothing is said.
    """
    wanted = {kind.removesuffix("s"): names for kind, names in view.changes.items()}
    for noun, names in {**wanted, "tool, resource or prompt": view.only or ()}.items():
        tables = [table for table, kind in LISTED.items() if kind.capability == f"{noun}s"]
        known = [name for name in names if not provider.may_get(name)]
        for problem in unknown_choices(known, described(provider, tables or LISTED), noun):
            yield f"{provider.name!r} has {problem}"
