"""The check of values that are not plain: by jsonschema-rs, within bounds, and with reasons."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from trio_mcp.schema.bounds import matching_time
from trio_mcp.schema.engine import (
    MOST_MATCHING,
    OUT_OF_RANGE,
    TOO_MUCH,
    Engine,
    Refused,
    Size,
    budget,
    measure,
    not_json,
)
from trio_mcp.schema.errors import Problem
from trio_mcp.schema.references import References
from trio_mcp.schema.refusals import NO_ALTERNATIVE, SEVERAL, UNKNOWN, Refusal, Refusals
from trio_mcp.schema.sentences import (
    describe,
    expectation,
    join_path,
    join_words,
    named,
    shorten,
    subject,
)
from trio_mcp.wire.subschemas import walk

_MOST_SENTENCES: Final = 3


@frozen
class ErrorFormatter:
    """Makes the sentences, in which values are called an 'argument' or a 'result'."""

    noun: str
    shows_values: bool = True

    def of_the_whole(self, reason: object) -> Problem:
        verb = "are" if self.noun == "argument" else "is"
        return Problem(f"{subject(self.noun)} {verb} {reason}.")

    def explain(self, refusals: Iterable[Refusal]) -> Problem:
        # What is missing before what is unexpected, which may be the same, misspelt.
        nearest = sorted(refusals, key=_nearness)
        # Choices say of which type a value is.
        chosen = {refusal.path for refusal in nearest if refusal.keyword in ("enum", "const")}
        told = [one for one in nearest if one.keyword != "type" or one.path not in chosen]
        sentences = list(dict.fromkeys(map(self._tell, told)))
        return Problem(" ".join(sentences[:_MOST_SENTENCES]), told[0].argument)

    def _tell(self, refusal: Refusal) -> str:
        special = _SPECIAL.get(refusal.keyword)
        if special is not None:
            return special(self, refusal)
        what = self._subject(refusal)
        if refusal.keyword in _STATEMENTS:
            one, many, statement, quotes = _STATEMENTS[refusal.keyword]
            is_one = refusal.path or refusal.of_name or self.noun != "argument"
            verb = one if is_one else many
            quoted = f" ({shorten(refusal.value)})" if quotes and self.shows_values else ""
            return f"{what} {verb} {statement}{quoted}."
        instead = describe(refusal.value, is_shown=self.shows_values)
        return f"{what} must {_demand(refusal)}, but {instead}."

    def _subject(self, refusal: Refusal) -> str:
        what = subject(self.noun, join_path(refusal.path))
        return f"A property name in {what[0].lower()}{what[1:]}" if refusal.of_name else what

    def _missing(self, refusal: Refusal) -> str:
        properties = refusal.schema.get("properties", {})
        told = [
            f"{join_path([*refusal.path, name])!r}{_in_brackets(properties.get(name))}"
            for name in refusal.wanted
            if name not in refusal.value
        ]
        return f"Missing required {named(self.noun, told)}."

    def _unexpected(self, refusal: Refusal) -> str:
        known = refusal.schema.get("properties", {})
        path = list(refusal.path)
        names = (name if len(name) <= 60 else name[:57] + "..." for name in refusal.names)
        told = [repr(join_path([*path, name])) for name in names]
        return f"Unexpected {named(self.noun, told)}; {self._takes(path, known)}."

    def _takes(self, path: list[str | int], known: Iterable[str]) -> str:
        whole = "it" if self.noun == "argument" else f"the {self.noun}"
        taker = f"{join_path(path)!r}" if path else whole
        names = join_words(map(repr, known), ",", limit=20).replace(" , ", ", ")
        return f"{taker} takes {names or f'no {self.noun}s'}"

    def _dependent(self, refusal: Refusal) -> str:
        needed = [
            f"{name!r} needs {other!r}"
            for name, others in refusal.wanted.items()
            if name in refusal.value and isinstance(others, list)
            for other in others
            if other not in refusal.value
        ]
        return f"{self._subject(refusal)}: {join_words(needed, 'and')}."


_SPECIAL: Final[dict[str, Callable[[ErrorFormatter, Refusal], str]]] = {
    "required": ErrorFormatter._missing,
    "additionalProperties": ErrorFormatter._unexpected,
    "dependentRequired": ErrorFormatter._dependent,
    "dependencies": ErrorFormatter._dependent,
}

_UNEVALUATED: Final = ("holds", "hold", "more than is allowed", True)

# The verb for one and for many, what follows it, and whether what came is quoted.
_STATEMENTS: Final[dict[str, tuple[str, str, str, bool]]] = {
    "": ("is", "are", "not allowed", False),
    UNKNOWN: ("does not fit", "do not fit", "the schema", True),
    NO_ALTERNATIVE: ("fits", "fit", "none of its alternatives", True),
    SEVERAL: ("fits", "fit", "more than one of its alternatives", False),
    "unevaluatedProperties": _UNEVALUATED,
    "unevaluatedItems": _UNEVALUATED,
    "additionalItems": _UNEVALUATED,
}


def _nearness(refusal: Refusal) -> tuple[Any, ...]:
    indices = [step for step in refusal.path if isinstance(step, int)]
    return len(refusal.path), bool(refusal.names), indices


def _in_brackets(schema: Any) -> str:
    """' (string)' for what must be a string; nothing where there is nothing to say."""
    wanted = expectation(schema) if schema else "a value"
    return "" if wanted == "a value" else f" ({re.sub('^an? ', '', wanted)})"


# What the keywords demand: these words, and what stands at the keyword; where that is counted, in
# one and in many of its units.
_BOUNDS: Final[dict[str, tuple[str, tuple[str, str] | None]]] = {
    "minimum": ("be at least", None),
    "maximum": ("be at most", None),
    "exclusiveMinimum": ("be more than", None),
    "exclusiveMaximum": ("be less than", None),
    "multipleOf": ("be a multiple of", None),
    "pattern": ("match the pattern", None),
    "minLength": ("have at least", ("character", "characters")),
    "maxLength": ("have at most", ("character", "characters")),
    "minItems": ("have at least", ("item", "items")),
    "maxItems": ("have at most", ("item", "items")),
    "minContains": ("have at least", ("fitting item", "fitting items")),
    "maxContains": ("have at most", ("fitting item", "fitting items")),
    "minProperties": ("have at least", ("property", "properties")),
    "maxProperties": ("have at most", ("property", "properties")),
}

_TYPE: Final = ("type", "format", "contentEncoding")
_EXPECTED: Final = {"contains": "contain", "not": "not be"}
"""Where a schema stands at the keyword."""


def _demand(refusal: Refusal) -> str:
    keyword, wanted = str(refusal.keyword), refusal.wanted
    if keyword in _BOUNDS:
        words, units = _BOUNDS[keyword]
        return f"{words} {shorten(wanted)}" + (f" {units[wanted != 1]}" if units else "")
    if keyword in _EXPECTED:
        return f"{_EXPECTED[keyword]} {expectation(wanted)}"
    if keyword in ("enum", "const", "anyOf", "oneOf"):
        return f"be {expectation({keyword: wanted})}"
    if keyword == "type":
        named = {key: refusal.schema[key] for key in _TYPE if key in refusal.schema}
        return f"be {expectation(named)}"
    return "hold no item twice" if keyword == "uniqueItems" else f"fit the schema's {keyword!r}"


_MOST_BITS = 1024
_NATIVE_BITS = 63
_MOST_UNIQUE = (300_000, 200)
"""Values that are compared: large integers share one hash, so each is compared with each."""

_COMPARING = {
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("enum", "const", "uniqueItems"),
}


class FullValidator:
    """One schema, compiled. The arguments are those of `compile_validator`."""

    def __init__(self, schema: Mapping[str, Any], noun: str, shows_values: bool) -> None:
        self._formatter = ErrorFormatter(noun, shows_values)
        # References first: they refuse what the engine would compile without end.
        self._references = References(schema)
        self._engine = Engine(schema)
        self._refusals = Refusals(schema, self._engine, self._references)
        parts = [part for _, part in walk(schema)]
        self._compares = any(not _COMPARING.isdisjoint(part) for part in parts)
        self._is_unique = any(part.get("uniqueItems") for part in parts)
        names = [pattern for part in parts for pattern in part.get("patternProperties", ())]
        self._matching = sum(map(matching_time, names))
        self._is_heavy = self._references.is_heavy or self._engine.has_large_patterns
        # Compile now, and not at the first value.
        assert (self._engine.test(()) if self._is_heavy else self._engine.fits) is not None

    def __call__(self, value: Any) -> Problem | None:
        try:
            size = measure(value)
            if self._fits(value, size):
                return None
            return self._formatter.explain(self._refusals.find(value, size))
        except Refused as error:
            return self._formatter.of_the_whole(error)
        except ValueError as error:  # a set, half a surrogate pair: nothing that came as JSON
            return self._formatter.of_the_whole(not_json(error))

    def _fits(self, value: Any, size: Size) -> bool:
        if size.bits > _MOST_BITS and self._compares:
            raise Refused(OUT_OF_RANGE)
        if (size.names + 8 * size.properties) * self._matching > MOST_MATCHING:
            raise Refused(TOO_MUCH)
        if self._is_unique and size.values > _MOST_UNIQUE[size.bits > _NATIVE_BITS]:
            raise Refused(TOO_MUCH)
        if size.is_small and size.bits <= _NATIVE_BITS and not self._is_heavy:
            return self._engine.fits(value)
        budget.begin(size)
        fits = self._engine.test(())(value)
        if budget.is_spent:
            raise Refused(TOO_MUCH)
        return fits
