"""What models really send: JSON written as text where the schema has no use for a text.

Many hosts and models write a list as `'["a", "b"]'`, and a number as `"3"`. Where the schema admits
no text, such a text cannot be meant as one, so it is read as JSON. This is tried only with
arguments that do not fit as they came, and what comes of it has to fit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from trio_mcp.schema.keywords import resolve_pointer
from trio_mcp.wire.jsonrpc import Json

_LONGEST: Final = 1024 * 1024
"""Characters of a text that is read."""
_DEEPEST: Final = 20
_ALTERNATIVES: Final = ("anyOf", "oneOf")


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
    if not reader.places or problem_with(read):
        return None
    return read, reader.places


class _Reader:
    def __init__(self, root: Mapping[str, Json]) -> None:
        self._root = root
        self.places: list[str] = []

    def read(self, schema: Json, value: Json, place: str, depth: int) -> Any:
        """Return a value in which texts were read, and note where they were."""
        meant = self._meant(schema)
        if meant is None or depth > _DEEPEST:
            return value
        if isinstance(value, str) and not self._admits_text(meant):
            value = self._parsed(value, place)
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

    def _parsed(self, text: str, place: str) -> Json:
        if len(text) > _LONGEST:
            return text
        try:
            value: Json = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return text
        self.places.append(place)
        return value

    def _meant(self, schema: Json) -> Mapping[str, Json] | None:
        """Return the schema behind references, and the only alternative beside `null`."""
        for _ in range(_DEEPEST):
            if not isinstance(schema, dict):
                return None
            reference = schema.get("$ref")
            options = next((schema[name] for name in _ALTERNATIVES if name in schema), None)
            if isinstance(reference, str):
                schema = self._resolved(reference)
            elif isinstance(options, list):
                others = [one for one in options if one != {"type": "null"}]
                if len(others) != 1:
                    return schema
                schema = others[0]
            else:
                return schema
        return None

    def _resolved(self, reference: str) -> Json:
        with suppress(LookupError):
            return resolve_pointer(self._root, reference)[1]
        return None

    def _admits_text(self, schema: Json, depth: int = 0) -> bool:
        """Whether a text could fit. It is taken to, unless the schema clearly says otherwise."""
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return True
        if isinstance(reference := schema.get("$ref"), str):
            return self._admits_text(self._resolved(reference), depth + 1)
        if "type" in schema:
            kinds = schema["type"]
            return "string" in (kinds if isinstance(kinds, list) else [kinds])
        for name in _ALTERNATIVES:
            if isinstance(options := schema.get(name), list):
                return any(self._admits_text(one, depth + 1) for one in options)
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(choices, list):
            return any(isinstance(choice, str) for choice in choices)
        return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)
