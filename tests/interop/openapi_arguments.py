"""Arguments that fit a schema, made up: the same ones each time."""

import re
from typing import Any

_TEXTS = {
    "date": "2024-01-31",
    "date-time": "2024-01-31T12:00:00Z",
    "uuid": "12345678-1234-4234-8234-123456789abc",
    "email": "a@example.com",
    "uri": "https://example.com/a",
    "url": "https://example.com/a",
    "byte": "aGk=",
    "ipv4": "192.0.2.1",
}
_PATTERNED = ("abc", "1", "1.2.3", "a" * 40, "refs/heads/a", "top", "first", "text & more")
_DEEPEST = 4


def made_up(schema: Any, root: dict[str, Any], depth: int = 0) -> Any:
    """Return a value that probably fits a schema, with all optional members near the top."""
    if not isinstance(schema, dict):
        return "x"
    if "$ref" in schema:
        target = root.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {})
        schema = {**target, **{key: each for key, each in schema.items() if key != "$ref"}}
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    if "anyOf" in schema and "properties" not in schema:
        return made_up(schema["anyOf"][0], root, depth + 1)
    if "allOf" in schema:
        merged = {key: each for key, each in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            if "$ref" in part:
                part = root.get("$defs", {}).get(part["$ref"].rpartition("/")[2], {})
            properties = {**merged.get("properties", {}), **part.get("properties", {})}
            required = [*merged.get("required", []), *part.get("required", [])]
            merged = {**part, **merged, "properties": properties, "required": required}
        return made_up({key: each for key, each in merged.items() if each != {}}, root, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return _OF_TYPE[kind if isinstance(kind, str) else kind[0]](schema, root, depth)


def _object(schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
    required = schema.get("required", [])
    wanted = schema.get("properties", {})
    if depth > 0:
        wanted = {key: each for key, each in wanted.items() if key in required}
    if depth > _DEEPEST + 4:
        return {}
    return {key: made_up(each, root, depth + 1) for key, each in wanted.items()}


def _array(schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
    count = max(schema.get("minItems", 0), 1 if depth < _DEEPEST else 0)
    return [made_up(schema.get("items", {}), root, depth + 1)] * count


def _string(schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
    if "base64" in schema.get("description", ""):
        return "aGk="
    if "pattern" in schema:
        fitting = (each for each in _PATTERNED if re.search(schema["pattern"], each))
        return next(fitting, "x")
    text = _TEXTS.get(schema.get("format", ""), "text & more")
    text += "x" * max(schema.get("minLength", 0) - len(text), 0)
    return text[: schema.get("maxLength", len(text))]


def _number(schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    return min(max(least, 1), schema.get("maximum", max(least, 1)))


_OF_TYPE = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _number,
    "number": _number,
    "boolean": lambda schema, root, depth: True,
    "null": lambda schema, root, depth: None,
}
