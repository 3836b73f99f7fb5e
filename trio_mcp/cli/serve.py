"""`trio-mcp serve`: run a registry on stdio or over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import trio
from attrs import evolve, frozen
from cyclopts import Parameter, validators

from trio_mcp import serve as serve_stdio
from trio_mcp.cli.failures import OK, Usage
from trio_mcp.cli.http_options import HttpServerOptions
from trio_mcp.cli.logs import LogOptions
from trio_mcp.cli.options import FileWord, Seconds, as_words
from trio_mcp.cli.target import OURSELVES, load_registry, registry_target
from trio_mcp.server.importing import serving_refused
from trio_mcp.system.lifeline import hold_on
from trio_mcp.transports.stdio.diversion import divert
from trio_mcp.wire.limits import Limits

if TYPE_CHECKING:
    from trio_mcp.registry import Registry

_STDIO = HttpServerOptions()
_LIMITS = Limits()


@Parameter(name="*")
@frozen(kw_only=True)
class RunOptions(LogOptions):
    """How any server runs."""

    shutdown_grace: Annotated[float, Parameter(validator=validators.Number(gte=0))] = (
        _LIMITS.shutdown_grace
    )
    """Seconds that calls have to finish after the first signal."""


@Parameter(name="*")
@frozen(kw_only=True)
class ServerOptions(RunOptions):
    """How a registry of the user's own runs."""

    tool_timeout: Seconds = _LIMITS.tool_timeout
    """Seconds that a tool may run, unless it says otherwise itself."""
    outlive_parent: bool = False
    """On stdin and stdout, go on when the process that has started this one has ended."""
    reload: bool = False
    """Start again whenever a Python file beside the target changes, for development."""


def serve(
    target: Annotated[
        FileWord,
        Parameter(
            help="FILE.py:REGISTRY or MODULE:REGISTRY, or a function that makes the registry; the "
            "name may be left out if there is one registry only."
        ),
    ],
    /,
    *,
    http: HttpServerOptions = _STDIO,
    options: ServerOptions = ServerOptions(),
) -> int:
    """Serve a registry on stdin and stdout, or over HTTP."""
    place = registry_target(target)
    http.check()
    if http.is_wanted and options.outlive_parent:
        raise Usage("--outlive-parent is for a server on stdin and stdout; over HTTP it does so")
    options.configure()
    if options.reload:
        if http.workers is not None:
            raise Usage("--reload and --workers exclude each other; send SIGHUP to replace workers")
        from trio_mcp.cli.reload.command import serve_reloading, source_of

        broken = None
        if http.is_wanted:
            from trio_mcp.cli.serve_http import stand_in

            broken = stand_in(http)
        words = [*as_words(http), *as_words(evolve(options, reload=False))]
        python, *ours = OURSELVES
        return serve_reloading(
            # -B: bytecode that is kept hides an edit of the same second and the same size.
            [python, "-B", *ours, "serve", place, *words],
            source_of(place),
            broken=broken,
            grace=options.shutdown_grace,
            outlive_parent=options.outlive_parent,
        )
    hold_on()
    # What modules print while they are imported is not for the client, nor is its input for them.
    with divert(0, 1, 2), serving_refused():
        registry = load_registry(place)
    limits = Limits(tool_timeout=options.tool_timeout, shutdown_grace=options.shutdown_grace)
    return run_registry(registry, http, limits, outlive_parent=options.outlive_parent)


def run_registry(
    registry: Registry, http: HttpServerOptions, limits: Limits, *, outlive_parent: bool = False
) -> int:
    trio.run(server_for(http, limits, outlive_parent=outlive_parent), registry)
    return OK


def server_for(
    http: HttpServerOptions, limits: Limits, *, outlive_parent: bool = False
) -> Callable[[Registry], Awaitable[None]]:
    if not http.is_wanted:
        return partial(serve_stdio, limits=limits, outlive_parent=outlive_parent)
    from trio_mcp.cli.serve_http import http_server

    return http_server(http, limits)
