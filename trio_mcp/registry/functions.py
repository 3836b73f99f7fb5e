"""What can be seen of an author's function before it is called."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any


def is_async(function: Callable[..., Any]) -> bool:
    """Whether what it returns has to be awaited: a function, a `partial`, a callable object.

    What a class returns never has to be.
    """
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, type):
        return False
    call = getattr(function, "__call__", None)  # noqa: B004  # a callable object
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether it can be called with so many arguments, as far as that is known."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # of something written in C
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
