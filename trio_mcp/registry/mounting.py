"""A part in a registry: the entries that the registry has for those of the part.

An entry is made when the part is mounted, or when the part gets one: the same function with another
name, and what else holds there. It remembers its `Origin`, so that its function runs as in the part
itself: with the state of the part's lifespan, and with the names that the part knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import evolve, frozen

from trio_mcp.registry.handlers import Origin
from trio_mcp.registry.lifespan import Opened
from trio_mcp.registry.part import KIND_OF, NOUN_OF, Part, RefType, Table
from trio_mcp.registry.tools import LONGEST_NAME, NAME_CHARACTERS, published
from trio_mcp.registry.uri_prefix import add_prefix, remove_prefix, scheme_of
from trio_mcp.schema import SchemaError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits

if TYPE_CHECKING:
    from trio_mcp.registry.completions import Completer
    from trio_mcp.registry.log_bridge import LogBridge

_WEB: Final = frozenset({"http", "https", "data", "mailto", ""})
"""Schemes of what is mostly no resource of anybody's, but a link for people."""


class Mount:
    """A part, where it is mounted (a `Follower`).

    Args:
        parent: Where.
        part: What.
        prefix: What its names and URIs begin with; `None` for nothing.
    """

    def __init__(self, parent: Part, part: Part, prefix: str | None) -> None:
        self.parent: Final = parent
        self.part: Final = part
        self.prefix: Final = prefix
        self._watched: Final[set[str]] = set()  # the part's URIs

    # -- names ----------------------------------------------------------------------------

    def name_of(self, table: Table, name: str) -> str:
        """Return what something is called where the part is mounted."""
        if self.prefix is None:
            return name
        if table in ("tools", "prompts"):
            return f"{self.prefix}_{name}"
        return add_prefix(self.prefix, name)

    def inward(self, uri: str) -> str | None:
        """Return what the part calls a URI; `None` if that is none of the part's."""
        return remove_prefix(self.prefix, uri)

    # -- entries --------------------------------------------------------------------------

    def placements(self, table: Table, item: Any) -> Iterator[tuple[Part, Table, Any]]:
        """Make the entries for an entry of the part, here and further up.

        Raises:
            SchemaError: There is something of that name already, or it cannot be shown so.
        """
        made = self._make(table, item)
        there = self.parent.table(table).get(made.name)
        if there is not None and not self._is_ours(there, item.name):
            raise SchemaError(self._clash(table, item.name, made.name, there))
        yield from self.parent.placements(table, made)

    def removals(self, table: Table, name: str) -> Iterator[tuple[Part, Table, str]]:
        """Name the entries that there are for an entry of the part, here and further up."""
        outer = self.name_of(table, name)
        there = self.parent.table(table).get(outer)
        if there is not None and self._is_ours(there, name):
            yield from self.parent.removals(table, outer)

    def _is_ours(self, there: Any, name: str) -> bool:
        origin = there.origin
        return isinstance(origin, MountedAs) and origin.mount is self and origin.name == name

    def _clash(self, table: Table, name: str, made: str, there: Any) -> str:
        noun, part, parent = NOUN_OF[table], self.part.name, self.parent.name
        whose = f"of {there.origin.mount.part.name!r}, " if there.origin is not None else ""
        again = f" as {made!r:.200}" if made != name else ""
        return (
            f"{noun} {name!r:.200} of {part!r} cannot be in {parent!r}{again}, where there is one "
            f"{whose}named {there.name!r:.200} already; mount {part!r} with another prefix"
        )

    def _make(self, table: Table, item: Any) -> Any:
        name = self.name_of(table, item.name)
        timeout = self.part.tool_timeout if item.timeout is None else item.timeout
        return _MAKERS[table](
            item,
            name=name,
            label=f"{item.label.partition(' ')[0]} {name}",
            timeout=timeout,
            scopes=item.scopes | self.part.scopes,
            origin=MountedAs(self, item.name, item.origin),
        )

    def unlisted(self, uri: str) -> Any:
        """Make the entry for a URI that is in no list; `None` if the part does not know it."""
        inner = self.inward(uri)
        found = None if inner is None else self.part.find_unlisted(inner)
        return None if found is None else self._make("resources", found)

    # -- changes --------------------------------------------------------------------------

    def watch(self, uri: str) -> None:
        """Have the part tell of a resource, if it is one of the part's."""
        inner = self.inward(uri)
        if inner is not None and self.part.has_resource(inner):
            self._watched.add(inner)
            self.part.changes.add_watcher(inner, self)

    def unwatch(self, uri: str) -> None:
        """Have the part tell of it no more."""
        inner = self.inward(uri)
        if inner in self._watched:
            self._watched.discard(inner)
            self.part.changes.remove_watcher(inner, self)

    def note(self, change: Any) -> None:
        """Tell of a resource that has changed. May be called in any thread."""
        self.parent.changes.resource_updated(add_prefix(self.prefix, change.uri))

    def open(self) -> None:
        """Make entries for all that the part has.

        Raises:
            SchemaError: One of them cannot be made; then none is there.
        """
        self.part.followers.append(self)
        try:
            self.parent.put_all(
                each
                for table in KIND_OF
                for item in list(self.part.table(table).values())
                for each in self.placements(table, item)
            )
        except SchemaError:
            self.part.followers.remove(self)
            raise
        for uri in [each for each in self.parent.changes.watchers if isinstance(each, str)]:
            self.watch(uri)

    def close(self) -> None:
        """Let go of the part, and take its entries out."""
        for inner in list(self._watched):
            self._watched.discard(inner)
            self.part.changes.remove_watcher(inner, self)
        for table in KIND_OF:
            mine = [name for name, each in self.parent.table(table).items() if self._has_made(each)]
            self.parent.take(table, *mine)
        self.part.followers.remove(self)

    def _has_made(self, entry: Any) -> bool:
        return isinstance(entry.origin, MountedAs) and entry.origin.mount is self

    # -- results --------------------------------------------------------------------------

    def outward(self, result: dict[str, Json]) -> dict[str, Json]:
        """Have a result name the part's resources as they are to be found here."""
        if self.prefix is None:
            return result
        for key, translate in _PLACES.items():
            if isinstance(result.get(key), list):
                result = {**result, key: [translate(each, self._uri) for each in result[key]]}
        return result

    def _uri(self, uri: Json) -> Json:
        if not isinstance(uri, str):
            return uri
        if scheme_of(uri) in _WEB and uri not in self.part.resources:
            return uri
        return add_prefix(self.prefix, uri)


