"""What kind of annotation something is, for all that depends on it."""

import collections.abc as abc
import sys
import typing
from collections.abc import Iterator
from typing import Any

from trio_mcp.schema.fields import UNIONS, key_of, resolve_names
from trio_mcp.schema.models import is_model

ARRAYS = (list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection)
SETS = (set, frozenset, abc.Set, abc.MutableSet)
OBJECTS = (dict, abc.Mapping, abc.MutableMapping)

# Anything may be anything: on the way out it has to be looked at.
_PLAIN = {str, bool, type(None), None, Any, object, list, dict}
_PLAIN_RESULTS = {str, bool, type(None), None, int, float}
_WRAPPERS = {"Required", "NotRequired", "ReadOnly", "Final"}


def is_plain(annotation: Any, *, numbers: bool = True) -> bool:
    """Whether JSON's own value is already the Python value, all the way down.

    On the way in `int` and `float` do not count, because JSON does not tell them apart.
    """
    annotation, plain = bare(annotation), _PLAIN_RESULTS if numbers else _PLAIN
    if key_of(annotation) in plain:
        return True
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (list, dict, *UNIONS):
        return all(is_plain(argument, numbers=numbers) for argument in arguments)
    return origin is typing.Literal and all(type(argument) in plain for argument in arguments)


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


def alternatives(annotation: Any) -> Iterator[Any]:
    """What a value of an annotation may be: the members of a union, else the annotation itself."""
    annotation = bare(annotation)
    if typing.get_origin(annotation) in UNIONS:
        for member in typing.get_args(annotation):
            yield from alternatives(member)
    else:
        yield annotation


def is_type_alias(annotation: Any) -> bool:
    """Whether this is an alias made by `type X = ...` or by `TypeAliasType`."""
    return type(annotation).__name__ == "TypeAliasType"


def alias_value(alias: Any) -> Any:
    """What such an alias stands for; the names in it are those of its module."""
    module = sys.modules.get(alias.__module__)
    return resolve_names(alias.__value__, vars(module) if module else {}, {})


def without_names(annotation: Any) -> Any:
    """What stands behind aliases, new types and descriptions."""
    annotation = bare(annotation)
    return without_names(alias_value(annotation)) if is_type_alias(annotation) else annotation


def annotation_text(annotation: Any) -> str:
    """How an annotation is written."""
    if isinstance(annotation, type):
        return annotation.__qualname__
    if isinstance(annotation, typing.ForwardRef):
        return repr(annotation.__forward_arg__)
    return str(annotation).replace("typing.", "")
