"""Who completes which argument, of the prompts and the templates of one registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from trio_mcp.registry.changes import Kind
from trio_mcp.registry.completions import Completer, from_values, make_completer, values_of
from trio_mcp.registry.handlers import Handler
from trio_mcp.registry.part import RefType
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
    """The completions of one registry, by what they complete.

    Args:
        prompts: The registry's prompts, which may change.
        resources: Its resources.
        templates: Its templates.
        versions: Numbers for all of them, which are others when they have changed.
    """

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
        """Whether anything can be completed, by a function or by an annotation."""
        return bool(self._given) or self._has_annotations()

    def _has_annotations(self) -> bool:
        """Look through all of them, but only once: every request for a list asks for it."""
        versions = dict(self._versions)
        if self._names_values[0] != versions:
            found = any(values_of(schema) for each in self._arguments() for schema in each.values())
            self._names_values = (versions, found)
        return self._names_values[1]

    def _arguments(self) -> Iterator[Mapping[str, Json]]:
        # threads may change the registry
        yield from (each.parameters for each in list(self._prompts.values()))
        yield from (each.variables for each in list(self._templates.values()))

    def add(
        self,
        function: Callable[..., Any],
        prompt: str | None,
        resource: str | None,
        argument: str,
        timeout: float | None,
    ) -> None:
        """Have a function complete an argument of a prompt, or a variable of a template.

        Raises:
            SchemaError: There is no such thing, or the function does not take what it is given.
        """
        if (prompt is None) == (resource is None):
            raise SchemaError("say what the completion is for: give either prompt= or resource=")
        kind: RefType = "ref/resource" if prompt is None else "ref/prompt"
        target = prompt or resource or ""
        what = f"{argument} of {target}"
        if argument not in self._parameters_of(kind, target):
            raise SchemaError(f"Completion of {what}: there is no such argument; register it first")
        around = self._middleware_of(kind, target)
        self._given[kind, target, argument] = make_completer(function, what, timeout, around)

    def forget(self, kind: RefType, target: str) -> None:
        """Take out what completes the arguments of something that is there no more."""
        for key in [each for each in self._given if each[:2] == (kind, target)]:
            del self._given[key]

    def find(self, kind: RefType, target: str, argument: str) -> Completer:
        """Return who completes an argument; where nobody does, somebody who knows nothing.

        Raises:
            McpError: There is no such prompt, template or argument (`-32602`).
        """
        completer = self._given.get((kind, target, argument))
        if completer is not None:
            return completer
        known: Mapping[str, Prompt | ResourceTemplate]
        known = self._prompts if kind == "ref/prompt" else self._templates
        there = known.get(target)
        if there is not None and there.origin is not None:
            found: Completer = there.origin.completer(kind, target, argument)
            return found
        if there is None and not (kind == "ref/resource" and target in self._resources):
            raise unknown(_REF_NAMES[kind], target, list(known))
        parameters = self._parameters_of(kind, target)
        if argument not in parameters:
            raise unknown(f"argument of {target}", argument, list(parameters))
        return make_completer(
            from_values(values_of(parameters[argument])),
            f"{argument} of {target}",
            middleware=self._middleware_of(kind, target),
        )

    def _middleware_of(self, kind: RefType, target: str) -> tuple[Any, ...]:
        """What runs around calls of the prompt or template runs around its completions, too."""
        items: Mapping[str, Handler] = self._prompts if kind == "ref/prompt" else self._templates
        return items[target].middleware if target in items else ()

    def _parameters_of(self, kind: RefType, target: str) -> Mapping[str, Json]:
        if kind == "ref/prompt":
            prompt = self._prompts.get(target)
            return {} if prompt is None else prompt.parameters
        template = self._templates.get(target)
        return {} if template is None else template.variables
