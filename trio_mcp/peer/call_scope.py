"""The cancel scope of the calls in one task, entered once for all that leave it as it was.

A task of `CallTasks` runs one call after another, and most of them end by themselves. The scope of
such a call is not left, but gets the deadline of the next one: to make, enter and leave a scope is
much of what a plain call costs.
"""

from __future__ import annotations

from math import inf
from types import TracebackType
from typing import Any, Final, Self

from trio import CancelScope
from trio.lowlevel import Task, current_task

CAN_SHARE: Final = hasattr(Task, "_cancel_status")
"""Whether a task tells in which scope it is: there is no public way, and later versions of Trio may
have another. Without it, each call enters a scope of its own."""


class CallScope:
    """The scope of one call after another in the same task (a `Scope` of each).

    Between `begin` and the `with` block, and after it, the call must not wait: the scope may be
    entered already, or still. `leave` comes first, where it has to.
    """

    __slots__ = ("_is_over", "_scope", "_status")

    def __init__(self) -> None:
        self._scope = CancelScope()
        self._status: Any = None  # Trio's, of the scope, while it is entered
        self._is_over = False  # the last call has ended by itself

    def begin(self, deadline: float) -> None:
        """Be the scope of the next call."""
        self._is_over = False
        if self._status is not None and not self._status.effectively_cancelled:
            self._scope.deadline = deadline
        else:
            self.leave()
            self._scope = CancelScope(deadline=deadline)

    def __enter__(self) -> Self:
        if self._status is None:
            self._scope.__enter__()
            self._status = current_task()._cancel_status
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        status = current_task()._cancel_status
        if error is None and status is self._status and not status.effectively_cancelled:
            self._is_over = True
            return False
        self._status = None  # it was cancelled, or another scope was left open, or it failed
        return bool(self._scope.__exit__(kind, error, traceback))

    def pause(self) -> None:
        """Let no deadline pass until the next call begins."""
        if self._status is not None:
            self._scope.deadline = inf

    def leave(self) -> None:
        """Leave the scope of the last call, if it is still entered."""
        if self._status is not None:
            self._status = None
            self._scope.__exit__(None, None, None)

    @property
    def deadline(self) -> float:
        return self._scope.deadline

    @deadline.setter
    def deadline(self, deadline: float) -> None:
        self._scope.deadline = deadline

    @property
    def cancelled_caught(self) -> bool:
        return self._scope.cancelled_caught

    @property
    def cancel_called(self) -> bool:
        return not self._is_over and self._scope.cancel_called

    def cancel(self, *, reason: str | None = None) -> None:
        self._scope.cancel(reason=reason)
