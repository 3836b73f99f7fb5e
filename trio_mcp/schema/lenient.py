"""What models really send: JSON written as text where the schema has no use for a text.

Many hosts and models write a list as `'["a", "b"]'`, and a number as `"3"`. Where the schema admits
no text, such a text cannot be meant as one, so it is read as JSON. This is tried only with
arguments that do not fit as they came, and what comes of it has to fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from trio_mcp.wire import codec
from trio_mcp.wire.exact import LongIntegers, RepeatedKey, exact
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.nested_arrays import has_many_arrays
from trio_mcp.wire.subschemas import resolve_pointer

_LONGEST: Final = 1024 * 1024
"""Characters of a text that is read."""
_DEEPEST: Final = 20
_MOST_OPTIONS: Final = 100
_NULL: Final = {"type": "null"}


def read_texts(
    schema: Mapping[str, Json], arguments: dict[str, Json], problem_with: Callable[[Any], object]
) -> tuple[dict[str, Json], list[str]] | None:
    """Read as JSON the texts in arguments for which the schema has no use.

    Args:
        schema: What the arguments have to fit.
        arguments: Those that do not.
        problem_with: Returns what is wrong with arguments; nothing if they fit.

    Returns:
        Arguments that fit, and where there were texts; `None` if reading them does not help.

    Example:
        >>> schema = {"type": "object", "properties": {"tags": {"type": "array"}}}
        >>> read_texts(schema, {"tags": '["a"]'}, lambda arguments: None)
        ({'tags': ['a']}, ['tags'])
    """
    reader = _Reader(schema)
    read = reader.read(schema, arguments, "", 0)
    if not reader.places or has_many_arrays(read) or problem_with(read):
        return None
    return read, reader.places


class _Reader:
    def __init__(self, root: Mapping[str, Json]) -> None:
        self._root = root
        self.places: list[str] = []

    def read(self, schema: Json, value: Json, place: str, depth: int) -> Any:
        """Return a value in which texts were read, and note where they were."""
        options = [one for one in islice(self._options(schema), _MOST_OPTIONS) if one != _NULL]
        if depth > _DEEPEST or None in options:
            return value
        if isinstance(value, str) and not any(map(_admits_text, options)):
            text, value = value, value if len(value) > _LONGEST else json_or_text(value)
            if value is not text:
                self.places.append(place)
        meant = options[0] if len(options) == 1 and isinstance(options[0], dict) else {}
        if isinstance(value, dict):
            known, other = meant.get("properties"), meant.get("additionalProperties")
            known = known if isinstance(known, dict) else {}
            return {
                name: self.read(
                    known.get(name, other), item, f"{place}.{name}" if place else name, depth + 1
                )
                for name, item in value.items()
            }
        if isinstance(value, list):
            items = meant.get("items")
            return [
                self.read(items, item, f"{place}[{number}]", depth + 1)
                for number, item in enumerate(value)
            ]
        return value

    def _options(self, schema: Json, depth: int = 0) -> Iterator[Json]:
        """The schemas of which a value has to fit one, behind references and alternatives."""
        said = schema if isinstance(schema, dict) else {}
        reference, options = said.get("$ref"), said.get("anyOf", said.get("oneOf"))
        if depth > _DEEPEST:
            yield None
        elif isinstance(reference, str):
            found = None
            with suppress(LookupError):
                _, found = resolve_pointer(self._root, reference)
            yield from self._options(found, depth + 1)
        elif isinstance(options, list):
            for option in options:
                yield from self._options(option, depth + 1)
        else:
            yield schema


def _admits_text(schema: Json) -> bool:
    """Whether a text could fit. It is taken to, unless the schema clearly says otherwise."""
    if not isinstance(schema, dict):
        return True
    if "type" in schema:
        kinds = schema["type"]
        return "string" in (kinds if isinstance(kinds, list) else [kinds])
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    return not isinstance(choices, list) or any(isinstance(choice, str) for choice in choices)


def json_or_text(text: str) -> Json:
    """Return what a text is as JSON, if that could be part of a message; else the text itself."""
    try:
        line = text.encode()
        return exact(line, codec.loads(line), _LONGEST)
    except (ValueError, TypeError, RepeatedKey, LongIntegers):
        return text
