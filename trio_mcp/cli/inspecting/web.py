"""`trio-mcp inspect --web`: a session on a page, in a browser on this machine."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from trio_mcp.cli.failures import OK, Failure
from trio_mcp.cli.inspecting.relay import Relay, open_sse_upstream
from trio_mcp.cli.login.browser import open_page
from trio_mcp.cli.options import ConnectionOptions
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.target import Target
from trio_mcp.transports.http.server import open_tcp, serve_asgi
from trio_mcp.transports.http.server.asgi import bound_address
from trio_mcp.transports.process import open_process
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits

_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""A person may want to see more than a program should accept."""


async def serve_page(
    target: Target, options: ConnectionOptions, screen: Screen, port: int, *, opens: bool
) -> int:
    try:
        listeners = await open_tcp("127.0.0.1", port)
    except OSError as error:
        raise Failure(f"cannot listen on port {port}: {error.strerror or error}") from None
    (address,) = {bound_address(listener) for listener in listeners}
    assert isinstance(address, tuple)
    async with _relay(target, options, screen, address[1]) as relay:
        screen.note(f"Open this page to try out {target.text}:")
        screen.text(relay.url)
        screen.out.file.flush()
        screen.note("Anyone with this address can use the server. Ctrl-C ends it.")
        if opens:
            await open_page(relay.url)
        async with relay.running():
            await serve_asgi(relay, listeners, max_body_bytes=_MESSAGE_BYTES, shutdown_grace=0)
    return OK


@asynccontextmanager
async def _relay(
    target: Target, options: ConnectionOptions, screen: Screen, port: int
) -> AsyncIterator[Relay]:
    limits = Limits(max_message_bytes=_MESSAGE_BYTES)
    http = options.http_options(target, screen)
    if target.url is None:
        command = target.process or []
        connect = partial(open_process, command, options.process_options(), limits=limits)
        about: dict[str, Json] = {"target": target.text, "command": shlex.join(command)}
        yield Relay(port, about, connect, limits)
        return
    from trio_mcp.client.http.endpoint import Endpoint

    async with Endpoint(target.url, http).opened() as endpoint:
        connect_sse = partial(open_sse_upstream, endpoint, http, limits)
        about = {"target": endpoint.place, "url": endpoint.place}
        yield Relay(port, about, connect_sse, limits, endpoint)
