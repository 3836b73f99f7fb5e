"""`trio-mcp tools`, `resources`, `prompts`: what a server offers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Final

from cyclopts import Parameter

from trio_mcp.cli.failures import Failure, missing
from trio_mcp.cli.schemas import Field, Schema, field_of, member
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.session import Session, command
from trio_mcp.schema.sentences import expectation
from trio_mcp.wire.bounds import is_number
from trio_mcp.wire.jsonrpc import Json

_MAX_CHOICES: Final = 100
"""The most choices that are shown of one tool's argument."""


async def show_tools(
    session: Session,
    name: Annotated[str | None, Parameter(help="Show all that is known of this tool.")] = None,
    /,
) -> None:
    """Show the tools of a server."""
    screen = session.screen
    if name is not None:
        tool = session.tool(name).details
        if screen.as_json:
            screen.json({"tools": [tool]})
        else:
            _show_tool(screen, tool)
        return
    found = [tool.details for tool in session.client.tools.values()]
    rows = [
        (tool["name"], field_of(tool["inputSchema"]).signature(), _prose(tool)) for tool in found
    ]
    _show_all(screen, {"tools": found}, ("Tool", "Arguments", "What it does"), rows)


async def show_resources(session: Session) -> None:
    """Show the resources of a server, and its families of resources."""
    found = {
        "resources": await fetch_items(session, "resources/list", "resources"),
        "resourceTemplates": await fetch_items(
            session, "resources/templates/list", "resourceTemplates"
        ),
    }
    rows = [
        (_text(item, key), _text(item, "mimeType"), _name_and_prose(item))
        for key, several in zip(("uri", "uriTemplate"), found.values(), strict=True)
        for item in several
    ]
    _show_all(session.screen, found, ("URI", "Type", "What it is"), rows)


async def show_prompts(session: Session) -> None:
    """Show the prompts of a server."""
    found = await fetch_items(session, "prompts/list", "prompts")
    rows = [
        (_text(prompt, "name"), prompt_signature(prompt_field(prompt)), _prose(prompt))
        for prompt in found
    ]
    _show_all(session.screen, {"prompts": found}, ("Prompt", "Arguments", "What it is for"), rows)


tools = command(show_tools)
resources = command(show_resources)
prompts = command(show_prompts)


def _show_all(
    screen: Screen,
    found: dict[str, list[Json]],
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> None:
    if screen.as_json:
        screen.json(found)
    elif rows:
        screen.table(headers, rows)
    else:
        screen.note(f"The server offers no {next(iter(found))}.")


async def fetch_items(session: Session, method: str, key: str) -> list[Json]:
    """List all pages; an empty list if the server lacks the capability."""
    if method.partition("/")[0] not in session.client.capabilities:
        return []
    return await session.client.list_all(method, key)


async def names(session: Session, method: str, key: str, name: str = "name") -> list[str]:
    found = [_text(item, name) for item in await fetch_items(session, method, key)]
    return [text for text in found if text]


async def find_prompt(session: Session, name: str) -> dict[str, Json]:
    found = await fetch_items(session, "prompts/list", "prompts")
    for prompt in found:
        if isinstance(prompt, dict) and prompt.get("name") == name:
            return prompt
    raise Failure(missing("prompt", name, [_text(prompt, "name") for prompt in found]))


def prompt_field(prompt: Json) -> Field:
    named = {
        _text(argument, "name"): argument
        for argument in member(prompt, "arguments", list)
        if isinstance(argument, dict)
    }
    properties = {
        name: {"type": "string", "description": _text(each, "description")}
        for name, each in named.items()
    }
    required = [name for name, each in named.items() if each.get("required")]
    return field_of({"type": "object", "properties": properties, "required": required})


def prompt_signature(field: Field) -> str:
    return ", ".join(f"{name}{'' if name in field.required else '?'}" for name in field.properties)


def _show_tool(screen: Screen, tool: dict[str, Json]) -> None:
    whole = field_of(tool["inputSchema"])
    screen.heading(f"{tool['name']}({whole.signature()})")
    for text in (tool.get("title"), tool.get("description")):
        if isinstance(text, str) and text:
            screen.text(text)
    rows = []
    for name, field in whole.properties.items():
        presence = f"default {field.default}" if field.default else ""
        presence = "required" if name in whole.required else presence
        kind = field.in_words(limit=_MAX_CHOICES)
        rows.append((name, kind, presence, constraints_of(field), _prose(field.schema)))
    if rows:
        screen.table(("Argument", "Type", "", "Must be", "What it is"), rows, empty_columns=False)
    for title, key in (("Hints", "annotations"), ("Result", "outputSchema")):
        if tool.get(key):
            screen.heading(f"{title}:")
            screen.json(tool[key])


def _text(item: Json, key: str) -> str:
    value = item.get(key) if isinstance(item, dict) else None
    return "" if value is None else str(value)


def _prose(item: Json) -> str:
    return _text(item, "description") or _text(item, "title")


def _name_and_prose(item: Json) -> str:
    name = _text(item, "title") or _text(item, "name")
    about = _text(item, "description")
    return f"{name}: {about}" if name and about else name or about


_MAX_DEPTH: Final = 3


def constraints_of(field: Field) -> str:
    found = [said for part in field.parts for said in _demands(part)]
    if field.depth <= _MAX_DEPTH:
        items = constraints_of(field.items)
        found += [f"each {items}"] if items else []
    return "; ".join(dict.fromkeys(found))


def _demands(schema: Schema) -> Iterator[str]:
    yield from _range(schema, "minimum", "maximum", "")
    for keyword, words in (("exclusiveMinimum", "more than"), ("exclusiveMaximum", "less than")):
        if is_number(schema.get(keyword)):
            yield f"{words} {json.dumps(schema[keyword])}"
    yield from _range(schema, "minLength", "maxLength", "character")
    yield from _range(schema, "minItems", "maxItems", "item")
    yield from _range(schema, "minProperties", "maxProperties", "entry", "entries")
    for keyword, (is_meant, say) in _OTHERS.items():
        value = schema.get(keyword)
        if is_meant(value):
            yield say(value)


def _range(
    schema: Schema, lowest: str, highest: str, noun: str, plural: str | None = None
) -> Iterator[str]:
    """Describe two bounds together: `1 to 5 items`."""
    low, high = (
        bound if is_number(bound) else None for bound in map(schema.get, (lowest, highest))
    )
    if low is None and high is None:
        return
    if low is None:
        words = f"at most {json.dumps(high)}"
    elif high is None:
        words = f"at least {json.dumps(low)}"
    else:
        words = json.dumps(low) if low == high else f"{json.dumps(low)} to {json.dumps(high)}"
    last = low if high is None else high
    named = noun if last == 1 or not noun else plural or f"{noun}s"
    yield f"{words} {named}".rstrip()


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _format(name: str) -> str:
    """Describe a format with an example, or name one that is not well known."""
    words = expectation({"type": "string", "format": name})
    return f"of format {name}" if words == expectation({"type": "string"}) else words


_OTHERS: Final[dict[str, tuple[Callable[[Json], bool], Callable[[Json], str]]]] = {
    "multipleOf": (is_number, lambda value: f"a multiple of {json.dumps(value)}"),
    "format": (_is_text, _format),
    "pattern": (_is_text, lambda value: f"matching {value}"),
    "contentEncoding": (_is_text, lambda value: f"encoded as {value}"),
    "uniqueItems": (lambda value: value is True, lambda value: "all different"),
}
"""By keyword, whether its value is understood, and what it demands."""
