"""Time limits stand still while a person logs in, for all tasks that wait for that."""

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
        for limit in self.limits:
            self.paused.enter_context(limit())


@define(eq=False)
class Person:
    """A person who may be asked; meanwhile, the time limits of requests stand still."""

    _is_asked: bool = field(default=False, init=False)
    _waiting: set[_Waiting] = field(factory=set, init=False, repr=False)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Pause the time limits of this block while any task asks the person."""
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
        """Ask the person in the block, which one task at a time does."""
        self._is_asked = True
        for waiting in self._waiting:
            waiting.pause()
        try:
            yield
        finally:
            self._is_asked = False
            for waiting in self._waiting:
                waiting.paused.close()
