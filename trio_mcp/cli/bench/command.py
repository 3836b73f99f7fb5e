"""`trio-mcp bench`: measure a server, and show the figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import trio
from cyclopts import Parameter, validators

from trio_mcp.cli.bench.calls import Meeting, calls_of
from trio_mcp.cli.bench.figures import Run, percentile
from trio_mcp.cli.bench.meeting import ERAS, meet, shake_hands
from trio_mcp.cli.failures import FAILED, OK, Failure, explain
from trio_mcp.cli.options import (
    NO_OPTIONS,
    AsJson,
    ConnectionOptions,
    Seconds,
    TargetWord,
    ToolArguments,
)
from trio_mcp.cli.probing.base import Waits
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.target import Target, parse_target
from trio_mcp.wire.jsonrpc import Json

if TYPE_CHECKING:
    from trio_mcp.cli.probing.stdio import StdioProbe

_WARM_UP: Final = 0.2
"""Seconds of calls that do not count."""
_PROBE_PATIENCE: Final = 3.0
_MUTE: Final = "the server answers neither handshake; `trio-mcp doctor` examines it"


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
    place = parse_target(target)
    options.http_options(place)
    measure = _measure_url if place.url is not None else _measure_process
    work = partial(measure, place, name, arguments, options, in_flight, seconds)
    meeting, runs = run_async(work)
    screen = Screen(as_json=as_json)
    if as_json:
        screen.json(_as_json(place, meeting, runs))
    else:
        _show(screen, place, meeting, runs)
    return FAILED if any(run.failed for run in runs) else OK


async def _measure_process(
    target: Target,
    name: str | None,
    words: Sequence[str],
    options: ConnectionOptions,
    in_flight: Sequence[int],
    seconds: float,
) -> tuple[Meeting, list[Run]]:
    from trio_mcp.cli.bench.stdio import load_stdio
    from trio_mcp.cli.probing.stdio import StdioProbe
    from trio_mcp.transports.background import background_task
    from trio_mcp.transports.process import open_process
    from trio_mcp.wire.framing import LineDecoder
    from trio_mcp.wire.limits import Limits

    ended = ""
    for era in ERAS:
        if options.era not in (None, era):
            continue
        began = trio.current_time()
        async with open_process(target.process or [], options.process_options()) as transport:
            probe = StdioProbe(era, transport, Waits())
            async with background_task(probe.read):
                patience = _PROBE_PATIENCE if era == "modern" else options.timeout
                if await shake_hands(probe, patience) is None:
                    ended = _ended(probe)
                    continue
                started = trio.current_time() - began
                meeting = await meet(probe, name, words, started)
            decoder = LineDecoder(Limits().max_message_bytes)
            calls = calls_of(meeting)
            await load_stdio(transport, decoder, calls, 1, min(_WARM_UP, seconds))
            runs = [
                await load_stdio(transport, decoder, calls, number, seconds) for number in in_flight
            ]
            return meeting, runs
    raise Failure(ended or _MUTE)


async def _measure_url(
    target: Target,
    name: str | None,
    words: Sequence[str],
    options: ConnectionOptions,
    in_flight: Sequence[int],
    seconds: float,
) -> tuple[Meeting, list[Run]]:
    from trio_mcp.cli.bench.http import load_http
    from trio_mcp.cli.probing.http import check_access, open_http_probe

    assert target.url is not None
    http = options.http_options(target)
    for era in ERAS:
        if options.era not in (None, era):
            continue
        async with open_http_probe(target.url, http, era, Waits()) as probe:
            await check_access(probe)
            if await shake_hands(probe, options.timeout) is None:
                continue
            meeting = await meet(probe, name, words, None)
            calls = calls_of(meeting)
            headers = {**probe.headers("tools/call", meeting.params), **http.headers}
            load = partial(load_http, target.url, headers, calls)
            await load(1, min(_WARM_UP, seconds))
            return meeting, [await load(number, seconds) for number in in_flight]
    raise Failure(_MUTE)


def _ended(probe: StdioProbe) -> str:
    """Say how a server ended instead of answering; nothing if it did not end."""
    from trio_mcp.client.errors import ServerExited

    status = probe.transport.returncode
    return "" if status is None else explain(ServerExited(status, probe.stderr))


def _as_json(target: Target, meeting: Meeting, runs: list[Run]) -> dict[str, Json]:
    start = meeting.start_seconds
    return {
        "target": target.text,
        "tool": meeting.tool,
        "era": "modern" if meeting.modern else "legacy",
        "startSeconds": None if start is None else round(start, 3),
        "runs": [run.as_json() for run in runs],
    }


def _show(screen: Screen, target: Target, meeting: Meeting, runs: list[Run]) -> None:
    start = meeting.start_seconds
    after = "" if start is None else f", first answer after {start:.2f} s"
    era = "modern" if meeting.modern else "legacy"
    screen.heading(f"{meeting.tool} of {target.text} ({era}{after})")
    rows = [
        (
            str(run.in_flight),
            f"{run.rate:,.0f}",
            f"{percentile(run.times, 50) * 1e3:,.3f}",
            f"{percentile(run.times, 99) * 1e3:,.3f}",
            str(run.failed),
        )
        for run in runs
    ]
    screen.table(("In flight", "Calls/s", "p50 ms", "p99 ms", "Failed"), rows)
