"""What can be seen of an author's function before it is called."""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial, wraps
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


def awaited(
    function: Callable[..., Any], in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]
) -> Callable[..., Any]:
    """Return the function, or an async one for a plain one that is wrapped around an async one.

    A decorator often returns such a plain function, which returns what the async one returned. It
    may as well have run that in a loop of its own, so it is called in a thread.
    """
    if is_async(function) or not is_async(inspect.unwrap(function)):
        return function

    @wraps(function)
    async def run(*args: Any, **options: Any) -> Any:
        # In a tuple, since Trio takes a coroutine from a thread for a mistake.
        (result,) = await in_thread(lambda: (function(*args, **options),))
        return await result if inspect.isawaitable(result) else result

    return run


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
