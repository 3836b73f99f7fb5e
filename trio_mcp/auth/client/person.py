"""A person who is asked on behalf of many, none of whom must be in a hurry meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from attrs import define, field, frozen

from trio_mcp.peer.time_limits import Pause, pauses_around


@frozen(eq=False)
class _Waiting:
    """A task that waits, and the time limits that hold for it."""

    limits: tuple[Pause, ...]
    paused: ExitStack = field(factory=ExitStack)

    def pause(self) -> None:
        for each in self.limits:
            self.paused.enter_context(each())


@define(eq=False)
class Person:
    """Whose time is not that of the requests: while they are asked, time limits stand still."""

    _is_asked: bool = field(default=False, init=False)
    _waiting: set[_Waiting] = field(factory=set, init=False, repr=False)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Wait in the block for something that a person may be asked for, by whichever task."""
        waiting = _Waiting(pauses_around())
        self._waiting.add(waiting)
        with waiting.paused:
            if self._is_asked:
                waiting.pause()
            try:
                yield
            finally:
                self._waiting.discard(waiting)

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Ask them in the block. Only one task at a time does."""
        self._is_asked = True
        for each in self._waiting:
            each.pause()
        try:
            yield
        finally:
            self._is_asked = False
            for each in self._waiting:
                each.paused.close()
