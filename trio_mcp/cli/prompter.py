"""Asking the person at the terminal, while everything else goes on.

prompt_toolkit reads a line in a thread, where Ctrl-C is a key like any other. When the waiting task
is cancelled, the thread first restores the terminal. Prompts, and the progress of calls, go to
stderr, so that stdout holds results only.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import trio
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from trio_mcp.background import background_nursery
from trio_mcp.cli.failures import require
from trio_mcp.cli.screen import Screen
from trio_mcp.loggers import harmless

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History


class NoAnswer(Exception):
    """The person ended the input (Ctrl-D) instead of answering."""


class CtrlC(Exception):
    """The person pressed Ctrl-C instead of answering."""


class Prompt:
    """Reads lines that a person types."""

    def __init__(self, history: History | None = None, completer: Completer | None = None) -> None:
        self._session: PromptSession[str] = _session(history)
        self._completer = completer
        self._given_up = False

    async def read(self, label: str, *, default: str = "", choices: Sequence[str] = ()) -> str:
        """Read a line, or raise `NoAnswer` or `CtrlC`. If cancelled, it restores the terminal."""
        self._given_up = False

        async def give_up_when_cancelled() -> None:
            try:
                await trio.sleep_forever()
            finally:
                self._give_up()

        async with background_nursery(give_up_when_cancelled):
            with trio.CancelScope(shield=True):
                answer = await trio.to_thread.run_sync(self._read, label, default, choices)
            if isinstance(answer, Exception):
                await trio.lowlevel.checkpoint_if_cancelled()
                raise answer
            return answer

    def _read(self, label: str, default: str, choices: Sequence[str]) -> str | Exception:
        from prompt_toolkit.completion import DummyCompleter, WordCompleter

        # Without one, that of the line before would go on.
        options: dict[str, Any] = {"completer": self._completer or DummyCompleter()}
        if choices:
            shown = {choice: harmless(choice) for choice in choices}
            options["completer"] = WordCompleter([*shown], ignore_case=True, display_dict=shown)
        if harmless(default) == default:  # or else it is not text that a person could type
            options["default"] = default
        try:
            return self._session.prompt(harmless(label), pre_run=self._leave_if_given_up, **options)
        except EOFError:
            return NoAnswer()
        except KeyboardInterrupt:
            return CtrlC()

    def _give_up(self) -> None:
        self._given_up = True
        loop = self._session.app.loop
        if loop is not None and self._session.app.is_running:
            loop.call_soon_threadsafe(self._leave_if_given_up)

    def _leave_if_given_up(self) -> None:
        app = self._session.app
        if self._given_up and app.is_running and not app.is_done:
            app.exit(exception=EOFError)


def _session(history: History | None) -> PromptSession[str]:
    require("prompt_toolkit", "asking on a terminal")
    from prompt_toolkit import PromptSession
    from prompt_toolkit.output import create_output

    return PromptSession(
        history=history, complete_while_typing=False, output=create_output(stdout=sys.stderr)
    )


class Prompter:
    """Asks one question after the other, and keeps a progress bar out of the way."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.turn = trio.Lock()
        """Held while a question is open: several tasks may ask."""
        self.paused: Callable[[], AbstractContextManager[object]] = nullcontext
        """Makes the context of a question."""
        self.occupied = False
        """Whether the person is typing something else, which a question interrupts."""
        self._prompt: Prompt | None = None

    async def ask(self, label: str, *, default: str = "", choices: Sequence[str] = ()) -> str:
        """Ask for a line, or raise `NoAnswer`. Ctrl-C interrupts as it does elsewhere."""
        if self._prompt is None:
            self._prompt = Prompt()
        try:
            answer = await self._prompt.read(label, default=default, choices=choices)
        except CtrlC:
            signal.raise_signal(signal.SIGINT)
            await trio.sleep_forever()
        return answer.strip()


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
