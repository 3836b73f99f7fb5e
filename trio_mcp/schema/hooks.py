"""The hooks that make Python values of valid JSON: one for each annotation, by its kind.

They rely on the schema having been checked, and refuse what only looks right. A type may be part of
itself, so the hooks for its parts are made when the first value comes.

The order of a union does not matter, because Python takes `A | B` and `B | A` for one type: among
the members whose schemas fit, the class is taken that knows most of the value's keys and misses
least, and what has a form, such as a date, before a string that may be anything.
"""

import base64
import collections.abc as abc
import enum
import functools
import itertools
import typing
from collections.abc import Callable, Iterable
from typing import Any

from trio_mcp.schema.annotations import schema_of
from trio_mcp.schema.errors import AtPath, ConversionError
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

Hook = Callable[[Any], Any]


def hook_for(annotation: Any) -> Hook:
    """The function that structures a value of this annotation.

    It raises `ConversionError`, or what the classes themselves raise; for what is wrong further
    down, `AtPath` with one of these.
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


@functools.lru_cache(maxsize=4096)  # of unions nothing is kept: `A | B` would be named `B | A`
def _of_class(annotation: Any) -> Hook:
    make = next(make for recognise, make in _BY_CLASS if recognise(annotation))
    return make(annotation)


def _hooks_within(*annotations: Any) -> Callable[[], list[Hook]]:
    """Make the hooks for the parts of a value when they are first asked for."""
    return functools.cache(lambda: [hook_for(annotation) for annotation in annotations])


def _same(value: Any) -> Any:
    return value


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ConversionError("a number that fits a float", value) from None


def _parsed(make: Hook, expected: str) -> Hook:
    """A hook that makes a value of a string, or says what was expected."""

    def parse(value: Any) -> Any:
        try:
            return make(value)
        except (ValueError, ArithmeticError):
            raise ConversionError(expected, value) from None

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
    members = {_key(getattr(choice, "value", choice)): choice for choice in choices}
    return lambda value: members[_key(value)]


def _key(value: Any) -> tuple[bool, Any]:
    return isinstance(value, bool), value  # True is not 1 here, though 1.0 is


def _collection(annotation: Any) -> Hook:
    """A hook for a collection, or for an abstract one: the plain one that it is nearest to."""
    within = _hooks_within(*typing.get_args(annotation)[:1] or [Any])
    return _sequence(_COLLECTIONS[class_of(annotation)], lambda: itertools.repeat(*within()))


def _sequence(make: Callable[[Any], Any], within: Callable[[], Iterable[Hook]]) -> Hook:
    def structure_sequence(values: Any) -> Any:
        items: list[Any] = []
        try:
            for structure, each in zip(within(), values):  # noqa: B905 - `strict` costs a tenth
                items.append(structure(each))
        except Exception as error:
            raise AtPath(len(items), error) from error
        return items if make is list else make(items)

    return structure_sequence


def _tuple(annotation: Any) -> Hook:
    kinds = typing.get_args(annotation)
    if not kinds or kinds[1:] == (...,):
        return _collection(annotation)
    return _sequence(tuple, _hooks_within(*kinds))


def _named_tuple(annotation: Any) -> Hook:
    within = _hooks_within(*(field.annotation for field in fields_of(annotation)))
    return _sequence(lambda items: class_of(annotation)(*items), within)


def _mapping(annotation: Any) -> Hook:
    within = _hooks_within(*typing.get_args(annotation) or (Any, Any))

    def structure_mapping(value: Any) -> Any:
        (structure_key, structure), mapping, key = within(), {}, ""
        try:
            for key, each in value.items():
                mapping[structure_key(key)] = structure(each)
        except Exception as error:
            raise AtPath(key, error) from error
        return mapping

    return structure_mapping


def _record(annotation: Any) -> Hook:
    kind = class_of(annotation)
    keeps_others = is_typed_dict(kind)

    @functools.cache
    def within() -> list[tuple[str, str, Hook]]:
        fields = [field for field in fields_of(annotation) if field.init]
        return [(field.name, field.keyword, hook_for(field.annotation)) for field in fields]

    def structure_record(value: Any) -> Any:
        arguments, name = dict(value) if keeps_others else {}, ""
        try:
            for name, keyword, structure in within():
                if name in value:
                    arguments[keyword] = structure(value[name])
        except Exception as error:
            raise AtPath(name, error) from error
        return kind(**arguments)

    return structure_record


def _alias(kind: Any) -> Hook:
    within = _hooks_within(alias_value(kind))
    return lambda value: within()[0](value)


def _union(annotation: Any) -> Hook:
    kinds = [member for member in typing.get_args(annotation) if member is not type(None)]
    exact = {int, float}.intersection(kinds)
    members = functools.cache(lambda: list(map(_Member, kinds)))

    def structure_union(value: Any) -> Any:
        # JSON's 1 may be an int and a float; what it already is comes first.
        if value is None or type(value) in exact:
            return value
        fitting = [member for member in members() if member.accepts(value)]
        if not fitting:
            raise ConversionError(expectation(schema_of(annotation)), value)
        fitting.sort(key=lambda each: each.distance(value))
        for member in fitting[:-1]:
            # Text may be a date or not; but whatever has structure is what its schema says, and
            # what is wrong within it does not lead to a try of another.
            try:
                return member.structure(value)
            except ConversionError:
                continue
        return fitting[-1].structure(value)

    if len(kinds) == 1:
        within = _hooks_within(*kinds)
        return lambda value: None if value is None else within()[0](value)
    return structure_union


class _Member:
    def __init__(self, annotation: Any) -> None:
        kind = bare(annotation)
        self.annotation = annotation
        self.accepts = compile_test(schema_of(annotation))
        self.structure = hook_for(kind)
        self.names = {field.name for field in fields_of(kind)} if is_record(kind) else None

    def distance(self, value: Any) -> tuple[int, int]:
        """How far a fitting value is from this member: the least is best."""
        if isinstance(value, dict) and self.names is not None:
            return len(value.keys() - self.names), len(self.names - value.keys())
        return int(self.annotation is str), 0


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
