"""A server's questions during a call, answered at the terminal.

Without a terminal no capability is declared, so that the server knows that it cannot ask.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from trio_mcp.cli.forms import ask_for_all, describe
from trio_mcp.cli.prompter import NoAnswer, Prompter
from trio_mcp.cli.schemas import field_of
from trio_mcp.client.handlers import Handlers
from trio_mcp.loggers import harmless
from trio_mcp.wire.jsonrpc import Json

Params = dict[str, Json]
_ACTIONS: Final = ("accept", "decline", "cancel")


def terminal_handlers(prompter: Prompter, roots: Sequence[str]) -> Handlers:
    uris = [Path(root).resolve().as_uri() for root in roots] or None
    if not prompter.screen.can_ask:
        return Handlers(roots=uris)
    return Handlers(
        elicitation=partial(_in_turn, fill_in, prompter),
        elicitation_url=partial(_in_turn, _visit, prompter),
        roots=uris,
    )


async def _in_turn(
    answer: Callable[[Prompter, Params], Awaitable[Params]], prompter: Prompter, params: Params
) -> Params:
    if prompter.occupied:
        prompter.screen.note("The server has a question; press Enter to see it.", "yellow")
    async with prompter.turn:
        with prompter.paused():
            prompter.screen.quote(str(params.get("message")), "bold", about="The server asks: ")
            try:
                return await answer(prompter, params)
            except NoAnswer:
                return {"action": "cancel"}


async def fill_in(prompter: Prompter, params: Params) -> Params:
    whole = field_of(params.get("requestedSchema"))
    (name, field), *others = whole.properties.items() or [("", whole)]
    if not others and field.is_yes_or_no:  # then it takes no second question
        describe(prompter, field)
        said = await _choice(prompter, ("yes", "no", *_ACTIONS[1:]))
        if said in _ACTIONS:
            return {"action": said}
        return {"action": "accept", "content": {name: said == "yes"}}
    action = await _choice(prompter, _ACTIONS)
    if action != "accept":
        return {"action": action}
    return {"action": "accept", "content": await ask_for_all(prompter, whole)}


async def _visit(prompter: Prompter, params: Params) -> Params:
    url, note = harmless(str(params.get("url"))), prompter.screen.note
    try:
        host = urlsplit(url.replace("\\", "/")).hostname  # as browsers read it
    except ValueError:
        host = None
    if host is None:
        note("It wants you to visit a page without a proper address, which is declined.")
        return {"action": "decline"}
    note(f"It wants you to visit a page of {host}:")
    note(url, "cyan")
    note("If you agree, open it in your browser, and accept.")
    return {"action": await _choice(prompter, _ACTIONS)}


async def _choice(prompter: Prompter, choices: Sequence[str]) -> str:
    label = f"{', '.join(choices[:-1])} or {choices[-1]}? "
    while True:
        said = await prompter.ask(label, choices=choices)
        for choice in choices:
            if said and choice.startswith(said.lower()):
                return choice
        prompter.screen.note(f"please type one of: {', '.join(choices)}", "red")
