"""`trio-mcp doctor`: examine a server, and show the findings."""

from __future__ import annotations

from functools import partial
from textwrap import indent
from typing import Final

from rich.table import Table
from rich.text import Text

from trio_mcp.cli.doctor.report import Finding, Report, Severity, some
from trio_mcp.cli.failures import FAILED, OK, counted
from trio_mcp.cli.options import NO_OPTIONS, AsJson, ConnectionOptions, TargetWord
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.target import Target, parse_target
from trio_mcp.loggers import harmless
from trio_mcp.registry.kinds import LISTED

_SIGNS: Final[dict[Severity, tuple[str, str]]] = {
    "error": ("✗", "bold red"),
    "warning": ("!", "yellow"),
    "note": ("·", "dim"),
}
_NOUNS: Final = {kind.items: kind.noun for kind in LISTED.values()}


def doctor(
    target: TargetWord, /, *, as_json: AsJson = False, options: ConnectionOptions = NO_OPTIONS
) -> int:
    """Examine a server against the protocol, in both eras.

    It is started (several times), asked what it offers, and told a few things that are wrong, to
    see whether it copes. None of its tools is called. The exit status is 1 if there are errors.
    """
    place = parse_target(target)
    screen = Screen(as_json=as_json)
    with screen.busy(f"examining {place.text}"):
        report = run_async(partial(_examine, place, options, screen))
        if place.registry is not None and report.server is not None:
            from trio_mcp.cli.doctor.layers import chains_of_target

            offered = sum(report.offers.values())
            report.chains = run_async(partial(chains_of_target, place.registry, offered))
    if as_json:
        screen.json(report.as_json())
    else:
        _show(screen, report)
    return FAILED if report.count("error") else OK


async def _examine(target: Target, options: ConnectionOptions, screen: Screen) -> Report:
    from trio_mcp.cli.doctor.examination import Times, examine_process, examine_url
    from trio_mcp.cli.probing.base import Timeouts

    timeouts = Timeouts(answer=min(options.timeout, Timeouts().answer))
    times = Times(start=options.timeout, timeouts=timeouts)
    http = options.http_options(target, screen)
    if target.url is not None:
        return await examine_url(target.url, http, times)
    process = options.process_options()
    return await examine_process(target.process or [], process, target.text, times)


def _show(screen: Screen, report: Report) -> None:
    server = report.server
    named = report.target if server is None else f"{server.name} {server.version}".strip()
    screen.heading(named or report.target)
    revisions = {"modern": report.modern, "legacy": report.legacy}
    spoken = [f"{era} {name}" for era, name in revisions.items() if name]
    facts = [
        f"speaks {' and '.join(spoken)}" if spoken else "speaks no revision",
        "" if report.start_seconds is None else f"starts in {_start(report)}",
        "" if report.exit_seconds is None else f"exits in {report.exit_seconds:.2f} s",
        ", ".join(counted(number, _NOUNS[kind]) for kind, number in report.offers.items()),
    ]
    screen.text("; ".join(filter(None, facts)))
    for chain in report.chains:
        screen.text(f"{' > '.join(chain.layers)}: {some(chain.entries, 5)}", "dim")
    for finding in report.sorted():
        _show_finding(screen, finding, report.only_in(finding))
    if report.stderr:
        screen.heading("The end of its stderr:")
        screen.text(indent(harmless(report.stderr, lines=True), "  "), "dim")
    found = [counted(number, kind) for kind in _SIGNS if (number := report.count(kind))]
    screen.heading(", ".join(found) or "Nothing is wrong with it.")


def _show_finding(screen: Screen, finding: Finding, only_in: str | None) -> None:
    sign, style = _SIGNS[finding.severity]
    kind = Text(f"{sign} {finding.severity:7}", style)
    where = f"({only_in} only) " if only_in else ""
    message = Text.assemble(f"{harmless(finding.message)} {where}", (f"[{finding.code}]", "dim"))
    way_out = Text(finding.way_out, style="dim")
    if screen.is_terminal:
        both = Table.grid(padding=(0, 2, 0, 0))
        both.add_row(kind, message)
        both.add_row("", way_out)
        screen.show(both)
    else:
        screen.show(Text.assemble(kind, "  ", message), Text.assemble(" " * 11, way_out))


def _start(report: Report) -> str:
    """Write the time of the first start, and of the quickest other one if that differs much."""
    first, again = report.starts[0], min(report.starts[1:], default=report.starts[0])
    return f"{first:.2f} s (then {again:.2f} s)" if again < first / 2 else f"{first:.2f} s"
