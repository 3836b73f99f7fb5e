"""Where in a value, and where in a schema, the reason stands why the value was refused.

The engine says no to the whole; then it is asked again, part by part, along the parts that it says
no to. So only the way to the reason is walked, whatever else there is in value and schema, and of
several alternatives only the one that was meant is gone into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from trio_mcp.schema.dialects import LONE_REFERENCES, dialect_of
from trio_mcp.schema.engine import Engine
from trio_mcp.schema.keywords import REFERENCES, Path
from trio_mcp.schema.references import References

__all__ = ["NO_ALTERNATIVE", "SEVERAL", "Refusal", "Refusals"]

# In the place of a keyword: none of several alternatives fits, or more than the one that may.
NO_ALTERNATIVE: Final = "none of the alternatives"
SEVERAL: Final = "several of the alternatives"

_MOST_STEPS: Final = 64
"""So many steps to a reason are walked; one that is deeper is told where they end."""

_OWN: Final = (
    *("type", "enum", "const"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems"),
    *("minProperties", "maxProperties", "required", "dependentRequired"),
)
"""Keywords that hold no schemas."""


@frozen
class Refusal:
    """One reason."""

    path: Path
    """Where in the value."""

    keyword: str | None
    """What refuses it; `None` for the schema `false`."""

    schema: Mapping[str, Any]
    """The schema that the keyword stands in."""

    value: Any
    """What came."""

    wanted: Any = None
    """What stands at the keyword; where all alternatives go by a tag, all tags."""

    names: tuple[str, ...] = ()
    """The names that are unexpected."""

    of_name: bool = False
    """Whether it is about the name of a property, in the object at the path."""


@frozen
class _Spot:
    """A value, and where it is."""

    value: Any
    path: Path = ()
    of_name: bool = False
    steps: int = 0

    def within(self, value: Any, step: str | int) -> _Spot:
        return _Spot(value, (*self.path, step), False, self.steps + 1)

    def again(self) -> _Spot:
        return _Spot(self.value, self.path, self.of_name, self.steps + 1)


_Found = Iterator[Refusal]


class Refusals:
    """Finds why values are refused by one schema."""

    def __init__(self, schema: Mapping[str, Any], engine: Engine, references: References) -> None:
        self._schema = schema
        self._engine = engine
        self._references = references
        self._lone_references = dialect_of(schema) in LONE_REFERENCES

    def find(self, value: Any) -> Iterator[Refusal]:
        """Find the reasons one after another, at least one, for a value that is refused."""
        return self._find(self._schema, (), _Spot(value))

    def _find(self, schema: Any, at: Path, spot: _Spot) -> _Found:
        if not isinstance(schema, Mapping):
            yield Refusal(spot.path, None, {}, spot.value, of_name=spot.of_name)
            return
        found = False
        if spot.steps < _MOST_STEPS:
            for each in self._look(schema, at, spot):
                found = True
                yield each
        if not found:
            keyword = next((each for each in _LAST if each in schema), None) or "$schema"
            yield self._refusal(keyword, schema, spot)

    def _look(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        if not (self._lone_references and "$ref" in schema):
            for keyword in _OWN:
                if keyword in schema and not self._keeps(keyword, schema, spot.value):
                    yield self._refusal(keyword, schema, spot)
            for keyword, look in _LOOKS.items():
                if keyword in schema:
                    yield from look(self, schema, at, spot)
        for target in self._references.targets(schema):
            path = self._references.path(target)
            if path is not None:
                yield from self._go(target, path, spot.again())

    def _go(self, schema: Any, at: Path, spot: _Spot) -> _Found:
        """Go on with a part, if that is what refuses."""
        if not self._fits(at, spot.value):
            yield from self._find(schema, at, spot)

    def _fits(self, at: Path, value: Any) -> bool:
        return self._engine.fits_part(at, value)

    def _keeps(self, keyword: str, schema: Mapping[str, Any], value: Any) -> bool:
        keywords = {keyword: schema[keyword]}
        exclusive = _EXCLUSIVE.get(keyword)
        if exclusive and isinstance(schema.get(exclusive), bool):  # as draft 4 has it
            keywords[exclusive] = schema[exclusive]
        return self._engine.alone(keywords)(value)

    def _refusal(
        self, keyword: str, schema: Mapping[str, Any], spot: _Spot, names: tuple[str, ...] = ()
    ) -> Refusal:
        wanted = schema.get(keyword)
        return Refusal(spot.path, keyword, schema, spot.value, wanted, names, spot.of_name)

    # Objects --------------------------------------------------------------------------------

    def _properties(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        if isinstance(spot.value, dict):
            for name, each in schema["properties"].items():
                if name in spot.value:
                    below = spot.within(spot.value[name], name)
                    yield from self._go(each, (*at, "properties", name), below)

    def _pattern_properties(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        if isinstance(spot.value, dict):
            for pattern, each in schema["patternProperties"].items():
                is_named = self._naming([pattern])
                for name in spot.value:
                    if is_named(name):
                        below = spot.within(spot.value[name], name)
                        yield from self._go(each, (*at, "patternProperties", pattern), below)

    def _additional(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        if not isinstance(spot.value, dict):
            return
        known, is_named = (
            schema.get("properties", {}),
            self._naming(schema.get("patternProperties")),
        )
        names = [name for name in spot.value if name not in known and not is_named(name)]
        each = schema["additionalProperties"]
        if each is False and names:
            yield self._refusal("additionalProperties", schema, spot, tuple(names))
        elif isinstance(each, Mapping):
            for name in names:
                below = spot.within(spot.value[name], name)
                yield from self._go(each, (*at, "additionalProperties"), below)

    def _naming(self, patterns: Iterable[str] | None) -> Callable[[str], bool]:
        """What says whether a name matches one of several patterns."""
        if not patterns:
            return lambda _: False
        never = self._engine.alone({"patternProperties": dict.fromkeys(patterns, False)})
        return lambda name: not never({name: None})

    def _names(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        if isinstance(spot.value, dict):
            for name in spot.value:
                below = _Spot(name, spot.path, True, spot.steps + 1)
                yield from self._go(schema["propertyNames"], (*at, "propertyNames"), below)

    def _dependent(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        if isinstance(spot.value, dict):
            for name, each in schema["dependentSchemas"].items():
                if name in spot.value:
                    yield from self._go(each, (*at, "dependentSchemas", name), spot.again())

    # Arrays ---------------------------------------------------------------------------------

    def _items(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        if isinstance(spot.value, list | tuple):
            yield from self._rest("items", len(schema.get("prefixItems", ())), schema, at, spot)

    def _prefix_items(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        if isinstance(spot.value, list | tuple):
            yield from self._each("prefixItems", schema, at, spot)

    def _additional_items(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        first = schema.get("items")
        if isinstance(spot.value, list | tuple) and isinstance(first, list):
            yield from self._rest("additionalItems", len(first), schema, at, spot)

    def _each(self, keyword: str, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        for index, (each, value) in enumerate(zip(schema[keyword], spot.value, strict=False)):
            yield from self._go(each, (*at, keyword, index), spot.within(value, index))

    def _rest(
        self, keyword: str, start: int, schema: Mapping[str, Any], at: Path, spot: _Spot
    ) -> _Found:
        each = schema[keyword]
        if isinstance(each, list):
            yield from self._each(keyword, schema, at, spot)
        elif each is False and len(spot.value) > start:
            yield self._refusal(keyword, schema, spot)
        elif isinstance(each, Mapping):
            for index in range(start, len(spot.value)):
                below = spot.within(spot.value[index], index)
                yield from self._go(each, (*at, keyword), below)

    def _contains(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        if isinstance(spot.value, list | tuple):
            count = sum(self._fits((*at, "contains"), each) for each in spot.value)
            least, most = schema.get("minContains", 1), schema.get("maxContains", count)
            if count < least:
                keyword = "minContains" if "minContains" in schema else "contains"
                yield self._refusal(keyword, schema, spot)
            if count > most:
                yield self._refusal("maxContains", schema, spot)

    # In place -------------------------------------------------------------------------------

    def _all_of(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        for index, each in enumerate(schema["allOf"]):
            yield from self._go(each, (*at, "allOf", index), spot.again())

    def _not(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        if self._fits((*at, "not"), spot.value):
            yield self._refusal("not", schema, spot)

    def _if(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        keyword = "then" if self._fits((*at, "if"), spot.value) else "else"
        if keyword in schema:
            yield from self._go(schema[keyword], (*at, keyword), spot.again())

    def _any_of(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        yield from self._alternatives("anyOf", schema, at, spot)

    def _one_of(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        yield from self._alternatives("oneOf", schema, at, spot)

    def _alternatives(
        self, keyword: str, schema: Mapping[str, Any], at: Path, spot: _Spot
    ) -> _Found:
        """What is wrong with the alternative that was meant, where that can be told.

        One of another type was not; and of those that are told apart by a tag, one with another
        tag was not.
        """
        members = [(each, (*at, keyword, index)) for index, each in enumerate(schema[keyword])]
        fitting = [each for each, path in members if self._fits(path, spot.value)]
        if fitting:
            if keyword == "oneOf" and len(fitting) > 1:
                yield self._refusal(SEVERAL, schema, spot)
            return
        alike = [each for each in members if self._is_alike(each[0], spot.value)]
        tags = {path: list(self._wrong_tags(each, spot)) for each, path in alike}
        tagged = [each for each in alike if not tags[each[1]]]
        for left in (alike, tagged):
            if len(left) == 1:
                yield from self._find(*left[0], spot.again())
                return
        wrong = [each[0] for each in tags.values() if each]
        if alike and not tagged and len({each.path for each in wrong}) == 1:
            values = [value for each in wrong for value in each.wanted]
            yield Refusal(wrong[0].path, "enum", {}, wrong[0].value, values)
        elif alike:
            yield self._refusal(NO_ALTERNATIVE, schema, spot)
        else:
            yield self._refusal(keyword, schema, spot)

    def _is_alike(self, schema: Any, value: Any) -> bool:
        """Whether an alternative is at least for a value of this type, or for this value."""
        schema = self._followed(schema)
        return isinstance(schema, Mapping) and all(
            self._keeps(each, schema, value) for each in ("type", "enum", "const") if each in schema
        )

    def _wrong_tags(self, schema: Any, spot: _Spot) -> Iterator[Refusal]:
        properties = self._followed(schema).get("properties", {})
        for name, each in properties.items() if isinstance(spot.value, dict) else ():
            tag = self._followed(each)
            if name not in spot.value or not isinstance(tag, Mapping):
                continue
            for keyword in ("enum", "const"):
                if keyword in tag and not self._keeps(keyword, tag, spot.value[name]):
                    wanted = tag["enum"] if keyword == "enum" else [tag["const"]]
                    path = (*spot.path, name)
                    yield Refusal(path, "enum", tag, spot.value[name], wanted)

    def _followed(self, schema: Any) -> Any:
        """A schema, or what it refers to and nothing else."""
        for _ in range(_MOST_STEPS):
            targets = self._references.targets(schema)
            if len(targets) != 1:
                break
            schema = targets[0]
        return schema

    def _dependencies(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> _Found:
        if isinstance(spot.value, dict):
            for name, each in schema["dependencies"].items():
                if name not in spot.value:
                    continue
                if not isinstance(each, list):
                    yield from self._go(each, (*at, "dependencies", name), spot.again())
                elif any(other not in spot.value for other in each):
                    yield self._refusal("dependencies", schema, spot)


_EXCLUSIVE: Final = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}

_LOOKS: Final[dict[str, Callable[[Refusals, Mapping[str, Any], Path, _Spot], _Found]]] = {
    "properties": Refusals._properties,
    "patternProperties": Refusals._pattern_properties,
    "additionalProperties": Refusals._additional,
    "propertyNames": Refusals._names,
    "dependentSchemas": Refusals._dependent,
    "dependencies": Refusals._dependencies,
    "prefixItems": Refusals._prefix_items,
    "items": Refusals._items,
    "additionalItems": Refusals._additional_items,
    "contains": Refusals._contains,
    "allOf": Refusals._all_of,
    "not": Refusals._not,
    "if": Refusals._if,
    "anyOf": Refusals._any_of,
    "oneOf": Refusals._one_of,
}
"""How keywords that hold schemas are gone into."""

_LAST: Final = ("unevaluatedProperties", "unevaluatedItems", *REFERENCES, *_LOOKS)
"""What is to blame where nothing else is found."""
