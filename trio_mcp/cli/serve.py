"""`trio-mcp serve`: run a registry on stdio or over HTTP."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated

import trio
from attrs import evolve
from cyclopts import Parameter, validators

from trio_mcp import serve as serve_stdio
from trio_mcp.cli.failures import OK, Failure, Usage
from trio_mcp.cli.logs import LogFormat, LogLevel, configure
from trio_mcp.cli.target import OURSELVES, load_registry, registry_target
from trio_mcp.wire.limits import Limits

_HttpOnly = Parameter(group="Over HTTP")
_Repeated = Parameter(group="Over HTTP", show_default=False)


def serve(
    target: str,
    /,
    *,
    http: Annotated[str | None, _HttpOnly] = None,
    path: Annotated[str, _HttpOnly] = "/mcp",
    allow_host: Annotated[tuple[str, ...], _Repeated] = (),
    allow_origin: Annotated[tuple[str, ...], _Repeated] = (),
    token_env: Annotated[str | None, _HttpOnly] = None,
    tool_timeout: Annotated[float | None, Parameter(validator=validators.Number(gt=0))] = None,
    reload: Annotated[bool, Parameter(show_default=False)] = False,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Serve a registry on stdin and stdout, or over HTTP.

    Args:
        target: MODULE:REGISTRY or FILE.py:REGISTRY; the name may be left out if there is one only.
        http: Serve over HTTP at HOST:PORT, or at PORT on this machine only.
        path: The path of the endpoint.
        allow_host: A further value of the Host header that is served. May be repeated.
        allow_origin: An Origin that is served. May be repeated.
        token_env: A variable of the environment; clients need its value as their bearer token.
        tool_timeout: Seconds that a tool may run, unless it says otherwise itself.
        reload: Start anew whenever a Python file beside the target changes, for development.
        log_level: The least important messages that are logged to stderr.
        log_format: Readable text, or one JSON object a line.
    """
    place = registry_target(target)
    configure(log_level, log_format)
    if reload:
        from trio_mcp.cli.reload.command import serve_again_and_again, source_of

        options = {
            "--http": [http] if http is not None else [],
            "--path": [path] if http is not None else [],
            "--allow-host": allow_host,
            "--allow-origin": allow_origin,
            "--token-env": [token_env] if token_env is not None else [],
            "--tool-timeout": [str(tool_timeout)] if tool_timeout is not None else [],
            "--log-level": [log_level],
            "--log-format": [log_format],
        }
        given = [
            word for name, values in options.items() for each in values for word in (name, each)
        ]
        command = [*OURSELVES, "serve", place, *given]
        return serve_again_and_again(command, source_of(place), over_http=http is not None)
    registry = load_registry(place)
    limits = Limits() if tool_timeout is None else evolve(Limits(), tool_timeout=tool_timeout)
    if http is None:
        trio.run(partial(serve_stdio, registry, limits=limits))
        return OK
    from trio_mcp.cli.serve_http import Exposure, run_http

    exposure = Exposure(*address(http), path, allow_host, allow_origin, _token(token_env))
    return run_http(registry, exposure, limits)


def address(text: str) -> tuple[str, int]:
    """Understand `HOST:PORT` or `PORT`.

    Raises:
        Usage: It is neither.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not int(port) < 65536:
        raise Usage(f"--http takes HOST:PORT or PORT, such as 127.0.0.1:8000, not {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


def _token(variable: str | None) -> str | None:
    if variable is None:
        return None
    token = os.environ.get(variable)
    if not token:
        raise Failure(f"there is no token in the variable {variable}; set it and start again")
    return token
