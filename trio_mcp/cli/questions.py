"""What a server asks in the middle of a call, answered by the person at the terminal.

Where there is no terminal, nothing is declared, so that a server knows that it cannot ask.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from trio_mcp.cli.asking import Asker, NoAnswer
from trio_mcp.cli.forms import ask_for
from trio_mcp.cli.schemas import properties_of
from trio_mcp.client.handlers import Handlers
from trio_mcp.wire.jsonrpc import Json

_ACTIONS: Final = ("accept", "decline", "cancel")


def terminal_handlers(asker: Asker, roots: Sequence[str]) -> Handlers:
    """Make the answers to what a server asks.

    Args:
        asker: Who asks the person.
        roots: Directories that the server may know of.
    """
    uris = [Path(each).resolve().as_uri() for each in roots] or None
    if not asker.screen.can_ask:
        return Handlers(roots=uris)
    questions = Questions(asker)
    return Handlers(elicitation=questions.fill_in, elicitation_url=questions.visit, roots=uris)


class Questions:
    """Answers `elicitation/create`."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

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
        asker = self._asker
        if asker.occupied:
            asker.screen.note("The server has a question; press Enter to see it.", "yellow")
        async with asker.turn:
            with asker.paused():
                asker.screen.note(f"The server asks: {params.get('message')}", "bold")
                try:
                    return await question(params)
                except NoAnswer:
                    return {"action": "cancel"}

    async def _fill_in(self, params: dict[str, Json]) -> dict[str, Json]:
        action = await self._action()
        if action != "accept":
            return {"action": action}
        schema = params.get("requestedSchema")
        root = schema if isinstance(schema, dict) else {}
        content: dict[str, Json] = {}
        for name, field in properties_of(root).items():
            value = await ask_for(self._asker, name, field, root)
            if value is not None:
                content[name] = value
        return {"action": "accept", "content": content}

    async def _visit(self, params: dict[str, Json]) -> dict[str, Json]:
        url = str(params.get("url"))
        screen = self._asker.screen
        screen.note(f"It wants you to visit a page of {urlsplit(url).hostname}:")
        screen.note(url, "cyan")
        screen.note("If you agree, open it in your browser, and accept.")
        return {"action": await self._action()}

    async def _action(self) -> str:
        while True:
            said = await self._asker.ask("accept, decline or cancel? ", choices=_ACTIONS)
            for each in _ACTIONS:
                if said and each.startswith(said.lower()):
                    return each
            self._asker.screen.note(f"please type one of: {', '.join(_ACTIONS)}", "red")
