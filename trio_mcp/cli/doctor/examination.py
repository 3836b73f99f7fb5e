"""The examination: several conversations with a server, as clients would have them.

There is one in each era, and one with an unknown version. A command is started for each; at a URL,
it is also checked who may ask, and whether others learn how to be authorized (RFC 9728).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import trio
from attrs import evolve, field, frozen

from trio_mcp.auth.challenges import parse_challenges
from trio_mcp.auth.urls import resource_metadata_urls
from trio_mcp.cli.doctor.checks import (
    check_legacy,
    check_modern,
    check_unexpected,
    check_version_negotiation,
)
from trio_mcp.cli.doctor.orphans import commands_of, marked, orphans_of
from trio_mcp.cli.doctor.report import Report, Severity, shorten, some
from trio_mcp.cli.failures import Failure, last_words
from trio_mcp.cli.probing.base import Answer, Timeouts, initialize_params
from trio_mcp.cli.probing.http import HttpProbe, check_access, open_http_probe
from trio_mcp.cli.probing.stdio import StdioProbe, open_stdio_probe
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.errors import AuthorizationError
from trio_mcp.system.processes import ask_process
from trio_mcp.transports.process import ProcessOptions
from trio_mcp.wire.errors import HEADER_MISMATCH
from trio_mcp.wire.headers import METHOD_HEADER, SESSION_HEADER
from trio_mcp.wire.revisions import NEWEST_LEGACY, Era

_AUTHORIZATION: Final = "Authorization"


async def check_challenge(
    report: Report, url: str, options: HttpOptions, timeouts: Timeouts
) -> None:
    """Check the answers to requests without a token, and with an invalid one."""
    headers = {k: v for k, v in options.headers.items() if k.lower() != _AUTHORIZATION.lower()}
    stranger = evolve(options, headers=headers, auth=None)
    async with open_http_probe(url, stranger, "modern", timeouts) as probe:
        answer = await probe.send_request("server/discover")
        if answer is None or answer.status != 401:
            return
        request = probe.make_request("server/discover", None)
        made_up = {_AUTHORIZATION: "Bearer made-up-by-trio-mcp-doctor"}
        tried = await probe.send(request, more_headers=made_up)
        if tried is not None and tried.result is not None:
            report.add("takes-any-token", "a token that was made up opens it")
    challenges = parse_challenges([(answer.headers or {})["www-authenticate"]])
    if not challenges:
        report.add("no-challenge", "HTTP status 401 comes without `WWW-Authenticate`")
    elif any(found.resource_metadata for found in challenges) or challenges[0].scheme == "basic":
        return
    if not await _has_metadata(url, stranger, timeouts):
        what = "it does not say which authorization server gives tokens for it"
        report.add("no-resource-metadata", what)


async def _has_metadata(url: str, options: HttpOptions, timeouts: Timeouts) -> bool:
    """Whether the resource's metadata is at the usual URL."""
    for place in resource_metadata_urls(url):
        async with open_http_probe(place, options, "modern", timeouts) as probe:
            answer: Answer | None = await probe.exchange("GET", {"Accept": "application/json"})
        if answer is not None and answer.status == 200:
            return True
    return False


_MAX_STDERR_LINES: Final = 20

_OpenProbe = Callable[[Era, bool], AbstractAsyncContextManager[StdioProbe]]
"""Starts the server for a conversation in an era, and whether to leave its orphans running."""
_FindOrphans = Callable[[StdioProbe, float], Awaitable[list[str]]]
"""Finds the commands that still run this many seconds after the server's exit."""


@frozen(kw_only=True)
class Times:
    """How long things may take, in seconds."""

    start: float = 60.0
    """Until the first answer; `npx` and `uvx` may have to download a server first."""
    again: float = 20.0
    """Until the first answer of one that was silent before, but has downloaded what it needs."""
    probe: float = 3.0
    """Until an answer to `server/discover`, beyond twice the time of its start."""
    exit: float = 5.0
    """Until its exit, after the end of its stdin, and after SIGTERM."""
    notable_start: float = 2.0
    """A start that took longer is worth a note,"""
    slow_start: float = 5.0
    """and beyond this a warning."""
    linger: float = 1.0
    """How long its processes may outlive it."""
    slow_exit: float = 2.0
    """Beyond this, its exit is slow."""
    timeouts: Timeouts = field(factory=Timeouts)


