"""Whether an option is of the type that is documented: validators for fields."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import NoneType
from typing import Any

from attrs import Attribute

from trio_mcp.wire.safe_repr import safe_repr


def is_a(*kinds: type) -> Callable[[object, Attribute[Any], Any], None]:
    """Make a validator that takes values of these types, and refuses others by the field's name."""
    expected = " or ".join("None" if kind is NoneType else kind.__name__ for kind in kinds)

    def validate(_: object, attribute: Attribute[Any], value: Any) -> None:
        if not isinstance(value, kinds):
            found = type(value).__name__
            raise TypeError(f"{attribute.alias} must be {expected}, not {found}")

    return validate


def is_function(_: object, attribute: Attribute[Any], value: Any) -> None:
    """Refuse what cannot be called; `None` is for the field's default."""
    if not (callable(value) or (value is None and attribute.default is None)):
        raise TypeError(f"{attribute.alias} must be a function, not {type(value).__name__}")


def are_names(_: object, attribute: Attribute[Any], value: Any) -> None:
    """Refuse what is no list of names, such as a single name; `None` is for the field's default."""
    if value is None and attribute.default is None:
        return
    is_many = isinstance(value, Collection) and not isinstance(value, str)
    if not (is_many and all(isinstance(each, str) for each in value)):
        raise TypeError(f"{attribute.alias} must be a list of names, not {safe_repr(value)}")
