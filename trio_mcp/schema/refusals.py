"""Why a value is refused: where in it, and by which keyword of the schema.

jsonschema-rs names the errors (`engine`), with alternatives as a single yes or no. Of several
alternatives, the one that was meant is picked out here, and its own errors are looked for.
"""

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice
from typing import Any, Final

from attrs import evolve, frozen

from trio_mcp.schema.engine import Engine, Size, budget, measure
from trio_mcp.schema.references import References
from trio_mcp.wire.subschemas import Path

# In the place of a keyword: none of several alternatives fits, or more than the one that may; or it
# is too much to find out.
NO_ALTERNATIVE: Final = "none of the alternatives"
SEVERAL: Final = "several of the alternatives"
UNKNOWN: Final = "unknown"

_FEW: Final = 200  # values, of which all errors are looked for
_MOST: Final = 20
_MOST_ALTERNATIVES: Final = 100
_MOST_COPIED: Final = 600_000  # an error holds a copy of what is refused; so large, it takes 70 ms


@frozen
class Refusal:
    """One reason why a value, at a path in the whole, is refused."""

    path: Path
    value: Any
    keyword: str = ""
    """What refuses it; empty for the schema `false`."""

    schema: Mapping[str, Any] = {}
    """The schema that the keyword stands in, and its place, if that is known."""

    place: Path | None = None

    wanted: Any = None
    """What stands at the keyword; where all alternatives go by a tag, all tags."""

    names: tuple[str, ...] = ()
    of_name: bool = False
    """Whether it is about the name of a property, in the object at the path."""

    @property
    def argument(self) -> str | None:
        """The property of the whole value that it is about; `None` if it is about several."""
        named: Sequence[Any] = self.path or self.names
        if not named and self.keyword == "required":
            named = [name for name in self.wanted if name not in self.value]
        return str(named[0]) if named else None