async def examine_process(
    command: Sequence[str], options: ProcessOptions, target: str, times: Times
) -> Report:
    """Examine a server that is a command."""
    report = Report(target)
    async with marked(options) as (options, find):

        def open_probe(era: Era, is_last: bool) -> AbstractAsyncContextManager[StdioProbe]:
            # A child that holds the server's stderr would delay the notice of its exit.
            how = evolve(options, kill_children=False, stderr="ignore") if is_last else options
            return open_stdio_probe(command, how, era, times.timeouts)

        async def find_orphans(probe: StdioProbe, timeout: float) -> list[str]:
            return commands_of(await orphans_of(probe.transport.pid, find, timeout))

        await examine_starts(report, open_probe, find_orphans, times)
        left = commands_of(find())
    if left and not report.has("leaves-processes"):
        _tell_of_orphans(report, left)
    return report


async def examine_starts(
    report: Report, open_probe: _OpenProbe, find_orphans: _FindOrphans, times: Times
) -> None:
    """Visit a server in each era, and look for what it leaves behind."""
    problems: list[str] = []
    async with open_probe("legacy", False) as probe:
        legacy = await check_legacy(report, probe, timeout=times.start)
        _note_problem(report, probe, problems, "initialize" if not legacy else None)
        silent = not legacy and not probe.answered and probe.gone is None
        if legacy:
            await _check_exit(report, probe, times)
        check_unexpected(report, probe)
    wait = (report.start_seconds or 0) * 2 + times.probe
    first = min(times.start, times.again) if silent else times.start
    async with open_probe("modern", False) as probe:
        modern = await check_modern(report, probe, timeout=wait if legacy else first)
        _note_problem(report, probe, problems, "server/discover" if not modern else None)
        if modern and not legacy:
            await _check_exit(report, probe, times)
        check_unexpected(report, probe)
    if legacy or modern:
        async with open_probe("legacy" if legacy else "modern", True) as probe:
            await _check_last(report, probe, find_orphans, times, wait)
    if not legacy and not modern and problems:
        report.add("does-not-start", shorten(problems[0], 300))
    elif not legacy and not modern:
        report.add("no-revision", "it answers neither of the two handshakes")
    elif any("server/discover" in problem for problem in problems):
        what = "it exits at `server/discover`, with which modern clients begin"
        report.add("dies", what)
    _check_start(report, times)


async def examine_url(url: str, options: HttpOptions, times: Times) -> Report:
    """Examine a server at a URL."""
    report = Report(url)
    await check_challenge(report, url, options, times.timeouts)
    visit = partial(open_http_probe, url, options, timeouts=times.timeouts)
    async with visit("modern") as probe:
        try:
            await check_access(probe)
        except (Failure, AuthorizationError) as error:
            if not report.count("error"):
                raise
            report.add("no-access", str(error))
            return report
        modern = await check_modern(report, probe, timeout=times.timeouts.answer)
        check_unexpected(report, probe)
    async with visit("legacy") as probe:
        legacy = await check_legacy(report, probe, timeout=times.timeouts.answer)
        if probe.session is not None:
            await _check_session(report, probe)
        check_unexpected(report, probe)
    if legacy:
        async with visit("legacy") as probe:
            await check_version_negotiation(report, probe, timeout=times.timeouts.answer)
    if not legacy and not modern:
        what = "it answers neither `server/discover` nor `initialize`; is the path right?"
        report.add("no-revision", what)
        return report
    async with visit("modern" if modern else "legacy") as probe:
        await _check_web(report, probe, url)
    report.starts.clear()  # it ran already
    return report


# -- processes ---------------------------------------------------------------------------


