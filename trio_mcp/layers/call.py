"""What travels through the layers: one call of an author's function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from attrs import define

from trio_mcp.wire.answers import Answer
from trio_mcp.wire.jsonrpc import Id, Json
from trio_mcp.wire.revisions import Revision

if TYPE_CHECKING:
    import trio


class Exchange(Protocol):
    """The request that a call is part of, and the way back to its caller.

    A call that no client has made (`Registry.call`) has those up to `log_unsendable` only.
    """

    revision: Revision
    """The revision that the caller speaks."""
    params: Mapping[str, Json]
    """The parameters of the request."""
    threads: trio.CapacityLimiter | None
    """Bounds the worker threads of plain functions; `None` for Trio's own limiter."""
    entry: Any
    """What is called, in the registry that is served."""

    def view(self) -> Any:
        """Return what the caller sees (a `View`); `None` if that is everything."""

    def context_of(self, call: Call) -> Any:
        """Make the `Context` of a call."""

    def state_of(self, provider: Any) -> Any:
        """Return what a provider's lifespan yielded; the registry's own for `None`."""

    def state_keeper(self, provider: Any) -> Any:
        """Return what keeps state for the caller (a `StateKeeper`), in a provider's code."""

    def lends(self, slots: Any) -> None:
        """Lend what a call holds (`HeldSlots`) to others, whenever its caller is asked."""

    def unsendable(self, value: Any) -> Any:
        """Return and log the error for a value that turned out not to be JSON."""

    def log_unsendable(self, error: Exception) -> None:
        """Log for the author what is wrong with a result."""

    id: Id
    """The id of the request."""
    capabilities: dict[str, Json]
    """The capabilities that the caller has declared."""
    conversation: Any
    """The conversation with the caller; `None` until it has begun."""
    converses: bool
    """Whether anything that runs gets a context."""
    scope: Any
    """The cancel scope that the call runs in."""
    left_open: bool
    """Whether the call has left a cancel scope or a nursery open in its task."""
    finished_in_time: bool
    """Whether the result counts although the call was cancelled."""
    sent: Any
    """What was sent on before the call ran, with its answer; mostly `None`."""

    def begin_conversation(self) -> Any:
        """Return the conversation with the caller, which begins when it is first asked for."""

    def ended(self, outcome: str, answer: Answer) -> Answer:
        """Log how a call has ended by itself, and return the answer."""

    def cut_short(self) -> Answer | None:
        """Return the answer to a call that has ended by its cancellation."""

    def log_error(self, message: str, error: BaseException) -> None:
        """Log an exception, with a message that has `%s` for what was called."""

    async def hash_binding(self) -> None:
        """Hash what a sealed state of the request is bound to; in a thread, if that is large."""


@define(eq=False, repr=False)
class Call:
    """One call, as the layers see it. A layer that changes something hands on a changed copy."""

    exchange: Any
    """The request that it answers (an `Exchange`)."""
    entry: Any
    """What the caller asked for, in the registry that is served."""
    name: str
    """What was asked for, as the owner of the function calls it: a name, or a URI."""
    arguments: Any
    """The keyword arguments of the function; before they are bound, JSON."""
    provider: Any = None
    """The mounted provider that owns the function; `None` for the registry that is served."""
    _context: Any = None

    def make_context(self) -> Any:
        """Return the `Context` of the call, made when it is first asked for."""
        context = self._context
        if context is None:
            context = self._context = self.exchange.context_of(self)
        elif callable(context):
            context = self._context = context()
        return context

    def with_arguments(self, arguments: dict[str, Any], make_context: Callable[[], Any]) -> Call:
        """Return the call as middleware hands it on."""
        return Call(self.exchange, self.entry, self.name, arguments, self.provider, make_context)

    @property
    def state(self) -> Any:
        """What the lifespan of the function's owner yielded."""
        return self.exchange.state_of(self.provider)


Handler = Callable[[Call], Awaitable[Any]]
"""Does the rest of a call: what a layer stands around."""

Layer = Callable[[Handler], Handler]


class InputRequired(Exception):
    """This run of a handler ends here: it is run again once its question has been answered."""

    def __init__(self) -> None:
        super().__init__("the handler is run again once its question has been answered")
