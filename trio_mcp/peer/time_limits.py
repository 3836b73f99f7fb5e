"""Time limits that stand still while a person is asked, who must not be hurried.

Code that waits for a person (a login in a browser, say) may be far below the code that set the
limit. So the limits of the blocks around a task are known to it (`pausable`, `pauses_around`), as
cancel scopes are known to Trio, and nothing in between has to hand them on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from math import inf
from typing import Final

import trio
from attrs import define, field

Pause = Callable[[], AbstractContextManager[None]]
"""Lets a time limit, or several, stand still for the length of a block."""

_around: Final[ContextVar[tuple[Pause, ...]]] = ContextVar("trio_mcp_pauses", default=())


def pauses_around() -> tuple[Pause, ...]:
    """The pauses of all time limits that hold for this task."""
    return _around.get()


@contextmanager
def pausable(*pauses: Pause) -> Iterator[None]:
    """Have time limits stand still whenever a person is waited for in the block."""
    token = _around.set((*_around.get(), *pauses))
    try:
        yield
    finally:
        _around.reset(token)


class Pausable:
    """What can stand still for the length of a block."""

    def pause(self, now: float) -> None:
        """Stand still from now on. Pauses may overlap."""
        raise NotImplementedError

    def resume(self, now: float) -> None:
        """End a pause."""
        raise NotImplementedError

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let no time pass during the block: a person, or the other side, is waited for."""
        self.pause(trio.current_time())
        try:
            yield
        finally:
            self.resume(trio.current_time())


@define(eq=False, repr=False, slots=False)
class TimeLimit(Pausable):
    """Until when something may take. Pauses may overlap.

    Each request has one, and few are paused or renewed: what only those need has its default in the
    class, and costs the others nothing.

    Attributes:
        deadline: When the time is over, by Trio's clock; infinity while it stands still.
        stood_still: Seconds for which it has, so far.
        on_change: Called when the deadline is another one because of a pause.
        renewal: Seconds that there are again whenever it is renewed.
        latest: The deadline after which no renewal puts it, but for the time that it stood still.
    """

    deadline: float = inf
    on_change: Callable[[], object] = field(default=lambda: None, init=False)
    renewal = 0.0
    latest = inf
    stood_still = 0.0
    _pauses = 0
    _since = 0.0
    _due = inf
    """The deadline, if there had been no pause since."""

    @classmethod
    def after(cls, seconds: float) -> TimeLimit:
        """So many seconds from now on."""
        return cls(trio.current_time() + seconds)

    def pause(self, now: float) -> None:
        """Let it stand still until `resume`."""
        self._pauses += 1
        if self._pauses == 1:
            self._since, self._due = now, self.deadline
            self.deadline = inf
            self.on_change()

    def resume(self, now: float) -> None:
        """Let it go on, with as much time as there was left."""
        self._pauses -= 1
        if not self._pauses:
            self.stood_still += now - self._since
            self.deadline = self._due + now - self._since
            self.on_change()

    def renew(self, now: float) -> None:
        """Have the seconds of a renewal left again, or as many as there may be."""
        self.put_off(min(self.renewal, self.latest + self.stood_still - now), now)

    def put_off(self, seconds: float, now: float) -> None:
        """Have so many seconds left from now on, or more if there are more already."""
        if self._pauses:
            self._due = max(self._due, self._since + seconds)
        else:
            self.deadline = max(self.deadline, now + seconds)

    @contextmanager
    def scope(self) -> Iterator[trio.CancelScope]:
        """Cancel the block when the time is over, and stand still while it waits for a person."""
        with trio.CancelScope(deadline=self.deadline) as scope, pausable(self.paused):

            def follow() -> None:
                scope.deadline = self.deadline

            self.on_change = follow
            yield scope
