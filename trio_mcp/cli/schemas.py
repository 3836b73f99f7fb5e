"""JSON Schemas for a person at a command line.

They describe values in a word or two, and convert texts to the values that the schema expects: a
`3` is a number only if the schema wants one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cached_property
from itertools import islice
from math import isfinite
from typing import Final, TypeVar

from attrs import frozen

from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.subschemas import resolve_pointer

T = TypeVar("T")
Schema = dict[str, Json]

_MAX_DEPTH: Final = 16
"""The deepest level that is looked at: a schema may hold itself."""
_MAX_NESTED: Final = 2
"""The deepest level that is described in words."""
_MAX_CHOICES: Final = 8
_MAX_PROPERTIES: Final = 20
_ORDER: Final = ("string", "integer", "number", "boolean", "array", "object", "null")
_NUMBERS: Final = {"integer", "number"}
_TYPES: Final[dict[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}
_YES_OR_NO: Final = {
    **dict.fromkeys(("true", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "no", "n", "0"), False),
}


def json_of(text: str) -> Json:
    """Parse JSON, without the extensions that Python accepts: these raise `ValueError` as well."""

    def refuse(name: str) -> Json:
        raise ValueError(f"{name} is not JSON")

    def finite(digits: str) -> float:
        number = float(digits)
        return number if isfinite(number) else refuse(f"the number {digits}, which is too large,")

    return json.loads(text, parse_constant=refuse, parse_float=finite)


def member(value: Json, key: str, kind: type[T]) -> T:
    """Return a member of an object; an empty value if it is none of that kind."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else kind()


def text_of(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@frozen(eq=False)
class Field:
    """What a schema says of one value; invalid parts are ignored."""

    schema: Json
    root: Schema
    """The whole schema, for references."""
    depth: int = 0
    """How deeply it is nested."""

    @property
    def own(self) -> Schema:
        return self.schema if isinstance(self.schema, dict) else {}

    @cached_property
    def parts(self) -> list[Schema]:
        """The schema and its subschemas for the same value, with references followed."""
        found: dict[int, Schema] = {}
        waiting = [self.schema]
        while waiting:
            schema = waiting.pop()
            if not isinstance(schema, dict) or id(schema) in found:
                continue
            found[id(schema)] = schema
            parts = []
            with suppress(LookupError):
                parts.append(resolve_pointer(self.root, str(schema.get("$ref")))[1])
            for keyword in ("anyOf", "oneOf", "allOf"):
                parts += member(schema, keyword, list)
            waiting += reversed(parts)
        return list(found.values())

    @cached_property
    def types(self) -> set[str]:
        """The JSON types that the value may have; empty if the schema does not say."""
        found: set[str] = {_TYPES[type(value)] for value, _ in self.choices}
        for part in self.parts:
            kind = part.get("type")
            found |= {kind} if isinstance(kind, str) else {*member(part, "type", list)}
        return found

    @cached_property
    def choices(self) -> list[tuple[Json, str | None]]:
        return [
            choice
            for part in self.parts
            for choice in zip(_values(part), _titles(part), strict=False)
        ]

    @property
    def items(self) -> Field:
        found = (part["items"] for part in self.parts if isinstance(part.get("items"), dict))
        return self._within(next(found, {}))

    @property
    def object(self) -> Field | None:
        """The part of the schema that has properties, if there is one."""
        parts = (Field(part, self.root, self.depth) for part in self.parts)
        return next((part for part in parts if part.properties), None)

    @cached_property
    def properties(self) -> dict[str, Field]:
        several = member(self.schema, "properties", dict)
        return {name: self._within(each) for name, each in several.items()}

    @cached_property
    def required(self) -> Collection[str]:
        named = member(self.schema, "required", list)
        return dict.fromkeys(name for name in named if isinstance(name, str)).keys()

    @property
    def default(self) -> str:
        default = self.own.get("default")
        if default is None:
            return ""
        return text_of(default) if text_of(default).strip() else json.dumps(default)

    @property
    def is_yes_or_no(self) -> bool:
        """Whether the value is a boolean, so that a person may say yes or no."""
        return self.types - {"null"} == {"boolean"}

    @property
    def is_form(self) -> bool:
        """Whether the value is an object that can be asked for property by property."""
        return self.types - {"null"} == {"object"} and self.object is not None

    @property
    def chosen(self) -> list[tuple[Json, str | None]]:
        """The values of which one, or several, can be chosen, with their titles."""
        return self.choices or self.items.choices

    @property
    def suggestions(self) -> list[str]:
        if not self.chosen and "boolean" in self.types:
            return ["true", "false"]
        return [text_of(value) for value, _ in self.chosen]

    def in_words(self, limit: int = _MAX_CHOICES) -> str:
        """Describe the value in a word or two, with this many choices at most."""
        if self.choices:
            shown = [text_of(value) for value, _ in self.choices]
            return "|".join(shown[:limit] + ["…"] * (len(shown) > limit))
        named: dict[str, str] = {
            kind: kind for kind in _ORDER if kind in self.types and kind != "null"
        }
        if self.depth <= _MAX_NESTED:
            if "array" in named:
                named["array"] = f"list of {self.items.in_words(limit)}"
            if "object" in named and self.object is not None:
                named["object"] = f"{{{self.object.signature()}}}"
        return "|".join(named.values()) or "any"

    def signature(self) -> str:
        """Write the first properties on one line: `a: number, b?: string = x`."""
        shown = []
        for name, each in islice(self.properties.items(), _MAX_PROPERTIES):
            mark = "" if name in self.required else "?"
            default = f" = {each.default}" if each.default else ""
            shown.append(f"{name}{mark}: {each.in_words()}{default}")
        more = ["…"] if len(self.properties) > _MAX_PROPERTIES else []
        return ", ".join(shown + more)

    def typed(self, text: str) -> Json:
        """Convert a text to the JSON value that it means; the validator refuses other texts."""
        kinds = self.types & set(_ORDER)
        try:
            value = json_of(text)
        except (ValueError, RecursionError):
            value = None
        kind = _TYPES[type(value)]
        if not kinds:
            return value if kind in ("array", "object") else text
        if kind in kinds or (kind in _NUMBERS and kinds & _NUMBERS):
            if kind not in ("string", "null"):
                return value
            if kind == "null" and "string" not in kinds and text == "null":
                return None
        if self.is_yes_or_no and text.lower() in _YES_OR_NO:
            return _YES_OR_NO[text.lower()]
        if "boolean" in kinds and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if "array" in kinds and "string" not in kinds:
            return [self.items.typed(text)]
        return text

    def collected(self, texts: list[str]) -> Json:
        """Convert texts to a JSON value; `ValueError` if there are several, and no list can be."""
        if len(texts) == 1:
            return self.typed(texts[0])
        if self.types and "array" not in self.types:
            raise ValueError("given more than once, but it is not a list")
        return [self.items.typed(text) for text in texts]

    def _within(self, schema: Json) -> Field:
        return Field(schema if self.depth < _MAX_DEPTH else {}, self.root, self.depth + 1)


def field_of(schema: Json) -> Field:
    return Field(schema, schema if isinstance(schema, dict) else {})


def _values(schema: Schema) -> list[Json]:
    return [schema["const"]] if "const" in schema else member(schema, "enum", list)


def _titles(schema: Schema) -> Iterator[str | None]:
    """Yield the titles of the enumerated values, and then `None` without end."""
    names = schema.get("enumNames")
    for title in names if isinstance(names, list) else [schema.get("title")]:
        yield title if isinstance(title, str) and ("const" in schema or names) else None
    while True:
        yield None
