"""Comparing what a modern request says in its headers with what it says in its body.

A gateway or proxy between client and server sees the headers; the server acts on
the body. If the two could differ, one would be deceived (2026-07-28, "Server Validation").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from trio_mcp.registry.catalogue import Catalogue
from trio_mcp.transports.http.request import HttpRequest
from trio_mcp.wire.errors import HEADER_MISMATCH, McpError
from trio_mcp.wire.headers import Path, decode_value
from trio_mcp.wire.jsonrpc import Json, Request
from trio_mcp.wire.methods import CALL_TOOL, target_of
from trio_mcp.wire.revisions import META_VERSION

VERSION: Final = b"mcp-protocol-version"
METHOD: Final = b"mcp-method"
NAME: Final = b"mcp-name"

_WHOLE: Final = re.compile(r"(-?[0-9]{1,400})(?:\.0+)?")

_SHORT: Final = 200


def check_headers(http: HttpRequest, request: Request, catalogue: Catalogue) -> None:
    """Compare the headers and the body of a modern request.

    Raises:
        McpError: They differ, or a header is missing or unreadable (`-32020`).
    """
    headers, params, method = http.headers, request.params, request.method
    version = params["_meta"].get(META_VERSION)
    if isinstance(version, str):  # else the dispatcher says that it is missing, or odd
        _compare("MCP-Protocol-Version", headers.get(VERSION), version)
    _compare("Mcp-Method", headers.get(METHOD), method)
    target = target_of(method, catalogue.methods)
    name = None if target is None else params.get(target)
    if isinstance(name, str):  # as above
        _compare("Mcp-Name", headers.get(NAME), name, encoded=True)
        tool = catalogue.tools.get(name) if method == CALL_TOOL.name else None
        if tool is not None and (mirrored := tool.mirrored):
            _check_parameters(headers, mirrored, params.get("arguments"))


def _check_parameters(
    headers: Mapping[bytes, bytes], mirrored: Mapping[str, Path], arguments: Json
) -> None:
    for header, path in mirrored.items():
        value = arguments
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        got = headers.get(header.lower().encode())
        if value is None and got is None:
            continue
        if value is None:
            raise _mismatch(f"{header} is sent, but the body has no such argument")
        if isinstance(value, str | int | float | bool):  # else the schema refuses it
            _compare(header, got, value, encoded=True)


def _compare(name: str, header: bytes | None, value: Json, *, encoded: bool = False) -> None:
    if header is None:
        raise _mismatch(f"the header {name} is missing")
    if value.__class__ is str and len(value) < _SHORT and header == _plain(value):
        return  # as it nearly always is
    try:
        text = header.decode("ascii")
        if not text.replace("\t", "").isprintable():
            raise ValueError("it has control characters")
        said = decode_value(text) if encoded else text
    except ValueError:
        why = f"the header {name} has characters or an encoding that it may not have"
        raise _mismatch(why) from None
    if not _same(said, value):
        raise _mismatch(f"{name} header value {said[:100]!r} does not match the body")


@lru_cache(maxsize=1024)  # methods and names, again and again
def _plain(text: str) -> bytes | None:
    means_itself = text.isascii() and text.isprintable() and not text.startswith("=?")
    return text.encode() if means_itself else None


def _same(said: str, value: Json) -> bool:
    if isinstance(value, bool):
        return said == ("true" if value else "false")
    if isinstance(value, int | float):
        whole = _WHOLE.fullmatch(said)
        return whole is not None and int(whole[1]) == value
    return bool(said == value)


def _mismatch(why: str) -> McpError:
    return McpError(HEADER_MISMATCH, f"Header mismatch: {why}")
