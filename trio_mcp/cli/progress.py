"""A progress bar on a terminal; elsewhere, nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from trio_mcp.cli.screen import Screen
from trio_mcp.loggers import harmless


class ProgressBar:
    """The progress of one call, shown from its first report to its end."""

    def __init__(self, screen: Screen) -> None:
        self._task: TaskID | None = None
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=screen.err,
            transient=True,
            disable=not screen.err.is_terminal,
        )

    def update(self, progress: float, total: float | None, message: str | None) -> None:
        if self._bar.disable:
            return
        if self._task is None:
            self._task = self._bar.add_task("", total=total)
        words = {} if message is None else {"description": harmless(message)}
        self._bar.update(self._task, completed=progress, total=total, **words)  # type: ignore[arg-type]
        self._bar.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the bar for the length of a block."""
        self.close()
        try:
            yield
        finally:
            if self._task is not None:
                self._bar.start()

    def close(self) -> None:
        if self._task is not None:
            self._bar.stop()
