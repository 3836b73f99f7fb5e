"""jsonschema's errors as sentences for those who made the call.

A sentence says where, what was expected and what came. Of several errors the first few are told,
the outermost first; of a failed alternative, what is wrong with the one that was meant, where
that can be told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from attrs import frozen

from trio_mcp.schema.patterns import longest_text
from trio_mcp.schema.sentences import cut, expectation, join_path, json_kind, listed

__all__ = ["ErrorFormatter"]

_MOST_SENTENCES = 3


class Error(Protocol):
    """What is read of jsonschema's `ValidationError`; its values are JSON, its schema a mapping."""

    validator: Any
    validator_value: Any
    instance: Any
    schema: Any
    context: Sequence[Error]
    absolute_path: Sequence[str | int]
    relative_path: Sequence[str | int]
    relative_schema_path: Sequence[str | int]
    absolute_schema_path: Sequence[str | int]


@frozen
class ErrorFormatter:
    """Speaks of values by one noun: 'argument' or 'result'."""

    noun: str
    shows_values: bool = True
    """Whether what came is quoted, or only its type is told."""

    # About the whole -----------------------------------------------------------------------

    def too_deep(self) -> str:
        """The value cannot be followed to its end."""
        return f"The {self._whole} nested too deeply to be checked."

    def too_much(self) -> str:
        """The budget is spent."""
        return (
            f"The {self._whole} too much work to check against the schema; send less, or nest it "
            "less deeply."
        )

    def out_of_range(self) -> str:
        """Arithmetic failed."""
        return f"The {self._whole} not valid: a number is out of range."

    def long_name(self, longest: int) -> str:
        """A property name is too long for the patterns that it is matched against."""
        return f"A property name is longer than the {longest} characters that are allowed."

    @property
    def _whole(self) -> str:
        return "arguments are" if self.noun == "argument" else f"{self.noun} is"

    def explain(self, errors: Iterable[Error]) -> str:
        """Say what is wrong: up to three sentences."""
        nearest = sorted(errors, key=lambda error: len(error.absolute_path))
        nearest = _without_echoes(nearest)
        sentences = list(dict.fromkeys(each for error in nearest for each in self._tell(error)))
        return " ".join(sentences[:_MOST_SENTENCES])

    # About one error -------------------------------------------------------------------------

    def _tell(self, error: Error) -> list[str]:
        if error.validator in ("anyOf", "oneOf") and error.context:
            meant = _meant(error.context)
            if meant:
                return [each for one in _without_echoes(meant) for each in self._tell(one)]
            tags = _tags(error.context)
            if tags is not None:
                return [self._must(tags[0], f"be {expectation({'enum': tags[1]})}")]
        special = _SPECIAL.get(str(error.validator))
        if special is not None:
            return [special(self, error)]
        if error.validator in (None, "properties"):
            path = error.absolute_path
            are = "is" if path or self.noun != "argument" else "are"
            return [f"{self._subject(error)} {are} not allowed."]
        return [self._must(error, _DEMANDS.get(str(error.validator), _unknown)(error))]

    def _must(self, error: Error, demand: str) -> str:
        came = json_kind(error.instance)
        return f"{self._subject(error)} must {demand}, but {came} came{self._quoted(error)}."

    def _quoted(self, error: Error) -> str:
        return f" ({cut(error.instance)})" if self.shows_values else ""

    def _subject(self, error: Error) -> str:
        path = join_path(error.absolute_path)
        subject = f"{self.noun.capitalize()} {path!r}" if path else self._root()
        if "propertyNames" in error.absolute_schema_path:
            return f"A property name in {subject[0].lower()}{subject[1:]}"
        return subject

    def _root(self) -> str:
        return "The arguments" if self.noun == "argument" else f"The {self.noun}"

    def _missing(self, error: Error) -> str:
        properties = error.schema.get("properties", {})
        names = [name for name in error.validator_value if name not in error.instance]
        path = list(error.absolute_path)
        told = [
            f"{join_path([*path, name])!r}{_in_brackets(properties.get(name))}" for name in names
        ]
        return f"Missing required {self._nouns(told)} {listed(told, 'and')}."

    def _unexpected(self, error: Error) -> str:
        known = error.schema.get("properties", {})
        patterns = error.schema.get("patternProperties", {})
        names = [
            name
            for name in error.instance
            if name not in known and not any(re.search(each, name) for each in patterns)
        ]
        path = list(error.absolute_path)
        told = [repr(join_path([*path, _cut_name(name)])) for name in names]
        return f"Unexpected {self._nouns(told)} {listed(told, 'and')}; {self._takes(path, known)}."

    def _takes(self, path: list[str | int], known: Iterable[str]) -> str:
        taker = f"{join_path(path)!r}" if path else "this tool"
        if self.noun != "argument" and not path:
            taker = f"the {self.noun}"
        names = listed(map(repr, known), ",", most=20).replace(" , ", ", ")
        return f"{taker} takes {names or f'no {self.noun}s'}"

    def _nouns(self, told: Sequence[str]) -> str:
        return self.noun if len(told) == 1 else f"{self.noun}s"

    def _dependent(self, error: Error) -> str:
        needed = [
            f"{name!r} needs {other!r}"
            for name, others in error.validator_value.items()
            if name in error.instance
            for other in others
            if other not in error.instance
        ]
        return f"{self._subject(error)}: {listed(needed, 'and')}."

    def _one_of(self, error: Error) -> str:
        if error.context:
            if all(map(_wrong_kind, error.context)):
                return self._must(error, _expected(error))
            return f"{self._subject(error)} fits none of its alternatives{self._quoted(error)}."
        return f"{self._subject(error)} fits more than one of its alternatives."

    def _unevaluated(self, error: Error) -> str:
        return f"{self._subject(error)} holds more than is allowed{self._quoted(error)}."


