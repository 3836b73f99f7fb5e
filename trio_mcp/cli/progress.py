"""A bar on a terminal for a call that reports its progress; elsewhere, nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trio_mcp.cli.screen import Screen, harmless

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressBar:
    """The progress of one call. It appears with the first report, and disappears at the end."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def update(self, progress: float, total: float | None, message: str | None) -> None:
        """Show how far the call is."""
        if not self._screen.err.is_terminal:
            return
        if self._bar is None:
            self._bar = _bar(self._screen)
            self._task = self._bar.add_task("", total=total, start=True)
        assert self._task is not None
        words = {} if message is None else {"description": harmless(message).replace("\n", " ")}
        self._bar.update(self._task, completed=progress, total=total, **words)  # type: ignore[arg-type]
        self._bar.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Get out of the way for the length of a block."""
        if self._bar is None:
            yield
            return
        self._bar.stop()
        try:
            yield
        finally:
            self._bar.start()

    def close(self) -> None:
        """Disappear."""
        if self._bar is not None:
            self._bar.stop()


def _bar(screen: Screen) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=screen.err,
        transient=True,
    )