@frozen(eq=False)
class MountedAs:
    """Where an entry comes from (an `Origin`)."""

    mount: Mount
    name: str
    """What the part calls it."""
    inner: Origin | None
    """Where the part has it from."""

    @property
    def part(self) -> Part:
        """Whose function it is."""
        part: Part = self.mount.part if self.inner is None else self.inner.part
        return part

    def target(self, called: str) -> str:
        """Return what the part itself calls what was asked for."""
        inner = self.mount.inward(called) if ":" in called else None
        own = self.name if inner is None else inner
        return own if self.inner is None else self.inner.target(own)

    def log_bridges(self) -> list[LogBridge]:
        """Return those of the parts that it comes through."""
        own = self.mount.part.log_bridge
        found = [] if own is None else [own]
        return found if self.inner is None else [*found, *self.inner.log_bridges()]

    def completer(self, kind: RefType, target: str, argument: str) -> Completer:
        """Return who completes an argument of it.

        Raises:
            McpError: There is no such argument (`-32602`).
        """
        found = self.mount.part.find_completer(kind, self.name, argument)
        what = f"{argument} of {target}"
        timeout = self.mount.part.tool_timeout if found.timeout is None else found.timeout
        origin = MountedAs(self.mount, found.name, found.origin)
        label = f"Completion of {what}"
        return evolve(found, name=what, label=label, timeout=timeout, origin=origin)

    def outward(self, result: dict[str, Json]) -> dict[str, Json]:
        """Have a result name resources as they are to be found where the part is mounted."""
        return self.mount.outward(result if self.inner is None else self.inner.outward(result))


