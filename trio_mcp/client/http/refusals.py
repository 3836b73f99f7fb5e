"""What an HTTP status other than success means."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from trio_mcp.client.http.endpoint import Endpoint, Reply
from trio_mcp.errors import (
    ClientError,
    HttpError,
    RateLimited,
    RequestTooLarge,
    SessionExpired,
    Unauthorized,
)
from trio_mcp.wire import codec
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Id, Json

_MOST_BODY: Final = 65536
_ABOUT_SESSIONS: Final = re.compile(r"session|not initialized", re.IGNORECASE)
_LONGEST_RETRY_AFTER: Final = 9
"""Digits."""


async def refusal(
    endpoint: Endpoint, reply: Reply, *, id: Id | None, in_session: bool
) -> ClientError | McpError:
    """Make the error that says why a request was refused.

    Returns:
        What to raise. An answer to the request itself is an `McpError`, whatever the status.
    """
    try:
        body = _parsed(await reply.read_all(_MOST_BODY), reply.media_type)
    except ClientError:  # the status says enough
        body = None
    error = rpc_error(body)
    if error is not None and id is not None and body.get("id") == id:
        return error
    status = reply.status
    said = endpoint.redacted(_words(body))
    words = f": {said}" if said else ""
    why = f"{endpoint.place} answered {status}{_phrase(status)}{words}"
    if status in _BY_STATUS:
        return _BY_STATUS[status](endpoint, reply, why)
    if in_session and _means_no_session(status, said):
        return SessionExpired(status, f"{endpoint.where} has ended the session{words}")
    if error is not None and id is not None:
        return McpError(error.code, said, error.data)
    return HttpError(status, why)


def _unauthorized(endpoint: Endpoint, reply: Reply, why: str) -> HttpError:
    challenge = reply.header("www-authenticate")
    if challenge is not None:
        challenge = endpoint.redacted(challenge)
        why = f"{why} (WWW-Authenticate: {challenge})"
    return Unauthorized(reply.status, why, challenge)


def _rate_limited(endpoint: Endpoint, reply: Reply, why: str) -> HttpError:
    after = endpoint.redacted(reply.header("retry-after") or "")
    if after.isdecimal() and len(after) <= _LONGEST_RETRY_AFTER:
        return RateLimited(reply.status, f"{why}; try again in {after} s", float(after))
    return RateLimited(reply.status, f"{why}; try again after {after}" if after else why)


_BY_STATUS: Final[dict[int, Callable[[Endpoint, Reply, str], HttpError]]] = {
    401: _unauthorized,
    403: _unauthorized,
    407: _unauthorized,
    413: lambda endpoint, reply, why: RequestTooLarge(reply.status, why),
    429: _rate_limited,
}


def _means_no_session(status: int, said: str) -> bool:
    """Whether a server says that it does not know our session, or not any more.

    It is to answer 404; but many have learned from an example that answers 400, "No valid session
    ID provided", and others find a request before the handshake.
    """
    if status == HTTPStatus.BAD_REQUEST:
        return _ABOUT_SESSIONS.search(said) is not None
    return status == HTTPStatus.NOT_FOUND


def _parsed(body: bytes, media_type: str) -> Json:
    """Parse a body that is JSON, or plain text, which becomes a string."""
    try:
        return codec.loads(body)
    except ValueError:
        return body.decode(errors="replace") if media_type == "text/plain" else None


def rpc_error(body: Json) -> McpError | None:
    """Find the error in a JSON-RPC error response, even if it has no id."""
    match body:
        case {"error": {"code": int(code), "message": str(message), **rest}}:
            return McpError(code, message, rest.get("data"))
    return None


def _words(body: Json) -> str:
    """Find the message of a refusal, in one of the usual forms."""
    match body:
        case str(words):
            return words
        case {"error": {"message": str(words)}} | {"error": str(words)} | {"message": str(words)}:
            return words
        case {"detail": str(words)}:
            return words
    return ""


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""
