"""Valid JSON arguments as the Python types that a function is annotated with.

A plain JSON type needs nothing and costs nothing. Numbers are settled by exact type (JSON says
`1` for the float 1.0, and may say `1.0` for the integer 1). Everything else goes through one
cattrs converter whose hooks are strict: they rely on the schema having been checked and refuse
what only looks right. cattrs is imported, and hooks are made, at the first call that needs them.

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
from collections.abc import Callable
from typing import Any

import attrs

from trio_mcp.schema.annotations import ARRAYS, OBJECTS, alias_value, is_type_alias, schema_of
from trio_mcp.schema.errors import ArgumentError, Problem, Unfit
from trio_mcp.schema.fields import (
    UNIONS,
    class_of,
    fields_of,
    is_hashable,
    is_named_tuple,
    is_record,
    is_typed_dict,
    with_usual_types,
)
from trio_mcp.schema.models import Model, is_model
from trio_mcp.schema.sentences import expectation
from trio_mcp.schema.texts import text_type
from trio_mcp.schema.validate import compile_test

if typing.TYPE_CHECKING:
    from cattrs import Converter

__all__ = ["as_they_came", "bare", "is_plain", "reason_of", "structure_arguments"]

Hook = Callable[[Any], Any]

# Anything may be anything: on the way out it has to be looked at.
_PLAIN = {str, bool, type(None), None, Any, object, list, dict}
_PLAIN_RESULTS = {str, bool, type(None), None, int, float}
_WRAPPERS = {"Required", "NotRequired", "ReadOnly", "Final"}


def is_plain(annotation: Any, *, numbers: bool = True) -> bool:
    """Whether JSON's own value is already the Python value, all the way down.

    Args:
        annotation: What a value is annotated with.
        numbers: Whether `int` and `float` count; on the way in they do not, because JSON does
            not tell them apart.
    """
    annotation, plain = bare(annotation), _PLAIN_RESULTS if numbers else _PLAIN
    if is_hashable(annotation) and annotation in plain:
        return True
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (list, dict, *UNIONS):
        return all(is_plain(each, numbers=numbers) for each in arguments)
    return origin is typing.Literal and all(type(each) in plain for each in arguments)


def bare(annotation: Any) -> Any:
    """The annotation without what only describes it: `Annotated`, `NewType`, qualifiers."""
    while not is_model(annotation):
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated or getattr(origin, "_name", None) in _WRAPPERS:
            annotation = typing.get_args(annotation)[0]
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        else:
            break
    return annotation


def structure_arguments(
    annotations: dict[str, Any], rest: Any = None, *, noun: str = "Argument"
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Make the function that turns valid arguments into keyword arguments.

    Args:
        annotations: What each parameter is annotated with.
        rest: What `**kwargs` is annotated with, if the function takes it.
        noun: What the values are called in sentences.

    Returns:
        A function from JSON arguments to keyword arguments. It leaves its argument as it is,
        returns the very same dictionary where there is nothing to change, and raises
        `ArgumentError` for what the schema could not know.
    """
    wanted = {
        name: annotation
        for name, annotation in annotations.items()
        if not is_plain(annotation, numbers=False)
    }
    rest = None if is_plain(rest, numbers=False) else rest
    if not wanted and rest is None:
        return as_they_came
    return _Structure(wanted, frozenset(annotations), rest, noun)


