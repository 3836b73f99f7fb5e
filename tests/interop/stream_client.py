"""The official Python client in the process of the server: what it says still travels as lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import mcp_types as types
import trio
from mcp.shared.message import SessionMessage
from trio.testing import memory_stream_pair

from trio_mcp import Registry, serve_stream


@asynccontextmanager
async def stream_client(registry: Registry) -> AsyncIterator[tuple[Any, Any]]:
    """What the client's `stdio_client` is for a process, for a stream in memory."""
    ours, theirs = memory_stream_pair()
    to_client, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
    outgoing, from_client = anyio.create_memory_object_stream[SessionMessage]()

    async def read() -> None:
        buffer = bytearray()
        with suppress(anyio.BrokenResourceError):  # the client has gone
            async for chunk in ours:
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await to_client.send(SessionMessage(message))

    async def write() -> None:
        async for each in from_client:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            await ours.send_all(f"{text}\n".encode())
        await ours.send_eof()

    with to_client, incoming, outgoing, from_client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_stream, registry, theirs)
            nursery.start_soon(read)
            nursery.start_soon(write)
            yield incoming, outgoing
            outgoing.close()  # the end of the input, with which the server and its output end
