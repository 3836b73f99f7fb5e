"""Figures on the site: `{measured}` shows a part of a record that a run has left behind.

    :::{measured} benchmarks stdio
    :::

The first word is the record, in `docs/measured`. The second is the part: `run` says how it was
made; of the benchmarks, a contest by its name, or `missed` for all bounds that were; of the
conformance suite, `summary`, or the scenarios of a side by its name; of the peers, `servers`,
`guests`, `clients` and `answers`; of the soak, `counted` and `seen`; of the others, `counted`. A
record that is missing or broken breaks the build.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from docs._ext.bars import drawing
from docs._ext.records import (
    CONTESTS,
    Benchmarks,
    Conformance,
    Contest,
    Costs,
    Faults,
    Made,
    Peers,
    RecordError,
    Scenario,
    Soak,
    Table,
    load,
)

_FOLDER = Path(__file__).parents[1] / "measured"


class Measured(SphinxDirective):
    """Shows a part of a record."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        """Make the nodes."""
        name, part = self.arguments
        if name not in _RECORDS:
            raise self.error(f"no record {name!r}; there are: {', '.join(_RECORDS)}")
        kind, command, show = _RECORDS[name]
        path = _FOLDER / f"{name}.json"
        self.env.note_dependency(str(path))
        try:
            return list(show(load(path, kind, command), part))
        except RecordError as error:
            raise self.error(str(error)) from None


# -- benchmarks -------------------------------------------------------------------------------


def _show_benchmarks(record: Benchmarks, part: str) -> Iterator[nodes.Node]:
    if part == "run":
        yield _origin(
            record.made,
            {
                "Seconds for each contestant in a round": f"about {record.seconds:g}",
                "Servers on stdio": "one processor for the server, one for the load"
                if record.pinned
                else "any processor",
                "Servers over HTTP, and their load": "any processor",
            },
        )
    elif part == "missed":
        yield _table(["Part", "Bound that is missed", "Bound", "Figure"], missed(record))
    elif part in record.contests:
        yield from _show_contest(part, record.contests[part])
    elif part in CONTESTS:
        yield _said("This is not in the record yet.")
    else:
        raise RecordError(f"no contest {part!r}; there are: run, missed, {', '.join(CONTESTS)}")


def missed(record: Benchmarks) -> list[list[str]]:
    """Return all bounds that a run has missed, or not measured: what is missed most comes first."""
    found = [
        (_shortfall(bound, figure), [name, target, bound, figure])
        for name, contest in record.contests.items()
        for table in contest.tables
        if table.headers[-1] == "verdict"
        for target, bound, figure, verdict in table.rows
        if verdict != "met"
    ]
    return [row for _, row in sorted(found, key=lambda pair: pair[0], reverse=True)]


def _shortfall(bound: str, figure: str) -> float:
    """Return by what factor a bound, such as `≤ 1.6`, is missed."""
    limit, found = float(bound[2:]), 0.0 if figure == "-" else float(figure)
    if not found:
        return math.inf
    return found / limit if bound[0] == "≤" else limit / found


def _show_contest(name: str, contest: Contest) -> Iterator[nodes.Node]:
    yield _said(
        f"{contest.rounds} rounds. Between them, half of the figures differed by "
        f"{contest.spread:g} times or less. To repeat it: ",
        nodes.literal("", f"make bench ARGS={name}"),
    )
    yield _html('<div class="bars">' + "".join(map(drawing, contest.panels)) + "</div>")
    for table in contest.tables:
        remarks = [row[0] for row in table.rows if len(row) == 1]
        yield _table(table.headers, [row for row in table.rows if len(row) > 1])
        if remarks:
            yield nodes.bullet_list("", *(nodes.list_item("", _said(text)) for text in remarks))


# -- conformance ------------------------------------------------------------------------------


def _show_conformance(record: Conformance, part: str) -> Iterator[nodes.Node]:
    sides = list(dict.fromkeys(scenario.side for scenario in record.scenarios))
    if part == "run":
        yield _origin(record.made, {"Conformance suite": record.suite})
    elif part == "summary":
        yield _summary(record.scenarios)
    elif part in sides:
        yield _scenarios([scenario for scenario in record.scenarios if scenario.side == part])
    else:
        raise RecordError(f"no part {part!r}; there are: run, summary, {', '.join(sides)}")


def _summary(scenarios: Sequence[Scenario]) -> nodes.Node:
    headers = ["Revision", "Side", "Scenarios", "Passed", "Checks that passed", "Not offered"]
    groups: dict[tuple[str, str], list[Scenario]] = {}
    for scenario in scenarios:
        groups.setdefault((scenario.revision, scenario.side), []).append(scenario)
    rows = [[*group, *_counts(members)] for group, members in groups.items()]
    return _table(headers, [*rows, ["all", "", *_counts(scenarios)]])


def _counts(scenarios: Sequence[Scenario]) -> list[str]:
    offered = [scenario for scenario in scenarios if scenario.offered]
    passed = sum(scenario.passed for scenario in offered)
    checks = sum(scenario.checks for scenario in offered)
    return [str(number) for number in (len(offered), passed, checks, len(scenarios) - len(offered))]


def _scenarios(scenarios: Sequence[Scenario]) -> nodes.Node:
    revisions = list(dict.fromkeys(scenario.revision for scenario in scenarios))
    found = {(scenario.name, scenario.revision): scenario for scenario in scenarios}
    names = dict.fromkeys(scenario.name for scenario in scenarios)
    rows = [
        [name, *(_outcome(found.get((name, revision))) for revision in revisions)] for name in names
    ]
    return _table(["Scenario", *revisions], rows)


def _outcome(scenario: Scenario | None) -> str:
    """Return the outcome of a scenario; a dash if the revision does not have it."""
    return "–" if scenario is None else scenario.outcome


# -- faults -----------------------------------------------------------------------------------


def _show_faults(record: Faults, part: str) -> Iterator[nodes.Node]:
    if part == "run":
        yield _origin(
            record.made,
            {
                "Instances": str(record.instances),
                "Clients": f"{record.clients}, half of them with sessions",
                "Seconds for each fault": f"{record.seconds:g} beside it",
            },
        )
    elif part == "counted":
        yield _table(record.counted.headers, sorted(record.counted.rows, key=_by_harm(record)))
    else:
        raise RecordError(f"no part {part!r}; there are: run, counted")


_HARM = ("broken", "lost results", "no session (404)", "refused (503)", "longest")
"""What went wrong, the worst first, by the headers of the record."""


def _by_harm(record: Faults) -> Callable[[Sequence[str]], list[float]]:
    """Return what rows are sorted by: most harm first."""
    places = [record.counted.headers.index(header) for header in _HARM]
    return lambda row: [-float(row[at].removesuffix(" s").replace(",", "")) for at in places]


# -- peers ------------------------------------------------------------------------------------


def _show_peers(record: Peers, part: str) -> Iterator[nodes.Node]:
    names = ("servers", "guests", "clients", "answers")
    tables: dict[str, Table] = {name: getattr(record, name) for name in names}
    if part == "run":
        yield _origin(record.made, {"Rounds": str(record.rounds)})
    elif part in tables:
        yield _table(tables[part].headers, tables[part].rows)
    else:
        raise RecordError(f"no part {part!r}; there are: run, {', '.join(tables)}")


# -- costs ------------------------------------------------------------------------------------


def _show_costs(record: Costs, part: str) -> Iterator[nodes.Node]:
    if part == "run":
        yield _origin(record.made, {})
    elif part == "counted":
        yield _table(record.counted.headers, record.counted.rows)
    else:
        raise RecordError(f"no part {part!r}; there are: run, counted")


# -- soak -------------------------------------------------------------------------------------


def _show_soak(record: Soak, part: str) -> Iterator[nodes.Node]:
    if part == "run":
        yield _origin(record.made, {})
    elif part == "counted":
        yield _table(record.counted.headers, record.counted.rows)
    elif part == "seen":
        yield _table(record.seen.headers, record.seen.rows)
    else:
        raise RecordError(f"no part {part!r}; there are: run, counted, seen")


# -- nodes ------------------------------------------------------------------------------------

_RECORDS: dict[str, tuple[type, str, Callable[[Any, str], Iterator[nodes.Node]]]] = {
    "benchmarks": (Benchmarks, "make bench", _show_benchmarks),
    "conformance": (Conformance, "make conformance", _show_conformance),
    "faults": (Faults, "make faults", _show_faults),
    "logins": (
        Costs,
        "python -m benchmarks.logins --record docs/measured/logins.json",
        _show_costs,
    ),
    "functions": (
        Costs,
        "python -m benchmarks.functions --record docs/measured/functions.json",
        _show_costs,
    ),
    "opcodes": (
        Costs,
        "python -m benchmarks.opcodes --record docs/measured/opcodes.json",
        _show_costs,
    ),
    "peers": (
        Peers,
        "python -m benchmarks.faults --record docs/measured/peers.json",
        _show_peers,
    ),
    "porting": (
        Costs,
        "python -m benchmarks.porting --record docs/measured/porting.json",
        _show_costs,
    ),
    "telemetry": (
        Costs,
        "python -m benchmarks.telemetry --record docs/measured/telemetry.json",
        _show_costs,
    ),
    "soak": (Soak, "make soak", _show_soak),
}


def _origin(made: Made, more: dict[str, str]) -> nodes.Node:
    commit = f", commit {made.commit.rstrip('+')}" if made.commit else ""
    changed = ", with changes that are not committed" if made.commit.endswith("+") else ""
    node = f", Node.js {made.node}" if made.node else ""
    facts = {
        "Date": made.date,
        "trio-mcp": f"{made.version}{commit}{changed}",
        "Machine": ", ".join(
            filter(None, [made.system, f"{made.processors} × {made.processor}", made.memory])
        )
        if made.processor
        else f"{made.system}, {made.processors} processors",
        "Run on": f"{made.python}{node}",
        **more,
    }
    return _table(["The run", "Value"], [[name, text] for name, text in facts.items()])


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> nodes.table:
    """Make a table; columns of figures are aligned to the right."""
    figures = [
        bool(place) and all(_is_figure(row[place]) for row in rows) for place in range(len(headers))
    ]
    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in headers), cols=len(headers))
    group += nodes.thead("", _row(headers, figures))
    group += nodes.tbody("", *(_row(row, figures) for row in rows))
    return nodes.table("", group, classes=["measured"])


def _row(cells: Sequence[str], figures: Sequence[bool]) -> nodes.row:
    entries = [
        nodes.entry("", _said(cell), classes=["figure"] if figure else [])
        for cell, figure in zip(cells, figures, strict=True)
    ]
    return nodes.row("", *entries)


def _is_figure(text: str) -> bool:
    return text in ("", "-", "n/a") or text.lstrip("≤≥ -")[:1].isdigit()


def _said(text: str, *more: nodes.Node) -> nodes.paragraph:
    """A paragraph. What stands between backticks is code."""
    parts = text.split("`")
    pieces = [
        nodes.literal("", part) if n % 2 else nodes.Text(part) for n, part in enumerate(parts)
    ]
    return nodes.paragraph("", "", *pieces, *more)


def _html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def setup(app: Any) -> dict[str, bool]:
    """Register it with Sphinx."""
    app.add_directive("measured", Measured)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
