"""A part in a registry: the entries that the registry has for those of the part.

An entry is made when the part is mounted, or when the part gets one: the same function with another
name, and what else holds there. It remembers where it comes from, so that its function runs as in
the part itself: with the state of the part's lifespan, and with the names that the part knows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, field, frozen

from trio_mcp.registry.context import Context, inside
from trio_mcp.registry.handlers import Origin
from trio_mcp.registry.part import KIND_OF, NOUN_OF, Part, RefType, Table
from trio_mcp.registry.tools import LONGEST_NAME, NAME_CHARACTERS, published
from trio_mcp.registry.uri_prefix import add_prefix, remove_prefix, translated, translator
from trio_mcp.schema import SchemaError
from trio_mcp.wire.closest import did_you_mean
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.safe_repr import safe_repr

if TYPE_CHECKING:
    from trio_mcp.registry.completions import Completer
    from trio_mcp.registry.log_bridge import LogBridge
    from trio_mcp.registry.transform import Transform


@frozen
class View:
    """What of a part appears, and how."""

    prefix: str | None = None
    only: Collection[str] | None = None
    """Names and URIs; `None` for all."""
    tools: Mapping[str, Transform | None] = field(factory=dict)
    resources: Mapping[str, Transform | None] = field(factory=dict)
    """Templates among them."""
    prompts: Mapping[str, Transform | None] = field(factory=dict)

    def changes(self, table: Table) -> Mapping[str, Transform | None]:
        """By name, how things of one kind appear; `None` for what does not."""
        found: Mapping[str, Transform | None] = getattr(self, KIND_OF[table])
        return found

    def name_of(self, table: Table, name: str) -> str | None:
        """Return what something of the part is called; `None` if it does not appear."""
        if self.only is not None and name not in self.only:
            return None
        change = self.changes(table).get(name, self)
        if change is None:
            return None
        if KIND_OF[table] == "resources":
            return add_prefix(self.prefix, name)
        own = name if isinstance(change, View) or change.name is None else change.name
        return own if self.prefix is None else f"{self.prefix}_{own}"


class Mount:
    """A part, where it is mounted (a `Follower`).

    Args:
        parent: Where.
        part: What.
        view: What of it appears, and how.
    """

    def __init__(self, parent: Part, part: Part, view: View) -> None:
        self.parent: Final = parent
        self.part: Final = part
        self.view: Final = view
        self._watched: Final[set[str]] = set()  # the part's URIs
        self._translate: Final = (
            None if view.prefix is None else translator(view.prefix, part.resources)
        )

    def open(self) -> None:
        """Make entries for all that the part has.

        Raises:
            SchemaError: One of them cannot be made; then none is there.
        """
        self.parent.put_all(
            each
            for table in KIND_OF
            for item in list(self.part.table(table).values())
            for each in self.placements(table, item)
        )
        self.part.followers.append(self)
        for uri in [each for each in self.parent.changes.watchers if isinstance(each, str)]:
            self.watch(uri)

    def close(self) -> None:
        """Let go of the part, and take its entries out."""
        self.part.followers.remove(self)
        for inner in self._watched:
            self.part.changes.remove_watcher(inner, self)
        self._watched.clear()
        for table in KIND_OF:
            made = self.parent.table(table).items()
            self.parent.take(table, *[name for name, each in made if self._has_made(each)])

    # -- entries --------------------------------------------------------------------------

    def placements(self, table: Table, item: Any) -> Iterator[tuple[Part, Table, Any]]:
        """Make the entries for an entry of the part, here and further up.

        Raises:
            SchemaError: There is something of that name already, or it cannot be shown so.
        """
        name = self.view.name_of(table, item.name)
        if name is None:
            return
        there = self.parent.table(table).get(name)
        if there is not None and not self._has_made(there, item.name):
            raise SchemaError(self._clash(table, item.name, name, there))
        yield from self.parent.placements(table, self._made(table, item, name))

    def removals(self, table: Table, name: str) -> Iterator[tuple[Part, Table, str]]:
        """Name the entries that there are for an entry of the part, here and further up."""
        outer = self.view.name_of(table, name)
        there = None if outer is None else self.parent.table(table).get(outer)
        if there is not None and self._has_made(there, name):
            yield from self.parent.removals(table, there.name)

    def _has_made(self, entry: Any, name: str | None = None) -> bool:
        origin = entry.origin
        mine = isinstance(origin, MountedAs) and origin.mount is self
        return mine and name in (None, origin.name)

    def _clash(self, table: Table, name: str, made: str, there: Any) -> str:
        noun, part, parent = NOUN_OF[table], self.part.name, self.parent.name
        of = "" if there.origin is None else f" from {there.origin.mount.part.name!r}"
        return (
            f"{noun} {name!r:.200} of {part!r} cannot be {made!r:.200} in {parent!r}, which has "
            f"one of that name{of} already; mount {part!r} with another prefix, or give it another "
            "name"
        )

    def _made(self, table: Table, item: Any, name: str) -> Any:
        change = self.view.changes(table).get(item.name)
        shown = item if change is None else _TRANSFORMED[table](item, change)
        return _NAMED[table](shown, self.fields(item, name))

    def fields(self, item: Any, name: str) -> dict[str, Any]:
        """Return what an entry has that is made for one of the part."""
        origin = MountedAs(self, item.name, item.origin, item)
        return {
            "name": name,
            "label": f"{item.label.partition(' ')[0]} {name}",
            "timeout": self.part.tool_timeout if item.timeout is None else item.timeout,
            "scopes": item.scopes | self.part.scopes,
            "origin": origin,
            "visible": tuple(partial(origin.shows, each) for each in item.visible),
            "middleware": (origin.enter, *item.middleware) if item.middleware else (),
        }

    def unlisted(self, uri: str) -> Any:
        """Make the entry for a URI that is in no list; `None` if the part does not know it."""
        inner = self.inward(uri)
        found = None if inner is None else self.part.find_unlisted(inner)
        return None if found is None else self._made("resources", found, uri)

    # -- URIs -----------------------------------------------------------------------------

    def inward(self, uri: str) -> str | None:
        """Return what the part calls a URI; `None` if that is none of the part's."""
        return remove_prefix(self.view.prefix, uri)

    def outward(self, result: dict[str, Json]) -> dict[str, Json]:
        """Have a result name the part's resources as they are to be found here."""
        return result if self._translate is None else translated(result, self._translate)

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
        self.parent.changes.resource_updated(add_prefix(self.view.prefix, change.uri))