_SPECIAL: dict[str, Callable[[ErrorFormatter, Any], str]] = {
    "required": ErrorFormatter._missing,
    "additionalProperties": ErrorFormatter._unexpected,
    "dependentRequired": ErrorFormatter._dependent,
    "anyOf": ErrorFormatter._one_of,
    "oneOf": ErrorFormatter._one_of,
    "unevaluatedProperties": ErrorFormatter._unevaluated,
    "unevaluatedItems": ErrorFormatter._unevaluated,
}


def _without_echoes(errors: Sequence[Error]) -> list[Error]:
    """Without the type of a value where its choices are told, which say that as well."""
    chosen = {tuple(each.absolute_path) for each in errors if each.validator in ("enum", "const")}
    return [
        each
        for each in errors
        if each.validator != "type" or tuple(each.absolute_path) not in chosen
    ]


def _meant(context: Sequence[Error]) -> list[Error]:
    """The errors of the one alternative that the value looks like, if there is one.

    An alternative is ruled out by a value of another type, and one of several that are told
    apart by a tag is ruled out by another tag.
    """
    branches: dict[Any, list[Error]] = {}
    for error in context:
        branches.setdefault(_branch(error), []).append(error)
    alike = {key: each for key, each in branches.items() if not any(map(_wrong_kind, each))}
    tagged = {key: each for key, each in alike.items() if not any(map(_wrong_tag, each))}
    for left in (alike, tagged):
        if len(left) == 1:
            return next(iter(left.values()))
    return []


def _tags(context: Sequence[Error]) -> tuple[Error, list[Any]] | None:
    """Where every alternative of the right type asks for another tag: one error, and all tags."""
    errors = [error for error in context if _wrong_tag(error)]
    wrong = {_branch(error) for error in context if _wrong_kind(error)}
    alternatives = {_branch(error) for error in context} - wrong
    if {_branch(error) for error in errors} != alternatives or not errors:
        return None
    if len({tuple(error.relative_path) for error in errors}) > 1:
        return None
    values = [
        value
        for error in errors
        for value in (
            error.validator_value if error.validator == "enum" else [error.validator_value]
        )
    ]
    return errors[0], values


def _branch(error: Error) -> str | int | None:
    """Which alternative an error is from; `None` for `false`, which leaves no trace."""
    return error.relative_schema_path[0] if error.relative_schema_path else None


def _wrong_kind(error: Error) -> bool:
    return not error.relative_path and error.validator in ("type", "enum", "const", None)


def _wrong_tag(error: Error) -> bool:
    return len(error.relative_path) == 1 and error.validator in ("enum", "const")


def _in_brackets(schema: Any) -> str:
    """' (string)' for what must be a string; nothing where there is nothing to say."""
    wanted = expectation(schema) if schema else "a value"
    return "" if wanted == "a value" else f" ({re.sub('^an? ', '', wanted)})"


def _cut_name(name: Any) -> str:
    text = str(name)
    return text if len(text) <= 60 else text[:57] + "..."


# What the keywords demand ---------------------------------------------------------------------


def _be(text: str) -> Callable[[Any], str]:
    return lambda error: f"{text} {cut(error.validator_value)}"


def _have(bound: str, unit: str) -> Callable[[Any], str]:
    def demand(error: Any) -> str:
        number = error.validator_value
        return f"have at {bound} {number} {unit}{'' if number == 1 else 's'}"

    return demand


def _expected(error: Any) -> str:
    return f"be {expectation({error.validator: error.validator_value})}"


def _expected_type(error: Any) -> str:
    kept = ("type", "format", "contentEncoding")
    return f"be {expectation({each: error.schema[each] for each in kept if each in error.schema})}"


def _match(error: Any) -> str:
    longest = longest_text(error.validator_value)
    if len(error.instance) > longest:
        return f"have at most {longest} characters to be matched against its pattern"
    return f"match the pattern {cut(error.validator_value)}"


def _properties(bound: str) -> Callable[[Any], str]:
    return lambda error: f"have at {bound} {error.validator_value} properties"


def _unknown(error: Any) -> str:
    return f"fit the schema's {error.validator!r}"


_DEMANDS: dict[str, Callable[[Any], str]] = {
    "type": _expected_type,
    "enum": _expected,
    "const": _expected,
    "minimum": _be("be at least"),
    "maximum": _be("be at most"),
    "exclusiveMinimum": _be("be more than"),
    "exclusiveMaximum": _be("be less than"),
    "multipleOf": _be("be a multiple of"),
    "minLength": _have("least", "character"),
    "maxLength": _have("most", "character"),
    "minItems": _have("least", "item"),
    "maxItems": _have("most", "item"),
    "minProperties": _properties("least"),
    "maxProperties": _properties("most"),
    "pattern": _match,
    "uniqueItems": lambda _: "hold no item twice",
    "contains": lambda error: f"contain {expectation(error.validator_value)}",
    "minContains": _have("least", "fitting item"),
    "maxContains": _have("most", "fitting item"),
    "items": lambda error: f"have at most {len(error.schema.get('prefixItems', ()))} items",
    "not": lambda error: f"not be {expectation(error.validator_value)}",
}
