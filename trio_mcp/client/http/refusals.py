"""What an HTTP status other than success means."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import orjson

from trio_mcp.client.http.endpoint import Endpoint, Reply
from trio_mcp.errors import (
    ClientError,
    HttpError,
    RateLimited,
    RequestTooLarge,
    SessionExpired,
    Unauthorized,
)
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Id, Json

_MOST_BODY: Final = 65536
_LONGEST_RETRY_AFTER: Final = 9
"""Digits."""


async def refusal(
    endpoint: Endpoint, reply: Reply, *, id: Id | None, in_session: bool
) -> ClientError | McpError:
    """Find out why a request was refused.

    Args:
        endpoint: Who refused it.
        reply: How. Its body is read.
        id: The request's id; `None` if it was no request of the protocol.
        in_session: Whether it belonged to a session.

    Returns:
        What to raise. An answer to the request itself is an `McpError`, whatever the status.
    """
    try:
        body = _parsed(await reply.read_all(_MOST_BODY))
    except ClientError:  # the status says enough
        body = None
    error = rpc_error(body)
    if error is not None and id is not None and body.get("id") == id:
        return error
    status = reply.status
    said = endpoint.redacted(_words(body))
    where = endpoint.where
    why = f"{where} answered {status}{_phrase(status)}" + (f": {said}" if said else "")
    if status in _BY_STATUS:
        return _BY_STATUS[status](endpoint, reply, why)
    if status == HTTPStatus.NOT_FOUND and in_session:
        return SessionExpired(status, f"{where} has ended the session" + (f": {said}" * bool(said)))
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


def _too_large(endpoint: Endpoint, reply: Reply, why: str) -> HttpError:
    return RequestTooLarge(reply.status, why)


_BY_STATUS: Final[dict[int, Callable[[Endpoint, Reply, str], HttpError]]] = {
    401: _unauthorized,
    403: _unauthorized,
    407: _unauthorized,
    413: _too_large,
    429: _rate_limited,
}


def _parsed(body: bytes) -> Json:
    try:
        return orjson.loads(body)
    except ValueError:
        return None


def rpc_error(body: Json) -> McpError | None:
    """The error in a JSON-RPC error response, even if it has no id."""
    match body:
        case {"error": {"code": int(code), "message": str(message), **rest}}:
            return McpError(code, message, rest.get("data"))
    return None


def _words(body: Json) -> str:
    """What a server says about its refusal, if it says it in a form that is meant to be read."""
    match body:
        case {"error": {"message": str(words)}} | {"error": str(words)} | {"message": str(words)}:
            return words
    return ""


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""