@frozen
class Refusals:
    """Finds why values are refused by one schema."""

    _schema: Mapping[str, Any]
    _engine: Engine
    _references: References

    def find(self, value: Any, size: Size) -> list[Refusal]:
        """Find the reasons for a value that is refused; of a large one, one."""
        budget.begin(size)
        place: Path = ()
        if size.values + 2 * size.properties > _MOST_COPIED:
            known = self._schema.get("properties", {}).keys()
            for name in known & value.keys() if isinstance(value, dict) else ():
                if not self._engine.test(("properties", name))(value[name]):
                    place, value = ("properties", name), value[name]
                    size = measure(value)
                    break
        path = place[1:]
        if size.values + 2 * size.properties > _MOST_COPIED:
            return [Refusal(path, value, UNKNOWN)]
        every = size.values <= _FEW and size.is_small and not self._references.is_heavy
        found = list(islice(self._find(place, value, path, every), _MOST))
        return found if found and not budget.is_spent else [Refusal(path, value, UNKNOWN)]

    def _find(self, place: Path, value: Any, path: Path, every: bool) -> Iterator[Refusal]:
        for refusal in self._reasons(place, value, path, every):
            if refusal.keyword in _ALTERNATIVES and refusal.place is not None:
                yield from self._alternatives(refusal, every)
            else:
                yield refusal

    def _reasons(self, place: Path, value: Any, path: Path, every: bool) -> list[Refusal]:
        """What the schema at a place refuses in a value, down to alternatives and no further."""
        errors = self._engine.errors(place, value, every=every)
        reasons = [self._refusal(error, value, path) for error in errors]
        vague = [refusal for refusal in reasons if refusal.keyword in _VAGUE]
        # They refuse a value as well if it is refused by something else.
        others = [refusal for refusal in reasons if refusal.keyword not in _VAGUE]
        for refusal in vague:
            if not any(other.path[: len(refusal.path)] == refusal.path for other in others):
                others.append(refusal)
        return others

    def _refusal(self, error: Any, whole: Any, path: Path) -> Refusal:
        """What an error of jsonschema-rs says of the whole value that it was found in."""
        steps: list[Any] = list(_steps(whole, error.instance_path, error.instance))
        of_name = "propertyNames" in error.schema_path[-1:] or error.kind.name == "propertyNames"
        if error.kind.name == "propertyNames":
            error = error.kind.error
        location, _, keyword = error.absolute_keyword_location.rpartition("/")
        if error.kind.name == "required" and keyword != "required":  # dependentRequired/0
            location, _, keyword = location.rpartition("/")
        schema, place = self._references.look_up(location)
        names: tuple[str, ...] = ()
        if error.kind.name == "additionalProperties":
            names = tuple(error.kind.unexpected)
        elif error.kind.name == "falseSchema" and keyword == "additionalProperties":
            holder: Any = reduce(operator.getitem, steps, whole)
            names = tuple(holder)
        elif error.kind.name == "falseSchema":
            keyword = ""
        wanted = schema.get(keyword)
        if error.kind.name in ("exclusiveMinimum", "exclusiveMaximum"):  # as Draft 4 has them, too
            keyword, wanted = error.kind.name, error.kind.limit
        value = error.instance
        return Refusal((*path, *steps), value, keyword, schema, place, wanted, names, of_name)

    def _alternatives(self, here: Refusal, every: bool) -> Iterator[Refusal]:
        """Find what is wrong with the alternative that was meant, if that is clear.

        One of another type was not; nor, where a tag distinguishes them, one with another tag.
        """
        assert here.place is not None
        options = [(*here.place, here.keyword, index) for index in range(len(here.wanted))]
        if len(options) > _MOST_ALTERNATIVES:
            yield here
            return
        if here.keyword == "oneOf" and any(
            self._engine.test(option)(here.value) for option in options
        ):
            yield evolve(here, keyword=SEVERAL)
            return
        signs = [list(self._signs(option, here.value)) for option in options]
        alike = [index for index, found in enumerate(signs) if all(path for path, _ in found)]
        meant = [index for index in alike if not signs[index]]
        for left in (alike, meant):
            if len(left) == 1:
                yield from self._find(options[left[0]], here.value, here.path, every)
                return
        tagged = {path for index in alike for path, _ in signs[index][:1]}
        if len(tagged) == 1 and not meant:
            tags = [tag for index in alike for tag in signs[index][0][1]]
            (name,) = tagged.pop()
            yield evolve(
                here,
                path=(*here.path, name),
                value=here.value[name],
                keyword="enum",
                schema={},
                wanted=tags,
            )
        else:
            yield evolve(here, keyword=NO_ALTERNATIVE) if alike else here

    def _signs(self, place: Path, value: Any) -> Iterator[tuple[Path, list[Any]]]:
        """Where an alternative demands another type or tag, and which tags; `()` is the whole."""
        if isinstance(value, dict):  # of which the tags are enough
            tags = (item for item in value.items() if isinstance(item[1], str | int | float | None))
            value = dict(islice(tags, _MOST))
        elif isinstance(value, list | tuple):
            value = []
        for refusal in self._reasons(place, value, (), every=True):
            if (
                refusal.keyword in ("enum", "const")
                and len(refusal.path) < 2
                and not refusal.of_name
            ):
                yield (
                    refusal.path,
                    refusal.wanted if refusal.keyword == "enum" else [refusal.wanted],
                )
            elif refusal.keyword in ("type", "") and not refusal.path:
                yield (), []


_ALTERNATIVES: Final = ("anyOf", "oneOf")
_VAGUE: Final = ("unevaluatedProperties", "unevaluatedItems")


def _steps(value: Any, path: list[str | int], instance: Any) -> Iterator[str | int]:
    """The way to a part of a value, of which jsonschema-rs tells only the most.

    It leaves out empty names, and tells 7 for the name "007".
    """
    for step in path:
        name = step
        while isinstance(value, Mapping):
            name = _name_in(value, step)
            if name in value or "" not in value:
                break
            yield ""
            value = value[""]
        yield name
        value = value[name]
    while isinstance(value, Mapping) and "" in value and value != instance:
        yield ""
        value = value[""]


def _name_in(value: Mapping[str, Any], step: str | int) -> str:
    if isinstance(step, str) or str(step) in value:
        return str(step)
    numbers = (name for name in value if re.fullmatch(rf"\+?0*{step}", name))
    return next(numbers, str(step))
