"""A registry's lifespan: opened before anything is served, and closed at the end.

It is the author's own code, and it is opened deep inside of a transport, where its failures would
look like those of the transport. So they have a type of their own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Any, Final

import trio

from trio_mcp.counters import Counters
from trio_mcp.loggers import logger_of
from trio_mcp.wire.errors import LifespanError
from trio_mcp.wire.limits import Limits

if TYPE_CHECKING:  # few servers have one
    from trio_mcp.store.protocol import Store

logger = logger_of("trio_mcp")


class Opened:
    """What is open while a registry is served.

    Args:
        state: What the registry's lifespan yielded.
        store: What the instances of the server share, if there are several.
    """

    def __init__(self, state: Any = None, store: Store | None = None) -> None:
        self.state: Final = state
        self.store: Final = store
        self.providers: Final[dict[Any, Any]] = {}
        """By provider, what its lifespan yielded."""
        self.extensions: Final[dict[str, Any]] = {}
        """By identifier, what serves each extension (an `ExtensionServing`)."""
        self.provider_tokens: Final[dict[str, Callable[[str], Awaitable[str]]]] = {}
        """By issuer, what returns the provider's token of a login, where callers have logins."""
        self.counters: Final = Counters()
        """What is counted meanwhile, for `/metrics`."""
        self.complete: Final = trio.Event()
        """Set when all extensions are there."""

    def state_of(self, provider: Any) -> Any:
        """Return what a provider's lifespan yielded; also of one that was mounted since."""
        if provider in self.providers:
            return self.providers[provider]
        return provider.shared_state


@asynccontextmanager
async def opened(
    name: str, lifespan: Callable[[], AbstractAsyncContextManager[Any]], limits: Limits
) -> AsyncIterator[Any]:
    """Open a lifespan for the length of the block, and yield what it yields.

    Args:
        name: Whose it is.
        lifespan: Makes it.
        limits: How long it may take to open, and to close. Then it is cancelled: the former is an
            error, the latter is logged.

    Raises:
        LifespanError: It was too slow to open, or raised something of its own. What the block
            raises passes as it is.
    """
    passing: BaseException | None = None
    is_open = False
    # Around all of it, because the lifespan may open scopes and nurseries before it yields.
    with trio.CancelScope(deadline=trio.current_time() + limits.startup_timeout) as scope:
        try:
            async with lifespan() as state:
                scope.deadline = inf
                if scope.cancel_called:  # at the last moment
                    await trio.lowlevel.checkpoint()
                is_open = True
                try:
                    yield state
                except BaseException as error:  # noted only, to tell it from the lifespan's own
                    passing = error
                    raise
                finally:
                    scope.deadline = trio.current_time() + limits.lifespan_timeout
        except Exception as error:
            if _is_just(error, passing):
                raise
            what = f"the lifespan of {name} failed: {type(error).__name__}: {error}"
            raise LifespanError(what) from error
    if scope.cancelled_caught and not is_open:
        seconds = limits.startup_timeout
        raise LifespanError(f"the lifespan of {name} took longer than {seconds:g} s to open")
    if scope.cancelled_caught:
        seconds = limits.lifespan_timeout
        logger.error("The lifespan of %s took longer than %g s to close: cancelled", name, seconds)
        if passing is not None:
            raise passing


def _is_just(error: Exception, passing: BaseException | None) -> bool:
    """Whether an error is the block's own, which a nursery in the lifespan may have wrapped."""
    if isinstance(error, ExceptionGroup):
        return error.split(lambda each: each is passing)[1] is None
    return error is passing
