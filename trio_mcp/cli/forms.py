"""Forms at a terminal: a JSON value for each property of a schema, asked for one by one.

So are a server's questions answered during a call. Without a terminal no capability is declared, so
that the server knows that it cannot ask.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from trio_mcp.cli.prompter import NoAnswer, Prompter
from trio_mcp.cli.schemas import Field, Schema, field_of, text_of
from trio_mcp.client.handlers import Handlers
from trio_mcp.loggers import harmless
from trio_mcp.registry.forms import form_field, missed_format
from trio_mcp.schema import SchemaError, compile_validator
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.revisions import NEWEST

_YES_OR_NO: Final = "yes or no"
_BOTH: Final = ("yes", "no")


async def ask_for(
    prompter: Prompter, name: str, field: Field, *, required: bool, within: str = ""
) -> Json:
    """Ask for the value of one property until it fits; for an object, property by property.

    It returns `None` if an optional one was left out, and raises `NoAnswer` at the input's end.
    """
    describe(prompter, field)
    label = f"{within}{name}"
    if field.is_form:
        if not required:
            wanted = f"{label} (optional), {_YES_OR_NO}: "
            said = await prompter.ask(wanted, default="no", choices=_BOTH)
            if not said.lower().startswith("y"):
                return None
        return await ask_for_all(prompter, field.object or field, within=f"{label}.")
    problem_with = _check(name, field, required=required)
    label = f"{label} ({_kind(field)}{'' if required else ', optional'}): "
    default = _shown(field.own.get("default"), field)
    while True:
        text = await prompter.ask(label, default=default, choices=_offered(field))
        if not text and not required:
            return None
        value = _value_of(text, field) if text else None
        problem = problem_with({} if value is None and not text else {name: value})
        if problem is not None and text and _wants_yes_or_no(field):
            problem = f"Answer {name!r} must be {_YES_OR_NO}."
        if problem is None:
            return value
        prompter.screen.note(problem, "red")


async def ask_for_all(prompter: Prompter, whole: Field, *, within: str = "") -> dict[str, Json]:
    """Ask for all properties of an object, one by one (raises as `ask_for`)."""
    values = {
        name: await ask_for(prompter, name, each, required=name in whole.required, within=within)
        for name, each in whole.properties.items()
    }
    return {name: value for name, value in values.items() if value is not None}


def describe(prompter: Prompter, field: Field) -> None:
    for key in ("title", "description"):
        if isinstance(field.own.get(key), str):
            prompter.screen.quote(field.own[key])


def _check(name: str, field: Field, *, required: bool) -> Callable[[Json], str | None]:
    """Make a validator of one property's value; it accepts all if the schema is broken."""
    kept = ("$defs", "definitions", "$schema")
    whole: Schema = {
        **{key: field.root[key] for key in kept if key in field.root},
        "type": "object",
        "properties": {name: field.schema},
        "required": [name] if required else [],
    }
    try:
        validate = compile_validator(whole, noun="answer")
    except SchemaError:
        return lambda value: None
    return lambda value: validate(value) or _missed_format(name, field, value)


def _missed_format(name: str, field: Field, value: Json) -> str | None:
    """Check the format, which the schema alone does not demand."""
    if name not in value:
        return None
    try:
        expected = missed_format(form_field(field.schema, NEWEST), value[name])
    except SchemaError:  # it is not a field of a form, so its format has no meaning
        return None
    return None if expected is None else f"Answer {name!r} must be {expected}."


def _wants_yes_or_no(field: Field) -> bool:
    return field.is_yes_or_no and not field.choices


def _offered(field: Field) -> list[str]:
    """Return the texts to choose from: titles, where there are some."""
    if _wants_yes_or_no(field):
        return [*_BOTH]
    return [title or text_of(value) for value, title in field.chosen] or field.suggestions


def _kind(field: Field) -> str:
    if _wants_yes_or_no(field):
        return _YES_OR_NO
    if not any(title for _, title in field.chosen):
        return field.in_words()
    return ("some of " if "array" in field.types else "") + "|".join(_offered(field))


def _shown(value: Json, field: Field) -> str:
    if isinstance(value, bool) and _wants_yes_or_no(field):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_shown(item, field) for item in value)
    for choice, title in field.chosen:
        if choice == value and title is not None:
            return title
    return "" if value is None else text_of(value)


def _value_of(text: str, field: Field) -> Json:
    """Convert a text: to a choice by its value or title, or to a value of a type."""
    several = "array" in field.types and not text.startswith("[")
    item = field.items if several else field
    named: dict[str, Json] = {}
    for value, title in item.choices:
        named[text_of(value).casefold()] = value
        named[(title or text_of(value)).casefold()] = value
    texts = [word.strip() for word in text.split(",")] if several else [text]
    values = [named.get(word.casefold(), item.typed(word)) for word in texts]
    return values if several else values[0]


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
