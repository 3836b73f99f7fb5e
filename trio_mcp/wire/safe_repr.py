"""How a value that is refused stands in the error that says so."""

from typing import Final

_LONGEST: Final = 60
"""Characters."""


def safe_repr(value: object) -> str:
    """Return the beginning of a value's `repr`, or its type where it has no `repr`.

    What is refused may be anything: nested beyond what `repr` can follow, an integer too long to be
    written, an object whose `__repr__` fails. The error that says so is raised all the same.

    Example:
        >>> safe_repr({"a": 1})
        "{'a': 1}"
    """
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text[:_LONGEST]
