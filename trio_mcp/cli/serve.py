"""`trio-mcp serve`: run a registry on stdio."""

from functools import partial
from typing import Annotated

import trio
from attrs import evolve
from cyclopts import Parameter, validators

from trio_mcp import serve as serve_stdio
from trio_mcp.cli.logs import LogFormat, LogLevel, configure
from trio_mcp.cli.target import load_registry
from trio_mcp.wire.limits import Limits


def serve(
    target: str,
    /,
    *,
    tool_timeout: Annotated[float | None, Parameter(validator=validators.Number(gt=0))] = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> None:
    """Serve a registry on stdin and stdout.

    Args:
        target: MODULE:REGISTRY or FILE.py:REGISTRY; the name may be left out if there is one only.
        tool_timeout: Seconds that a tool may run, unless it says otherwise itself.
        log_level: The least important messages that are logged to stderr.
        log_format: Readable text, or one JSON object a line.
    """
    configure(log_level, log_format)
    registry = load_registry(target)
    limits = Limits() if tool_timeout is None else evolve(Limits(), tool_timeout=tool_timeout)
    trio.run(partial(serve_stdio, registry, limits=limits))
