"""What a modern request says twice: in its body, and in HTTP headers for gateways to read.

(2026-07-28, "Streamable HTTP: Request Metadata".) The method, the name, and those arguments of a
tool that its schema marks with `x-mcp-header` are mirrored into headers. A header holds plain ASCII
only, so other values travel as base64 between `=?base64?` and `?=`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from trio_mcp.wire.jsonrpc import Json, json_type
from trio_mcp.wire.subschemas import parts_of

VERSION_HEADER: Final = "MCP-Protocol-Version"
METHOD_HEADER: Final = "Mcp-Method"
NAME_HEADER: Final = "Mcp-Name"
SESSION_HEADER: Final = "Mcp-Session-Id"
LAST_EVENT_HEADER: Final = "Last-Event-ID"
PARAMETER_PREFIX: Final = "Mcp-Param-"

MAX_INTEGER: Final = 2**53 - 1
"""The largest integer, up or down, that a header may hold."""

_ANNOTATION: Final = "x-mcp-header"
_TYPES: Final = frozenset({"string", "integer", "boolean"})
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, section 5.6.2
_PLAIN: Final = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_VALID: Final = re.compile(r"[\t -~]*")
_BEGIN: Final = "=?base64?"
_END: Final = "?="

_MOST_HEADERS: Final = 100
"""Few servers take more, of any kind."""

Path = tuple[str, ...]
PathNode: TypeAlias = "tuple[()] | tuple[PathNode, str]"
"""A path by its last name and the place above: of few places the whole path is needed."""


def encode_value(value: str | int | bool) -> str:
    """Write a value as the value of a header.

    Raises:
        ValueError: It is an integer that JavaScript could not hold, or a text that is not Unicode.

    Example:
        >>> encode_value("us-west1"), encode_value(True), encode_value(" padded ")
        ('us-west1', 'true', '=?base64?IHBhZGRlZCA=?=')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise ValueError("an integer in a header lies between -2**53 + 1 and 2**53 - 1")
        return str(value)
    if _PLAIN.fullmatch(value) and not _is_wrapped(value):
        return value
    return f"{_BEGIN}{base64.b64encode(value.encode()).decode()}{_END}"


def decode_value(value: str) -> str:
    """Read the value of a header.

    Raises:
        ValueError: It holds characters that no header has, or what should be base64 is not.

    Example:
        >>> decode_value("=?base64?SGVsbG8sIOS4lueVjA==?=")
        'Hello, 世界'
    """
    if not _VALID.fullmatch(value):
        raise ValueError("a header holds visible ASCII characters, spaces and tabs")
    if not _is_wrapped(value):
        return value
    inner = value[len(_BEGIN) : -len(_END)]
    try:
        raw = base64.b64decode(inner, validate=True)
        if base64.b64encode(raw).decode() == inner:
            return raw.decode()
    except (binascii.Error, UnicodeDecodeError):
        pass
    raise ValueError("between =?base64? and ?= stands the base64 of UTF-8 text")


def _is_wrapped(value: str) -> bool:
    least = len(_BEGIN) + len(_END)
    return len(value) >= least and value.startswith(_BEGIN) and value.endswith(_END)


def mirrored_parameters(input_schema: Json) -> dict[str, Path]:
    """Find the parameters of a tool that are mirrored into headers, by its input schema.

    Returns:
        By the whole name of each header, the path of properties that leads to its value.

    Raises:
        ValueError: The schema breaks a rule for `x-mcp-header`; the text says which.

    Example:
        >>> mirrored_parameters({"properties": {"region": {
        ...     "type": "string", "x-mcp-header": "Region"}}})
        {'Mcp-Param-Region': ('region',)}
    """
    found: dict[str, Path] = {}
    names: set[str] = set()
    for place, schema in _schemas(input_schema):
        if _ANNOTATION not in schema:
            continue
        if not place:
            raise ValueError(f"{_ANNOTATION} stands where only properties of objects may have it")
        if len(found) >= _MOST_HEADERS:
            raise ValueError(f"more than {_MOST_HEADERS} parameters have an {_ANNOTATION}")
        path = _path_to(place)
        name = schema[_ANNOTATION]
        where = f"{_ANNOTATION} of {'.'.join(path)!r}"
        if not isinstance(name, str):
            raise ValueError(f"{where} must be a string, not {json_type(name)}")
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"{where} must be a token as header names are, not {name!r:.80}")
        kind = schema.get("type")
        if not isinstance(kind, str) or kind not in _TYPES:
            raise ValueError(f"{where}: its type must be string, integer or boolean")
        if name.lower() in names:
            raise ValueError(f"{where}: another parameter has the name {name!r:.80} already")
        names.add(name.lower())
        found[PARAMETER_PREFIX + name] = path
    return found


def _path_to(place: PathNode) -> Path:
    names: list[str] = []
    while place:
        place, name = place
        names.append(name)
    return tuple(reversed(names))


def _schemas(root: Json) -> Iterator[tuple[PathNode | None, dict[str, Json]]]:
    """Yield all schemas in a schema, with the places of those reached by properties alone."""
    queue: list[tuple[PathNode | None, Json]] = [((), root)]
    for place, schema in queue:  # which grows meanwhile
        if not isinstance(schema, dict):
            continue
        yield place, schema
        for path, part in parts_of(schema):
            inner: PathNode | None = None
            if place is not None and path[0] == "properties":
                inner = (place, str(path[1]))
            queue.append((inner, part))


def parameter_headers(mirrored: Mapping[str, Path], arguments: Json) -> dict[str, str]:
    """Write the headers that mirror arguments. One that is missing or null has none.

    Args:
        mirrored: What `mirrored_parameters` found in the tool's schema.
        arguments: The arguments of the call.

    Raises:
        ValueError: A header cannot hold an argument.

    Example:
        >>> parameter_headers({"Mcp-Param-Region": ("region",)}, {"region": "us-west1"})
        {'Mcp-Param-Region': 'us-west1'}
    """
    headers: dict[str, str] = {}
    for header, path in mirrored.items():
        value = arguments
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            continue
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 42.0 is an integer to JSON Schema
        if not isinstance(value, str | int):
            raise ValueError(f"{'.'.join(path)!r} must be a string, an integer or a boolean")
        try:
            headers[header] = encode_value(value)
        except ValueError as error:
            raise ValueError(f"{'.'.join(path)!r}: {error}") from None
    return headers