def _note_problem(
    report: Report, probe: StdioProbe, problems: list[str], asked: str | None
) -> None:
    if probe.gone is None:
        return
    if asked is not None:
        said = last_words(probe.transport.stderr_tail).removeprefix("trio-mcp: ")
        problems.append(f"asked `{asked}`, it {probe.gone}{': ' if said else ''}{said}")
    lines = probe.transport.stderr_tail.splitlines()
    report.stderr = "\n".join(lines[-_MAX_STDERR_LINES:])


def _check_start(report: Report, times: Times) -> None:
    if not report.starts:
        return
    first, again = report.starts[0], min(report.starts)
    what = f"its first answer took {first:.1f} s"
    if again < first / 2:
        what = f"{what}, and {again:.1f} s when it was started again"
    if again > times.notable_start:
        severity: Severity = "warning" if again > times.slow_start else "note"
        report.add("slow-start", what, severity=severity)
    elif first > times.notable_start:
        report.add("slow-first-start", what)


async def _check_last(
    report: Report, probe: StdioProbe, find_orphans: _FindOrphans, times: Times, wait: float
) -> None:
    if probe.era == "legacy":
        await check_version_negotiation(report, probe, timeout=wait)
    else:
        await probe.send_request("server/discover", timeout=wait)
    check_unexpected(report, probe)
    exits = probe.gone is None and report.exit_seconds is not None
    if exits and await probe.close_stdin(times.exit) is not None:
        _tell_of_orphans(report, await find_orphans(probe, times.linger), times.linger)


def _tell_of_orphans(report: Report, left: Sequence[str], after: float | None = None) -> None:
    if left:
        when = "after its exit" if after is None else f"{after:g} s after its exit"
        report.add("leaves-processes", f"{when}, what it started still runs: {some(left)}")


async def _check_exit(report: Report, probe: StdioProbe, times: Times) -> None:
    """Check that it exits at the end of its input ("Shutdown")."""
    if probe.gone is not None:
        return
    seconds = await probe.close_stdin(times.exit)
    report.exit_seconds = seconds
    if seconds is not None:
        if seconds > times.slow_exit:
            report.add("slow-exit", f"it takes {seconds:.1f} s to exit after its stdin has ended")
        if probe.transport.returncode != 0:
            report.add("exit-status", f"when its stdin ends, it {probe.gone}")
        return
    if ask_process(probe.transport.pid):
        with trio.move_on_after(times.exit):
            await probe.transport.exited.wait()
    how = f"{times.exit:g} s after its stdin has ended, it still runs"
    if probe.transport.returncode is None:
        report.add("ignores-signals", f"{how}, and {times.exit:g} s after SIGTERM as well")
    else:
        report.add("no-exit", f"{how}; SIGTERM ends it")


# -- HTTP --------------------------------------------------------------------------------


async def _check_session(report: Report, probe: HttpProbe) -> None:
    """Check the answer to the id of an unknown session ("Session Management")."""
    headers = {SESSION_HEADER: "trio-mcp-doctor-no-such-session"}
    answer = await probe.send(probe.make_request("ping", None), more_headers=headers)
    if answer is not None and answer.status != 404:
        what = "a request with the id of an unknown session is answered with HTTP status"
        report.add("unknown-session", f"{what} {answer.status}, not 404")


async def _check_web(report: Report, probe: HttpProbe, url: str) -> None:
    message = probe.make_request("server/discover", None)
    if probe.era == "legacy":
        message = probe.make_request("initialize", initialize_params(NEWEST_LEGACY.name))
    answer = await probe.send(message, more_headers={"Origin": "https://trio-mcp-doctor.invalid"})
    local = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
    if answer is not None and answer.result is not None:
        what = "requests of a foreign web page (Origin) are answered"
        report.add("no-origin-check", what, severity="error" if local else "warning")
    if probe.era == "modern":
        answer = await probe.send(message, more_headers={METHOD_HEADER: "tools/list"})
        if answer is not None and (answer.status, answer.code) != (400, HEADER_MISMATCH):
            said = f"HTTP status {answer.status}, code {answer.code}"
            what = "a request whose headers contradict its body is answered with"
            report.add("wrong-status", f"{what} {said}, not 400 and -32020")
