"""`trio-mcp serve`: run a registry on stdio or over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import trio
from cyclopts import Parameter, validators

from trio_mcp import serve as serve_stdio
from trio_mcp.cli.exposure import Exposure
from trio_mcp.cli.failures import OK
from trio_mcp.cli.lifespans import name_failures
from trio_mcp.cli.logs import LogFormat, LogLevel, configure
from trio_mcp.cli.target import OURSELVES, load_registry, registry_target
from trio_mcp.wire.limits import Limits

_DEFAULT = Exposure()
_LIMITS = Limits()


def serve(
    target: str,
    /,
    *,
    exposure: Exposure = _DEFAULT,
    tool_timeout: Annotated[
        float, Parameter(validator=validators.Number(gt=0))
    ] = _LIMITS.tool_timeout,
    shutdown_grace: Annotated[
        float, Parameter(validator=validators.Number(gte=0))
    ] = _LIMITS.shutdown_grace,
    reload: Annotated[bool, Parameter(show_default=False)] = False,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Serve a registry on stdin and stdout, or over HTTP.

    Args:
        target: FILE.py:REGISTRY or MODULE:REGISTRY, or a function that makes the registry; the
            name may be left out if there is one registry only.
        exposure: Where it is reached over HTTP, and by whom.
        tool_timeout: Seconds that a tool may run, unless it says otherwise itself.
        shutdown_grace: Seconds that calls have to finish after the first signal.
        reload: Start anew whenever a Python file beside the target changes, for development.
        log_level: The least important messages that are logged to stderr.
        log_format: Readable text, or one JSON object a line.
    """
    place = registry_target(target)
    exposure.check()
    configure(log_level, log_format)
    if reload:
        from trio_mcp.cli.reload.command import serve_again_and_again, source_of

        bounds = [f"--tool-timeout={tool_timeout}", f"--shutdown-grace={shutdown_grace}"]
        log = [f"--log-level={log_level}", f"--log-format={log_format}"]
        command = [*OURSELVES, "serve", place, *exposure.words(), *bounds, *log]
        return serve_again_and_again(
            command, source_of(place), over_http=exposure.is_wanted, grace=shutdown_grace
        )
    registry = load_registry(place)
    name_failures(registry)
    limits = Limits(tool_timeout=tool_timeout, shutdown_grace=shutdown_grace)
    if not exposure.is_wanted:
        trio.run(partial(serve_stdio, registry, limits=limits))
        return OK
    from trio_mcp.cli.serve_http import run_http

    return run_http(registry, exposure, limits)
