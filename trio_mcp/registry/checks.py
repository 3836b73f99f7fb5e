"""Whether what is registered can be sent: found out once, and by the name of the option.

What each field of a payload takes stands in its annotation and nowhere else. Whatever may change is
copied, so that what was checked is what is sent, whatever happens to the original.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from math import inf
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

import attrs

from trio_mcp.schema import SchemaError
from trio_mcp.wire import codec
from trio_mcp.wire.bounds import is_number
from trio_mcp.wire.conversion import wire_name
from trio_mcp.wire.jsonrpc import Json, encode
from trio_mcp.wire.payloads import Icon
from trio_mcp.wire.safe_repr import safe_repr

T = TypeVar("T")


def check_timeout(timeout: Any, name: str = "timeout") -> None:
    """Raise `SchemaError` unless this is a number of seconds above 0, or `None`."""
    if timeout is not None and not (is_number(timeout) and timeout > 0):
        raise SchemaError(f"{name} must be more than 0 seconds, not {safe_repr(timeout)}")


def check_bound(name: str, bound: Any) -> None:
    """Raise `SchemaError` unless this is a whole number above 0, or `None`."""
    if bound is not None and (type(bound) is not int or bound < 1):
        raise SchemaError(f"{name} must be 1 or more, not {safe_repr(bound)}")


def check_caching(cache_ttl: Any, cache_scope: Any) -> None:
    """Raise `SchemaError` unless this says for how long, and for whom, something may be kept."""
    if not (is_number(cache_ttl) and 0 <= cache_ttl * 1000.0 < inf):  # it is sent in milliseconds
        raise SchemaError(
            f"cache_ttl must be at least 0 seconds and finite, not {safe_repr(cache_ttl)}"
        )
    if not (isinstance(cache_scope, str) and cache_scope in ("public", "private")):
        raise SchemaError(
            f"cache_scope must be 'public' or 'private', not {safe_repr(cache_scope)}"
        )


def scopes_of(scopes: Any) -> frozenset[str]:
    """Return scopes as a set, or raise `SchemaError`."""
    if scopes == ():  # as nearly always: no start waits for OAuth
        return frozenset()
    from trio_mcp.auth import scopes as oauth

    try:
        return oauth.scopes_of(scopes)
    except ValueError as error:
        raise SchemaError(str(error)) from None


# -- options that become payloads ---------------------------------------------------------


def annotations_of(kind: type[T], value: T | Mapping[str, Any] | None) -> T | None:
    """Return annotations as a payload, however they were given, or raise `SchemaError`."""
    return None if value is None else _payload("annotations", kind, value)


def icons_of(value: Any) -> list[Icon] | None:
    """Return icons as payloads, however they were given, or raise `SchemaError`."""
    if value is None:
        return None
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        raise SchemaError(
            f"icons must be a list, such as [Icon('https://…')], not {safe_repr(value)}"
        )
    return [_payload(f"icons[{index}]", Icon, each) for index, each in enumerate(value)] or None


def json_of(name: str, value: Mapping[str, Json] | None) -> dict[str, Json] | None:
    """Return a copy of an object that is sent as it is, or raise `SchemaError`."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise SchemaError(f"{name} must be an object (a dict), not {safe_repr(value)}")
    copy = dict(value)
    check_json(name, copy)
    return deepcopy(copy)


def check_json(name: str, value: Json) -> None:
    """Raise `SchemaError` unless a value can be sent."""
    try:
        encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError(
            f"{name} cannot be sent as JSON ({error}); use only dicts whose keys are strings, "
            "lists, strings, finite numbers, True, False and None"
        ) from None


def check_schema_texts(name: str, schema: Json) -> None:
    """Raise `SchemaError` unless a checked schema can be sent: its texts may be no Unicode."""
    try:
        codec.dumps(schema)  # a third of what `encode` costs, which looks for NaN as well
    except TypeError:
        check_json(name, schema)


def _payload(name: str, kind: type[T], value: Any) -> T:
    if isinstance(value, Mapping):
        made: T = _from_mapping(name, kind, value)
        return made
    if not isinstance(value, kind):
        fields = ", ".join(map(repr, _wire_names(kind)))
        raise SchemaError(
            f"{name} must be {kind.__name__}(…), or a dict with some of {fields}, "
            f"not {safe_repr(value)}"
        )
    check_payload(value, f"{name}.")
    return deepcopy(value)


def _from_mapping(name: str, kind: Any, given: Mapping[str, Any]) -> Any:
    known = _wire_names(kind)
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known:
            from trio_mcp.wire.closest import did_you_mean  # no start waits for it

            meant = did_you_mean(str(key), known) or f"; there are {', '.join(known)}"
            raise SchemaError(f"{name} has no {safe_repr(key)}{meant}")
        values[known[key]] = deepcopy(value)
    for field, expected, fits in _fields(kind):
        if field in values and not fits(values[field]):
            raise SchemaError(f"{name}.{field} must be {expected}, not {safe_repr(values[field])}")
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:  # attrs: a field is missing, or out of its range
        raise SchemaError(f"{name}: {error.args[0]}") from None


def _wire_names(kind: Any) -> dict[str, str]:
    return {wire_name(field): field.name for field in attrs.fields(kind)}


# -- payloads -----------------------------------------------------------------------------

_Expectation = tuple[str, Callable[[Any], bool]]
"""What a field takes, in words and as a test."""


def check_payload(payload: Any, prefix: str = "") -> None:
    """Raise `SchemaError` unless the texts, numbers and switches of a payload are such.

    Args:
        payload: The payload. Other payloads in it have been checked already.
        prefix: What stands before the name of a field in the message.
    """
    for name, expected, fits in _fields(payload.__class__):
        value = getattr(payload, name)
        if not fits(value):
            raise SchemaError(f"{prefix}{name} must be {expected}, not {safe_repr(value)}")


@cache
def _fields(kind: Any) -> list[tuple[str, str, Callable[[Any], bool]]]:
    found = [(field.name, _expectation(field.type)) for field in attrs.fields(kind)]
    return [(name, *expectation) for name, expectation in found if expectation is not None]


def _expectation(kind: Any) -> _Expectation | None:
    """What a field of a type takes; `None` where that is not for `check_payload` to say."""
    if get_origin(kind) in (Union, UnionType):
        return _optional(*(member for member in get_args(kind) if member is not NoneType))
    if get_origin(kind) is Literal:
        allowed = get_args(kind)
        return " or ".join(map(repr, allowed)), lambda value: is_text(value) and value in allowed
    if get_origin(kind) is list:
        return _list_of(*get_args(kind))
    return _SCALARS.get(kind)


def _optional(kind: Any, *others: Any) -> _Expectation | None:
    expectation = None if others else _expectation(kind)
    if expectation is None:
        return None
    expected, fits = expectation
    return expected, lambda value: value is None or fits(value)


def _list_of(kind: Any) -> _Expectation | None:
    expectation = _expectation(kind)
    if expectation is None:
        return None
    expected, fits = expectation
    return (
        f"a list, each {expected}",
        lambda value: isinstance(value, list) and all(map(fits, value)),
    )


def is_text(value: Any) -> bool:
    """Whether a value is text that can be sent, which half a surrogate pair cannot be."""
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


_SCALARS: Final[dict[Any, _Expectation]] = {
    str: ("a text", is_text),
    bool: ("True or False", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: type(value) is int),
    float: ("a number", is_number),
}
