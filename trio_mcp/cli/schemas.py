"""JSON Schemas, as far as a person at a command line meets them.

What can a value be, in a word or two; and which JSON value does a text mean, where the schema says
what is expected. A `3` is a number only if the schema wants one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isfinite
from typing import Any, Final

from trio_mcp.wire.jsonrpc import Json

Schema = dict[str, Json]

_MOST_DEPTH: Final = 16
_MOST_CHOICES: Final = 8
_MOST_NESTED: Final = 2
"""Objects within objects whose properties are told."""


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


def schemas_of(schema: Json, root: Schema, depth: int = 0) -> Iterator[Schema]:
    """A schema and those that it consists of, references followed."""
    if not isinstance(schema, dict) or depth > _MOST_DEPTH:
        return
    yield schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield from schemas_of(_resolve(reference, root), root, depth + 1)
    for keyword in ("anyOf", "oneOf", "allOf"):
        several = schema.get(keyword)
        for each in several if isinstance(several, list) else ():
            yield from schemas_of(each, root, depth + 1)


def types_of(schema: Json, root: Schema) -> set[str]:
    """The JSON types that a value may have; none of them if the schema does not say."""
    found: set[str] = set()
    for each in schemas_of(schema, root):
        kind = each.get("type")
        found |= {kind} if isinstance(kind, str) else set(kind) if isinstance(kind, list) else set()
        found |= {_type_of(value) for value in _values(each)}
    return found


def choices_of(schema: Json, root: Schema) -> list[tuple[Json, str | None]]:
    """The values that a schema enumerates, with their titles; none if it does not."""
    return [
        choice
        for each in schemas_of(schema, root)
        for choice in zip(_values(each), _titles(each), strict=False)
    ]


def items_of(schema: Json, root: Schema) -> Json:
    """The schema of an array's items; `{}` if there is none."""
    for each in schemas_of(schema, root):
        if isinstance(each.get("items"), dict):
            return each["items"]
    return {}


def object_of(schema: Json, root: Schema) -> Schema:
    """The schema of an object whose properties are known; `{}` if there is none."""
    return next((each for each in schemas_of(schema, root) if properties_of(each)), {})


def in_words(schema: Json, root: Schema, most: int = _MOST_CHOICES, depth: int = 0) -> str:
    """Say what a value can be, in a word or two, with so many of its choices at most."""
    choices = [value for value, _ in choices_of(schema, root)]
    if choices:
        shown = [value if isinstance(value, str) else json.dumps(value) for value in choices]
        more = ["…"] if len(shown) > most else []
        return "|".join(shown[:most] + more)
    found = types_of(schema, root)
    named = {each: each for each in _ORDER if each in found and each != "null"}
    if "array" in named:
        named["array"] = f"list of {in_words(items_of(schema, root), root, most, depth)}"
    if "object" in named and depth < _MOST_NESTED and object_of(schema, root):
        named["object"] = f"{{{signature(object_of(schema, root), root, depth + 1)}}}"
    return "|".join(named.values()) or "any"


def properties_of(schema: Json) -> dict[str, Json]:
    """The properties of an object's schema by name."""
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def required_of(schema: Json) -> list[str]:
    """The properties that an object must have."""
    found = schema.get("required") if isinstance(schema, dict) else None
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def default_of(schema: Json) -> str:
    """The default, as a person would write it; an empty text if there is none."""
    default = schema.get("default") if isinstance(schema, dict) else None
    if default is None:
        return ""
    is_plain = isinstance(default, str) and default.strip()
    return default if is_plain else json.dumps(default, ensure_ascii=False)


def signature(schema: Json, root: Schema | None = None, depth: int = 0) -> str:
    """Write the arguments that a schema describes on one line: `a: number, b?: string = x`."""
    root = root or (schema if isinstance(schema, dict) else {})
    required = required_of(schema)
    shown = []
    for name, each in properties_of(schema).items():
        mark = "" if name in required else "?"
        default = default_of(each)
        after = f" = {default}" if default else ""
        shown.append(f"{name}{mark}: {in_words(each, root, depth=depth)}{after}")
    return ", ".join(shown)


def suggested(schema: Json, root: Schema) -> list[str]:
    """The texts that mean the values which a schema enumerates, booleans among them."""
    chosen = [
        value for value, _ in choices_of(schema, root) or choices_of(items_of(schema, root), root)
    ]
    if not chosen and "boolean" in types_of(schema, root):
        chosen = [True, False]
    return [value if isinstance(value, str) else json.dumps(value) for value in chosen]


def is_yes_or_no(schema: Json, root: Schema) -> bool:
    """Whether a value is a boolean and nothing else, so that a person may say yes or no."""
    return types_of(schema, root) - {"null"} == {"boolean"}


def typed(text: str, schema: Json, root: Schema) -> Json:
    """The JSON value that a text means, where a schema says what is expected.

    A text that means nothing of the kind stays a text, for the validator to say so.
    """
    kinds = types_of(schema, root) & set(_ORDER)
    try:
        value = json_of(text)
    except (ValueError, RecursionError):
        value = None
    kind = _type_of(value)
    if not kinds:
        return value if kind in ("array", "object") else text
    if kind in kinds or (kind in _NUMBERS and kinds & _NUMBERS):
        if kind not in ("string", "null"):
            return value
        if kind == "null" and "string" not in kinds and text == "null":
            return None
    if is_yes_or_no(schema, root) and text.lower() in _YES_OR_NO:
        return _YES_OR_NO[text.lower()]
    if "boolean" in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "array" in kinds and "string" not in kinds:
        return [typed(text, items_of(schema, root), root)]
    return text


def collected(texts: list[str], schema: Json, root: Schema) -> Json:
    """The JSON value that one or more texts mean; several of them are a list.

    Raises:
        ValueError: There are several, and no list is expected.
    """
    if len(texts) == 1:
        return typed(texts[0], schema, root)
    kinds = types_of(schema, root)
    if kinds and "array" not in kinds:
        raise ValueError("given more than once, but it is no list")
    items = items_of(schema, root)
    return [typed(each, items, root) for each in texts]


_ORDER: Final[tuple[str, ...]] = (
    "string",
    "integer",
    "number",
    "boolean",
    "array",
    "object",
    "null",
)
_YES_OR_NO: Final = {
    **dict.fromkeys(("true", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "no", "n", "0"), False),
}
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


def _type_of(value: Json) -> str:
    return _TYPES[type(value)]


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


def _resolve(reference: str, root: Schema) -> Json:
    """What a reference within the schema refers to; `None` for any other."""
    if not reference.startswith("#"):
        return None
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found
