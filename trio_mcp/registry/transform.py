"""Showing something otherwise than it was registered: other names, texts, and arguments.

What a transformation says is data, and all of it is checked when it is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, Final

from attrs import evolve, field, frozen

from trio_mcp.public import public
from trio_mcp.registry.checks import annotations_of, check_json, check_payload, is_text, json_of
from trio_mcp.registry.handlers import Keywords
from trio_mcp.registry.selection import Visible, checked_visible, tags_of
from trio_mcp.registry.tools import Tool, checked_name
from trio_mcp.schema import ArgumentError, Problem, SchemaError, compile_validator
from trio_mcp.schema.errors import errors_at
from trio_mcp.wire.closest import did_you_mean
from trio_mcp.wire.content import Annotations
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.payloads import ToolAnnotations
from trio_mcp.wire.safe_repr import safe_repr
from trio_mcp.wire.tags import with_tags

_UNSET: Final[Any] = type("_Unset", (), {"__repr__": lambda _: "…"})()

_REARRANGED: Final = frozenset(
    {"$schema", "$id", "$defs", "definitions", "$comment", "title", "description", "examples"}
    | {"type", "properties", "required", "additionalProperties"}
)
"""Keywords of an input schema that do not speak of arguments by name, or are rewritten here."""


@public
@frozen(kw_only=True)
class ArgumentTransform:
    """How an argument of a tool appears.

    Args:
        name: Its name, instead of its own.
        description: What it is for.
        value: What it always is, as JSON. Callers then see no such argument.
        default: What it is where a caller gives nothing, as JSON. It need not be given then.

    Example:
        >>> ArgumentTransform(name="city", description="Where")
        ArgumentTransform(name='city', description='Where', value=…, default=…)
    """

    name: str | None = None
    description: str | None = None
    value: Json = _UNSET
    default: Json = _UNSET

    def check(self, argument: str) -> None:
        """Raise `SchemaError` unless it makes sense."""
        if self.is_fixed and (self.has_default or self.name is not None):
            raise SchemaError(
                f"argument {argument!r:.100} is fixed, so it has no name and no default"
            )
        # Exactly a string: it becomes a key of the schema, and `codec` takes no other keys.
        if self.name is not None and not (
            type(self.name) is str and self.name and is_text(self.name)
        ):
            raise SchemaError(
                f"argument {argument!r:.100} needs a name, not {safe_repr(self.name)}"
            )
        if self.description is not None and not is_text(self.description):
            raise SchemaError(
                f"the description of argument {argument!r:.100} must be a text, "
                f"not {safe_repr(self.description)}"
            )

    @property
    def is_fixed(self) -> bool:
        """Whether callers do not see it."""
        return self.value is not _UNSET

    @property
    def has_default(self) -> bool:
        """Whether it need not be given."""
        return self.default is not _UNSET


@public
@frozen(kw_only=True)
class Transform:
    """How something of a part appears where the part is mounted; see `Registry.mount`.

    What is not given stays as it is.

    Args:
        name: A name; a prefix comes before it. Of a resource, the name that lists show: its URI
            stays.
        title: A name for people.
        description: What it does, or is.
        annotations: Hints, in place of all that it has: as for `Registry.tool` and
            `Registry.resource`.
        meta: More `_meta`, under namespaced keys.
        tags: Its tags, in place of all that it has.
        visible: Says whether a caller sees it, as for `Registry`; it is asked as well as the rules
            of the part.
        arguments: Of a tool: by name, how arguments appear.

    Example:
        >>> weather = Registry("weather")
        >>> @weather.tool
        ... async def forecast(place: str, units: str, days: int) -> str:
        ...     return f"Sunny in {place} for {days} days"
        >>> registry = Registry("assistant")
        >>> arguments = {
        ...     "place": ArgumentTransform(name="city"),
        ...     "units": ArgumentTransform(value="metric"),
        ...     "days": ArgumentTransform(default=3),
        ... }
        >>> tools = {"forecast": Transform(description="Look outside", arguments=arguments)}
        >>> registry.mount(weather, tools=tools)
        >>> registry.tools["forecast"].description.input_schema["required"]
        ['city']
    """

    name: str | None = None
    title: str | None = None
    description: str | None = None
    annotations: Any = None
    meta: Mapping[str, Json] | None = None
    tags: Collection[str] | None = None
    visible: Visible | None = None
    arguments: Mapping[str, ArgumentTransform] = field(factory=dict)

    def check(self, what: str, kind: str) -> None:
        """Raise `SchemaError` if it can be seen that it does not apply to an entry of a kind."""
        with errors_at(what):
            if kind == "tool" and self.name is not None:
                checked_name(self.name)
            if self.tags is not None:
                tags_of(self.tags)
            checked_visible(self.visible)
            if not isinstance(self.arguments, Mapping):
                raise SchemaError(f"arguments must be a dict, not {safe_repr(self.arguments)}")
            if kind != "tool" and self.arguments:
                raise SchemaError("only tools have arguments that can be transformed")
            if kind == "prompt" and self.annotations is not None:
                raise SchemaError("prompts have no annotations")
            for name, each in self.arguments.items():
                if not isinstance(each, ArgumentTransform):
                    raise SchemaError(
                        f"argument {name!r:.100} needs an ArgumentTransform, not {safe_repr(each)}"
                    )
                each.check(name)

    def shown(self, description: Any, renamed: bool = True) -> Any:
        """Return a description as it appears."""
        kind = ToolAnnotations if hasattr(description, "input_schema") else Annotations
        texts = {"title": self.title, "description": self.description}
        if renamed:
            texts["name"] = self.name
        changes: dict[str, Any] = {key: each for key, each in texts.items() if each is not None}
        if self.annotations is not None:
            changes["annotations"] = annotations_of(kind, self.annotations)
        if self.meta is not None:
            changes["meta"] = {**(description.meta or {}), **(json_of("meta", self.meta) or {})}
        if self.tags is not None:
            changes["meta"] = with_tags(changes.get("meta", description.meta), self.tags)
        made = evolve(description, **changes)
        check_payload(made)
        return made


def transformed(item: Any, transform: Transform) -> Any:
    """Return an entry as it appears, but for the name that its mount gives it.

    Raises:
        SchemaError: It cannot appear so.
    """
    if isinstance(item, Tool):
        return _transformed_tool(item, transform)
    renamed = item.kind == "resource"  # what names it in lists is not what it is asked for by
    return evolve(item, description=transform.shown(item.description, renamed=renamed))


def _transformed_tool(tool: Tool, transform: Transform) -> Tool:
    with errors_at(f"Tool {tool.name!r:.200}"):
        shown = transform.shown(tool.description, renamed=False)
        if not transform.arguments:
            return evolve(tool, description=shown)
        arguments = _Arguments(transform.arguments)
        described = evolve(shown, input_schema=arguments.schema(tool))
        return tool.with_schema(described, partial(arguments.structure, tool.structure))


class _Arguments:
    """The arguments that a tool shows in place of those that it has."""

    def __init__(self, changes: Mapping[str, ArgumentTransform]) -> None:
        self._changes = changes
        self._shown = {
            name: None if each.is_fixed else each.name or name for name, each in changes.items()
        }
        """By their own names, those that they have here; `None` for what is fixed."""
        moved = {name: new for name, new in self._shown.items() if new != name}
        self._own = {new: name for name, new in moved.items() if new is not None}
        self._gone = moved.keys() - self._own.keys()
        self._fixed = {name: each.value for name, each in changes.items() if each.is_fixed}
        self._defaults = {name: each.default for name, each in changes.items() if each.has_default}

    def schema(self, tool: Tool) -> dict[str, Json]:
        """Return the input schema, or raise `SchemaError`."""
        schema = deepcopy(tool.description.input_schema)
        properties: dict[str, Json] = schema.get("properties", {})
        for name in self._changes:
            if name not in properties:
                meant = did_you_mean(name, properties)
                raise SchemaError(f"it has no argument {name!r:.100}{meant}")
        for name, value in (*self._fixed.items(), *self._defaults.items()):
            _check_value(tool, schema, name, properties[name], value)
        if self._own or self._gone:
            _check_rearrangeable(schema)
        made: dict[str, Json] = {}
        for name, property_ in properties.items():
            new = self._shown.get(name, name)
            if new is None:
                continue
            keeps_it = new != name and new in properties and self._shown.get(new, new) == new
            if new in made or keeps_it:
                raise SchemaError(f"there would be two arguments {new!r:.100}")
            change = self._changes.get(name)
            made[new] = property_ if change is None else _rewritten(property_, change)
        if "required" in schema:
            needed = [name for name in schema["required"] if name not in self._defaults]
            shown = [self._shown.get(name, name) for name in needed]
            schema["required"] = [name for name in shown if name is not None]
        return {**schema, "properties": made}

    def structure(
        self, structure: Callable[[dict[str, Json]], Keywords], arguments: dict[str, Json]
    ) -> Keywords:
        """Make the arguments that the tool has of those that it shows, and structure them."""
        for name in self._gone & arguments.keys():
            text = f"There is no argument '{name:.100}'{did_you_mean(name, self._own)}."
            raise ArgumentError(Problem(text, name))
        own = {self._own.get(name, name): value for name, value in arguments.items()}
        # Copied, because what a function is given is its own to change.
        for name, value in self._defaults.items():
            if name not in own:
                own[name] = deepcopy(value)
        try:
            return structure({**own, **deepcopy(self._fixed)})
        except ArgumentError as error:
            raise self._renamed(error) from None

    def _renamed(self, error: ArgumentError) -> ArgumentError:
        """Name the argument as the caller knows it."""
        for name, own in self._own.items():
            if own == error.argument:
                return ArgumentError(Problem(str(error).replace(f"'{own}'", f"'{name}'", 1), name))
        return error


def _rewritten(property_: Json, change: ArgumentTransform) -> Json:
    if not isinstance(property_, dict):
        return property_
    texts = {} if change.description is None else {"description": change.description}
    return {**property_, **texts, **({"default": change.default} if change.has_default else {})}


def _check_rearrangeable(schema: Mapping[str, Json]) -> None:
    """Refuse schemas in which anything else speaks of arguments that are renamed or fixed."""
    others = sorted(schema.keys() - _REARRANGED)
    if others:
        why = f"has {others[0]!r:.60}, which may speak of its arguments"
    elif b'"#/properties/' in encode(schema):
        why = "refers to arguments by their place"
    else:
        return
    raise SchemaError(f"its input schema {why}; so these can be neither renamed nor fixed")


def _check_value(
    tool: Tool, schema: Mapping[str, Json], name: str, property_: Json, value: Json
) -> None:
    check_json(f"argument {name!r:.100}", value)
    if not tool.checks_arguments or not isinstance(property_, dict):
        return
    kept = {key: schema[key] for key in ("$schema", "$defs", "definitions") if key in schema}
    one = {**kept, "type": "object", "properties": {name: property_}}
    problem = compile_validator(one, inferred=True)({name: value})
    if problem is not None:
        raise SchemaError(str(problem))
