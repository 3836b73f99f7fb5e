"""What a server asks in the middle of a call, answered by the person at the terminal.

Where there is no terminal, nothing is declared, so that a server knows that it cannot ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from trio_mcp.cli.asking import Asker, NoAnswer
from trio_mcp.cli.forms import ask_for
from trio_mcp.cli.schemas import properties_of
from trio_mcp.client.handlers import Handlers
from trio_mcp.wire.jsonrpc import Json

_ACTIONS: Final = ("accept", "decline", "cancel")


class TerminalHandlers(Handlers):
    """Handlers that declare forms and web pages, if there is somebody to ask."""

    @property
    def capabilities(self) -> dict[str, Json]:
        """What to declare to the server."""
        declared = super().capabilities
        if "elicitation" in declared:
            declared["elicitation"] = {"form": {}, "url": {}}
        return declared


def terminal_handlers(asker: Asker, roots: Sequence[str]) -> Handlers:
    """Make the answers to what a server asks.

    Args:
        asker: Who asks the person.
        roots: Directories that the server may know of.
    """
    uris = [Path(each).resolve().as_uri() for each in roots] or None
    elicitation = Questions(asker).answer if asker.screen.can_ask else None
    return TerminalHandlers(elicitation=elicitation, roots=uris)


class Questions:
    """Answers `elicitation/create`."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def answer(self, params: dict[str, Json]) -> dict[str, Json]:
        """Let the person answer, decline or cancel."""
        if self._asker.occupied:
            self._asker.screen.note("The server has a question; press Enter to see it.", "yellow")
        async with self._asker.turn:
            with self._asker.paused():
                try:
                    if params.get("mode") == "url":
                        return await self._visit(params)
                    return await self._fill_in(params)
                except NoAnswer:
                    return {"action": "cancel"}

    async def _fill_in(self, params: dict[str, Json]) -> dict[str, Json]:
        self._asker.screen.note(f"The server asks: {params.get('message')}", "bold")
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
        screen.note(f"The server asks: {params.get('message')}", "bold")
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
