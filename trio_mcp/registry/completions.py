"""Completion: suggestions for the arguments of prompts and the variables of templates.

They come from a function, from a list, or, where there is neither, from an annotation that names
all possible values (`Literal`, `Enum`, `bool`). `Completers` finds them, for one registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from attrs import evolve, frozen

from trio_mcp.registry.changes import Kind
from trio_mcp.registry.context import Context
from trio_mcp.registry.describing import handler_fields
from trio_mcp.registry.handlers import Handler
from trio_mcp.registry.invalid import invalid_result
from trio_mcp.registry.kinds import RefType
from trio_mcp.registry.prompts import Prompt
from trio_mcp.registry.resources import Resource, ResourceTemplate
from trio_mcp.registry.tools import unknown
from trio_mcp.schema import SchemaError, describe_function
from trio_mcp.schema.errors import errors_at
from trio_mcp.wire.conversion import to_wire
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.offers import CompleteResult, Completion
from trio_mcp.wire.revisions import Revision
from trio_mcp.wire.safe_repr import safe_repr

MOST_VALUES: Final = 100
"""So many suggestions one answer may hold (2026-07-28, "Completion")."""


@frozen(eq=False, kw_only=True, repr=False)
class Completer(Handler):
    """A registered completion. Made by `Registry.completion`."""

    kind: ClassVar[Literal["completion"]] = "completion"
    parameters: frozenset[str]
    """Which of `value` and `arguments` the function takes."""

    def _label(self) -> str:
        return f"Completion of {self.name}"

    def keywords(self, value: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        given = {"value": value, "arguments": dict(arguments)}
        return {name: given[name] for name in given.keys() & self.parameters}

    def to_result(self, value: Any, name: str, revision: Revision) -> dict[str, Json]:
        return to_wire(CompleteResult(suggestions_of(self, value)), revision)


def make_completer(
    function: Callable[..., Any],
    what: str,
    timeout: float | None = None,
    middleware: tuple[Any, ...] = (),
) -> Completer:
    """Make a completion of a function that takes `value`, and may take `arguments`."""
    with errors_at(f"Completion of {what}"):
        described = describe_function(function, context_type=Context, describe_result=False)
        fields = handler_fields(function, described, {"timeout": timeout})
        parameters = frozenset(described.input_schema.get("properties", {}))
        if "value" not in parameters or not parameters <= {"value", "arguments"}:
            raise SchemaError(
                "the function must take `value` (what has been typed), and may take `arguments` "
                "(what was chosen already) and nothing else; it takes: "
                f"{', '.join(sorted(parameters)) or 'nothing'}"
            )
    return Completer(name=what, parameters=parameters, middleware=middleware, **fields)


def from_values(values: Sequence[str]) -> Callable[..., Any]:
    """Make a completion function of a list: what begins as typed, then what contains it."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise SchemaError(
            f"a completion is a function or a list of values, not {safe_repr(values)}"
        )
    known = [str(listed) for listed in values]

    async def complete(value: str) -> list[str]:
        typed = value.casefold()
        contains = [option for option in known if typed in option.casefold()]
        starts = [option for option in contains if option.casefold().startswith(typed)]
        return starts + [option for option in contains if option not in starts]

    return complete


def values_of(schema: Json) -> list[str]:
    """Return all values that a parameter's schema allows, if it names them, as texts."""
    if not isinstance(schema, dict):
        return []
    if schema.get("type") == "boolean":
        return ["true", "false"]
    if isinstance(schema.get("anyOf"), list):
        members = [values_of(member) for member in schema["anyOf"] if member != {"type": "null"}]
        return [value for member in members for value in member] if all(members) else []
    named = schema.get("enum") or [schema["const"]] if {"enum", "const"} & schema.keys() else []
    return [_text(value) for value in named if value is not None]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else encode(value)[:-1].decode()


