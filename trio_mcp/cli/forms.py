"""Forms at a terminal: a JSON value for each property of a schema, asked for one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from trio_mcp.cli.prompter import Prompter
from trio_mcp.cli.schemas import (
    Schema,
    choices_of,
    collected,
    in_words,
    is_yes_or_no,
    items_of,
    object_of,
    properties_of,
    required_of,
    types_of,
)
from trio_mcp.schema import SchemaError, compile_validator
from trio_mcp.schema.form_fields import read_field
from trio_mcp.wire.jsonrpc import Json

_YES_OR_NO: Final = "yes or no"
_BOTH: Final = ("yes", "no")


async def ask_for(
    prompter: Prompter, name: str, schema: Json, root: Schema, *, within: str = ""
) -> Json:
    """Ask for the value of one property until it fits; for an object, property by property.

    Args:
        prompter: Who asks.
        name: The property.
        schema: Its schema.
        root: The schema that it stands in, for references and for what is required.
        within: The names of the objects that it is within, each with a dot behind it.

    Returns:
        The value; `None` if it was left out, which only what is not required can be.

    Raises:
        NoAnswer: The person ended the input.
    """
    field = schema if isinstance(schema, dict) else {}
    required = name in required_of(root)
    if types_of(field, root) - {"null"} == {"object"} and object_of(field, root):
        return await _ask_for_object(prompter, f"{within}{name}", field, root, required=required)
    problem_with = _check(name, field, root)
    describe(prompter, field)
    choices = _suggestions(field, root)
    label = f"{within}{name} ({_kind(field, root)}{'' if required else ', optional'}): "
    default = _shown(field.get("default"), field, root)
    while True:
        text = await prompter.ask(label, default=default, choices=choices)
        if not text and not required:
            return None
        value = _value_of(text, field, root) if text else None
        problem = problem_with({} if value is None and not text else {name: value})
        if problem is not None and text and _wants_yes_or_no(field, root):
            problem = f"Answer {name!r} must be {_YES_OR_NO}."
        if problem is None:
            return value
        prompter.screen.note(problem, "red")


async def ask_for_all(prompter: Prompter, schema: Schema, *, within: str = "") -> dict[str, Json]:
    """Ask for all properties of an object, one by one.

    Raises:
        NoAnswer: The person ended the input.
    """
    values = {
        name: await ask_for(prompter, name, each, schema, within=within)
        for name, each in properties_of(schema).items()
    }
    return {name: value for name, value in values.items() if value is not None}


async def _ask_for_object(
    prompter: Prompter, name: str, field: Schema, root: Schema, *, required: bool
) -> Json:
    describe(prompter, field)
    if not required:
        wanted = await prompter.ask(
            f"{name} (optional), {_YES_OR_NO}: ", default="no", choices=_BOTH
        )
        if not wanted.lower().startswith("y"):
            return None
    return await ask_for_all(
        prompter, {**_definitions(root), **object_of(field, root)}, within=f"{name}."
    )


def _definitions(root: Schema) -> Schema:
    return {key: root[key] for key in ("$defs", "definitions", "$schema") if key in root}


def describe(prompter: Prompter, field: Schema) -> None:
    """Say what a property is for."""
    for key in ("title", "description"):
        if isinstance(field.get(key), str):
            prompter.screen.note(field[key])


def _check(name: str, field: Schema, root: Schema) -> Callable[[Json], str | None]:
    """What says what is wrong with one property's value; nothing, if its schema is no good."""
    required = [name] if name in required_of(root) else []
    whole: Schema = {
        **_definitions(root),
        "type": "object",
        "properties": {name: field},
        "required": required,
    }
    try:
        validate = compile_validator(whole, noun="answer")
    except SchemaError:
        return lambda value: None
    return lambda value: validate(value) or _missed_format(name, field, value)


def _missed_format(name: str, field: Schema, value: Json) -> str | None:
    """Say that a text is not of its format; the schema alone does not demand that."""
    if name not in value:
        return None
    try:
        expected = read_field(field).missed_format(value[name])
    except SchemaError:  # it is no field of a form, so nobody says what its format means
        return None
    return None if expected is None else f"Answer {name!r} must be {expected}."


def _choices(field: Schema, root: Schema) -> list[tuple[Json, str | None]]:
    """What can be chosen, for a field that takes one or several of them."""
    return choices_of(field, root) or choices_of(items_of(field, root), root)


def _wants_yes_or_no(field: Schema, root: Schema) -> bool:
    return is_yes_or_no(field, root) and not choices_of(field, root)


def _suggestions(field: Schema, root: Schema) -> list[str]:
    chosen = _choices(field, root)
    if _wants_yes_or_no(field, root):
        return [*_BOTH]
    if not chosen and "boolean" in types_of(field, root):
        return ["true", "false"]
    return [title or _text_of(value) for value, title in chosen]


def _kind(field: Schema, root: Schema) -> str:
    """Say what is wanted: the choices by their titles, or a type."""
    if _wants_yes_or_no(field, root):
        return _YES_OR_NO
    if not any(title for _, title in _choices(field, root)):
        return in_words(field, root)
    several = "some of " if "array" in types_of(field, root) else ""
    return several + "|".join(_suggestions(field, root))


def _shown(value: Json, field: Schema, root: Schema) -> str:
    """Write a default as a person would type it."""
    if isinstance(value, bool) and _wants_yes_or_no(field, root):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_shown(each, field, root) for each in value)
    for choice, title in _choices(field, root):
        if choice == value and title is not None:
            return title
    return _text_of(value)


def _value_of(text: str, field: Schema, root: Schema) -> Json:
    """What a text means: one of the choices by its value or title, or a value of some type."""
    kinds = types_of(field, root)
    several = "array" in kinds and not text.startswith("[")
    items = items_of(field, root) if several else field
    named: dict[str, Json] = {}
    for value, title in choices_of(items, root):
        named[_text_of(value).casefold()] = value
        if title is not None:
            named[title.casefold()] = value
    if several:
        texts = [each.strip() for each in text.split(",")]
        return [named.get(each.casefold(), collected([each], items, root)) for each in texts]
    return named.get(text.casefold(), collected([text], field, root))


def _text_of(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
