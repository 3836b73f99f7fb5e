"""`trio-mcp doctor`: examine a server, and tell what was found."""

from __future__ import annotations

from functools import partial
from typing import Final

from rich.table import Table
from rich.text import Text

from trio_mcp.cli.doctor.report import Finding, Report, Severity
from trio_mcp.cli.failures import FAILED, OK
from trio_mcp.cli.options import NO_OPTIONS, AsJson, ConnectionOptions, TargetWord
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen, harmless
from trio_mcp.cli.target import Target, parse_target

_SIGNS: Final[dict[Severity, tuple[str, str]]] = {
    "error": ("✗", "bold red"),
    "warning": ("!", "yellow"),
    "note": ("·", "dim"),
}


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
        report = run_async(partial(examine, place, options, screen))
    if as_json:
        screen.json(report.as_json())
    else:
        _show(screen, report)
    return FAILED if report.count("error") else OK


async def examine(target: Target, options: ConnectionOptions, screen: Screen) -> Report:
    """Examine a target."""
    from trio_mcp.cli.doctor.examination import Times, examine_process, examine_url

    http = options.http_options(target, screen)
    if target.url is not None:
        return await examine_url(target.url, http, Times())
    process = options.process_options()
    times = Times(start=options.timeout)
    return await examine_process(target.process or [], process, target.text, times)


def _show(screen: Screen, report: Report) -> None:
    server = report.server
    named = report.target if server is None else f"{server.name} {server.version}".strip()
    screen.heading(named or report.target)
    spoken = [f"{era} {name}" for era, name in _revisions(report).items() if name]
    facts = [
        f"speaks {' and '.join(spoken)}" if spoken else "speaks no revision",
        "" if report.start_seconds is None else f"starts in {_start(report)}",
        "" if report.exit_seconds is None else f"exits in {report.exit_seconds:.2f} s",
        ", ".join(f"{number} {_plural(kind, number)}" for kind, number in report.offers.items()),
    ]
    screen.text("; ".join(each for each in facts if each))
    for finding in report.sorted():
        _show_finding(screen, finding, report.only_in(finding))
    if report.stderr:
        screen.heading("The end of its stderr:")
        screen.text(report.stderr, "dim")
    counted = [
        f"{report.count(severity)} {severity}{'' if report.count(severity) == 1 else 's'}"
        for severity in _SIGNS
        if report.count(severity)
    ]
    screen.heading(", ".join(counted) or "Nothing is wrong with it.")


def _show_finding(screen: Screen, finding: Finding, only_in: str | None) -> None:
    """Show a finding and its way out, on a terminal in two columns."""
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
    """The first start, and the quickest of the others where that is quite another."""
    first, again = report.starts[0], min(report.starts[1:], default=report.starts[0])
    return f"{first:.2f} s (then {again:.2f} s)" if again < first / 2 else f"{first:.2f} s"


def _revisions(report: Report) -> dict[str, str | None]:
    return {"modern": report.modern, "legacy": report.legacy}


def _plural(kind: str, number: int) -> str:
    noun = {"resourceTemplates": "resource templates"}.get(kind, kind)
    return noun.removesuffix("s") if number == 1 else noun