def suggestions_of(completer: Completer, value: Any) -> Completion:
    """Return what the caller gets of what a function returned, or raise `InvalidResult`."""
    found = value if isinstance(value, Completion) else Completion(value)
    values = found.values
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise invalid_result(value, f"completion of {completer.name}")
    shown = list(values[:MOST_VALUES])
    total = found.total
    if total is None and found is not value:  # a list is all there is
        total = len(values)
    more = len(values) > len(shown) or (total is not None and total > len(shown))
    return evolve(found, values=shown, total=total, has_more=bool(more or found.has_more))


_REF_NAMES: Final[dict[RefType, str]] = {
    "ref/prompt": "prompt",
    "ref/resource": "resource template",
}


class Completers:
    """The completions of one registry, for its prompts and templates, which may change."""

    def __init__(
        self,
        prompts: Mapping[str, Prompt],
        resources: Mapping[str, Resource],
        templates: Mapping[str, ResourceTemplate],
        versions: Mapping[Kind, int],
        adopt: Callable[[Completer], None],
    ) -> None:
        self._prompts = prompts
        self._resources = resources
        self._templates = templates
        self._versions = versions
        self._adopt = adopt
        self._given: dict[tuple[RefType, str, str], Completer] = {}
        self._names_values: tuple[dict[Kind, int], bool] = ({}, False)

    def __bool__(self) -> bool:
        return bool(self._given) or self._has_annotations()

    def _has_annotations(self) -> bool:
        """Look through all entries, but only once: every request for a list asks for it."""
        versions = dict(self._versions)
        if self._names_values[0] != versions:
            # Threads may change the registry.
            entries: list[Any] = [*list(self._prompts.values()), *list(self._templates.values())]
            schemas = (schema for entry in entries for schema in _parameters_of(entry).values())
            self._names_values = (versions, any(map(values_of, schemas)))
        return self._names_values[1]

    def add(
        self,
        function: Callable[..., Any],
        prompt: str | None,
        resource: str | None,
        argument: str,
        timeout: float | None,
    ) -> None:
        """Register a completion (see `Registry.completion`)."""
        if (prompt is None) == (resource is None):
            raise SchemaError("say what the completion is for: give either prompt= or resource=")
        kind: RefType = "ref/resource" if prompt is None else "ref/prompt"
        target = prompt or resource or ""
        what = f"{argument} of {target}"
        entry = self._entries(kind).get(target)
        if entry is None or argument not in _parameters_of(entry):
            raise SchemaError(f"Completion of {what}: there is no such argument; register it first")
        made = make_completer(function, what, timeout, entry.middleware)
        self._adopt(made)
        self._given[kind, target, argument] = made

    def forget(self, kind: RefType, target: str) -> None:
        """Drop the completions of an entry that was removed."""
        for key in [key for key in self._given if key[:2] == (kind, target)]:
            del self._given[key]

    def find(self, kind: RefType, target: str, argument: str) -> Completer:
        """Return what completes an argument: a function, the values of its annotation, or nothing.

        Raises:
            McpError: There is no such prompt, template or argument (`-32602`).
        """
        completer = self._given.get((kind, target, argument))
        if completer is not None:
            return completer
        known = self._entries(kind)
        entry = known.get(target)
        if entry is None and not (kind == "ref/resource" and target in self._resources):
            raise unknown(_REF_NAMES[kind], target, list(known))
        if entry is not None and (origin := entry.origin) is not None:
            found: Completer = origin.mount.completer(kind, origin.name, argument, target)
            return found
        parameters = _parameters_of(entry)
        if argument not in parameters:
            raise unknown(f"argument of {target}", argument, list(parameters))
        around = () if entry is None else entry.middleware
        values = from_values(values_of(parameters[argument]))
        return make_completer(values, f"{argument} of {target}", middleware=around)

    def _entries(self, kind: RefType) -> Mapping[str, Prompt | ResourceTemplate]:
        return self._prompts if kind == "ref/prompt" else self._templates


def _parameters_of(entry: Prompt | ResourceTemplate | None) -> Mapping[str, Json]:
    if entry is None:
        return {}
    return entry.parameters if isinstance(entry, Prompt) else entry.variables
