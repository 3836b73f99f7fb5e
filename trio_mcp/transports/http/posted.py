"""What a POST brings: a message, and the media types that its client understands."""

from __future__ import annotations

from functools import lru_cache

from trio_mcp.layers.spans import trace_of
from trio_mcp.loggers import logger_of
from trio_mcp.peer.lines import decoded
from trio_mcp.transports.http.request import EVENTS, JSON, HttpRequest, Refusal
from trio_mcp.wire.errors import INVALID_REQUEST, McpError
from trio_mcp.wire.jsonrpc import (
    UNKNOWN_ID,
    Batch,
    Id,
    Malformed,
    Message,
    Request,
    error_line,
)
from trio_mcp.wire.limits import Limits

logger = logger_of("trio_mcp.http")


async def read_message(http: HttpRequest, limits: Limits) -> tuple[Message, bytes]:
    """Read the message of a POST.

    Returns:
        The message, which is not `Malformed`, and the body that it was decoded from.

    Raises:
        Refusal: It is too long (413), or no message (400).
        Disconnected: The client left before all of it had come.
    """
    body = await http.body(limits.max_message_bytes)
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
    return _accepted(http.headers.get(b"accept", b"*/*")).issuperset(kinds)


@lru_cache(maxsize=256)  # clients always say the same
def _accepted(accept: bytes) -> frozenset[bytes]:
    kinds = {kind.partition(b";")[0].strip() for kind in accept.lower().split(b",")}
    return frozenset(
        kind for kind in (JSON, EVENTS) if {kind, kind.partition(b"/")[0] + b"/*", b"*/*"} & kinds
    )
