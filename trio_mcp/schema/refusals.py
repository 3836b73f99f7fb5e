"""Where in a value, and where in a schema, the reason stands why the value was refused.

jsonschema-rs names the place and the keyword. Two things it would take long for are done here: of
several alternatives, the one that was meant is picked out; and since each of its errors comes with
a copy of what is refused, a large value is narrowed down to the part that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from attrs import evolve, frozen

from trio_mcp.schema.engine import ALTERNATIVES, Engine
from trio_mcp.schema.keywords import REFERENCES, Path
from trio_mcp.schema.references import References
from trio_mcp.schema.work import Costs, Verdict

__all__ = ["NO_ALTERNATIVE", "SEVERAL", "Refusal", "Refusals"]

# In the place of a keyword: none of several alternatives fits, or more than the one that may.
NO_ALTERNATIVE: Final = "none of the alternatives"
SEVERAL: Final = "several of the alternatives"

_MOST: Final = 20
_FEW_LOOKS: Final = 2000  # of schemas at values, each of which may give an error
_FEW_VALUES: Final = 200
_MOST_ALTERNATIVES: Final = 100
_MOST_STEPS: Final = 64
"""So many steps to a reason are walked; one that is deeper is told where they end."""


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

    @property
    def argument(self) -> str | None:
        """The property of the whole value that it is about; `None` if it is about several."""
        named: Sequence[Any] = self.path or self.names
        if not named and self.keyword == "required":
            named = [each for each in self.wanted if each not in self.value]
        return str(named[0]) if named else None


@frozen
class _Spot:
    """A value, and where it is."""

    value: Any
    path: Path = ()
    of_name: bool = False
    steps: int = 0

    def below(self, *steps: str | int) -> _Spot:
        """A place within.

        Raises:
            LookupError: There is none.
        """
        value, path = self.value, self.path
        for step in steps:
            step = str(step) if isinstance(value, Mapping) else step  # of "7" the library makes 7
            value, path = value[step], (*path, step)
        return _Spot(value, path, self.of_name and not steps, self.steps + 1)

    def refusal(
        self, keyword: str | None, schema: Mapping[str, Any], names: tuple[str, ...] = ()
    ) -> Refusal:
        wanted = schema.get(keyword or "")
        return Refusal(self.path, keyword, schema, self.value, wanted, names, self.of_name)


class Refusals:
    """Finds why values are refused by one schema.

    Args:
        schema: The schema.
        engine: What refuses them.
        references: Where its references lead.
        costs: Says which values are too large for errors that hold copies of them.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        engine: Engine,
        references: References,
        costs: Costs,
    ) -> None:
        self._schema = schema
        self._engine = engine
        self._references = references
        self._costs = costs

    def find(self, value: Any) -> list[Refusal]:
        """Find the reasons, at least one, for a value that is refused."""
        return list(islice(self._find(self._schema, (), _Spot(value)), _MOST))

    def _find(self, schema: Any, at: Path, spot: _Spot) -> Iterator[Refusal]:
        if not isinstance(schema, Mapping):
            yield spot.refusal(None, {})
        elif spot.steps > _MOST_STEPS:
            yield spot.refusal(_vague(schema), schema)
        elif found := self._located(schema, at, spot):
            for error, here in found:
                yield from self._read(error, here)
        else:
            yield from self._narrow(schema, at, spot)

    def _located(self, schema: Any, at: Path, spot: _Spot) -> list[tuple[Any, _Spot]]:
        """The errors, with the places that they are about; none if that is not to be had."""
        if self._costs.at_once(spot.value, schema) is not Verdict.FINE:
            return []
        if not self._references.places_are_plain:
            return []
        try:
            errors = self._errors(schema, at, spot.value)
            found = [(each, spot.below(*each.instance_path)) for each in errors]
        except LookupError:
            return []
        # Of the names in a path, "007" comes as 7, and "" not at all.
        return found if all(here.value == each.instance for each, here in found) else []

    def _errors(self, schema: Any, at: Path, value: Any) -> list[Any]:
        """All errors, where they cannot be many; else the first."""
        few = self._costs.judge(value, _FEW_LOOKS, _FEW_VALUES, schema) is Verdict.FINE
        return self._engine.errors(at, value, first=not few)

    def _read(self, error: Any, here: _Spot) -> Iterator[Refusal]:
        """What an error says, or what is found out if it is about alternatives."""
        *at, keyword = error.schema_path or [None]
        kind = error.kind
        if kind.name == "propertyNames":
            here, kind = evolve(here, value=kind.error.instance, of_name=True), kind.error.kind
        if kind.name == "falseSchema" and keyword != "additionalProperties":
            yield here.refusal(None, {})
            return
        schema: Any = self._schema
        for step in at:
            schema = schema[str(step) if isinstance(schema, Mapping) else step]
        if keyword in ALTERNATIVES:
            yield from self._alternatives(keyword, schema, tuple(at), here)
            return
        names = getattr(kind, "unexpected", here.value) if keyword == "additionalProperties" else ()
        refusal = here.refusal(keyword, schema, tuple(names))
        # Draft 4 says beside a bound that it is exclusive.
        yield evolve(refusal, wanted=kind.value) if refusal.wanted is True else refusal

    def _alternatives(
        self, keyword: str, schema: Mapping[str, Any], at: Path, spot: _Spot
    ) -> Iterator[Refusal]:
        """What is wrong with the alternative that was meant, where that can be told.

        One of another type was not; and of those that are told apart by a tag, one with another
        tag was not.
        """
        place, fits = (*at, keyword), self._engine.fits_alternatives
        members = [(each, (*place, index)) for index, each in enumerate(schema[keyword])]
        if keyword == "oneOf" and fits("anyOf", place, schema[keyword], spot.value):
            yield spot.refusal(SEVERAL, schema)
            return
        if len(members) > _MOST_ALTERNATIVES:
            yield spot.refusal(NO_ALTERNATIVE, schema)
            return
        signs = [list(self._signs(each, path, spot.value)) for each, path in members]
        alike = [index for index, found in enumerate(signs) if all(path for path, _ in found)]
        meant = [index for index in alike if not signs[index]]
        for left in (alike, meant):
            if len(left) == 1:
                yield from self._find(*members[left[0]], evolve(spot, steps=spot.steps + 1))
                return
        places = {path for index in alike for path, _ in signs[index][:1]}
        if len(places) == 1 and not meant:
            here = spot.below(*places.pop())
            tags = [tag for index in alike for tag in signs[index][0][1]]
            yield Refusal(here.path, "enum", {}, here.value, tags)
        else:
            yield spot.refusal(NO_ALTERNATIVE if alike else keyword, schema)

    def _signs(self, schema: Any, at: Path, value: Any) -> Iterator[tuple[Path, list[Any]]]:
        """Where an alternative demands another type or tag, and which tags; `()` is the whole."""
        if isinstance(value, dict):  # of which the tags are enough
            tags = (each for each in value.items() if isinstance(each[1], str | int | float | None))
            value = dict(islice(tags, _MOST))
        elif isinstance(value, list | tuple):
            value = []
        for error in self._errors(schema, at, value):
            path, kind = tuple(error.instance_path), error.kind
            if kind.name in ("enum", "const") and len(path) < 2:
                yield path, kind.value if kind.name == "enum" else [kind.value]
            elif kind.name in ("type", "falseSchema") and not path:
                yield (), []

    def _narrow(self, schema: Mapping[str, Any], at: Path, spot: _Spot) -> Iterator[Refusal]:
        """Go on with the first part that is refused; else find the keyword that refuses all."""
        fits = self._engine.fits_alternatives
        for keyword in ALTERNATIVES:
            if keyword in schema and not fits(keyword, (*at, keyword), schema[keyword], spot.value):
                yield from self._alternatives(keyword, schema, at, spot)
                return
        for part, path, value, step in self._parts(schema, at, spot.value):
            if not self._engine.fits_part(path, value):
                yield from self._find(part, path, spot.below(*step))
                return
        if isinstance(spot.value, dict) and schema.get("additionalProperties") is False:
            known = schema.get("properties", ())
            unknown = tuple(each for each in spot.value if each not in known)
            if unknown and "patternProperties" not in schema:
                yield spot.refusal("additionalProperties", schema, unknown)
                return
        own = ((each, self._engine.alone({each: schema[each]})) for each in _OWN if each in schema)
        keyword = next((each for each, test in own if not test(spot.value)), _vague(schema))
        yield spot.refusal(keyword, schema)

    def _parts(
        self, schema: Mapping[str, Any], at: Path, value: Any
    ) -> Iterator[tuple[Any, Path, Any, Path]]:
        """The schemas that look at a value or a part of it, where they are, and which part."""
        for target in self._references.targets(schema):
            path = self._references.path(target)
            if path is not None:
                yield target, path, value, ()
        if not isinstance(value, dict | list | tuple):
            return
        steps: Any = value if isinstance(value, dict) else range(len(value))
        named, others = _NAMED if isinstance(value, dict) else _LISTED
        known, other = schema.get(named, ()), schema.get(others)
        known_steps = known if isinstance(value, dict) else range(len(known))
        for step in steps:
            if step in known_steps:
                yield known[step], (*at, named, step), value[step], (step,)
            elif isinstance(other, Mapping) and "patternProperties" not in schema:
                yield other, (*at, others), value[step], (step,)


def _vague(schema: Mapping[str, Any]) -> str:
    """What is to blame where nothing else is found."""
    return next((each for each in _VAGUE if each in schema), "$schema")


_NAMED: Final = ("properties", "additionalProperties")
_LISTED: Final = ("prefixItems", "items")
_OWN: Final = (
    *("type", "enum", "const", "minLength", "maxLength", "pattern"),
    *("minItems", "maxItems", "uniqueItems"),
    *("minProperties", "maxProperties", "required", "dependentRequired"),
)
"""Keywords that refuse a large value by themselves."""

_VAGUE: Final = (
    *("unevaluatedProperties", "unevaluatedItems", *REFERENCES, "patternProperties"),
    *("propertyNames", "dependentSchemas", "dependencies", "prefixItems", "items"),
    *("additionalItems", "contains", "allOf", "not", "if", "anyOf", "oneOf"),
)
