"""Reading the commands of a session, from a terminal, a file or a pipe."""

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
from trio_mcp.loggers import harmless
from trio_mcp.threads import in_thread

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History

Suggest = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
"""Completes the last of the typed words."""


async def next_piped() -> str | None:
    """Read the next line of stdin; `None` at its end."""
    line = await in_thread(sys.stdin.readline)
    return line or None


def typed_lines(screen: Screen, suggest: Suggest) -> Callable[[], Awaitable[str | None]]:
    """Make a function that reads a typed line, with suggestions at Tab; `None` at the end.

    Notes appear above the line meanwhile.
    """
    prompt = Prompt(history=_history(), completer=_completer(suggest))

    async def next_typed() -> str | None:
        from prompt_toolkit.patch_stdout import StdoutProxy

        before = screen.err.file
        with StdoutProxy(sleep_between_writes=0.05, raw=True) as proxy:
            screen.err.file = proxy  # type: ignore[assignment]
            try:
                return await prompt.read("mcp> ")
            except NoAnswer:
                return None
            except CtrlC:
                return ""
            finally:
                screen.err.file = before

    return next_typed


def _history() -> History:
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
            for word in trio.from_thread.run(suggest, words):  # a thread of Trio's reads the line
                # What is not harmless is not text that a person could type.
                if word.startswith(last) and harmless(word) == word:
                    key, sign, value = word.partition("=")
                    written = f"{key}{sign}{shlex.quote(value)}" if value else word
                    yield Completion(written, start_position=-len(last), display=word)

    return Suggestions()
