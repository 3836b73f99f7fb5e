"""Comparing what a modern request says in its headers with what it says in its body.

Whoever stands between client and server (a gateway, a proxy) sees the headers; the server acts on
the body. If the two could differ, one would be deceived (2026-07-28, "Server Validation").
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from trio_mcp.registry import Registry
from trio_mcp.registry.tools import Tool
from trio_mcp.transports.http.request import HttpRequest
from trio_mcp.wire.errors import HEADER_MISMATCH, McpError
from trio_mcp.wire.headers import decode_value, mirrored_parameters
from trio_mcp.wire.jsonrpc import Json, Request
from trio_mcp.wire.revisions import META_VERSION

VERSION: Final = b"mcp-protocol-version"
METHOD: Final = b"mcp-method"
NAME: Final = b"mcp-name"

_WHOLE: Final = re.compile(r"(-?[0-9]{1,400})(?:\.0+)?")
"""How an integer may be written."""

_SHORT: Final = 200

Paths = dict[str, tuple[str, ...]]


class HeaderCheck:
    """Checks the headers of modern requests."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._paths: dict[Tool, Paths] = {}

    def check(self, http: HttpRequest, request: Request) -> None:
        """Compare headers and body.

        Raises:
            McpError: They differ, or a header is missing or unreadable (`-32020`).
        """
        headers = http.headers
        meta = request.params["_meta"]
        version = meta.get(META_VERSION)
        if isinstance(version, str):  # else the dispatcher says that it is missing, or odd
            _compare("MCP-Protocol-Version", headers.get(VERSION), version)
        _compare("Mcp-Method", headers.get(METHOD), request.method)
        row = self._registry.methods.get(request.method)
        if row is None or row.target is None or row.era == "legacy":  # which has no such header
            return
        name = request.params.get(row.target)
        if isinstance(name, str):  # as above
            _compare("Mcp-Name", headers.get(NAME), name, encoded=True)
            tool = self._registry.tools.get(name) if request.method == "tools/call" else None
            if tool is not None:
                self._check_parameters(http, tool, request.params.get("arguments"))

    def _check_parameters(self, http: HttpRequest, tool: Tool, arguments: Json) -> None:
        for header, path in self._paths_of(tool).items():
            value = arguments
            for step in path:
                value = value.get(step) if isinstance(value, dict) else None
            got = http.headers.get(header.lower().encode())
            if value is None and got is None:
                continue
            if value is None:
                raise _mismatch(f"{header} is sent, but the body has no such argument")
            if isinstance(value, str | int | float | bool):  # else the schema refuses it
                _compare(header, got, value, encoded=True)

    def _paths_of(self, tool: Tool) -> Paths:
        paths = self._paths.get(tool)
        if paths is None:
            paths = mirrored_parameters(tool.description.input_schema)
            if len(self._paths) > 2 * len(self._registry.tools):  # most are of tools long gone
                self._paths.clear()
            self._paths[tool] = paths
        return paths


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
    """Write a text as it stands in a header, if it means itself there."""
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
