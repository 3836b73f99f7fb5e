"""Requests of a proxy: their results are returned unchanged, questions included."""

from __future__ import annotations

from trio_mcp.client.client import Client, session_of
from trio_mcp.client.notifications import ProgressCallback
from trio_mcp.client.session import ClientRequest
from trio_mcp.wire.jsonrpc import Json


async def exchange(
    client: Client,
    method: str,
    params: dict[str, Json],
    *,
    timeout: float | None = None,
    on_progress: ProgressCallback | None = None,
) -> dict[str, Json]:
    """Send a request and return its result unchanged, even if that is a question.

    `_meta` fields that the parameters have take the place of the client's own.

    Raises:
        McpError: The server answered with an error.
        ClientError: As for `Client.request`.

    If cancelled, it tells the server to stop, and ignores a late answer.
    """
    request = ClientRequest(method=method, params=params, timeout=timeout, on_progress=on_progress)
    return await session_of(client).exchange(request)


async def exchange_as_it_is(
    client: Client, method: str, params: dict[str, Json]
) -> dict[str, Json]:
    """Send a request that has all its `_meta` fields, and return its result unchanged.

    It waits for as long as it takes.

    Raises, and behaves when it is cancelled, as `exchange`.
    """
    return await session_of(client).transmit(method, params)
