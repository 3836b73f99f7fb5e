"""Which layer has raised an exception, as its traceback says."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from traceback import walk_tb
from types import CodeType
from typing import Any, Final

_HERE: Final = __name__.rpartition(".")[0]
_NO_LAYERS: Final = frozenset({"answering", "function"})
"""Files whose frames are on the way to every function."""


def layer_that_raised(error: BaseException, entry: Any) -> str | None:
    """Return the name of the layer that an exception of a call comes from.

    Args:
        error: The exception, as it was caught around the layers.
        entry: What was called.

    Returns:
        `None` if the author's function raised it, or if that cannot be known.
    """
    functions = {_code_of(level.function) for level in _entries(entry)}
    middleware = {_code_of(around) for level in _entries(entry) for around in level.middleware}
    if None in functions:  # a function without frames, such as one of C
        return None
    found = None
    for frame, _ in walk_tb(error.__traceback__):
        if frame.f_code in functions:
            return None
        room, _, name = frame.f_globals.get("__name__", "").rpartition(".")
        if frame.f_code in middleware:
            found = "middleware"
        elif room == _HERE and name not in _NO_LAYERS:
            found = name
    return found


def _entries(entry: Any) -> Iterator[Any]:
    """Yield an entry and, if it stands there for one of a mounted provider, those behind it."""
    while entry is not None:
        yield entry
        entry = None if entry.origin is None else entry.origin.item


def _code_of(function: Any) -> CodeType | None:
    """Return the code that shows in a traceback when a function is called."""
    function = getattr(function, "forward", function)
    while isinstance(function, partial):
        function = function.func
    if not hasattr(function, "__code__"):
        function = type(function).__call__
    return getattr(function, "__code__", None)
