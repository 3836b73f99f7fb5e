"""The hooks that make Python values of valid JSON: one for each annotation, by its kind.

They rely on the schema having been checked, and refuse what only looks right. A type may be part of
itself, so the hooks for what is within another are made when the first value comes.

A union is settled by the schemas of its members, and their order does not matter, because
Python takes `A | B` and `B | A` for one type: among classes the one is taken that knows most of
the value's keys and misses least, and what is told by its form, such as a date, comes before a
string that may be anything.
"""

from __future__ import annotations

import base64
import collections.abc as abc
import enum
import functools
import typing
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from trio_mcp.schema.annotations import schema_of
from trio_mcp.schema.errors import Unfit, Within
from trio_mcp.schema.fields import (
    UNIONS,
    class_of,
    fields_of,
    is_named_tuple,
    is_record,
    is_typed_dict,
    key_of,
)
from trio_mcp.schema.kinds import ARRAYS, OBJECTS, alias_value, bare, is_plain, is_type_alias
from trio_mcp.schema.models import Model, is_model
from trio_mcp.schema.sentences import expectation
from trio_mcp.schema.texts import text_type
from trio_mcp.schema.validate import compile_test

__all__ = ["Hook", "hook_for"]

Hook = Callable[[Any], Any]


def hook_for(annotation: Any) -> Hook:
    """The function that structures a value of this annotation.

    It raises `Unfit` for what the schema could not know, and whatever classes raise that are made
    of values; `Within` with one of these for what is wrong further down.
    """
    annotation = bare(annotation)
    if annotation is not str and is_plain(annotation, numbers=False):  # `str` itself is quicker
        return _same
    if is_model(annotation):
        return Model(annotation).read
    kind = class_of(annotation)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind in _BY_ORIGIN:
        return _BY_ORIGIN[kind](annotation)
    find = _of_class if key_of(annotation) is annotation else _of_class.__wrapped__
    return find(annotation)


@functools.lru_cache(maxsize=4096)  # of unions nothing is kept: `A | B` would be told as `B | A`
def _of_class(annotation: Any) -> Hook:
    make = next(make for recognise, make in _BY_CLASS if recognise(annotation))
    return make(annotation)


def _hooks_within(*annotations: Any) -> Callable[[], list[Hook]]:
    """What makes the hooks for the parts of a value when it is first asked for them."""
    return functools.cache(lambda: [hook_for(each) for each in annotations])


# Scalars and texts ----------------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise Unfit("a number that fits a float", value) from None


def _parsed(make: Hook, expected: str) -> Hook:
    """A hook that makes a value of a string, and says what it wanted if it cannot."""

    def parse(value: Any) -> Any:
        try:
            return make(value)
        except (ValueError, ArithmeticError):
            raise Unfit(expected, value) from None

    return parse


_SCALARS: dict[Any, Hook] = {
    str: str,
    int: int,
    float: _float,
    bytes: _parsed(functools.partial(base64.b64decode, validate=True), "base64 text"),
}


def _text(kind: Any) -> Hook:
    text = text_type(kind)
    assert text is not None
    return _parsed(functools.partial(text.read, kind), expectation(schema_of(kind)))


def _choice(kind: Any) -> Hook:
    """A hook for an `Enum` or a `Literal`: JSON's value to the member itself."""
    choices = typing.get_args(kind) or kind
    members = {_key(getattr(each, "value", each)): each for each in choices}
    return lambda value: members[_key(value)]


def _key(value: Any) -> tuple[bool, Any]:
    return isinstance(value, bool), value  # True is not 1 here, though 1.0 is


# Collections and classes ----------------------------------------------------------------------


def _collection(annotation: Any) -> Hook:
    """A hook for a collection, or for an abstract one: the plain one that it is nearest to."""
    make = _COLLECTIONS[class_of(annotation)]
    within = _hooks_within(*typing.get_args(annotation)[:1] or [Any])

    def structure_collection(values: Any) -> Any:
        (structure,), items = within(), []
        try:
            for each in values:
                items.append(structure(each))
        except Exception as error:
            raise Within(len(items), error) from error
        return items if make is list else make(items)

    return structure_collection


def _sequence(make: Callable[[Any], Any], within: Callable[[], Iterable[Hook]]) -> Hook:
    def structure_sequence(values: Any) -> Any:
        items: list[Any] = []
        try:
            for structure, each in zip(within(), values):  # noqa: B905 - `strict` costs a tenth
                items.append(structure(each))
        except Exception as error:
            raise Within(len(items), error) from error
        return make(items)

    return structure_sequence


