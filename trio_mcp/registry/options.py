"""The options of what is registered: which there are, and of what type they must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from trio_mcp.schema import SchemaError

_TEXTS: Final = ("name", "title", "description", "mime_type")


def check_options(what: str, make: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Make sure that options are known, before they get to the function that takes them.

    Args:
        what: What they are for, such as `a tool`.
        make: Takes them by keyword.
        options: As they were given.

    Raises:
        TypeError: There is no such option.
        SchemaError: A name, or another text, is none.
    """
    known: Mapping[str, Any] = getattr(make, "__kwdefaults__", None) or {}
    for name, value in options.items():
        if name not in known:
            from difflib import get_close_matches

            close = get_close_matches(name, known, n=1)
            meant = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
            raise TypeError(f"{what} has no option {name!r}; {meant}")
        if name in _TEXTS and not isinstance(value, str | None):
            raise SchemaError(f"{what}: {name} must be a text, not {value!r:.60}")


def check_timeout(timeout: Any) -> None:
    """Make sure that a time-out is one.

    Raises:
        SchemaError: It is not.
    """
    if timeout is None:
        return
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not timeout > 0:
        raise SchemaError(f"timeout must be more than 0 seconds, not {timeout!r}")


def check_bound(name: str, bound: Any) -> None:
    """Make sure that a bound is a number of things.

    Raises:
        SchemaError: It is not.
    """
    if bound is not None and (type(bound) is not int or bound < 1):
        raise SchemaError(f"{name} must be 1 or more, not {bound!r}")
