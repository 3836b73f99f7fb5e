"""What the suite found, scenario by scenario, and the table of it.

A scenario passes if at least one of its checks did, and none of them failed or warned. Those that
the suite itself runs without counting them ("pending", "added after release") are held to the same.
Where the suite skips a whole scenario, checks of our own stand in for it (`emptied`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from attrs import asdict, frozen

from tests.conformance.emptied import CHECKS, read_checks
from tests.conformance.everything_client import DONE

Side = Literal["server", "client", "authorization"]

_FOLDERS: dict[Side, str] = {
    "server": "server-",
    "client": "",
    "authorization": "authorization-server-",
}
"""How the folders begin to which the suite writes what it found."""

NOT_OFFERED: dict[str, str] = {}
"""What the library does not have, by how the names of its scenarios begin."""

_LONGEST_REASON = 300


@frozen
class Scenario:
    """A scenario that a revision requires, or that is reported beside those."""

    revision: str
    side: Side
    name: str
    counted: str
    """`required`, `unlisted`, or why the suite does not count it."""

    @property
    def missing(self) -> str | None:
        """What the library would have to offer for it."""
        for beginning, what in NOT_OFFERED.items():
            if self.name.startswith(beginning):
                return what
        return None


@frozen
class Outcome:
    """What became of a scenario."""

    scenario: Scenario
    checks: int
    """How many of its checks passed."""
    problems: list[str]

    @property
    def failed(self) -> bool:
        """Whether something has to be done about it."""
        return bool(self.problems) and self.scenario.missing is None


def scenarios_of(revision: str, side: Side, requirements: dict[str, Any]) -> list[Scenario]:
    """The scenarios of one side, in the order of the suite's list."""
    required = [Scenario(revision, side, name, "required") for name in requirements[side]]
    beside = [
        Scenario(revision, side, each["scenario"], each["reason"])
        for each in requirements.get("not_scored", [])
        if each["leg"] == side
    ]
    return required + beside


def unlisted(revision: str, side: Side, names: Iterable[str]) -> list[Scenario]:
    """The scenarios of one side of a revision whose requirements the suite does not list."""
    return [Scenario(revision, side, name, "unlisted") for name in names]


def outcome_of(scenario: Scenario, output: Path) -> Outcome:
    """Read what the suite wrote about a scenario."""
    prefix = _FOLDERS[scenario.side]
    found = sorted(output.glob(f"{prefix}{scenario.name}-[0-9][0-9][0-9][0-9]-*/checks.json"))
    if len(found) != 1:
        return Outcome(scenario, 0, ["it did not come to its end; see output.txt"])
    checks = json.loads(found[0].read_text())
    if scenario.name in CHECKS and all(each["status"] == "SKIPPED" for each in checks):
        checks = read_checks(scenario.name, output)
    problems = [_reason(each) for each in checks if each["status"] in ("FAILURE", "WARNING")]
    passed = sum(each["status"] == "SUCCESS" for each in checks)
    if not passed and not problems:
        problems.append("nothing was checked")
    if scenario.side == "client":
        problems += _complaint(found[0].parent)
    return Outcome(scenario, passed, problems)


def _reason(check: dict[str, Any]) -> str:
    details = check.get("details") or {}
    said = check.get("errorMessage") or details.get("message") or check["description"]
    return f"{check['status'].lower()} {check['id']} ({check['name']}): {said[:_LONGEST_REASON]}"


def _complaint(folder: Path) -> Iterator[str]:
    """What our client has to say itself, which the suite does not ask."""
    if not (folder / "stdout.txt").read_text().rstrip().endswith(DONE):
        said = (folder / "stderr.txt").read_text().strip().splitlines()
        yield f"the client failed: {said[-1] if said else 'it says nothing'}"


# -- the table -------------------------------------------------------------------------------------

Row = tuple[str, str, str, int, int, int]
_HEADINGS = ("revision", "side", "counted as", "scenarios", "passed", "checks")


def table(outcomes: Iterable[Outcome]) -> str:
    """Say in a table how many passed."""
    rows: dict[tuple[str, str, str], list[Outcome]] = {}
    for each in outcomes:
        scenario = each.scenario
        counted = f"not offered: {scenario.missing}" if scenario.missing else scenario.counted
        rows.setdefault((scenario.revision, scenario.side, counted), []).append(each)
    lines = [_HEADINGS, *((*group, *_numbers(group[2], each)) for group, each in rows.items())]
    ours = [each for group in rows.values() for each in group if not each.scenario.missing]
    lines.append(("total", "", "", *_numbers("", ours)))
    widths = [max(len(str(line[column])) for line in lines) for column in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join(
            str(cell).ljust(width) if column < 3 else str(cell).rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _numbers(counted: str, group: list[Outcome]) -> tuple[int, int | str, int | str]:
    if counted.startswith("not offered"):
        return len(group), "-", "-"
    return len(group), sum(not each.problems for each in group), sum(each.checks for each in group)


def failures(outcomes: Iterable[Outcome]) -> str:
    """Say what did not pass, and why."""
    return "\n".join(
        f"{each.scenario.revision} {each.scenario.side} {each.scenario.name}\n"
        + "\n".join(f"    {problem}" for problem in each.problems)
        for each in outcomes
        if each.failed
    )


def as_json(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """The outcomes for other programs."""
    return [
        {
            **asdict(each.scenario),
            "offered": each.scenario.missing is None,
            "passed": not each.problems,
            "checks": each.checks,
            "problems": each.problems,
        }
        for each in outcomes
    ]
