"""One request from the other side, while it is open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from math import inf
from typing import Protocol

import trio
from attrs import define, field

from trio_mcp.wire.jsonrpc import Id, Json, join_batch


class Cause(Enum):
    """Why a request was cancelled before its deadline."""

    PEER = "cancelled by the peer"
    SHUTDOWN = "shutdown"


class Call(Protocol):
    """A request that needs a task of its own."""

    @property
    def timeout(self) -> float:
        """Seconds that it may take."""

    @property
    def label(self) -> str:
        """What it is, for the log."""

    async def run(self, exchange: Exchange, scope: trio.CancelScope) -> bytes | None:
        """Do the work inside the scope and return the line that answers it, or `None`."""

    @property
    def long_lived(self) -> bool:
        """Whether it goes on until it is cancelled, and so takes no place among the others."""

    def unfinished(self, exchange: Exchange) -> bytes | None:
        """The line that answers it when it was cancelled, whether or not it has ended."""


class Back(Protocol):
    """The way back to who sent a request, while it is open."""

    @property
    def keep_alive(self) -> float:
        """Seconds of silence after which `send_keep_alive` is due."""

    async def say(self, line: bytes) -> None:
        """Send a notification, once there is room. Cancelled while it waits, it is dropped."""

    def say_nowait(self, line: bytes) -> None:
        """Send a notification, whether there is room or not."""

    async def ask(self, method: str, params: dict[str, Json], deadline: float) -> Json:
        """Send a request, and return its result. Raises as `Asking.ask` does."""

    async def send_keep_alive(self) -> None:
        """Show whoever is on the way that it is still in use."""

    def hang_up(self) -> None:
        """Have the other side come back for the rest, where there is a way to do so."""


class SteadyBack:
    """What a way back inherits if nobody takes its silence for its end."""

    __slots__ = ()

    @property
    def keep_alive(self) -> float:
        """`send_keep_alive` is never due."""
        return inf

    async def send_keep_alive(self) -> None:
        """Do nothing."""


@define(eq=False)
class Exchange:
    """An open request: its cancel scope, and the way back to its sender.

    It is the only thing that differs between transports.
    """

    id: Id
    call: Call
    batch: BatchAnswer | None
    size: int
    """Bytes that it counts for while it waits."""
    scope: trio.CancelScope | None = None
    """What the work runs in; `None` while it waits."""
    started: float = 0.0
    """When the work began, by Trio's clock."""
    back: Back | None = None
    """`None` where nothing can be said but the answer."""
    on_deadline: Callable[[], object] | None = None
    """Called when the deadline comes closer."""
    on_overdue: Callable[[bytes | None], Awaitable[object]] | None = None
    """Sends an answer in place of a call that goes on although it was cancelled."""
    impatient: bool = False
    """The deadline is the caller's: when it passes, nobody waits for an answer."""
    cause: Cause | None = None
    """Why it was cancelled; `None` while it is not, or when its deadline passed."""
    answered: bool = False

    def move_deadline(self, deadline: float) -> None:
        """Give the work more time, or less.

        Args:
            deadline: When it has to be done, by Trio's clock.
        """
        if self.scope is not None:
            self.scope.deadline = deadline
            if self.on_deadline is not None:
                self.on_deadline()

    @property
    def reason(self) -> Cause | None:
        """Why the work was cancelled; `None` if it took too long."""
        return Cause.PEER if self.cause is None and self.impatient else self.cause

    def cancel(self, cause: Cause) -> None:
        """Cancel the work. The first cause counts."""
        if self.cause is None:
            self.cause = cause
        if self.scope is not None:
            self.scope.cancel()


@define(eq=False)
class BatchAnswer:
    """Collects the answers to one batch, which travel as one line."""

    open: int
    """Requests that are not answered yet."""
    lines: list[bytes] = field(factory=list)

    def add(self, line: bytes | None) -> bytes | None:
        """Note one answer (or that there is none). Returns the line to send, after the last."""
        if line is not None:
            self.lines.append(line)
        self.open -= 1
        return join_batch(self.lines) if self.open == 0 and self.lines else None
