"""Whether a number can bound anything: for arguments, and validators for `Limits` and its like."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import inf
from typing import Any, Final

from attrs import Attribute

from trio_mcp.wire.safe_repr import safe_repr


def is_number(value: Any) -> bool:
    """Whether a value is a number, which NaN, a bool and integers beyond all floats are not."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return isinstance(value, float) and value == value


def is_finite(value: Any) -> bool:
    """Whether a value is a number that JSON has."""
    return is_number(value) and abs(value) != inf


def check_number(
    name: str, value: Any, *, whole: bool = False, zero: bool = False, finite: bool = False
) -> None:
    """Refuse what is not a number of things, of bytes or of seconds, with a `ValueError`.

    Args:
        name: What the value is for.
        value: The value.
        whole: Whether it counts something. Counts, too, may be infinite.
        zero: Whether it may be 0, and not only more.
        finite: Whether it must not be infinite.
    """
    fits = is_number(value) and (value > 0 or (zero and value == 0))
    if whole and not (isinstance(value, int) or value == inf):
        fits = False
    if not fits or (finite and value == inf):
        expected = "a whole number, " if whole else "a number, "
        expected += "at least 0" if zero else "more than 0"
        expected += " and finite" if finite else ""
        raise ValueError(f"{name} must be {expected}, not {safe_repr(value)}")


def bound(
    *, whole: bool = False, zero: bool = False, finite: bool = False
) -> Callable[[Any, Attribute[Any], Any], None]:
    """Make a validator for a field, with the options of `check_number`."""

    def validate(_: Any, attribute: Attribute[Any], value: Any) -> None:
        check_number(str(attribute.alias), value, whole=whole, zero=zero, finite=finite)

    return validate


COUNT: Final[Any] = bound(whole=True)
COUNT_OR_ZERO: Final[Any] = bound(whole=True, zero=True)
POSITIVE: Final[Any] = bound()
AT_LEAST_ZERO: Final[Any] = bound(zero=True)
"""The validators that most fields need."""
