"""Schemas without references, for hosts that do not follow them.

A definition is written out wherever it is referred to, as long as that stays small. What refers to
itself, or would make the schema too large or too deep, keeps its reference and its definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from trio_mcp.schema.references import LONE_REFERENCES, dialect_of
from trio_mcp.wire.errors import SchemaError
from trio_mcp.wire.subschemas import DEFINITIONS, NOTES, references_in, refers_by, with_parts

MOST_ADDED: Final = 1000
"""So many values a schema may have more than before."""
_MOST: Final = 5000
_MOST_LEVELS: Final = 200
"""Schemas of more values, or more levels of JSON, stay as they are."""
_DEEPEST: Final = 60
"""In levels of JSON: so deep a definition may get by being written out."""
Schema = dict[str, Any]


def written_out(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema that says the same with fewer references; itself, if there is none to spare.

    It takes time in proportion to the schema and `MOST_ADDED`, however definitions refer to each
    other.

    Example:
        >>> place = {"type": "object", "properties": {"city": {"type": "string"}}}
        >>> both = {"from": {"$ref": "#/$defs/Place"}, "to": {"$ref": "#/$defs/Place"}}
        >>> out = written_out({"type": "object", "properties": both, "$defs": {"Place": place}})
        >>> out == {"type": "object", "properties": {"from": place, "to": place}}
        True
    """
    place = next((place for place in DEFINITIONS if isinstance(schema.get(place), Mapping)), None)
    if place is None:
        return schema
    values, levels = _count(schema, _MOST)
    if values > _MOST or levels > _MOST_LEVELS:
        return schema
    definitions = {f"#/{place}/{_escaped(name)}": part for name, part in schema[place].items()}
    if not refers_by(schema, {"#", *definitions}.__contains__):
        return schema
    try:
        is_lone = dialect_of(schema) in LONE_REFERENCES
    except SchemaError:
        return schema
    written = _Writer(schema, place, definitions, is_lone)
    whole = written.whole()
    return whole if written.has_written else schema


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _count(value: Any, limit: int) -> tuple[int, int]:
    """Count the values in a value, up to a limit, and its levels."""
    waiting, count, deepest = [(value, 0)], 0, 0
    while waiting and count <= limit:
        part, level = waiting.pop()
        count, deepest = count + 1, max(deepest, level)
        if isinstance(part, Mapping):
            waiting += [(member, level + 1) for member in part.values()]
        elif isinstance(part, list):
            waiting += [(item, level + 1) for item in part]
    return count, deepest


@define(eq=False)
class _Writer:
    """Writes one schema out."""

    _schema: Mapping[str, Any]
    _place: str
    _definitions: Mapping[str, Any]
    _is_lone: bool
    """Whether what stands beside a reference asks for nothing."""
    _room: int = field(default=MOST_ADDED, init=False)
    _costs: dict[str, tuple[int, int] | None] = field(factory=dict, init=False)
    """By reference, the values and levels of the definition with all that it refers to, written
    out; `None` for what refers to itself."""
    _needed: dict[str, list[str]] = field(factory=dict, init=False)
    """By reference, what the definition refers to."""
    _kept: dict[str, None] = field(factory=dict, init=False)
    """The references that are left."""
    has_written: bool = field(default=False, init=False)

    def whole(self) -> Schema:
        self._find_costs()
        rest = {key: value for key, value in self._schema.items() if key != self._place}
        made: Schema = self._written(rest, 0)
        kept = self._kept
        waiting = list(kept)
        for reference in waiting:  # a host that follows one reference follows all of them
            found = [other for other in self._needed[reference] if other not in kept]
            kept.update(dict.fromkeys(found))
            waiting += found
        if kept:
            named = zip(self._schema[self._place].items(), self._definitions, strict=True)
            made[self._place] = {
                name: part for (name, part), reference in named if reference in kept
            }
        return made

    def _written(self, schema: Any, level: int) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        whole = with_parts(schema, lambda path, part: self._written(part, level + len(path)))
        reference = whole.get("$ref")
        if reference is None or reference == "#":
            return whole
        values, levels = self._costs[reference] or (self._room + 1, 0)
        if values > self._room or level + levels > _DEEPEST:
            self._kept[reference] = None
            return whole
        self._room -= values
        self.has_written = True
        del whole["$ref"]
        room, self._room = self._room, MOST_ADDED  # for what is in it, there is room already
        target = self._written(self._definitions[reference], level)
        self._room = room
        return self._joined(target, whole)

    def _joined(self, target: Any, beside: Schema) -> Any:
        """Put what stood beside a reference to what it led to."""
        asked = {} if self._is_lone else {key: beside[key] for key in beside.keys() - NOTES}
        notes = {key: beside[key] for key in beside if key in NOTES}
        if isinstance(target, dict) and all(target.get(key) == asked[key] for key in asked):
            return {**target, **notes}
        alternatives = asked.pop("allOf", [])
        return {"allOf": [target, *alternatives], **asked, **notes} if beside else target

    def _find_costs(self) -> None:
        """Find what each definition costs, from the innermost outwards."""
        for name, part in self._definitions.items():
            self._needed[name] = [found for found in references_in(part) if found != "#"]
        entered: set[str] = set()
        waiting = list(self._definitions)[::-1]
        while waiting:
            reference = waiting[-1]
            if reference in self._costs:
                waiting.pop()
                continue
            unknown = [found for found in self._needed[reference] if found not in self._costs]
            if reference in entered:  # what is unknown still is what leads back here
                waiting.pop()
                self._costs[reference] = None if unknown else self._cost(reference)
            else:
                entered.add(reference)
                waiting += [found for found in unknown if found not in entered]

    def _cost(self, reference: str) -> tuple[int, int]:
        values, levels = _count(self._definitions[reference], _MOST)
        inner = [cost for found in self._needed[reference] if (cost := self._costs[found])]
        values = min(values + sum(each for each, _ in inner), MOST_ADDED + 1)
        return values, levels + max((each for _, each in inner), default=0)
