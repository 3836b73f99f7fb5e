"""Arguments on the command line: `key=value` as the schema types it, `key:=JSON`, or JSON."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from trio_mcp.cli.failures import Failure, Usage
from trio_mcp.cli.forms import ask_for
from trio_mcp.cli.options import STDIN, pairs
from trio_mcp.cli.prompter import NoAnswer
from trio_mcp.cli.schemas import Field, field_of, json_of
from trio_mcp.cli.session import Session
from trio_mcp.client.tools import RemoteTool
from trio_mcp.wire.jsonrpc import Json, encode

_PAIR: Final = re.compile(r"([^=]+?)(:?=)(.*)", re.DOTALL)


def parse_arguments(words: Sequence[str], schema: Json) -> dict[str, Json]:
    """Parse the arguments of a tool.

    Args:
        words: `key=value`, whose type the schema decides; `key:=JSON`; a JSON object; or `-` for a
            JSON object on stdin. A key that is repeated makes a list; `outer.key` is a key
            of the object `outer`.
        schema: The tool's input schema.
    """
    whole = field_of(schema)
    arguments: dict[str, Json] = {}
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for word in words:
        if word == STDIN or word.startswith("{"):
            given = _json(sys.stdin.read() if word == STDIN else word, "the arguments are")
            if not isinstance(given, dict):
                raise Usage("the arguments must be a JSON object")
            arguments |= given
            continue
        pair = _PAIR.fullmatch(word)
        if pair is None:
            takes = whole.signature() or "no arguments"
            raise Usage(f"{word!r} is not KEY=VALUE, KEY:=JSON or a JSON object; it takes: {takes}")
        key, sign, value = pair.groups()
        if sign == ":=":
            _put(arguments, _find(whole, key)[0], _json(value, f"what follows {key}:= is"))
        else:
            texts[key].append(value)
    for key, values in texts.items():
        path, field = _find(whole, key)
        try:
            _put(arguments, path, field.collected(values))
        except ValueError as error:
            raise Usage(f"{key}: {error}") from None
    try:
        encode(arguments)
    except (TypeError, ValueError) as error:  # a lone surrogate, or nested too deeply
        raise Usage(f"the arguments cannot be sent: {error}") from None
    return arguments


def _find(whole: Field, key: str) -> tuple[list[str], Field]:
    """Return the path that a dotted key means, and its field; a whole key is preferred."""
    name, _, rest = key.partition(".")
    outer = whole.properties.get(name)
    if not rest or key in whole.properties or outer is None or outer.object is None:
        return [key], whole.properties.get(key, field_of({}))
    path, field = _find(outer.object, rest)
    return [name, *path], field


def _put(arguments: dict[str, Json], path: Sequence[str], value: Json) -> None:
    *outer, key = path
    for name in outer:
        arguments = arguments.setdefault(name, {})
        if not isinstance(arguments, dict):
            raise Usage(f"{name} is given as a value, and as an object")
    arguments[key] = value


def parse_texts(words: Sequence[str]) -> dict[str, str]:
    return pairs(words, "{!r} is not KEY=VALUE")


async def ask_for_missing(
    session: Session, arguments: Mapping[str, Json], whole: Field
) -> dict[str, Json]:
    """Ask for missing required arguments, if this is a terminal."""
    complete = dict(arguments)
    absent = [name for name in whole.required if name not in complete]
    if not absent or not session.screen.can_ask:
        return complete
    async with session.prompter.turn:
        for name in absent:
            try:
                field = whole.properties.get(name, field_of({}))
                complete[name] = await ask_for(session.prompter, name, field, required=True)
            except NoAnswer:
                raise Failure(f"{name} is required, and was not given") from None
    return complete


def check_arguments(tool: RemoteTool, arguments: dict[str, Json]) -> None:
    problem = tool.problem_with(arguments)
    if problem is not None:
        takes = field_of(tool.input_schema).signature()
        it_takes = f" It takes: {takes}" if takes else ""
        raise Failure(f"tool {tool.name!r}: {problem}{it_takes}")


def _json(text: str, what: str) -> Json:
    try:
        return json_of(text)
    except (ValueError, RecursionError) as error:
        raise Usage(f"{what} not JSON: {error}") from None