def as_they_came(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments: what structures those that need nothing."""
    return arguments


class _Structure:
    """Structures arguments by name; its hooks are made when it is first called."""

    def __init__(self, wanted: dict[str, Any], known: frozenset[str], rest: Any, noun: str) -> None:
        self._wanted = wanted
        self._known = known
        self._rest = rest
        self._noun = noun

    @functools.cached_property
    def _hooks(self) -> list[tuple[str, Hook, Any]]:
        return [(name, *_hook_and_type(annotation)) for name, annotation in self._wanted.items()]

    @functools.cached_property
    def _rest_hook(self) -> tuple[Hook, Any]:
        return _hook_and_type(self._rest)

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        structured = arguments
        hooks = self._hooks
        if self._rest is not None:
            rest = self._rest_hook
            hooks = [*hooks, *((name, *rest) for name in arguments if name not in self._known)]
        name = ""
        try:
            for name, hook, settled in hooks:
                value = arguments.get(name, _MISSING)
                if value is _MISSING or type(value) is settled:
                    continue
                if structured is arguments:
                    structured = arguments.copy()
                structured[name] = hook(value)
        except (Exception, SystemExit) as error:  # a validator that exits must not end the server
            raise ArgumentError(Problem(_explain(self._noun, name, error), name)) from error
        return structured


_MISSING = object()


def _hook_and_type(annotation: Any) -> tuple[Hook, Any]:
    """A hook, and the type whose values do not need it."""
    kind = bare(annotation)
    return _hook_for(kind), kind if kind in (int, float) else _MISSING


# Errors -------------------------------------------------------------------------------------


def _explain(noun: str, name: str, error: BaseException) -> str:
    """One sentence for what went wrong below the argument, or field, `name`."""
    path = name
    while isinstance(error, _Within | BaseExceptionGroup):
        if isinstance(error, _Within):
            path, error = path + error.step, error.error
        else:
            error = error.exceptions[0]
            path += _step(error)
    if isinstance(error, Unfit):
        return error.tell(noun, path)
    return f"{noun} {path!r} is not acceptable{reason_of(error)}."


class _Within(Exception):
    """What went wrong with an item of a collection, or a value of a mapping; `step` says which."""

    def __init__(self, step: str, error: Exception) -> None:
        super().__init__(step)
        self.step = step
        self.error = error


def reason_of(error: BaseException) -> str:
    """What a class says of its own values, which is meant for those who give them.

    Anything else may be of the inside and stays there.
    """
    said = error.args[0] if isinstance(error, ValueError) and error.args else None
    return f": {said[:200].rstrip('.')}" if isinstance(said, str) and said else ""


def _step(error: BaseException) -> str:
    """The step that cattrs noted on the error: an attribute, or an index in a tuple."""
    for note in getattr(error, "__notes__", ()):
        known = getattr(note, "__dict__", {})
        if "name" in known:
            return f".{known['name']}"
        if "index" in known:
            return f"[{known['index']}]"
    return ""


# Hooks --------------------------------------------------------------------------------------


def _hook_for(annotation: Any) -> Hook:
    """The function that structures a value of this annotation."""
    annotation = _undescribed(annotation)
    if is_model(annotation):
        return Model(annotation).read
    if isinstance(annotation, type) and annotation in _SCALARS:
        return _SCALARS[annotation]
    hook = _converter().get_structure_hook(annotation)
    return lambda value: hook(value, annotation)


def _undescribed(annotation: Any) -> Any:
    """The annotation without what describes types in it: raw keywords could not be looked up."""
    annotation = bare(annotation)
    parts = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if not parts or origin in (typing.Literal, typing.Annotated) or is_model(annotation):
        return annotation
    plain = tuple(map(_undescribed, parts))
    if plain == parts:
        return annotation
    return typing.Union[plain] if origin in UNIONS else origin[plain]  # noqa: UP007


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise Unfit("a number that fits a float", value) from None


_SCALARS: dict[Any, Hook] = {str: str, int: int, float: _float}


def _parse(make: Callable[[Any], Any], expected: str) -> Callable[[Any, Any], Any]:
    """A hook that makes a value of a string, and says what it wanted if it cannot."""

    def parse(value: Any, _: Any) -> Any:
        try:
            return make(value)
        except (ValueError, ArithmeticError):
            raise Unfit(expected, value) from None

    return parse


_from_base64 = functools.partial(base64.b64decode, validate=True)


@functools.cache
def _converter() -> Converter:
    """The room's one converter; its later registrations win."""
    from cattrs import Converter

    converter = Converter()
    for kind in _SCALARS:
        converter.register_structure_hook(kind, _structure_scalar)
    for kind in (bool, type(None)):
        converter.register_structure_hook(kind, _as_is)
    converter.register_structure_hook(bytes, _parse(_from_base64, "base64 text"))
    converter.register_structure_hook_func(lambda kind: kind is object, _as_is)
    for recognise, make in _FACTORIES:
        converter.register_structure_hook_factory(recognise, make)
    return converter


def _as_is(value: Any, _: Any) -> Any:
    return value


def _structure_scalar(value: Any, kind: Any) -> Any:
    """What is registered for a class also gets its subclasses, which are choices: an `IntEnum`."""
    convert = _SCALARS.get(kind)
    return convert(value) if convert is not None else _make_choice(kind)(value, kind)


def _make_text(kind: Any) -> Callable[[Any, Any], Any]:
    text = text_type(kind)
    assert text is not None
    return _parse(functools.partial(text.read, kind), expectation(schema_of(kind)))


@functools.lru_cache(maxsize=512)
def _make_choice(kind: Any) -> Callable[[Any, Any], Any]:
    """A hook for an `Enum` or a `Literal`: JSON's value to the member itself."""
    choices = typing.get_args(kind) or kind
    members = {_key(getattr(each, "value", each)): each for each in choices}
    return lambda value, _: members[_key(value)]


def _key(value: Any) -> tuple[bool, Any]:
    return isinstance(value, bool), value  # True is not 1 here, though 1.0 is


def _make_record(kind: Any) -> Callable[[Any, Any], Any]:
    """The hook that cattrs makes, once the names within the annotations are resolved."""
    from cattrs.gen import make_dict_structure_fn, typeddicts

    kind = with_usual_types(kind)
    if is_typed_dict(kind):
        return typeddicts.make_dict_structure_fn(kind, _converter(), **_overrides(kind))
    owner = class_of(kind)
    if attrs.has(owner):
        attrs.resolve_types(owner, localns={owner.__name__: owner})
    return make_dict_structure_fn(kind, _converter(), **_overrides(kind))


def _overrides(kind: Any) -> dict[str, Any]:
    """Hooks for the fields that cattrs cannot look up: raw keywords are not hashable.

    And for those of generic classes: what their variables stand for is known here.
    """
    from cattrs import override

    is_generic = hasattr(class_of(kind), "__orig_bases__")
    return {
        each.name: override(struct_hook=_later(each.annotation))
        for each in fields_of(kind)
        if is_generic or not is_hashable(each.annotation)
    }


def _once(annotation: Any) -> Callable[[], Hook]:
    """What makes a hook when it is first asked for, because a type may be part of itself."""
    return functools.cache(lambda: _hook_for(annotation))


def _later(annotation: Any) -> Callable[[Any, Any], Any]:
    hook = _once(annotation)
    return lambda value, _: hook()(value)


def _make_named_tuple(kind: Any) -> Callable[[Any, Any], Any]:
    hooks = [_once(each.annotation) for each in fields_of(kind)]
    return lambda value, _: kind(*(hook()(each) for hook, each in zip(hooks, value, strict=False)))


def _make_model(kind: Any) -> Callable[[Any, Any], Any]:
    read = Model(kind).read
    return lambda value, _: read(value)


def _make_alias(kind: Any) -> Callable[[Any, Any], Any]:
    return _later(alias_value(kind))


def _make_collection(kind: Any) -> Callable[[Any, Any], Any]:
    """A hook for a collection, or for an abstract one: the plain one that it is nearest to.

    It stops at the first item that is wrong. That of cattrs would collect them all.
    """
    make = _COLLECTIONS[typing.get_origin(kind) or kind]
    (kind_of_items,) = typing.get_args(kind) or (Any,)
    hook = _once(kind_of_items)

    def structure_collection(values: Any, _: Any) -> Any:
        structure, items = hook(), []
        try:
            for each in values:
                items.append(structure(each))
        except Exception as error:
            raise _Within(f"[{len(items)}]", error) from error
        return items if make is list else make(items)

    return structure_collection


_COLLECTIONS: dict[Any, Any] = {
    **dict.fromkeys(ARRAYS, list),
    **dict.fromkeys((frozenset, abc.Set), frozenset),
    **dict.fromkeys((set, abc.MutableSet), set),
}


def _make_mapping(kind: Any) -> Callable[[Any, Any], Any]:
    kind_of_keys, kind_of_values = typing.get_args(kind) or (Any, Any)
    hooks = _once(kind_of_keys), _once(kind_of_values)

    def structure_mapping(value: Any, _: Any) -> Any:
        (structure_key, structure), mapping, key = (hook() for hook in hooks), {}, ""
        try:
            for key, each in value.items():
                mapping[structure_key(key)] = structure(each)
        except Exception as error:
            raise _Within(f".{key}", error) from error
        return mapping

    return structure_mapping


def _make_union(kind: Any) -> Callable[[Any, Any], Any]:
    members = [_Member(each) for each in typing.get_args(kind) if each is not type(None)]
    if len(members) == 1:
        return lambda value, _: None if value is None else members[0].structure(value)
    exact = {each for each in typing.get_args(kind) if each in (int, float, bool, str)}

    def structure_union(value: Any, _: Any) -> Any:
        if value is None:
            return None
        # JSON's 1 may be an int and a float; what it already is comes first.
        if type(value) in (int, float) and type(value) in exact:
            return value
        fitting = [each for each in members if each.accepts(value)]
        if not fitting:
            raise Unfit(expectation(schema_of(kind)), value)
        fitting.sort(key=lambda each: each.distance(value))
        for each in fitting[:-1]:
            # Text may be a date or not; but whatever has structure is what its schema says, and
            # what is wrong within it is no reason to try (and try within) another.
            try:
                return each.structure(value)
            except Unfit:
                continue
        return fitting[-1].structure(value)

    return structure_union


class _Member:
    """One member of a union; what it needs is made when it is first asked."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation

    @functools.cached_property
    def accepts(self) -> Callable[[Any], bool]:
        return compile_test(schema_of(self._annotation))

    @functools.cached_property
    def structure(self) -> Hook:
        return _hook_for(self._annotation)

    @functools.cached_property
    def _names(self) -> frozenset[str] | None:
        kind = bare(self._annotation)
        return frozenset(each.name for each in fields_of(kind)) if is_record(kind) else None

    def distance(self, value: Any) -> tuple[int, int]:
        """How far the value is from this member, though it fits: the least is best."""
        if isinstance(value, dict) and self._names is not None:
            return len(value.keys() - self._names), len(self._names - value.keys())
        return int(self._annotation is str), 0


_FACTORIES: list[tuple[Callable[[Any], bool], Callable[[Any], Callable[[Any, Any], Any]]]] = [
    (lambda kind: isinstance(kind, type) and issubclass(kind, enum.Enum), _make_choice),
    (lambda kind: typing.get_origin(kind) is typing.Literal, _make_choice),
    (is_record, _make_record),
    (is_named_tuple, _make_named_tuple),  # which is a record, too: the later row wins
    (is_type_alias, _make_alias),
    (lambda kind: class_of(kind) in _COLLECTIONS, _make_collection),
    (lambda kind: class_of(kind) in OBJECTS, _make_mapping),
    (lambda kind: typing.get_origin(kind) in UNIONS, _make_union),
    (lambda kind: text_type(kind) is not None, _make_text),
    (is_model, _make_model),
]
