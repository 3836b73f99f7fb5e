"""What a benchmark hands over, and how it is shown: text on stdout, a chart, a JSON file."""

import json
import platform
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any

from attrs import frozen

from benchmarks.chart import Panel, svg, write

_RESULTS = Path(__file__).parent / "results"


@frozen
class Report:
    """The outcome of one benchmark."""

    name: str
    text: str
    """Tables and remarks."""
    panels: Sequence[Panel]
    figures: dict[str, Any]
    """Everything measured, as JSON values."""


def measuring(
    *, timed: bool = True, budget: bool = False, installs: bool = False, pins: bool = False
) -> Callable[[ArgumentParser], None]:
    """Make the function that adds the options of a benchmark to a parser.

    All have the same values by default, so that a benchmark alone repeats its part of a run of all.
    """

    def add_options(parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--rounds", type=int, default=5, help="how often each is measured")
        if timed:
            add("--seconds", type=float, default=5.0, help="for each contestant in a round")
        if budget:
            add("--budget", type=float, default=inf, help="seconds; no round starts later")
        if installs:
            add("--no-install", action="store_true", help="use packages as they are")
        if pins:
            add("--unpinned", action="store_true", help="let servers use any processor")

    return add_options


def add_output_options(parser: ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    parser.add_argument(
        "--chart", type=Path, metavar="FILE", help="the chart (default: benchmarks/results/)"
    )


def run_alone(
    name: str,
    description: str | None,
    add_options: Callable[[ArgumentParser], None],
    run: Callable[[Namespace], Report],
    arguments: Sequence[str] | None,
) -> None:
    """Run one benchmark as `python -m benchmarks.NAME` does, and publish its report."""
    parser = ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    add_options(parser)
    add_output_options(parser)
    options = parser.parse_args(arguments)
    publish([run(options)], options)


def publish(reports: Sequence[Report], options: Namespace) -> None:
    """Print the tables and write the files."""
    for report in reports:
        print(report.text, end="\n\n")
    chart = options.chart or _RESULTS / f"{'-'.join(report.name for report in reports)}.svg"
    write(svg([panel for report in reports for panel in report.panels]), chart)
    print(f"chart: {chart}")
    if options.json:
        figures = {report.name: report.figures for report in reports}
        machine = {"python": platform.python_version(), "system": platform.platform()}
        text = json.dumps({"machine": machine, **figures}, indent=2)
        options.json.write_text(text + "\n", encoding="utf-8")
        print(f"figures: {options.json}")
