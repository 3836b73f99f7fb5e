"""Where in a value, and where in a schema, the reason stands why the value was refused.

jsonschema-rs is only asked for yes or no: its own errors come with copies of what they refuse, and
with all that is wrong in every alternative. So the way to a reason is gone step by step: from a
schema that refuses a value to the keyword that does, and from there to the part of it that refuses
the value, or a part of the value. A keyword without such a part is the reason. Of several
alternatives, the one that was meant is picked out first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from attrs import evolve, frozen

from trio_mcp.schema.engine import Engine, matches
from trio_mcp.schema.keywords import IN_PLACE, REFERENCES, Path, parts_of
from trio_mcp.schema.plain import WORDS
from trio_mcp.schema.references import References
from trio_mcp.schema.work import Costs, Verdict

__all__ = ["NO_ALTERNATIVE", "SEVERAL", "Refusal", "Refusals"]

# In the place of a keyword: none of several alternatives fits, or more than the one that may.
NO_ALTERNATIVE: Final = "none of the alternatives"
SEVERAL: Final = "several of the alternatives"

_MOST: Final = 20
_FEW_LOOKS: Final = 2000  # of schemas at values, each of which may give a reason
_FEW_VALUES: Final = 200
_MOST_ALTERNATIVES: Final = 100


@frozen
class Refusal:
    """One reason, or a step on the way to one."""

    path: Path
    """Where in the value."""

    value: Any
    """What came."""

    keyword: str = ""
    """What refuses it; empty for the schema `false`."""

    schema: Mapping[str, Any] = {}
    """The schema that the keyword stands in."""

    at: Path = ()
    """Where that is."""

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

    def by(self, keyword: str, schema: Mapping[str, Any], at: Path) -> Refusal:
        """The same, by a keyword of a schema."""
        wanted = schema.get(keyword)
        return evolve(self, keyword=keyword, schema=schema, at=at, wanted=wanted)

    def below(self, step: str | int) -> Refusal:
        """The same for a part of the value."""
        return evolve(self, path=(*self.path, step), value=self.value[step])


@frozen
class Refusals:
    """Finds why values are refused by one schema.

    Args:
        schema: The schema.
        engine: What refuses them.
        references: Where its references lead.
        costs: Say of which values more than one reason can be looked for.
    """

    _schema: Mapping[str, Any]
    _engine: Engine
    _references: References
    _costs: Costs

    def find(self, value: Any) -> list[Refusal]:
        """Find the reasons for a value that is refused, outermost first; of a large one, one."""
        few = self._costs.judge(value, _FEW_LOOKS, _FEW_VALUES) is Verdict.FINE
        most = _MOST if few else 1
        return list(islice(self._find(self._schema, (), Refusal((), value), most), most))

    def _find(self, schema: Any, at: Path, here: Refusal, most: int) -> Iterator[Refusal]:
        for each in self._reasons(schema, at, here, most):
            yield from self._alternatives(each, most) if each.keyword in _ALTERNATIVES else (each,)

    def _reasons(
        self, schema: Any, at: Path, here: Refusal, most: int = _MOST
    ) -> Iterator[Refusal]:
        """What in a schema refuses a value, down to alternatives and no further."""
        waiting = deque([(schema, at, here)])
        while waiting:
            schema, at, here = waiting.popleft()
            said = list(self._said(schema, at, here.value))
            # Where nobody else is to blame, it is what looks at that which all others have left.
            vague = [each for each in said if each[0] in _VAGUE] or [("$schema", {}, at)]
            found = [each for each in said if self._refuses(*each, here.value)]
            for each in found or vague[:1]:
                reason = here.by(*each)
                find = _PARTS.get(reason.keyword)
                parts = list(islice(find(self, reason), most)) if find else []
                waiting += parts
                if not parts:
                    yield self._ended(reason)

    def _said(self, schema: Any, at: Path, value: Any) -> Iterator[_Said]:
        """The keywords of all schemas that look at a value."""
        waiting, met = deque([(schema, at)]), set()
        while waiting:
            schema, at = waiting.popleft()
            if at in met or schema is True:
                continue
            met.add(at)
            if schema is False:
                yield "", {}, at
                continue
            said = REFERENCES if self._references.is_lone(schema) else schema
            yield from ((each, schema, at) for each in said if each not in WORDS)
            waiting += self._beside(schema, at, value)

    def _refuses(self, keyword: str, schema: Mapping[str, Any], at: Path, value: Any) -> bool:
        """Whether a keyword by itself refuses a value, whatever other schemas may say."""
        if not keyword or keyword in _ASIDE or keyword.startswith("$"):
            return not keyword
        return not self._engine.of_keyword(at, schema, keyword)(value)

    def _beside(
        self, schema: Mapping[str, Any], at: Path, value: Any
    ) -> Iterator[tuple[Any, Path]]:
        """The schemas that look at the same value as a schema does, one step away."""
        for target in self._references.targets(schema):
            path = self._references.path(target)
            if path is not None:
                yield target, path
        places = dict(parts_of(schema, IN_PLACE))
        branch = None
        if ("if",) in places:
            branch = "then" if self._engine.of_part((*at, "if"))(value) else "else"
        for path, each in places.items():
            depends = path[0] in _DEPENDENT and isinstance(value, dict) and path[1] in value
            if path[0] in ("allOf", branch) or depends:
                yield each, (*at, *path)

    def _ended(self, here: Refusal) -> Refusal:
        """A keyword that refuses a value by itself, with all that is to be said of it."""
        keyword, schema, at = here.keyword, here.schema, here.at
        if keyword == "additionalProperties":
            fits = self._engine.of_keyword(at, schema, keyword)
            names = (name for name, each in here.value.items() if not fits({name: each}))
            return evolve(here, names=tuple(names))
        if keyword == "contains":
            count = sum(map(self._engine.of_part((*at, keyword)), here.value))
            too_many = count and count > schema.get("maxContains", count)
            least = "minContains" if "minContains" in schema else keyword
            return here.by("maxContains" if too_many else least, schema, at)
        if here.wanted is True and keyword in _BOUNDS:  # as Draft 4 says it, beside the bound
            return evolve(here, wanted=schema[_BOUNDS[keyword]])
        return here

    # Alternatives -----------------------------------------------------------------------------

    def _alternatives(self, here: Refusal, most: int) -> Iterator[Refusal]:
        """What is wrong with the alternative that was meant, where that can be told.

        One of another type was not; and of those that are told apart by a tag, one with another
        tag was not.
        """
        at = (*here.at, here.keyword)
        members = [(each, (*at, index)) for index, each in enumerate(here.wanted)]
        if len(members) > _MOST_ALTERNATIVES:
            yield here
            return
        if here.keyword == "oneOf" and any(
            self._engine.of_part(path)(here.value) for _, path in members
        ):
            yield evolve(here, keyword=SEVERAL)
            return
        signs = [list(self._signs(each, path, here.value)) for each, path in members]
        alike = [index for index, found in enumerate(signs) if all(path for path, _ in found)]
        meant = [index for index in alike if not signs[index]]
        for left in (alike, meant):
            if len(left) == 1:
                yield from self._find(*members[left[0]], here, most)
                return
        places = {path for index in alike for path, _ in signs[index][:1]}
        if len(places) == 1 and not meant:
            tags = [tag for index in alike for tag in signs[index][0][1]]
            (name,) = places.pop()
            yield evolve(here.below(name), keyword="enum", schema={}, wanted=tags)
        else:
            yield evolve(here, keyword=NO_ALTERNATIVE) if alike else here

    def _signs(self, schema: Any, at: Path, value: Any) -> Iterator[tuple[Path, list[Any]]]:
        """Where an alternative demands another type or tag, and which tags; `()` is the whole."""
        if isinstance(value, dict):  # of which the tags are enough
            tags = (each for each in value.items() if isinstance(each[1], str | int | float | None))
            value = dict(islice(tags, _MOST))
        elif isinstance(value, list | tuple):
            value = []
        for each in self._reasons(schema, at, Refusal((), value)):
            if each.keyword in ("enum", "const") and len(each.path) < 2 and not each.of_name:
                yield each.path, each.wanted if each.keyword == "enum" else [each.wanted]
            elif each.keyword in ("type", "") and not each.path:
                yield (), []

    # What keywords hold -----------------------------------------------------------------------

    def _properties(self, here: Refusal) -> Iterator[_Part]:
        keyword, wanted, at = here.keyword, here.wanted, (*here.at, here.keyword)
        fits = self._engine.of_keyword(here.at, here.schema, keyword)
        for name in (name for name, each in here.value.items() if not fits({name: each})):
            if keyword == "properties":
                yield wanted[name], (*at, name), here.below(name)
            elif keyword == "patternProperties":
                for each in wanted:
                    refuses = not self._engine.of_part((*at, each))(here.value[name])
                    if refuses and matches(each, name):
                        yield wanted[each], (*at, each), here.below(name)
            elif wanted is not False:  # or else the names are told together
                yield wanted, at, here.below(name)

    def _names(self, here: Refusal) -> Iterator[_Part]:
        fits, at = self._engine.of_part((*here.at, here.keyword)), (*here.at, here.keyword)
        for name in here.value:
            if not fits(name):
                yield here.wanted, at, evolve(here, value=name, of_name=True)

    def _items(self, here: Refusal) -> Iterator[_Part]:
        values, wanted, at = here.value, here.wanted, (*here.at, here.keyword)
        if isinstance(wanted, list):
            parts = (
                (each, (*at, index), index) for index, each in enumerate(wanted[: len(values)])
            )
        else:
            before = here.schema.get("prefixItems" if here.keyword == "items" else "items", [])
            start = len(before) if isinstance(before, list) else 0
            parts = ((wanted, at, index) for index in range(start, len(values)))
        for schema, place, index in parts:
            if not self._engine.of_part(place)(values[index]):
                yield schema, place, here.below(index)


_Said = tuple[str, Mapping[str, Any], Path]
"""A keyword, the schema that it stands in, and where that is."""

_Part = tuple[Any, Path, Refusal]
"""A schema, where it stands, and the value that it refuses."""

_PARTS: Final[dict[str, Callable[[Refusals, Refusal], Iterator[_Part]]]] = {
    **dict.fromkeys(
        ("properties", "patternProperties", "additionalProperties"), Refusals._properties
    ),
    "propertyNames": Refusals._names,
    **dict.fromkeys(("prefixItems", "items", "additionalItems"), Refusals._items),
}

_ALTERNATIVES: Final = ("anyOf", "oneOf")
_LAST: Final = ("unevaluatedProperties", "unevaluatedItems")
_VAGUE: Final = (*_LAST, *REFERENCES)
_DEPENDENT: Final = ("dependentSchemas", "dependencies")
_ASIDE: Final = (*_LAST, "dependentSchemas", "allOf", "if", "then", "else")
"""Keywords that refuse nothing by themselves."""

_BOUNDS: Final = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
