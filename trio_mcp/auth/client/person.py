"""Time limits stand still while a person logs in, for all tasks that wait for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from attrs import define, field

from trio_mcp.peer.time_limits import Pause, pauses_around


@define(eq=False)
class Person:
    """A person who may be asked; meanwhile, the time limits of requests stand still."""

    _is_asked: bool = field(default=False, init=False)
    _waiting: dict[ExitStack, tuple[Pause, ...]] = field(factory=dict, init=False, repr=False)
    """The time limits of tasks that wait, by what ends their pauses."""

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Pause the time limits of this block while any task asks the person."""
        with ExitStack() as pauses:
            self._waiting[pauses] = pauses_around()
            if self._is_asked:
                self._pause(pauses)
            try:
                yield
            finally:
                del self._waiting[pauses]

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Ask the person in the block, which one task at a time does."""
        self._is_asked = True
        for pauses in self._waiting:
            self._pause(pauses)
        try:
            yield
        finally:
            self._is_asked = False
            for pauses in self._waiting:
                pauses.close()

    def _pause(self, pauses: ExitStack) -> None:
        for limit in self._waiting[pauses]:
            pauses.enter_context(limit())
