"""The schemas of a document as JSON Schema, each complete in itself.

OpenAPI 3.0 has a dialect of its own, 3.1 has JSON Schema, and real documents have a little of
everything. So a keyword is taken only if its value is what JSON Schema wants there, and anything
else is left out: a service checks its arguments itself, and a schema that asks for too little is
better than none.

`oneOf` becomes `anyOf`. Without read-only fields, alternatives may fit the same value; which of
them is meant is for the service to find out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import Factory, define, field, frozen

from trio_mcp.compose.openapi.document import MOST, Document, members
from trio_mcp.compose.openapi.texts import free_name, plain_name, shortened
from trio_mcp.errors import SchemaError
from trio_mcp.schema.bounds import pattern_size
from trio_mcp.threads import is_large
from trio_mcp.wire.bounds import is_finite
from trio_mcp.wire.jsonrpc import Json

Schema = dict[str, Json]

_MOST_SCHEMAS: Final = MOST
"""In one schema of a tool. Further ones allow anything."""
_MOST_IN_ALL: Final = 1_000_000
"""In those of all tools: each takes about 60 µs and 1.4 KB."""
_DEEPEST: Final = 40
_LONGEST_NAME: Final = 64
_LONGEST_PATTERN: Final = 1000
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})


def _is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_texts(value: Json) -> bool:
    is_short = isinstance(value, list) and len(value) <= MOST
    return is_short and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_type(value: Json) -> bool:
    kinds = [value] if isinstance(value, str) else value
    return bool(kinds) and _are_texts(kinds) and _TYPES.issuperset(kinds)


def _is_pattern(value: Json) -> bool:
    if not isinstance(value, str) or len(value) > _LONGEST_PATTERN:
        return False
    try:
        return pattern_size(value) == 0
    except SchemaError:
        return False


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_small(value: Json) -> bool:
    return not is_large(value)


_KEPT: Final[dict[str, Callable[[Json], bool]]] = {
    "type": _is_type,
    "enum": lambda value: isinstance(value, list) and bool(value) and _is_small(value),
    "const": _is_small,
    "default": _is_small,
    "format": _is_text,
    "pattern": _is_pattern,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), is_finite),
    "multipleOf": lambda value: is_finite(value) and value > 0,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _is_count),
    "required": _are_texts,
    **dict.fromkeys(("uniqueItems", "deprecated"), lambda value: isinstance(value, bool)),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _is_text),
}
"""The keywords that hold no schemas, and what their values must be."""

_ONE: Final = (
    *("items", "additionalProperties", "not", "contains", "propertyNames"),
    *("if", "then", "else", "unevaluatedProperties", "unevaluatedItems"),
)
_LISTS: Final = {"allOf": "allOf", "anyOf": "anyOf", "oneOf": "anyOf", "prefixItems": "prefixItems"}
_BY_NAME: Final = ("properties", "patternProperties", "dependentSchemas")


@frozen
class _Named:
    """A named schema of the document, and the references in it."""

    schema: Any
    references: tuple[str, ...]
    size: int


@define(eq=False)
class Schemas:
    """Makes schemas of those in a document."""

    _document: Document
    _for_input: bool
    """Whether they are without what is read only, or else without what is written only."""
    _longest_text: int
    _names: dict[str, str] = field(factory=dict)
    _taken: set[str] = field(factory=set)
    _named: dict[str, _Named] = field(factory=dict)
    _made: int = 0

    def make(self, node: Json) -> Conversion:
        """Convert a schema, which may refer to others; `SchemaError` if all are too many by now."""
        conversion = Conversion(self)
        conversion.schema = conversion.convert(node, 0)
        self._count(conversion.size)
        return conversion

    def complete(self, schema: Schema, references: Iterable[str]) -> Schema:
        """Add the schemas that one refers to, and those that they refer to, within bounds."""
        found: dict[str, Any] = {}
        waiting, room = list(dict.fromkeys(references)), _MOST_SCHEMAS
        while waiting:
            reference = waiting.pop(0)
            name = self.name_of(reference)
            if name in found:
                continue
            named = self._find(reference)
            room -= named.size
            if room > 0:
                self._count(named.size)
            found[name] = named.schema if room > 0 else {}
            waiting += named.references if room > 0 else ()
        return {**schema, "$defs": found} if found else schema

    def _count(self, schemas: int) -> None:
        self._made += schemas
        if self._made > _MOST_IN_ALL:
            raise SchemaError(
                f"the operations take more than {_MOST_IN_ALL:,} schemas: choose some with only=, "
                "such as only='tag:…'"
            )

    def hides(self, node: Json) -> bool:
        """Whether a property is left out in this direction."""
        hidden = "readOnly" if self._for_input else "writeOnly"
        if not isinstance(node, Mapping):
            return False
        return node.get(hidden) is True or self._document.resolve(node).get(hidden) is True

    def name_of(self, reference: str) -> str:
        """Return the name of a schema among the definitions."""
        if reference not in self._names:
            name = plain_name(reference.rpartition("/")[2], _LONGEST_NAME) or "schema"
            name = free_name(name, self._taken, reference, _LONGEST_NAME)
            self._taken.add(name)
            self._names[reference] = name
        return self._names[reference]

    def described(self, text: Any) -> str:
        return shortened(text, self._longest_text)

    def leads_somewhere(self, reference: str) -> bool:
        """Whether there is a schema at a reference."""
        return isinstance(self._document.at(reference), Mapping | bool)

    def _find(self, reference: str) -> _Named:
        if reference not in self._named:
            made = self.make(self._document.at(reference))
            self._named[reference] = _Named(made.schema, tuple(made.references), made.size)
        return self._named[reference]


@define(eq=False)
class Conversion:
    """One schema in the making."""

    _schemas: Schemas
    schema: Any = Factory(dict)
    references: dict[str, None] = Factory(dict)
    size: int = 0
    """How many schemas are in it."""

    def convert(self, node: Json, depth: int) -> Any:
        self.size += 1
        if isinstance(node, bool):
            return node
        # A document may nest without end, and YAML may hold itself.
        if not isinstance(node, Mapping) or depth > _DEEPEST or not self._has_room:
            return {}
        reference = node.get("$ref")
        made: Schema = {}
        if isinstance(reference, str) and self._schemas.leads_somewhere(reference):
            self.references[reference] = None
            made["$ref"] = f"#/$defs/{self._schemas.name_of(reference)}"
        made |= {key: node[key] for key, fits in _KEPT.items() if key in node and fits(node[key])}
        text = self._schemas.described(node.get("description"))
        if text:
            made["description"] = text
        self._convert_parts(node, made, depth + 1)
        self._hide(node, made)
        _convert_bounds(node, made)
        return _nullable(made) if node.get("nullable") is True else made

    @property
    def _has_room(self) -> bool:
        return self.size <= _MOST_SCHEMAS

    def _convert_parts(self, node: Mapping[str, Json], made: Schema, depth: int) -> None:
        for key in _ONE:
            if isinstance(node.get(key), Mapping | bool):
                made[key] = self.convert(node[key], depth)
        for key in _BY_NAME:
            if isinstance(node.get(key), Mapping):
                made[key] = {
                    name: self.convert(each, depth)
                    for name, each in members(node[key])
                    if self._has_room and not self._schemas.hides(each)
                }
        for key, as_key in _LISTS.items():
            if isinstance(node.get(key), list) and node[key] and as_key not in made:
                parts = [self.convert(part, depth) for part in node[key][:MOST] if self._has_room]
                if parts:
                    made[as_key] = parts if key == "allOf" else [*self._discriminated(node, parts)]

    def _discriminated(self, node: Mapping[str, Json], parts: list[Any]) -> Iterator[Any]:
        """Add to each alternative its value of the discriminator, where the document maps it."""
        found = node.get("discriminator")
        discriminator = found if isinstance(found, Mapping) else {}
        name, mapping = discriminator.get("propertyName"), discriminator.get("mapping")
        values: dict[str, list[str]] = {}
        for value, target in members(mapping):
            if isinstance(target, str):  # a name alone is that of a component
                where = target if "/" in target else f"#/components/schemas/{target}"
                values.setdefault(where, []).append(value)
        for each, part in zip(node.get("oneOf") or node.get("anyOf") or (), parts, strict=False):
            reference = each.get("$ref") if isinstance(each, Mapping) else None
            meant = values.get(reference) if isinstance(reference, str) else None
            if not meant or not isinstance(name, str) or not isinstance(part, dict):
                yield part
            else:
                yield {**part, "properties": {name: {"enum": meant}}, "required": [name]}

    def _hide(self, node: Mapping[str, Json], made: Schema) -> None:
        """Require no property that is left out in this direction."""
        properties = node.get("properties")
        if "required" in made and isinstance(properties, Mapping):
            made["required"] = [
                name for name in made["required"] if not self._schemas.hides(properties.get(name))
            ]
        if made.get("required") == []:
            del made["required"]


def _convert_bounds(node: Mapping[str, Json], made: Schema) -> None:
    """Write bounds that OpenAPI 3.0 marks as exclusive as JSON Schema does."""
    for bound in ("minimum", "maximum"):
        exclusive = f"exclusive{bound.capitalize()}"
        if node.get(exclusive) is True and bound in made:
            made[exclusive] = made.pop(bound)


def _nullable(made: Schema) -> Schema:
    kind = made.get("type")
    if kind is None:
        alternatives = made.keys() & {"$ref", "allOf", "anyOf"}
        return {"anyOf": [made, {"type": "null"}]} if alternatives else made
    kinds = [kind] if isinstance(kind, str) else kind
    made["type"] = [*kinds, "null"] if "null" not in kinds else kinds
    if "enum" in made and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    return made
