"""The cancel scope that a task keeps, for the calls that run in it one after the other.

To enter a cancel scope of Trio's and to leave it takes longer than all else that is done around a
short call. So a task stays in one, without a deadline, and lends it to one call after the other:
a `CallScope` gives it the deadline of its call, and takes that back when the call returns. A call
that was cancelled, that raised, or that left something open in its task leaves the scope for good,
as it would leave one of its own. The next call enters a new one.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from math import inf
from types import TracebackType

import trio
from trio import CancelScope  # by itself, as each call needs one: `trio` looks names up slowly

from trio_mcp.peer.inbound import Scope


class KeptScope(AbstractContextManager["KeptScope", None]):
    """A cancel scope that the current task may stay in between calls, until the block ends."""

    def __init__(self) -> None:
        self.task = trio.lowlevel.current_task()
        # Trio has no public way to ask which scope of a task is the innermost.
        self.around = self.task._cancel_status
        self.free: CancelScope | None = None
        """What the task has entered and not left, while no call has borrowed it."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.free is not None:
            self.free.__exit__(kind, error, traceback)


class CallScope:
    """The cancel scope of one call (a `Scope`), which it has borrowed while it runs.

    Args:
        kept: Where from: that of the task in which the call runs.
        deadline: When the call is cancelled by itself.
    """

    __slots__ = ("_deadline", "_kept", "_returns", "_scope")

    def __init__(self, kept: KeptScope, deadline: float) -> None:
        self._kept = kept
        self._deadline = deadline
        self._scope: CancelScope | None = None

    def __enter__(self) -> None:
        kept, scope = self._kept, self._scope
        innermost, free = kept.task._cancel_status, kept.free
        if scope is None and free is not None and free._cancel_status is innermost:
            kept.free = None
            self._scope, self._returns = free, True
            free.deadline = self._deadline
            return
        if scope is None:  # else it was cancelled before the call ran
            scope = self._scope = CancelScope(deadline=self._deadline)
        # What stands around this call alone has to be left after its scope.
        self._returns = innermost is kept.around
        scope.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        kept, scope = self._kept, self._scope
        assert scope is not None
        is_innermost = scope._cancel_status is kept.task._cancel_status
        if error is None and self._returns and is_innermost and not scope.cancel_called:
            scope.deadline = inf
            kept.free, self._scope = scope, None
            return False
        return scope.__exit__(kind, error, traceback)

    @property
    def deadline(self) -> float:
        return self._deadline

    @deadline.setter
    def deadline(self, deadline: float) -> None:
        self._deadline = deadline
        if self._scope is not None:
            self._scope.deadline = deadline

    @property
    def cancel_called(self) -> bool:
        return self._scope is not None and self._scope.cancel_called

    @property
    def cancelled_caught(self) -> bool:
        return self._scope is not None and self._scope.cancelled_caught

    def cancel(self, *, reason: str | None = None) -> None:
        if self._scope is None:  # the call does not run yet, or not any more
            self._scope = CancelScope(deadline=self._deadline)
        self._scope.cancel(reason=reason)


def scope_until(deadline: float, kept: KeptScope | None) -> Scope:
    """Make the scope of a call with a deadline, borrowed if there is one to borrow from."""
    return CancelScope(deadline=deadline) if kept is None else CallScope(kept, deadline)
