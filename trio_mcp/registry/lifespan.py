"""A registry's lifespan: opened before anything is served, and closed at the end.

It is the author's own code, and it is opened deep inside of a transport, where its failures would
look like those of the transport. So they have a type of their own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any


class LifespanError(Exception):
    """The lifespan of a registry raised something when it was opened or closed.

    What it raised is the `__cause__`.
    """

    __module__ = "trio_mcp.errors"


@asynccontextmanager
async def opened(
    name: str, lifespan: Callable[[], AbstractAsyncContextManager[Any]]
) -> AsyncIterator[Any]:
    """Open a lifespan for the length of the block, and yield what it yields.

    Args:
        name: Whose it is.
        lifespan: Makes it.

    Raises:
        LifespanError: It raised something of its own. What the block raises passes as it is.
    """
    passing: BaseException | None = None
    try:
        async with lifespan() as state:
            try:
                yield state
            except BaseException as error:  # noted only, to tell it from the lifespan's own below
                passing = error
                raise
    except Exception as error:
        if _is_just(error, passing):
            raise
        what = f"the lifespan of {name} failed: {type(error).__name__}: {error}"
        raise LifespanError(what) from error


def _is_just(error: Exception, passing: BaseException | None) -> bool:
    """Whether an error is the block's own, which a nursery in the lifespan may have wrapped."""
    if isinstance(error, ExceptionGroup):
        return error.split(lambda each: each is passing)[1] is None
    return error is passing