def _tuple(annotation: Any) -> Hook:
    kinds = typing.get_args(annotation)
    if not kinds or kinds[1:] == (...,):
        return _collection(annotation)
    return _sequence(tuple, _hooks_within(*kinds))


def _named_tuple(annotation: Any) -> Hook:
    within = _hooks_within(*(each.annotation for each in fields_of(annotation)))
    return _sequence(lambda items: class_of(annotation)(*items), within)


def _mapping(annotation: Any) -> Hook:
    within = _hooks_within(*typing.get_args(annotation) or (Any, Any))

    def structure_mapping(value: Any) -> Any:
        (structure_key, structure), mapping, key = within(), {}, ""
        try:
            for key, each in value.items():
                mapping[structure_key(key)] = structure(each)
        except Exception as error:
            raise Within(key, error) from error
        return mapping

    return structure_mapping


def _record(annotation: Any) -> Hook:
    kind = class_of(annotation)
    keeps_others = is_typed_dict(kind)

    @functools.cache
    def within() -> list[tuple[str, str, Hook]]:
        fields = [each for each in fields_of(annotation) if each.init]
        return [(each.name, each.keyword, hook_for(each.annotation)) for each in fields]

    def structure_record(value: Any) -> Any:
        arguments, name = dict(value) if keeps_others else {}, ""
        try:
            for name, keyword, structure in within():
                if name in value:
                    arguments[keyword] = structure(value[name])
        except Exception as error:
            raise Within(name, error) from error
        return kind(**arguments)

    return structure_record


def _alias(kind: Any) -> Hook:
    within = _hooks_within(alias_value(kind))
    return lambda value: within()[0](value)


# Unions ---------------------------------------------------------------------------------------


def _union(annotation: Any) -> Hook:
    kinds = [each for each in typing.get_args(annotation) if each is not type(None)]
    exact = {int, float}.intersection(kinds)
    members = functools.cache(lambda: [_Member.of(each) for each in kinds])

    def structure_union(value: Any) -> Any:
        # JSON's 1 may be an int and a float; what it already is comes first.
        if value is None or type(value) in exact:
            return value
        fitting = [each for each in members() if each.accepts(value)]
        if not fitting:
            raise Unfit(expectation(schema_of(annotation)), value)
        fitting.sort(key=lambda each: each.distance(value))
        for each in fitting[:-1]:
            # Text may be a date or not; but whatever has structure is what its schema says, and
            # what is wrong within it is no reason to try (and try within) another.
            try:
                return each.structure(value)
            except Unfit:
                continue
        return fitting[-1].structure(value)

    if len(kinds) == 1:
        within = _hooks_within(*kinds)
        return lambda value: None if value is None else within()[0](value)
    return structure_union


class _Member(NamedTuple):
    """One member of a union."""

    annotation: Any
    accepts: Callable[[Any], bool]
    structure: Hook
    names: frozenset[str] | None
    """Those of its fields, if it is a class."""

    @classmethod
    def of(cls, annotation: Any) -> _Member:
        """Make what settles whether a value is one of an annotation."""
        kind = bare(annotation)
        names = frozenset(each.name for each in fields_of(kind)) if is_record(kind) else None
        return cls(annotation, compile_test(schema_of(annotation)), hook_for(kind), names)

    def distance(self, value: Any) -> tuple[int, int]:
        """How far the value is from this member, though it fits: the least is best."""
        if isinstance(value, dict) and self.names is not None:
            return len(value.keys() - self.names), len(self.names - value.keys())
        return int(self.annotation is str), 0


# Kinds ----------------------------------------------------------------------------------------

_COLLECTIONS: dict[Any, Callable[[Any], Any]] = {
    **dict.fromkeys(ARRAYS, list),
    **dict.fromkeys((frozenset, abc.Set), frozenset),
    **dict.fromkeys((set, abc.MutableSet), set),
    tuple: tuple,
}

_BY_ORIGIN: dict[Any, Callable[[Any], Hook]] = {
    typing.Literal: _choice,
    **dict.fromkeys(UNIONS, _union),
    **dict.fromkeys(_COLLECTIONS, _collection),
    **dict.fromkeys(OBJECTS, _mapping),
    tuple: _tuple,
}

_BY_CLASS: list[tuple[Callable[[Any], bool], Callable[[Any], Hook]]] = [
    (lambda kind: isinstance(kind, type) and issubclass(kind, enum.Enum), _choice),
    (lambda kind: text_type(kind) is not None, _text),
    (is_named_tuple, _named_tuple),
    (is_record, _record),
    (is_type_alias, _alias),
]
