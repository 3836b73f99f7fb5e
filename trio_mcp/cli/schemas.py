"""JSON Schemas, as far as a person at a command line meets them.

What can a value be, in a word or two; and which JSON value does a text mean, where the schema says
what is expected. A `3` is a number only if the schema wants one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cached_property
from itertools import islice
from math import isfinite
from typing import Final

from attrs import frozen

from trio_mcp.schema.keywords import resolve_pointer
from trio_mcp.wire.jsonrpc import Json

Schema = dict[str, Json]

_MOST_DEPTH: Final = 16
"""Values within values that are looked at: a schema may hold itself."""
_MOST_NESTED: Final = 2
"""Values within values that are told in words."""
_MOST_CHOICES: Final = 8
_MOST_PROPERTIES: Final = 20
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
    """Parse JSON; what only Python takes for it is none.

    Raises:
        ValueError: It is no JSON.
    """

    def refuse(name: str) -> Json:
        raise ValueError(f"{name} is not JSON")

    def finite(digits: str) -> float:
        number = float(digits)
        return number if isfinite(number) else refuse(f"the number {digits}, which is too large,")

    return json.loads(text, parse_constant=refuse, parse_float=finite)


def text_of(value: Json) -> str:
    """Write a value as a person would type it where it is expected."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@frozen(eq=False)
class Field:
    """What a schema says of one value.

    Args:
        schema: The schema. What cannot be read in it says nothing.
        root: The schema that it stands in, for references.
        depth: How many values it is within.
    """

    schema: Json
    root: Schema
    depth: int = 0

    @property
    def own(self) -> Schema:
        """The keywords that stand in the schema itself; none if it is no object."""
        return self.schema if isinstance(self.schema, dict) else {}

    @cached_property
    def parts(self) -> list[Schema]:
        """The schema and those that it consists of, references followed."""
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
                several = schema.get(keyword)
                parts += several if isinstance(several, list) else []
            waiting += reversed(parts)
        return list(found.values())

    @cached_property
    def types(self) -> set[str]:
        """The JSON types that the value may have; none of them if the schema does not say."""
        found: set[str] = {_TYPES[type(value)] for value, _ in self.choices}
        for each in self.parts:
            kind = each.get("type")
            found |= (
                {kind} if isinstance(kind, str) else set(kind if isinstance(kind, list) else ())
            )
        return found

    @cached_property
    def choices(self) -> list[tuple[Json, str | None]]:
        """The values that the schema enumerates, with their titles; none if it does not."""
        return [
            choice
            for each in self.parts
            for choice in zip(_values(each), _titles(each), strict=False)
        ]

    @property
    def items(self) -> Field:
        """An item of the value, if it is an array."""
        found = (each["items"] for each in self.parts if isinstance(each.get("items"), dict))
        return self._within(next(found, {}))

    @property
    def object(self) -> Field | None:
        """The same value as an object whose properties are known, if there is such a part."""
        parts = (Field(each, self.root, self.depth) for each in self.parts)
        return next((each for each in parts if each.properties), None)

    @cached_property
    def properties(self) -> dict[str, Field]:
        """The properties of the value by name, if it is an object."""
        found = self.own.get("properties")
        several = found if isinstance(found, dict) else {}
        return {name: self._within(each) for name, each in several.items()}

    @cached_property
    def required(self) -> Collection[str]:
        """The properties that the value must have, if it is an object, in order."""
        found = self.own.get("required")
        named = found if isinstance(found, list) else []
        return dict.fromkeys(each for each in named if isinstance(each, str)).keys()

    @property
    def default(self) -> str:
        """The default, as a person would write it; an empty text if there is none."""
        default = self.own.get("default")
        if default is None:
            return ""
        return text_of(default) if text_of(default).strip() else json.dumps(default)

    @property
    def is_yes_or_no(self) -> bool:
        """Whether the value is a boolean and nothing else, so that a person may say yes or no."""
        return self.types - {"null"} == {"boolean"}

    @property
    def is_form(self) -> bool:
        """Whether the value is an object that can be asked for property by property."""
        return self.types - {"null"} == {"object"} and self.object is not None

    @property
    def chosen(self) -> list[tuple[Json, str | None]]:
        """The values that can be chosen, one or several of them, with their titles."""
        return self.choices or self.items.choices

    @property
    def suggestions(self) -> list[str]:
        """The texts that mean the values that can be chosen, booleans among them."""
        if not self.chosen and "boolean" in self.types:
            return ["true", "false"]
        return [text_of(value) for value, _ in self.chosen]

    def in_words(self, most: int = _MOST_CHOICES) -> str:
        """Say what the value can be, in a word or two, with so many of its choices at most."""
        if self.choices:
            shown = [text_of(value) for value, _ in self.choices]
            return "|".join(shown[:most] + ["…"] * (len(shown) > most))
        named: dict[str, str] = {
            each: each for each in _ORDER if each in self.types and each != "null"
        }
        if self.depth <= _MOST_NESTED:
            if "array" in named:
                named["array"] = f"list of {self.items.in_words(most)}"
            if "object" in named and self.object is not None:
                named["object"] = f"{{{self.object.signature()}}}"
        return "|".join(named.values()) or "any"

    def signature(self) -> str:
        """Write the properties, the first of them, on one line: `a: number, b?: string = x`."""
        shown = []
        for name, each in islice(self.properties.items(), _MOST_PROPERTIES):
            mark = "" if name in self.required else "?"
            default = f" = {each.default}" if each.default else ""
            shown.append(f"{name}{mark}: {each.in_words()}{default}")
        more = ["…"] if len(self.properties) > _MOST_PROPERTIES else []
        return ", ".join(shown + more)

    def typed(self, text: str) -> Json:
        """The JSON value that a text means.

        A text that means nothing of what is expected stays a text, for the validator to say so.
        """
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
        """The JSON value that one or more texts mean; several of them are a list.

        Raises:
            ValueError: There are several, and no list is expected.
        """
        if len(texts) == 1:
            return self.typed(texts[0])
        if self.types and "array" not in self.types:
            raise ValueError("given more than once, but it is no list")
        return [self.items.typed(each) for each in texts]

    def _within(self, schema: Json) -> Field:
        return Field(schema if self.depth < _MOST_DEPTH else {}, self.root, self.depth + 1)


def field_of(schema: Json) -> Field:
    """What a whole schema says, such as that of a tool's arguments."""
    return Field(schema, schema if isinstance(schema, dict) else {})


def _values(schema: Schema) -> list[Json]:
    if "const" in schema:
        return [schema["const"]]
    found = schema.get("enum")
    return found if isinstance(found, list) else []


def _titles(schema: Schema) -> Iterator[str | None]:
    """The titles of the values that a schema enumerates, without end."""
    names = schema.get("enumNames")
    for each in names if isinstance(names, list) else [schema.get("title")]:
        yield each if isinstance(each, str) and ("const" in schema or names) else None
    while True:
        yield None
