"""What completes the arguments of prompts, and the variables of templates, of one registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from trio_mcp.registry.changes import Kind
from trio_mcp.registry.completions import Completer, from_values, make_completer, values_of
from trio_mcp.registry.kinds import RefType
from trio_mcp.registry.prompts import Prompt
from trio_mcp.registry.resources import Resource, ResourceTemplate
from trio_mcp.registry.tools import unknown
from trio_mcp.schema import SchemaError
from trio_mcp.wire.jsonrpc import Json

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
    ) -> None:
        self._prompts = prompts
        self._resources = resources
        self._templates = templates
        self._versions = versions
        self._given: dict[tuple[RefType, str, str], Completer] = {}
        self._names_values: tuple[dict[Kind, int], bool] = ({}, False)

    def __bool__(self) -> bool:
        return bool(self._given) or self._has_annotations()

    def _has_annotations(self) -> bool:
        """Look through all entries, but only once: every request for a list asks for it."""
        versions = dict(self._versions)
        if self._names_values[0] != versions:
            found = any(
                values_of(schema) for schemas in self._arguments() for schema in schemas.values()
            )
            self._names_values = (versions, found)
        return self._names_values[1]

    def _arguments(self) -> Iterator[Mapping[str, Json]]:
        # threads may change the registry
        yield from map(_parameters_of, list(self._prompts.values()))
        yield from map(_parameters_of, list(self._templates.values()))

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
