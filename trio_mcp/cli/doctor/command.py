"""`trio-mcp doctor`: examine a server, and tell what was found."""

from __future__ import annotations

from functools import partial
from typing import Final

from rich.text import Text

from trio_mcp.cli.doctor.chart import Chart, Severity
from trio_mcp.cli.failures import FAILED, OK
from trio_mcp.cli.listing import AsJson
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen, harmless
from trio_mcp.cli.session import Connecting, http_options
from trio_mcp.cli.target import Target, parse_target

_DEFAULT = Connecting()
_SIGNS: Final[dict[Severity, tuple[str, str]]] = {
    "error": ("✗", "bold red"),
    "warning": ("!", "yellow"),
    "note": ("·", "dim"),
}


def doctor(target: str, /, *, as_json: AsJson = False, connecting: Connecting = _DEFAULT) -> int:
    """Examine a server against the protocol, in both eras.

    It is started (several times), asked what it offers, and told a few things that are wrong, to
    see whether it copes. None of its tools is called. The exit status is 1 if there are errors.

    Args:
        target: FILE.py:REGISTRY, MODULE:REGISTRY or a URL; or else a command, last, after --.
        as_json: Write JSON, for programs.
        connecting: How the server is reached.
    """
    place = parse_target(target)
    chart = run_async(partial(examine, place, connecting))
    screen = Screen(as_json=as_json)
    if as_json:
        screen.json(chart.as_json())
    else:
        _show(screen, chart)
    return FAILED if chart.count("error") else OK


async def examine(target: Target, options: Connecting) -> Chart:
    """Examine a target."""
    from trio_mcp.cli.doctor.visits import Times, examine_process, examine_url

    if target.url is not None:
        return await examine_url(target.url, http_options(target, options), Times())
    process = options.process_options()
    times = Times(start=options.timeout)
    return await examine_process(target.process or [], process, target.text, times)


def _show(screen: Screen, chart: Chart) -> None:
    server = chart.server
    screen.heading(f"{server.name} {server.version}" if server is not None else chart.target)
    spoken = [f"{era} {name}" for era, name in _revisions(chart).items() if name]
    facts = [
        f"speaks {' and '.join(spoken)}" if spoken else "speaks no revision",
        "" if chart.start_seconds is None else f"starts in {chart.start_seconds:.2f} s",
        "" if chart.exit_seconds is None else f"exits in {chart.exit_seconds:.2f} s",
        ", ".join(f"{number} {_plural(kind, number)}" for kind, number in chart.offers.items()),
    ]
    screen.text("; ".join(each for each in facts if each))
    for finding in chart.sorted():
        sign, style = _SIGNS[finding.severity]
        line = Text.assemble(
            (f"{sign} {finding.severity:7}  ", style),
            f"{harmless(finding.message)} ",
            (f"[{finding.code}]", "dim"),
        )
        screen.show(line, Text(f"           {finding.way_out}", style="dim"))
    if chart.stderr:
        screen.heading("The end of its stderr:")
        screen.text(chart.stderr, "dim")
    counted = [
        f"{chart.count(severity)} {severity}{'' if chart.count(severity) == 1 else 's'}"
        for severity in _SIGNS
        if chart.count(severity)
    ]
    screen.heading(", ".join(counted) or "Nothing is wrong with it.")


def _revisions(chart: Chart) -> dict[str, str | None]:
    return {"modern": chart.modern, "legacy": chart.legacy}


def _plural(kind: str, number: int) -> str:
    noun = {"resourceTemplates": "resource templates"}.get(kind, kind)
    return noun.removesuffix("s") if number == 1 else noun
