"""What a POST brings: a message, the media types that its client understands, and headers.

A modern request says in its headers what it says in its body. A gateway or proxy between client and
server sees the headers; the server acts on the body. If the two could differ, one would be
deceived, so they are compared (2026-07-28, "Server Validation").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from trio_mcp.loggers import logger_of
from trio_mcp.peer.lines import decoded
from trio_mcp.registry.catalogue import Catalogue
from trio_mcp.telemetry import trace_of
from trio_mcp.threads import SHORT_JSON
from trio_mcp.transports.http.bodies import SHORT
from trio_mcp.transports.http.request import EVENTS, JSON, HttpRequest, Refusal
from trio_mcp.wire.errors import HEADER_MISMATCH, INVALID_REQUEST, McpError
from trio_mcp.wire.headers import Path, decode_value
from trio_mcp.wire.jsonrpc import (
    UNKNOWN_ID,
    Batch,
    Id,
    Json,
    Malformed,
    Message,
    Request,
    decode,
    error_line,
)
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.methods import CALL_TOOL, target_of
from trio_mcp.wire.revisions import META_VERSION

logger = logger_of("trio_mcp.http")

_SHORT: Final = 200
"""Characters of a header that may be kept: anyone may send others, again and again."""


async def read_message(http: HttpRequest, limits: Limits) -> tuple[Message, bytes]:
    """Read the message of a POST.

    Returns:
        The message, which is not `Malformed`, and the body that it was decoded from.

    Raises:
        Refusal: It is too long (413), or no message (400).
        Disconnected: The client left before all of it had come.
    """
    body, limit = http.take_body(), limits.max_message_bytes
    if body is None or len(body) > min(SHORT, limit):
        body = await http.body(limit, body)
    if len(body) < SHORT_JSON:  # most of them, by the shortest way
        message = decode(body, limits.max_batch, limits.max_message_values)
    else:
        message = await decoded(body, limits)
    if message is None:
        raise bad_message(UNKNOWN_ID, McpError(INVALID_REQUEST, "Invalid request: it is empty"))
    if isinstance(message, Malformed):
        logger.warning("Malformed message of %d bytes: %s", message.size, message.cause)
        raise bad_message(message.id, message.error)
    if b"traceparent" in http.headers:
        _add_trace(message, trace_of(http.headers))
    return message, body


def _add_trace(message: Message, trace: dict[str, str]) -> None:
    """Put the trace of a request's headers into its `_meta`, which goes on to servers behind."""
    for request in message.messages if isinstance(message, Batch) else (message,):
        if isinstance(request, Request):
            meta = request.params.get("_meta", {})
            if isinstance(meta, dict) and "traceparent" not in meta:
                request.params["_meta"] = {**meta, **trace}


def check_message(http: HttpRequest) -> None:
    """Refuse a POST that brings no JSON (415), or whose client does not read all answers (406)."""
    if not http.head.is_message:
        check_json(http)
        if not accepts(http, JSON, EVENTS):
            raise Refusal(406, "The client must accept application/json and text/event-stream.")
        http.head.is_message = True


def check_json(http: HttpRequest) -> None:
    """Refuse a POST that does not say that it brings JSON (415)."""
    kind = http.headers.get(b"content-type", b"")
    if kind != JSON and kind.partition(b";")[0].strip().lower() != JSON:
        raise Refusal(415, "The Content-Type of a message must be application/json.")


def bad_message(id: Id, error: McpError) -> Refusal:
    line = error_line(id, error)
    return Refusal(400, error.message, body=line[:-1])


def accepts(http: HttpRequest, *kinds: bytes) -> bool:
    """Whether a client understands these, out of the two media types of MCP.

    Without the header it understands anything (RFC 9110, section 12.5.1).
    """
    accept = http.headers.get(b"accept", b"*/*")
    find = _accepted if len(accept) <= _SHORT else _accepted.__wrapped__
    return find(accept).issuperset(kinds)


@lru_cache(maxsize=256)  # clients always say the same
def _accepted(accept: bytes) -> frozenset[bytes]:
    kinds = {kind.partition(b";")[0].strip() for kind in accept.lower().split(b",")}
    return frozenset(
        kind for kind in (JSON, EVENTS) if {kind, kind.partition(b"/")[0] + b"/*", b"*/*"} & kinds
    )


VERSION: Final = b"mcp-protocol-version"
METHOD: Final = b"mcp-method"
NAME: Final = b"mcp-name"

_WHOLE: Final = re.compile(r"(-?[0-9]{1,400})(?:\.0+)?")


def check_headers(http: HttpRequest, request: Request, catalogue: Catalogue) -> None:
    """Compare headers and body of a modern request, or raise `McpError` (`-32020`)."""
    headers, params, method = http.headers, request.params, request.method
    version = params["_meta"].get(META_VERSION)
    target = target_of(method, catalogue.methods)
    name = None if target is None else params.get(target)
    if not isinstance(version, str):  # the dispatcher says that it is missing, or odd
        version = None
    if not isinstance(name, str):  # as above
        name = None
    meant = version, method, name
    if meant != http.head.meant:
        said = headers.get(VERSION), headers.get(METHOD), headers.get(NAME)
        is_short = sum(map(len, filter(None, meant))) < _SHORT
        (_compare_usual if is_short else _compare_all)(meant, said)
        http.head.meant = meant
    if name is not None:
        tool = catalogue.tools.get(name) if method == CALL_TOOL.name else None
        if tool is not None and (mirrored := tool.mirrored):
            _check_parameters(headers, mirrored, params.get("arguments"))


def _compare_all(
    meant: tuple[str | None, str, str | None],
    said: tuple[bytes | None, bytes | None, bytes | None],
) -> None:
    version, method, name = meant
    if version is not None:
        _compare("MCP-Protocol-Version", said[0], version)
    _compare("Mcp-Method", said[1], method)
    if name is not None:
        _compare("Mcp-Name", said[2], name, encoded=True)


_compare_usual = lru_cache(maxsize=1024)(_compare_all)
"""The same for methods and names that come again and again, where heads differ in something else,
such as the token. It keeps those that agree."""


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


def _same(said: str, value: Json) -> bool:
    if isinstance(value, bool):
        return said == ("true" if value else "false")
    if isinstance(value, int | float):
        whole = _WHOLE.fullmatch(said)
        return whole is not None and int(whole[1]) == value
    return bool(said == value)


def _mismatch(why: str) -> McpError:
    return McpError(HEADER_MISMATCH, f"Header mismatch: {why}")
