"""Arguments as the body of a request: JSON, forms, files, text."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from attrs import frozen

from trio_mcp.compose.openapi.operations import AS_JSON, Body, Location, kind_of, style_of
from trio_mcp.compose.openapi.parameters import Pair, joined, json_of, query_of, text_of
from trio_mcp.errors import ToolError
from trio_mcp.wire.jsonrpc import Json

ReadFile = Callable[[str], Awaitable[bytes]]
"""Reads the bytes at a URI that was given for a file."""

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_DATA: Final = re.compile(r"data:(?P<type>[^;,]*)(?:;[^;,]*?)*?(?P<coded>;base64)?,", re.IGNORECASE)
_STYLED: Final = frozenset({"style", "explode", "allowReserved"})
_PLAIN: Final = re.compile(r"[\w.+-]+/[\w.+-]+(;[\x20-\x7e]*)?")
_OCTETS: Final = "application/octet-stream"
_LONGEST_PREFIX: Final = 500


@frozen
class File:
    """A file that was given as an argument."""

    data: bytes
    media_type: str | None = None


async def body_of(
    body: Body, arguments: Mapping[str, Json], read_file: ReadFile | None
) -> dict[str, Any]:
    """Return the body as keywords for `httpx2.AsyncClient.build_request`; none without a body."""
    if body.argument is not None:
        if body.argument not in arguments:
            return {}
        value = arguments[body.argument]
    else:
        members = body.fields.items()
        value = {name: arguments[each] for each, name in members if each in arguments}
        if not value and not body.required:
            return {}
    kind = kind_of(body.media_type)
    if kind == "binary":
        file = await _file(body.argument or "body", value, read_file)
        media_type = body.media_type if "*" not in body.media_type else file.media_type
        return _content(file.data, media_type or _OCTETS)
    if kind == "multipart":
        parts = value if isinstance(value, dict) else {"body": value}
        return {"files": [part async for part in _parts(body, parts, read_file)]}
    if kind == "form":
        pairs = list(_form(body, value)) if isinstance(value, dict) else []
        return _content(joined(pairs).encode(), "application/x-www-form-urlencoded")
    if kind == "text":
        return _content(text_of(value).encode(), body.media_type)
    media_type = "application/json" if "*" in body.media_type else body.media_type
    return _content(json_of(value), media_type)


def _content(data: bytes, media_type: str) -> dict[str, Any]:
    return {"content": data, "headers": {"Content-Type": media_type}}


def _form(body: Body, value: Mapping[str, Json]) -> Iterator[Pair]:
    for name, each in value.items():
        said = _said(body, name)
        style = style_of(said, "query") if _STYLED & said.keys() else AS_JSON
        location = Location(body.names.checked(name, name), "body", style, body.names)
        is_several = style is AS_JSON and isinstance(each, list) and "contentType" not in said
        for one in each if is_several else [each]:
            yield from query_of(location, one)


async def _parts(body: Body, value: Mapping[str, Json], read_file: ReadFile | None) -> Any:
    """Yield the parts of a multipart body, with their names, file names, contents and types."""
    for name, each in value.items():
        body.names.checked(name, name)
        said = _said(body, name).get("contentType")
        media_type = said if isinstance(said, str) and _PLAIN.fullmatch(said) else None
        for one in each if isinstance(each, list) else [each]:
            if name in body.files:
                file = await _file(name, one, read_file)
                yield name, (name, file.data, file.media_type or media_type or _OCTETS)
            else:
                usual = "application/json" if isinstance(one, dict | list) else None
                yield name, (None, text_of(one).encode(), media_type or usual)


def _said(body: Body, name: str) -> Mapping[str, Json]:
    said = body.encoding.get(name)
    return said if isinstance(said, Mapping) else {}


async def _file(name: str, value: Json, read_file: ReadFile | None) -> File:
    """Read the file that an argument means."""
    text = value if isinstance(value, str) else ""
    data = _DATA.match(text, 0, _LONGEST_PREFIX)
    try:
        if data is not None:
            content = unquote_to_bytes(text[data.end() :])
            coded = base64.b64decode(content, validate=True) if data["coded"] else content
            given = data["type"] if _PLAIN.fullmatch(data["type"]) else None
            return File(coded, given)
        if _URI.match(text):
            if read_file is None:
                raise ToolError(f"{name} must be base64 or a data: URI; other URIs are not read")
            return File(await read_file(text))
        return File(base64.b64decode(text, validate=True))
    except binascii.Error:
        raise ToolError(f"{name} is a file: give its bytes in base64, or a data: URI") from None
