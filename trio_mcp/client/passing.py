"""Requests that are passed on: results come as they are, questions included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trio_mcp.client.client import Client, session_of
from trio_mcp.client.notifications import ProgressCallback
from trio_mcp.client.session import ClientRequest
from trio_mcp.errors import CallTimeout, NotConnected, ProtocolError
from trio_mcp.peer.outbound import ConnectionEnded, DeadlinePassed, OutgoingRequest
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Json


async def exchange(
    client: Client,
    method: str,
    params: dict[str, Json],
    *,
    timeout: float | None = None,
    on_progress: ProgressCallback | None = None,
) -> dict[str, Json]:
    """Send a request and return its result as it came, even if that is a question.

    `_meta` fields that the parameters have take the place of the client's own.

    Args:
        client: Who sends it.
        method: The method.
        params: Its parameters.
        timeout: Seconds to wait, in place of the connection's default; `inf` for ever.
        on_progress: As in `Client.request`.

    Raises:
        McpError: The server answered with an error.
        ClientError: As for `Client.request`.

    If cancelled, it tells the server to stop, and ignores a late answer.
    """
    request = ClientRequest(method=method, params=params, timeout=timeout, on_progress=on_progress)
    return await session_of(client).exchange(request)


def exchange_soon(
    client: Client,
    method: str,
    params: dict[str, Json],
    seconds: float,
    done: Callable[[dict[str, Json] | Exception], object],
) -> Callable[[], None] | None:
    """Do the same as `exchange` without a task, if that can be done: over a stream with room.

    Args:
        client: Who sends it.
        method: The method.
        params: Its parameters, with all that the revision wants in `_meta`.
        seconds: How long to wait.
        done: Called once: with the result as it came; an `McpError` of the server's; a
            `CallTimeout`; or another `ClientError`. It must not raise.

    Returns:
        What cancels it, so that `done` is not called; `None` if nothing was sent.

    Raises:
        TypeError: The parameters are not JSON.
    """
    session = session_of(client)

    def woken(request: OutgoingRequest) -> None:
        outcome: Any
        response = request.response
        if response is not None and response.result.__class__ is dict:  # most of them
            done(response.result)
            return
        try:
            outcome = request.result
        except DeadlinePassed:
            outcome = CallTimeout(method, seconds)
        except ConnectionEnded as error:
            outcome = NotConnected(f"the connection ended: {error}")
        except McpError as error:
            outcome = error
        if not isinstance(outcome, dict | Exception):
            outcome = ProtocolError(f"{method}: the server's result is no object")
        done(outcome)

    return session.begin(method, params, TimeLimit(session.now() + seconds), woken)
