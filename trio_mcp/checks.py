"""Checks that options have the documented types, and are given to the right class."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from types import NoneType
from typing import Any, TypeVar

from attrs import Attribute, fields

from trio_mcp.wire.bounds import bound as bound
from trio_mcp.wire.bounds import check_number as check_number
from trio_mcp.wire.safe_repr import safe_repr

T = TypeVar("T")


def is_a(*kinds: type) -> Callable[[object, Attribute[Any], Any], None]:
    """Make a validator that accepts values of these types only; errors name the field."""
    expected = " or ".join("None" if kind is NoneType else kind.__name__ for kind in kinds)

    def validate(_: object, attribute: Attribute[Any], value: Any) -> None:
        if not isinstance(value, kinds):
            found = type(value).__name__
            raise TypeError(f"{attribute.alias} must be {expected}, not {found}")

    return validate


def names_only(values: Mapping[str, object]) -> str:
    """Write a mapping for a `repr` without its values, which may be secrets."""
    return "{" + ", ".join(f"{name!r}: …" for name in values) + "}"


def is_function(_: object, attribute: Attribute[Any], value: Any) -> None:
    """Refuse values that cannot be called, except a default of `None`."""
    if not (callable(value) or (value is None and attribute.default is None)):
        raise TypeError(f"{attribute.alias} must be a function, not {type(value).__name__}")


def are_names(_: object, attribute: Attribute[Any], value: Any) -> None:
    """Refuse values that are not a list of names, except a default of `None`."""
    if value is None and attribute.default is None:
        return
    is_many = isinstance(value, Collection) and not isinstance(value, str)
    if not (is_many and all(isinstance(name, str) for name in value)):
        raise TypeError(f"{attribute.alias} must be a list of names, not {safe_repr(value)}")


def option(name: str, value: T | None, kind: type[T]) -> T:
    """Return an option, or the default, or raise `TypeError` if it is of another type."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {kind.__name__}, not {type(value).__name__}")
    return value


def tell_apart(**kinds: type) -> None:
    """Make attrs classes refuse each other's fields by saying where a field belongs.

    Args:
        kinds: The classes, by the names of the options that take their instances.
    """
    for kind in kinds.values():
        hints = {
            attribute.alias: f"{name}={other.__name__}({attribute.alias}=...)"
            for name, other in kinds.items()
            for attribute in fields(other)
            if other is not kind
        }
        kind.__init__ = _refusing(kind, kind.__init__, hints)  # type: ignore[misc]


def _refusing(kind: type, init: Callable[..., None], hints: dict[str, str]) -> Callable[..., None]:
    @wraps(init)
    def checked(*args: Any, **options: Any) -> None:
        for name in options.keys() & hints.keys():
            raise TypeError(f"{kind.__name__} has no option {name!r}: give {hints[name]}")
        init(*args, **options)

    return checked
