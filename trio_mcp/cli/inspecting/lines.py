"""Where the commands of a session come from: a person at a terminal, or a file or pipe."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import trio
from platformdirs import user_state_path

from trio_mcp.cli.prompter import CtrlC, NoAnswer, Prompt
from trio_mcp.cli.screen import Screen

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History

Suggest = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
"""Takes the words that are typed so far, the last one unfinished; returns what it may become."""


async def next_piped() -> str | None:
    """The next line of stdin, where that is no terminal; `None` if there will be no more."""
    line = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    return line or None


class TypedLines:
    """Lines that a person types. What is to be told meanwhile appears above the line.

    Args:
        screen: Where things are told.
        suggest: What to suggest at Tab.
    """

    def __init__(self, screen: Screen, suggest: Suggest) -> None:
        self._screen = screen
        self._prompt = Prompt(history=_history(), completer=_completer(suggest))

    async def next(self) -> str | None:
        """The next line; `None` if there will be no more."""
        from prompt_toolkit.patch_stdout import StdoutProxy

        before = self._screen.err.file
        with StdoutProxy(sleep_between_writes=0.05, raw=True) as proxy:
            self._screen.err.file = proxy  # type: ignore[assignment]
            try:
                return await self._prompt.read("mcp> ")
            except NoAnswer:
                return None
            except CtrlC:
                return ""
            finally:
                self._screen.err.file = before


def _history() -> History:
    """What was typed in earlier sessions, for nobody else to read."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    path = user_state_path("trio-mcp", appauthor=False) / "history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _completer(suggest: Suggest) -> Completer:
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document

    class Suggestions(Completer):
        def get_completions(
            self, document: Document, complete_event: CompleteEvent
        ) -> Iterable[Completion]:
            words = document.text_before_cursor.split(" ")
            last = words[-1]
            for each in trio.from_thread.run(suggest, words):  # a thread of Trio's reads the line
                if each.startswith(last):
                    key, sign, value = each.partition("=")
                    written = f"{key}{sign}{shlex.quote(value)}" if value else each
                    yield Completion(written, start_position=-len(last), display=each)

    return Suggestions()