@frozen(eq=False)
class MountedAs:
    """Where an entry comes from (an `Origin`)."""

    mount: Mount
    name: str
    """What the part calls it."""
    inner: Origin | None
    """Where the part has it from."""
    _item: Any
    """What the part has."""

    @property
    def part(self) -> Part:
        """Whose function it is."""
        part: Part = self.mount.part if self.inner is None else self.inner.part
        return part

    def target(self, called: str) -> str:
        """Return what the part whose function it is calls what was asked for."""
        own = self._target(called)
        return own if self.inner is None else self.inner.target(own)

    def _target(self, called: str) -> str:
        if self._item.kind != "resource":
            return self.name
        return self.mount.inward(called) or called

    def shows(self, visible: Callable[[Context], bool], context: Context) -> bool:
        """Ask what the part has for that whether a caller sees it."""
        return visible(inside(context, self.mount.part, context.tool))

    async def enter(self, call: Any, call_next: Callable[[Any], Any]) -> Any:
        """Run what the part has around a call, with what the part knows of it (a middleware)."""
        context = inside(call.context, self.mount.part, self._target(call.context.tool))
        known = {"name": self.name, "description": getattr(self._item, "description", None)}
        return await call_next(evolve(call, context=context, **known))

    async def enter_all(self, call: Any, call_next: Callable[[Any], Any]) -> Any:
        """Do the same where only the innermost part has to know anything of it."""
        context = inside(call.context, self.part, self.target(call.context.tool))
        return await call_next(evolve(call, context=context))

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
        fields = self.mount.fields(found, f"{argument} of {target}")
        return evolve(found, **{**fields, "label": f"Completion of {fields['name']}"})

    def outward(self, result: dict[str, Json]) -> dict[str, Json]:
        """Have a result name resources as they are to be found where the part is mounted."""
        return self.mount.outward(result if self.inner is None else self.inner.outward(result))


# -- entries of each kind -------------------------------------------------------------------


def _tool(item: Any, fields: dict[str, Any]) -> Any:
    name = fields["name"]
    if len(name) > LONGEST_NAME:
        raise SchemaError(
            f"Tool name {name!r:.300} is too long: {LONGEST_NAME} characters are allowed. Mount "
            "with a shorter prefix"
        )
    meta = {**published(fields["timeout"]), **(item.description.meta or {})} or None
    meta = _with_page(meta, fields["origin"].mount.view.prefix)
    return evolve(item, description=evolve(item.description, name=name, meta=meta), **fields)


def _with_page(meta: Any, prefix: str | None) -> Any:
    """Have a tool name its page, which is a resource, as that is to be found here (SEP-1865)."""
    match meta:
        case {"ui": {"resourceUri": str(page)}}:
            return {**meta, "ui": {**meta["ui"], "resourceUri": add_prefix(prefix, page)}}
    return meta


