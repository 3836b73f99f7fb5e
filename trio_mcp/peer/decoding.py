"""Decoding messages without holding the event loop, however much is in them."""

from __future__ import annotations

from collections.abc import Awaitable

from trio_mcp.threads import offload
from trio_mcp.wire.jsonrpc import Message, decode
from trio_mcp.wire.limits import Limits


def decoded(line: bytes, limits: Limits) -> Awaitable[Message | None]:
    """Turn a line into a message, as `decode` does; in a worker thread if that takes long.

    No checkpoint if it does not. Cancelled, it leaves the thread behind, which ends by itself.
    """
    return offload(decode, line, limits.max_batch, limits.max_message_values)
