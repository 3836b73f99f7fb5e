"""What is offered, in few words: a name, a line, and parameters as in a signature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from trio_mcp.compose.search.words import Field
from trio_mcp.registry.delegation import Target
from trio_mcp.wire.content import ResourceDescription
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.offers import PromptDescription, ResourceTemplateDescription
from trio_mcp.wire.payloads import ToolDescription

Described = ToolDescription | ResourceDescription | ResourceTemplateDescription | PromptDescription

_LONGEST_LINE: Final = 200
_LONGEST_NAME: Final = 100
_MOST_PARAMETERS: Final = 40
_MOST_CHOICES: Final = 12
_MOST_TYPES: Final = 200
_DEEPEST: Final = 5
_LONGEST_TEXT: Final = 10_000
"""Characters of a description or a schema that are shown, or searched, at all."""


def line_of(description: str | None) -> str:
    """Return the first sentence of a description, on one line."""
    text = " ".join((description or "")[: 4 * _LONGEST_LINE].split())
    sentence, dot, _ = text.partition(". ")
    line = sentence + dot.strip()
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


def signature(name: str, schema: Mapping[str, Json]) -> str:
    """Write a name with the parameters that a schema has for it.

    Example:
        >>> schema = {"properties": {"a": {"type": "string"}, "n": {"type": "integer"}}}
        >>> signature("find", {**schema, "required": ["a"]})
        'find(a: string, n?: integer)'
    """
    return f"{name}({_Writer(schema).members(schema)})"


class _Writer:
    """Writes the types in a schema, as in TypeScript: so many of them, and the rest as `any`."""

    def __init__(self, root: Mapping[str, Json]) -> None:
        self._root = root
        self._left = _MOST_TYPES
        self._depth = 0

    def members(self, schema: Mapping[str, Any]) -> str:
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, Mapping):
            return ""
        needed = [name for name in _list(required)[:_MOST_TYPES] if isinstance(name, str)]
        shown = [
            f"{name[:_LONGEST_NAME]}{'' if name in needed else '?'}: {self._type(each)}"
            for name, each in islice(properties.items(), _MOST_PARAMETERS)
        ]
        return ", ".join([*shown, "…"] if len(properties) > _MOST_PARAMETERS else shown)

    def _type(self, schema: Json) -> str:
        self._left -= 1
        if not isinstance(schema, Mapping) or self._left < 0 or self._depth >= _DEEPEST:
            return "any"
        self._depth += 1
        try:
            return self._written(schema)
        finally:
            self._depth -= 1

    def _written(self, schema: Mapping[str, Any]) -> str:
        if isinstance(schema.get("$ref"), str):
            return self._type(self._referred(schema["$ref"]))
        choices = [schema["const"]] if "const" in schema else _list(schema.get("enum"))
        if choices:
            return _either([_constant(choice) for choice in choices[: _MOST_CHOICES + 1]])
        for types in map(_list, map(schema.get, ("anyOf", "oneOf"))):
            if types:
                return _either([self._type(option) for option in types[: _MOST_CHOICES + 1]])
        kinds = _list(schema.get("type"))
        if kinds:
            return _either([self._type({**schema, "type": kind}) for kind in kinds[:10]])
        if schema.get("type") == "array":
            items = self._type(schema.get("items"))
            return f"({items})[]" if "|" in items else f"{items}[]"
        if schema.get("type") == "object" or "properties" in schema:
            inside = self.members(schema)
            return f"{{{inside}}}" if inside else "object"
        kind = schema.get("type")
        return kind[:_LONGEST_NAME] if isinstance(kind, str) else "any"

    def _referred(self, reference: str) -> Json:
        found: Any = self._root
        for name in reference.removeprefix("#/").split("/")[:10]:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _constant(value: Json) -> str:
    if isinstance(value, list | dict):
        return "any"
    return encode(value[:_LONGEST_NAME] if isinstance(value, str) else value)[:-1].decode()


def _either(types: list[str]) -> str:
    found = list(dict.fromkeys(types))
    return " | ".join([*found[:_MOST_CHOICES], "…"] if len(found) > _MOST_CHOICES else found)


# -- what is found --------------------------------------------------------------------------


def shown(targets: Sequence[Target], details: bool) -> str:
    """Write what was found: a few lines about each."""
    return "\n".join(_shown(target, details) for target in targets)


def _shown(target: Target, details: bool) -> str:
    described: Described = target.entry.description
    about = (described.description or described.title or "")[:_LONGEST_TEXT]
    lines = [_head(described)]
    lines += [f"  {about if details else line_of(about)}"] if about else []
    if details and isinstance(described, ToolDescription):
        lines.append(f"  {encode(described.input_schema)[:-1].decode()[:_LONGEST_TEXT]}")
    return "\n".join(lines)


def _head(described: Described) -> str:
    if isinstance(described, ToolDescription):
        return signature(described.name, described.input_schema)
    if isinstance(described, PromptDescription):
        arguments = (described.arguments or [])[:_MOST_PARAMETERS]
        taken = ", ".join(f"{taken.name}{'' if taken.required else '?'}" for taken in arguments)
        return f"{described.name}({taken}) (a prompt: get_prompt)"
    if isinstance(described, ResourceDescription):
        return f"{described.uri} (a resource: read_resource)"
    return f"{described.uri_template} (resources: read_resource)"


# -- what is searched -----------------------------------------------------------------------


def fields_of(described: Described) -> Iterator[Field]:
    """Yield the texts by which something is found, and how much each counts."""
    yield described.name[:_LONGEST_TEXT], 3.0
    yield (described.title or "")[:_LONGEST_TEXT], 2.0
    yield (described.description or "")[:_LONGEST_TEXT], 1.0
    yield " ".join(sorted(described.tags))[:_LONGEST_TEXT], 1.0
    if isinstance(described, ToolDescription):
        properties = described.input_schema.get("properties")
        if isinstance(properties, Mapping):
            for name, each in islice(properties.items(), _MOST_PARAMETERS):
                yield name[:_LONGEST_NAME], 1.0
                about = each.get("description") if isinstance(each, Mapping) else None
                yield about[:_LONGEST_TEXT] if isinstance(about, str) else "", 0.5
    elif isinstance(described, PromptDescription):
        for argument in islice(described.arguments or (), _MOST_PARAMETERS):
            yield argument.name[:_LONGEST_NAME], 1.0
            yield (argument.description or "")[:_LONGEST_TEXT], 0.5
    else:
        uri = described.uri if isinstance(described, ResourceDescription) else ""
        template = getattr(described, "uri_template", "")
        yield (uri or template)[:_LONGEST_LINE], 1.0
