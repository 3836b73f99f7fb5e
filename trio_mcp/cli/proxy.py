"""`trio-mcp proxy` and `trio-mcp gateway`: other servers, served by any transport."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import trio
from attrs import evolve, frozen
from cyclopts import Parameter, validators

from trio_mcp.background import background_nursery
from trio_mcp.cli.failures import OK, Failure, Interrupted, Usage, one_line
from trio_mcp.cli.http_options import HttpServerOptions
from trio_mcp.cli.logs import LogOptions
from trio_mcp.cli.options import ConnectionOptions, Count, Seconds, TargetWord, check_way
from trio_mcp.cli.running import run_async
from trio_mcp.cli.serve import server_for
from trio_mcp.cli.target import parse_target
from trio_mcp.errors import ConfigError
from trio_mcp.system.descriptors import has_hung_up
from trio_mcp.wire.limits import Limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator

    from trio_mcp.compose import Gateway
    from trio_mcp.registry import Registry

_STDIO = HttpServerOptions()
_DEPTH: Final = "TRIO_MCP_DEPTH"
"""The variable that says how many proxies and gateways have started one another."""
_MOST_DEPTH: Final = 8
_LOOK: Final = 0.25
"""Seconds between two looks whether the client has left while servers are being opened."""
_GRACE: Final = 3.0
"""Seconds that servers have to be there once it has."""


@Parameter(name="*")
@frozen(kw_only=True)
class ProxyOptions(LogOptions):
    """How requests are passed on."""

    timeout: Seconds = 600.0
    """Seconds that a call may take."""
    max_callers: Count = 32
    """Connections that a legacy server gets for callers who can be asked something; a command is
    started once for each."""


def proxy(
    target: TargetWord,
    /,
    *,
    name: Annotated[
        str,
        Parameter(
            help="What errors, the log and /health call the other server. Anybody may see it."
        ),
    ] = "remote",
    env: Annotated[
        tuple[str, ...], Parameter(help="A variable KEY=VALUE for the server's process.")
    ] = (),
    upstream_header: Annotated[
        tuple[str, ...], Parameter(help="For a URL, a header 'Name: value' of each request.")
    ] = (),
    upstream_token_env: Annotated[
        str | None, Parameter(help="A variable with the bearer token for a URL.")
    ] = None,
    http: HttpServerOptions = _STDIO,
    options: ProxyOptions = ProxyOptions(),
) -> int:
    """Serve another server, on stdin and stdout or over HTTP.

    Whatever it speaks, and by whatever transport, clients meet it as if it were here. What they get
    in with is for this server; it is not passed on. The other server gets what the options for the
    upstream say, or else a login that is kept (trio-mcp login).
    """
    from trio_mcp.cli.screen import Screen
    from trio_mcp.compose import open_proxy

    place = parse_target(target)
    way = ConnectionOptions(env=env, header=upstream_header, token_env=upstream_token_env)
    check_way(place, env, upstream_header=upstream_header, upstream_token_env=upstream_token_env)
    process = way.process_options()
    process = evolve(process, stderr="forward", env={**process.env, _DEPTH: _next_depth()})
    opened = open_proxy(
        place.url or place.process or [],
        name=name,
        process_options=process,
        http=way.http_options(place, Screen()),
        timeout=options.timeout,
        max_callers=options.max_callers,
    )
    return _serve(opened, http, options)


def gateway(
    file: Annotated[Path, Parameter(help="A file such as mcp.json, or a pipe.")],
    /,
    *,
    watch: Annotated[
        bool, Parameter(help="Read the file again whenever it changes. What is the same stays.")
    ] = False,
    wait: Annotated[
        float,
        Parameter(
            validator=validators.Number(gte=0),
            help="Seconds that clients wait at first for servers that are slow to start; what "
            "comes later joins then.",
        ),
    ] = 1.0,
    search: Annotated[
        bool,
        Parameter(
            help="List two tools in place of all: one that finds tools by words, and one that "
            "calls them."
        ),
    ] = False,
    pin: Annotated[
        tuple[str, ...],
        Parameter(help="With --search, a tool that is listed all the same, as SERVER_NAME."),
    ] = (),
    http: HttpServerOptions = _STDIO,
    options: ProxyOptions = ProxyOptions(),
) -> int:
    """Serve all servers of a file such as mcp.json as one, on stdin and stdout or over HTTP.

    Tools and prompts are called SERVER_NAME. A server that fails, hangs or dies does not touch the
    others, and comes back by itself. Over HTTP, /health says how each one stands.
    """
    if not file.exists():
        raise Failure(f"there is no file {file}")
    if file.is_dir():
        raise Failure(f"{file} is a folder; name the file in it, such as {file / 'mcp.json'}")
    if watch and not file.is_file():
        raise Usage(f"--watch is for a file, and {file} is none")
    if pin and not search:
        raise Usage("--pin is for --search: without it, all tools are listed")
    file = file.resolve() if file.is_file() else file
    opened = _gathered(file, watch, wait, options)
    return _serve(_shown(opened, search, pin, watch), http, options)


def _next_depth() -> str:
    """Return the depth at which the servers behind this one are, or raise `Failure`."""
    text = os.environ.get(_DEPTH, "")
    depth = int(text) if text.isdecimal() and len(text) < 3 else 0
    if depth >= _MOST_DEPTH:
        raise Failure(
            f"{depth} proxies and gateways have started one another: is there one that, by way of "
            f"the others, starts itself? If not, unset {_DEPTH}"
        )
    return str(depth + 1)


@asynccontextmanager
async def _shown(
    opened: AbstractAsyncContextManager[Gateway], search: bool, pinned: tuple[str, ...], watch: bool
) -> AsyncIterator[Registry]:
    from trio_mcp.compose import searchable

    async with opened as found:
        if not search:
            yield found.registry
            return
        about = None if watch else f"There are tools of: {', '.join(found.states)}."
        yield searchable(found.registry, pinned=pinned, about=about)


@asynccontextmanager
async def _gathered(
    file: Path, watch: bool, wait: float, options: ProxyOptions
) -> AsyncIterator[Gateway]:
    from trio_mcp.compose import open_gateway
    from trio_mcp.transports import ProcessOptions

    process = ProcessOptions(env={**os.environ, _DEPTH: _next_depth()}, stderr="forward")
    try:
        async with AsyncExitStack() as stack:
            changes = None
            if watch:  # from before the file is read, so that no change of it goes unseen
                from trio_mcp.cli.reload.watching import watching

                of_file = watching(file.parent, Path(file.name).__eq__, recursive=False)
                changes = await stack.enter_async_context(of_file)
            found = await stack.enter_async_context(
                open_gateway(
                    file,
                    process_options=process,
                    timeout=options.timeout,
                    wait=wait,
                    max_callers=options.max_callers,
                )
            )
            if changes is not None:
                follow = partial(_follow, file, changes, found)
                await stack.enter_async_context(background_nursery(follow))
            yield found
    except (ConfigError, ModuleNotFoundError) as error:
        raise Failure(str(error)) from None


async def _follow(file: Path, changes: AsyncIterable[str], found: Gateway) -> None:
    async for _ in changes:
        try:
            await found.load(file)
        except (ConfigError, ModuleNotFoundError, OSError) as error:
            print(f"trio-mcp: {one_line(str(error))}", file=sys.stderr)


def _serve(
    opened: AbstractAsyncContextManager[Registry], http: HttpServerOptions, options: ProxyOptions
) -> int:
    http.check()
    options.configure()
    server = server_for(http, Limits(tool_timeout=options.timeout))

    async def main() -> None:
        begun = trio.Event()
        with trio.CancelScope() as scope:
            watch = partial(_end_with_client, scope, begun)
            async with background_nursery(*[] if http.is_wanted else [watch]), opened as registry:
                begun.set()
                await server(registry)

    with suppress(Interrupted):  # while servers were being opened, or closed
        run_async(main)
    return OK


async def _end_with_client(scope: trio.CancelScope, begun: trio.Event) -> None:
    """Cancel what is being opened when the client has left: nothing reads stdin before that ends.

    What was piped in may still be answered, if there is something soon to answer it.
    """
    while not has_hung_up(0):
        with trio.move_on_after(_LOOK):
            await begun.wait()
            return
    with trio.move_on_after(_GRACE):
        await begun.wait()
        return
    scope.cancel()