# -- entries of each kind -------------------------------------------------------------------


def _tool(item: Any, **fields: Any) -> Any:
    if len(fields["name"]) > LONGEST_NAME:
        raise SchemaError(
            f"Tool name {fields['name']!r:.300} is too long: {LONGEST_NAME} characters are "
            "allowed. Mount with a shorter prefix"
        )
    meta = {**published(fields["timeout"]), **(item.description.meta or {})} or None
    shown = evolve(item.description, name=fields["name"], meta=meta)
    return evolve(item, description=shown, **fields)


def _resource(item: Any, **fields: Any) -> Any:
    return evolve(item, description=evolve(item.description, uri=fields["name"]), **fields)


def _template(item: Any, **fields: Any) -> Any:
    from trio_mcp.registry.uri_template import UriTemplate

    text = fields["name"]
    template = item.template if text == item.name else UriTemplate.parse(text)
    shown = evolve(item.description, uri_template=text)
    return evolve(item, description=shown, template=template, **fields)


def _prompt(item: Any, **fields: Any) -> Any:
    return evolve(item, description=evolve(item.description, name=fields["name"]), **fields)


_MAKERS: Final[Mapping[Table, Callable[..., Any]]] = {
    "tools": _tool,
    "resources": _resource,
    "resource_templates": _template,
    "prompts": _prompt,
}


# -- where a result names resources ---------------------------------------------------------


def _contents(contents: Json, uri: Callable[[Json], Json]) -> Json:
    return {**contents, "uri": uri(contents["uri"])} if _has(contents, "uri") else contents


def _block(block: Json, uri: Callable[[Json], Json]) -> Json:
    if not isinstance(block, dict):
        return block
    if block.get("type") == "resource_link":
        return _contents(block, uri)
    if block.get("type") == "resource":
        return {**block, "resource": _contents(block.get("resource"), uri)}
    return block


def _message(message: Json, uri: Callable[[Json], Json]) -> Json:
    if not _has(message, "content"):
        return message
    return {**message, "content": _block(message["content"], uri)}


def _has(value: Json, key: str) -> bool:
    return isinstance(value, dict) and key in value


_PLACES: Final[Mapping[str, Callable[[Json, Callable[[Json], Json]], Json]]] = {
    "content": _block,
    "contents": _contents,
    "messages": _message,
}


# -- a registry and its parts ---------------------------------------------------------------


def check_mount(parent: Any, part: Any, prefix: Any) -> None:
    """Make sure that a part can be mounted.

    Raises:
        SchemaError: The prefix is none, or the part would contain itself.
        TypeError: It is no part.
    """
    if not isinstance(part, Part):
        raise TypeError(f"mount takes a Registry or another Part, not {part!r:.100}")
    if prefix is not None and not (isinstance(prefix, str) and NAME_CHARACTERS.fullmatch(prefix)):
        raise SchemaError(
            f"prefix {prefix!r:.100} is not valid: it needs one or more of A-Z, a-z, 0-9, '_', '-' "
            "and '.'; leave it out to have no prefix"
        )
    if parent is part or parent in parts_of(part):
        raise SchemaError(
            f"{part.name!r} cannot be mounted in {parent.name!r}, which is a part of it: it would "
            "contain itself"
        )


def parts_of(part: Part) -> list[Part]:
    """Return the parts of a part, and theirs, each once and before its own."""
    found: dict[Part, None] = {}
    ahead = [part]
    for each in ahead:
        for mount in each.mounts:
            if mount.part not in found:
                found[mount.part] = None
                ahead.append(mount.part)
    return list(found)


async def open_parts(parent: Part, stack: AsyncExitStack, opened: Opened, limits: Limits) -> None:
    """Open the lifespans of all parts, and wait until they are ready.

    Raises:
        LifespanError: One of them failed.
    """
    for part in parts_of(parent):
        opened.parts[part] = await stack.enter_async_context(part.lifespan(limits))
    async with trio.open_nursery() as nursery:
        for part in opened.parts:
            nursery.start_soon(part.ready, limits)
