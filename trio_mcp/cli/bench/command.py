"""`trio-mcp bench`: measure a server, and show the figures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Final

import trio
from attrs import frozen
from cyclopts import Parameter, validators

from trio_mcp.background import background_nursery
from trio_mcp.cli.arguments import check_arguments, parse_arguments
from trio_mcp.cli.bench.load import Run, calls_of, load_http, load_stdio
from trio_mcp.cli.content import words_of
from trio_mcp.cli.failures import FAILED, OK, Failure, one_line
from trio_mcp.cli.options import (
    NO_OPTIONS,
    AsJson,
    ConnectionOptions,
    Seconds,
    TargetWord,
    ToolArguments,
)
from trio_mcp.cli.probing.base import Probe, Timeouts, initialize_params, modern_meta
from trio_mcp.cli.probing.http import open_http_probe
from trio_mcp.cli.probing.stdio import StdioProbe
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.session import Session, connected
from trio_mcp.cli.target import Target, parse_target
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.peer.lines import StreamLines
from trio_mcp.transports.process import open_process
from trio_mcp.wire.errors import McpError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.revisions import Era

_WARM_UP: Final = 0.2
"""Seconds of calls that do not count."""

Load = Callable[[int, float], Awaitable[Run]]
"""Keeps this many calls in flight for this many seconds."""


def bench(
    target: TargetWord,
    name: Annotated[str | None, Parameter(help="The tool to call.")] = None,
    /,
    *arguments: ToolArguments,
    in_flight: Annotated[
        tuple[int, ...],
        Parameter(
            validator=validators.Number(gt=0),
            help="How many calls are open at the same time. May be repeated.",
        ),
    ] = (1, 64),
    seconds: Annotated[Seconds, Parameter(help="How long each measurement takes.")] = 2.0,
    as_json: AsJson = False,
    options: ConnectionOptions = NO_OPTIONS,
) -> int:
    """Measure how many calls a server answers in a second, and how long one takes.

    The tool is really called, many times.
    """
    place, screen = parse_target(target), Screen(as_json=as_json)

    async def measure() -> tuple[_Call, float | None, list[Run]]:
        http = options.http_options(place, screen)
        async with connected(place, options, screen, may_ask=False, http=http) as session:
            call = await _first_call(session, name, arguments)
        opened = _open_process_load if place.url is None else partial(_open_url_load, http)
        async with opened(place, options, call) as (load, start):
            with screen.busy(f"calling {call.tool}"):
                await load(1, min(_WARM_UP, seconds))
            runs = []
            for number in in_flight:
                with screen.busy(f"calling {call.tool}, {number} in flight, for {seconds:g} s"):
                    runs.append(await load(number, seconds))
        return call, start, runs

    call, start, runs = run_async(measure)
    if as_json:
        started = None if start is None else round(start, 3)
        about = {"target": place.text, "tool": call.tool, "era": call.era, "startSeconds": started}
        screen.json({**about, "runs": [run.as_json() for run in runs]})
    else:
        after = "" if start is None else f", first answer after {start:.2f} s"
        screen.heading(f"{call.tool} of {place.text} ({call.era}{after})")
        headers = ("In flight", "Calls/s", "p50 ms", "p99 ms", "Failed")
        screen.table(headers, [run.as_row() for run in runs])
    return FAILED if any(run.failed for run in runs) else OK


@frozen
class _Call:
    """The call that is repeated."""

    tool: str
    era: Era
    revision: str
    params: dict[str, Json]


async def _first_call(session: Session, name: str | None, words: Sequence[str]) -> _Call:
    """Call the tool once, to see that it can be called."""
    client = session.client
    if name is None:
        raise Failure(f"say which tool to call (it really is called): {', '.join(client.tools)}")
    tool = session.tool(name)
    arguments = parse_arguments(words, tool.input_schema)
    check_arguments(tool, arguments)
    params: dict[str, Json] = {"name": name, "arguments": arguments}
    try:
        result = await client.request("tools/call", params)
    except McpError as error:
        raise Failure(f"a call of tool {name!r} fails: {error.message}") from None
    if result.get("isError") is True:
        raise Failure(f"a call of tool {name!r} fails: {one_line(words_of(result))}")
    if client.era == "modern":
        params["_meta"] = modern_meta(client.revision)
    return _Call(name, client.era, client.revision, params)


@asynccontextmanager
async def _open_process_load(
    target: Target, options: ConnectionOptions, call: _Call
) -> AsyncIterator[tuple[Load, float | None]]:
    began = trio.current_time()
    async with open_process(target.process or [], options.process_options()) as transport:
        probe = StdioProbe(call.era, transport, Timeouts(answer=options.timeout))
        async with background_nursery(probe.read):
            await _shake_hands(probe, call)
        started = trio.current_time() - began
        lines = StreamLines(transport, Limits().max_message_bytes)
        yield partial(load_stdio, lines, calls_of(call.params)), started


@asynccontextmanager
async def _open_url_load(
    http: HttpOptions, target: Target, options: ConnectionOptions, call: _Call
) -> AsyncIterator[tuple[Load, float | None]]:
    assert target.url is not None
    timeouts = Timeouts(answer=options.timeout)
    async with open_http_probe(target.url, http, call.era, timeouts) as probe:
        await _shake_hands(probe, call)
        headers = {**probe.headers("tools/call", call.params), **http.headers}
        if http.auth is not None:
            from trio_mcp.cli.login.auth import sent_by_hand

            headers |= await sent_by_hand(http.auth, target.url)
        yield partial(load_http, target.url, headers, calls_of(call.params)), None


async def _shake_hands(probe: Probe, call: _Call) -> None:
    if call.era == "modern":
        answer = await probe.send_request("server/discover")
    else:
        answer = await probe.send_request("initialize", initialize_params(call.revision))
        probe.version = call.revision
        await probe.send_notification("notifications/initialized")
    if answer is None or answer.result is None:
        raise Failure("the server did its part once, and now it does not; try again")