def _resource(item: Any, fields: dict[str, Any]) -> Any:
    return evolve(item, description=evolve(item.description, uri=fields["name"]), **fields)


def _template(item: Any, fields: dict[str, Any]) -> Any:
    from trio_mcp.registry.uri_template import UriTemplate

    name = fields["name"]
    shown = evolve(item.description, uri_template=name)
    if not isinstance(item.template, UriTemplate):  # a part's own, which no URI is held against
        return evolve(item, description=shown, **fields)
    try:
        template = UriTemplate.parse(name)
    except ValueError as error:  # it may be too long now
        raise SchemaError(f"Resource template {name!r:.200}: {error}") from None
    return evolve(item, description=shown, template=template, **fields)


def _prompt(item: Any, fields: dict[str, Any]) -> Any:
    return evolve(item, description=evolve(item.description, name=fields["name"]), **fields)


_NAMED: Final[Mapping[Table, Callable[..., Any]]] = {
    "tools": _tool,
    "resources": _resource,
    "resource_templates": _template,
    "prompts": _prompt,
}


def _transformed_tool(tool: Any, transform: Transform) -> Any:
    from trio_mcp.registry.transform import transformed_tool  # few mounts transform anything

    return transformed_tool(tool, transform)


def _transformed(item: Any, transform: Transform) -> Any:
    return evolve(item, description=transform.shown(item.description))


def _transformed_prompt(prompt: Any, transform: Transform) -> Any:
    return evolve(prompt, description=transform.shown(prompt.description, renamed=False))


_TRANSFORMED: Final[Mapping[Table, Callable[[Any, Transform], Any]]] = {
    "tools": _transformed_tool,
    "resources": _transformed,
    "resource_templates": _transformed,
    "prompts": _transformed_prompt,
}


# -- what is mounted ------------------------------------------------------------------------


def check_mount(parent: Part, part: Part, view: View) -> None:
    """Make sure that a part can be mounted in this way.

    Raises:
        SchemaError: It cannot; the message says why and what to do.
        TypeError: It is no part.
    """
    if not isinstance(part, Part):
        raise TypeError(
            "mount takes a Registry, a Remote for a server elsewhere, or another Part, "
            f"not {part!r:.100}"
        )
    _check_prefix(view.prefix)
    if parent is part or parent in part.all_parts():
        raise SchemaError(
            f"{part.name!r} cannot be mounted in {parent.name!r}, which is a part of it: it would "
            "contain itself"
        )
    parent.check_extensions(part)
    if isinstance(view.only, str) or not isinstance(view.only, Collection | None):
        raise SchemaError("only must be a list, even of one name: put it in brackets")
    for kind, changes in (
        ("tool", view.tools),
        ("resource", view.resources),
        ("prompt", view.prompts),
    ):
        _check_changes(kind, changes)
    if part.is_settled:
        _check_known(part, view)


def _check_prefix(prefix: Any) -> None:
    if prefix is not None and not (isinstance(prefix, str) and NAME_CHARACTERS.fullmatch(prefix)):
        raise SchemaError(
            f"prefix {prefix!r:.100} is not valid: it needs one or more of A-Z, a-z, 0-9, '_', '-' "
            "and '.'; leave it out to have no prefix"
        )


def _check_changes(kind: str, changes: Any) -> None:
    if not isinstance(changes, Mapping):
        raise SchemaError(f"{kind}s must be a dict, by name, not {safe_repr(changes)}")
    if not changes:
        return
    from trio_mcp.registry.transform import Transform

    for name, each in changes.items():
        what = f"{kind} {name!r:.200}"
        if each is None:
            continue
        if not isinstance(each, Transform):
            raise SchemaError(
                f"{what} needs a Transform, or None to hide it, not {safe_repr(each)}"
            )
        each.check(what, kind)


def _check_known(part: Part, view: View) -> None:
    """Make sure that there is whatever is to be shown otherwise, hidden or chosen."""
    known = {table: part.table(table) for table in KIND_OF}
    wanted = {
        "tool": (view.tools, ("tools",)),
        "resource": (view.resources, ("resources", "resource_templates")),
        "prompt": (view.prompts, ("prompts",)),
        "tool, resource or prompt": (view.only or (), tuple(KIND_OF)),
    }
    for noun, (names, tables) in wanted.items():
        there = {each: None for table in tables for each in known[table]}
        for name in names:
            if name not in there:
                raise SchemaError(
                    f"{part.name!r} has no {noun} {name!r:.200}{did_you_mean(name, there)}"
                )
