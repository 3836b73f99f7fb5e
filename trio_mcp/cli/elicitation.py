"""What a server asks in the middle of a call, answered by the person at the terminal.

Where there is no terminal, nothing is declared, so that a server knows that it cannot ask.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from trio_mcp.cli.forms import ask_for_all, describe
from trio_mcp.cli.prompter import NoAnswer, Prompter
from trio_mcp.cli.schemas import field_of
from trio_mcp.client.handlers import Handlers
from trio_mcp.wire.jsonrpc import Json

_ACTIONS: Final = ("accept", "decline", "cancel")


def terminal_handlers(prompter: Prompter, roots: Sequence[str]) -> Handlers:
    """Make the answers to what a server asks.

    Args:
        prompter: Who asks the person.
        roots: Directories that the server may know of.
    """
    uris = [Path(each).resolve().as_uri() for each in roots] or None
    if not prompter.screen.can_ask:
        return Handlers(roots=uris)
    questions = ElicitationHandler(prompter)
    return Handlers(elicitation=questions.fill_in, elicitation_url=questions.visit, roots=uris)


class ElicitationHandler:
    """Answers `elicitation/create`."""

    def __init__(self, prompter: Prompter) -> None:
        self._prompter = prompter

    async def fill_in(self, params: dict[str, Json]) -> dict[str, Json]:
        """Let the person fill in a form, decline or cancel."""
        return await self._in_turn(self._fill_in, params)

    async def visit(self, params: dict[str, Json]) -> dict[str, Json]:
        """Let the person visit a web page, decline or cancel."""
        return await self._in_turn(self._visit, params)

    async def _in_turn(
        self,
        question: Callable[[dict[str, Json]], Awaitable[dict[str, Json]]],
        params: dict[str, Json],
    ) -> dict[str, Json]:
        prompter = self._prompter
        if prompter.occupied:
            prompter.screen.note("The server has a question; press Enter to see it.", "yellow")
        async with prompter.turn:
            with prompter.paused():
                prompter.screen.note(f"The server asks: {params.get('message')}", "bold")
                try:
                    return await question(params)
                except NoAnswer:
                    return {"action": "cancel"}

    async def _fill_in(self, params: dict[str, Json]) -> dict[str, Json]:
        whole = field_of(params.get("requestedSchema"))
        (name, field), *others = whole.properties.items() or [("", whole)]
        if not others and field.is_yes_or_no:  # then it takes no second question
            describe(self._prompter, field)
            said = await self._choice(("yes", "no", *_ACTIONS[1:]))
            if said in _ACTIONS:
                return {"action": said}
            return {"action": "accept", "content": {name: said == "yes"}}
        action = await self._choice(_ACTIONS)
        if action != "accept":
            return {"action": action}
        return {"action": "accept", "content": await ask_for_all(self._prompter, whole)}

    async def _visit(self, params: dict[str, Json]) -> dict[str, Json]:
        url = str(params.get("url"))
        screen = self._prompter.screen
        screen.note(f"It wants you to visit a page of {urlsplit(url).hostname}:")
        screen.note(url, "cyan")
        screen.note("If you agree, open it in your browser, and accept.")
        return {"action": await self._choice(_ACTIONS)}

    async def _choice(self, choices: Sequence[str]) -> str:
        label = f"{', '.join(choices[:-1])} or {choices[-1]}? "
        while True:
            said = await self._prompter.ask(label, choices=choices)
            for each in choices:
                if said and each.startswith(said.lower()):
                    return each
            self._prompter.screen.note(f"please type one of: {', '.join(choices)}", "red")
