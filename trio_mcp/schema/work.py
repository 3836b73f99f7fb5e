"""How much work it is to hold a value against a schema, found out before it is done.

jsonschema-rs cannot be interrupted, and it does not let other threads run. So each value is looked
at first: every value within it costs what the schemas that will look at it cost, by weights that
were measured. What costs little is checked at once; what costs more is handed to a thread; what
would hold up everything from there is refused. The same walk finds values that are nested too
deeply for any validator, and numbers that are too large to be calculated with.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trio_mcp.schema.engine import pattern_size
from trio_mcp.schema.keywords import parts_of
from trio_mcp.schema.references import References

__all__ = ["IN_A_THREAD", "Costs", "Place", "Verdict"]

# The unit is about 10 ns, which is what one schema with two or three keywords takes for one value.
_AT_ONCE: Final = 100_000
_VALUES_AT_ONCE: Final = 4000
IN_A_THREAD: Final = 7_000_000
_DEEPEST: Final = 200
"""So deep a value may be nested. Far beyond it, jsonschema-rs overruns the stack and crashes."""

_MATCHING: Final = 25
"""So many times more than all else, matching may cost: between two texts, others get their turn."""

_LARGE: Final = 1e15
_MOST_BITS: Final = 1024
_MOST_SCHEMAS: Final = 2000

# Keyword: what it costs for numbers that are not whole, as exact fractions are made of them, and
# what for those of hundreds of digits.
_NUMERIC: Final = (
    ("minimum", 20, 400),
    ("maximum", 20, 400),
    ("exclusiveMinimum", 20, 400),
    ("exclusiveMaximum", 20, 400),
    ("multipleOf", 110, 4000),
)
_CHOICE: Final = 100  # for each choice that is no whole number, text or constant
_ENTRY: Final = 2  # for each name, or pattern, that is looked for
_UNIQUE: Final = 30
_UNIQUE_LARGE: Final = 40  # large integers may share one hash: each is compared with each
_UNEVALUATED: Final = 8
_TEXT: Final = 64  # so many characters are looked through ...
_SHORT: Final = 1000  # ... in a text of more than these
_SMALL: Final = 0.4  # what a character costs with a small pattern ...
_PER_KIB: Final = 20  # ... and what for each KiB of a large one, at worst

_PIECE: Final = 50_000  # so many values are looked at without others getting their turn
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_HOLDERS: Final = (dict, list, tuple)

_ITEMS: Final = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
_OTHERS: Final = ("patternProperties", "additionalProperties", "unevaluatedProperties")
_ENTRIES: Final = ("required", "dependentRequired", "dependentSchemas", "dependencies")


class Verdict(enum.Enum):
    """What is to be said of a value as a whole."""

    FINE = enum.auto()
    TOO_MUCH = enum.auto()
    TOO_DEEP = enum.auto()
    OUT_OF_RANGE = enum.auto()
    NO_JSON = enum.auto()


class _Clear(Exception):
    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict


class Costs:
    """Says what the values for one schema cost.

    Args:
        schema: The schema.
        references: Where its references lead.
    """

    def __init__(self, schema: Mapping[str, Any], references: References) -> None:
        self._schema = schema
        self._references = references
        self._places: dict[tuple[int, ...], Place] = {}

    def at_once(self, value: Any) -> Verdict:
        """What the walk says of a value that is to be checked on an event loop."""
        return self.judge(value, _AT_ONCE, _VALUES_AT_ONCE)

    def judge(self, value: Any, most: int, most_values: float = math.inf) -> Verdict:
        """Walk through a value until it is clear that it costs too much.

        Args:
            value: Anything; what is no JSON is passed over.
            most: What it may cost.
            most_values: How many values it may hold.
        """
        count = _Count(most, most_values)
        try:
            count.add(value, self._top)
            count.check()
        except _Clear as clear:
            return clear.verdict
        return Verdict.FINE

    @functools.cached_property
    def _top(self) -> Place:
        return self.place([self._schema])

    def place(self, schemas: list[Any], extra: int = 0) -> Place:
        """The place that some schemas look at together."""
        key = (extra, *sorted({id(each) for each in schemas}))
        if key not in self._places:
            self._places[key] = Place(self, schemas, extra)
        return self._places[key]

    def looking(self, schemas: list[Any]) -> list[Mapping[str, Any]] | None:
        """All the schemas that look at a value together with these; `None` if they are too many."""
        waiting, found = list(schemas), []
        while waiting:
            each = waiting.pop()
            if isinstance(each, Mapping):
                found.append(each)
                if len(found) > _MOST_SCHEMAS:
                    return None
                waiting.extend(self._references.in_place(each))
        return found


class _Count:
    """The costs of one value, added up until it is clear what is to be said of it.

    Going down before going on keeps little in memory, so that the garbage collector, whose pauses
    nobody can bound, finds nothing to do.
    """

    def __init__(self, most: float, most_values: float) -> None:
        self._most = most
        self._values = most_values
        self._cost: float = 0
        self._matching: float = 0
        self._large = 0
        self._unique = False

    def add(self, value: Any, place: Place, depth: int = 0) -> None:
        """Add what a value costs at a place, and what is in it.

        Raises:
            _Clear: That is enough to say what is to be said.
        """
        self._cost += place.weight
        kind = value.__class__
        if kind in _SCALARS:
            if kind is str:
                if place.text or len(value) > _SHORT:
                    self._add_text(value, place)
            elif (place.special or self._unique) and (kind is int or kind is float):
                self._add_number(value, place)
        elif isinstance(value, _HOLDERS):
            if depth == _DEEPEST:
                raise _Clear(Verdict.TOO_DEEP)
            self._values -= len(value)
            self._cost += len(value) / 4
            self._unique = self._unique or place.unique
            self.check()
            if isinstance(value, dict):
                self._add_properties(value, place, depth + 1)
            else:
                self._add_items(value, place, depth + 1)

    def _add_properties(self, value: dict[Any, Any], place: Place, depth: int) -> None:
        if place.names:
            self._cost += place.names * sum(
                _length(name) for name in value if isinstance(name, str)
            )
        find, add = place.known.get, self.add
        for name, each in value.items():
            add(each, find(name) or place.at(name), depth)

    def _add_items(self, values: Sequence[Any], place: Place, depth: int) -> None:
        items = place.items
        if not (self._unique or items.special) and _is_flat(values):
            self._cost += items.weight * len(values)
            return
        for each in values:
            self.add(each, items, depth)

    def _add_text(self, text: str, place: Place) -> None:
        self._cost += len(text) / _TEXT
        if place.text:
            cost = place.text * _length(text)
            self._matching += cost
            # One text is matched in one go, however many there are.
            if cost > self._most or self._matching > _MATCHING * self._most:
                raise _Clear(Verdict.TOO_MUCH)

    def _add_number(self, number: float, place: Place) -> None:
        self._cost += place.number + (place.fraction if number.__class__ is float else 0)
        if not -_LARGE < number < _LARGE:
            self._cost += place.large
            self._large += 1
            if isinstance(number, int) and number.bit_length() > _MOST_BITS:
                raise _Clear(Verdict.OUT_OF_RANGE)

    def check(self) -> None:
        """Find out whether it is too much by now.

        Raises:
            _Clear: It is.
        """
        cost = self._cost
        if self._unique:
            cost += _UNIQUE_LARGE * self._large**2
        if cost > self._most or self._values < 0:
            raise _Clear(Verdict.TOO_MUCH)


class Place:
    """What a value costs at one place; the places within are made when they are first met."""

    def __init__(self, costs: Costs, schemas: list[Any], extra: int) -> None:
        self._costs = costs
        looking = costs.looking(schemas)
        self._schemas = looking or []
        self.weight = extra + (IN_A_THREAD if looking is None else len(looking))
        self.number = self.fraction = self.large = self._within = 0
        self.text: float = 0
        self.unique = False
        self.known: dict[str, Place] = {}
        for each in self._schemas:
            self._weigh(each)
        self.special = bool(self.number or self.fraction or self.large or self.text)

    def _weigh(self, schema: Mapping[str, Any]) -> None:
        for keyword, exact, large in _NUMERIC:
            if keyword in schema:
                self.number += 0 if isinstance(schema[keyword], int) else exact
                self.fraction += exact
                self.large += large
        choices = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
        self.number += _CHOICE * sum(isinstance(each, float) for each in choices)
        self.weight += _CHOICE * sum(isinstance(each, dict | list) for each in choices)
        entries = (schema.get(each) for each in _ENTRIES)  # some dialects do not know all of them
        self.weight += sum(_ENTRY * len(each) for each in entries if isinstance(each, list | dict))
        if isinstance(schema.get("pattern"), str):
            self.text += _per_character(schema["pattern"])
        if schema.get("uniqueItems"):
            self.unique = True
            self._within += _UNIQUE
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            self._within += _UNEVALUATED * len(self._schemas)
            self.weight += len(self._schemas) ** 2 // 4
        self._within += _ENTRY * len(schema.get("patternProperties", ()))

    @functools.cached_property
    def items(self) -> Place:
        """What an item of an array costs."""
        return self._costs.place(self._below(_ITEMS), self._within)

    def at(self, name: Any) -> Place:
        """What a property of an object costs."""
        schemas = self.properties.get(name)
        if schemas is None:
            return self._others
        place = self._costs.place(schemas + self._other_schemas, self._within)
        self.known[name] = place
        return place

    @functools.cached_property
    def names(self) -> float:
        """What a character in the name of a property costs."""
        patterns = [name for each in self._schemas for name in each.get("patternProperties", ())]
        named = self._costs.place(self._below(("propertyNames",)))
        return sum(map(_per_character, patterns)) + named.text

    @functools.cached_property
    def _others(self) -> Place:
        return self._costs.place(self._other_schemas, self._within)

    @functools.cached_property
    def _other_schemas(self) -> list[Any]:
        return self._below(_OTHERS)  # once, not for each property: it looks at all of them

    @functools.cached_property
    def properties(self) -> dict[str, list[Any]]:
        """The properties that are named, each with the schemas that look at it."""
        named: dict[str, list[Any]] = {}
        for each in self._schemas:
            for name, schema in each.get("properties", {}).items():
                named.setdefault(name, []).append(schema)
        return named

    def _below(self, keywords: tuple[str, ...]) -> list[Any]:
        return [part for each in self._schemas for _, part in parts_of(each, keywords)]


def _per_character(pattern: str) -> float:
    return max(pattern_size(pattern) * _PER_KIB / 1024, _SMALL)


def _length(text: str) -> int:
    """How many bytes a text has at most, in the encoding that patterns are matched in."""
    return len(text) if text.isascii() else 4 * len(text)


def _is_flat(values: Any) -> bool:
    """Whether there are scalars only; asked for piece by piece, or nobody else got a turn."""
    return all(
        _SCALARS.issuperset(map(type, values[start : start + _PIECE]))
        for start in range(0, len(values), _PIECE)
    )
