"""What counts as passing: the suite itself is more lenient than `make conformance`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import run
from tests.conformance.emptied import checks_of
from tests.conformance.everything_client import SCENARIOS
from tests.conformance.results import (
    NOT_OFFERED,
    Outcome,
    Scenario,
    as_json,
    failures,
    outcome_of,
    scenarios_of,
    table,
    unlisted,
)
from tests.store.redis_server import free_port

REQUIREMENTS: dict[str, Any] = {
    "server": ["ping", "tools-list"],
    "client": ["auth/basic"],
    "not_scored": [
        {"scenario": "dreams-lifecycle", "leg": "server", "reason": "extension"},
        {"scenario": "server-sse-polling", "leg": "server", "reason": "pending"},
    ],
}


@pytest.fixture(autouse=True)
def dreams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that the library does not have; at present it has all that there is."""
    monkeypatch.setitem(NOT_OFFERED, "dreams-", "dreams extension")


def check(status: str, **more: Any) -> dict[str, Any]:
    return {"id": "some-id", "name": "SomeName", "description": "It is so", "status": status} | more


def outcome(
    output: Path, *checks: dict[str, Any], side: Any = "server", stdout: str = "done\n"
) -> Outcome:
    """What is made of these checks of a scenario `ping`."""
    name = {"server": "server-ping", "client": "ping"}[side]
    folder = output / f"{name}-2026-01-01T00-00-00-000Z"
    folder.mkdir(parents=True)
    (folder / "checks.json").write_text(json.dumps(checks))
    (folder / "stdout.txt").write_text(stdout)
    (folder / "stderr.txt").write_text("Traceback\nOSError: no way\n")
    return outcome_of(Scenario("2025-11-25", side, "ping", "required"), output)


def test_a_scenario_passes_if_something_was_checked_and_nothing_is_wrong(tmp_path: Path) -> None:
    found = outcome(tmp_path, check("SUCCESS"), check("SUCCESS"), check("SKIPPED"), check("INFO"))
    assert not found.failed
    assert (found.checks, found.problems) == (2, [])


@pytest.mark.parametrize("status", ["FAILURE", "WARNING"])
def test_failures_and_warnings_fail_with_their_reason(tmp_path: Path, status: str) -> None:
    found = outcome(tmp_path, check("SUCCESS"), check(status, errorMessage="It is not"))
    assert found.failed
    assert found.problems == [f"{status.lower()} some-id (SomeName): It is not"]


@pytest.mark.parametrize("status", ["SKIPPED", "INFO"])
def test_a_scenario_that_checked_nothing_fails(tmp_path: Path, status: str) -> None:
    assert outcome(tmp_path, check(status)).problems == ["nothing was checked"]


def test_checks_of_our_own_stand_in_for_a_scenario_that_the_suite_has_emptied(
    tmp_path: Path,
) -> None:
    name = "tasks-status-notifications"
    emptied = Scenario("2026-07-28", "server", name, "extension")
    assert outcome_of(emptied, tmp_path).failed
    folder = tmp_path / f"server-{name}-2026-01-01T00-00-00-000Z"
    folder.mkdir()
    (folder / "checks.json").write_text(json.dumps([check("SKIPPED")]))
    assert outcome_of(emptied, tmp_path).problems == ["nothing was checked"]
    for status, failed in (("SUCCESS", False), ("FAILURE", True)):
        (tmp_path / f"own-{name}.json").write_text(json.dumps([check(status)]))
        assert outcome_of(emptied, tmp_path).failed is failed
    (folder / "checks.json").write_text(json.dumps([check("SUCCESS"), check("SUCCESS")]))
    assert outcome_of(emptied, tmp_path).checks == 2, "the suite checks it again"


@pytest.mark.long
@pytest.mark.requirement("K8")
def test_what_stands_in_for_it_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    with run.serving() as url:
        found = checks_of("tasks-status-notifications", url)
    assert [each for each in found if each["status"] != "SUCCESS"] == []
    assert len(found) == 12


def test_what_stands_in_for_it_fails_where_nothing_is_there() -> None:
    (found,) = checks_of("tasks-status-notifications", f"http://127.0.0.1:{free_port()}/mcp")
    assert found["status"] == "FAILURE"


def test_a_scenario_that_left_nothing_behind_fails(tmp_path: Path) -> None:
    found = outcome_of(Scenario("2025-11-25", "server", "ping", "required"), tmp_path)
    assert found.failed
    assert "did not come to its end" in found.problems[0]


def test_a_client_that_fails_after_all_checks_have_passed_fails(tmp_path: Path) -> None:
    assert not outcome(tmp_path / "done", check("SUCCESS"), side="client").failed
    found = outcome(tmp_path / "dead", check("SUCCESS"), side="client", stdout="")
    assert found.problems == ["the client failed: OSError: no way"]


def test_what_the_suite_does_not_count_is_counted_but_for_what_is_not_offered() -> None:
    found = scenarios_of("2026-07-28", "server", REQUIREMENTS)
    assert [(each.name, each.counted, each.missing) for each in found] == [
        ("ping", "required", None),
        ("tools-list", "required", None),
        ("dreams-lifecycle", "extension", "dreams extension"),
        ("server-sse-polling", "pending", None),
    ]
    (login,) = scenarios_of("2026-07-28", "client", REQUIREMENTS)
    assert login.missing is None
    assert [Outcome(each, 0, ["broken"]).failed for each in found] == [True, True, False, True]


def test_without_a_list_of_requirements_every_scenario_counts() -> None:
    (found,) = unlisted("2025-03-26", "client", ["auth/old"])
    assert (found.counted, found.missing) == ("unlisted", None)
    assert Outcome(found, 0, ["broken"]).failed


def test_the_table_and_the_list_of_failures() -> None:
    scenarios = scenarios_of("2026-07-28", "server", REQUIREMENTS)
    problems: list[list[str]] = [[], ["broken"], ["not there"], []]
    outcomes = [Outcome(each, 3, why) for each, why in zip(scenarios, problems, strict=True)]
    assert [line.split() for line in table(outcomes).splitlines()] == [
        ["revision", "side", "counted", "as", "scenarios", "passed", "checks"],
        ["2026-07-28", "server", "required", "2", "1", "6"],
        ["2026-07-28", "server", "not", "offered:", "dreams", "extension", "1", "-", "-"],
        ["2026-07-28", "server", "pending", "1", "1", "3"],
        ["total", "3", "2", "9"],
    ]
    assert failures(outcomes) == "2026-07-28 server tools-list\n    broken"
    assert [each["passed"] for each in as_json(outcomes)] == [True, False, False, True]
    assert [each["offered"] for each in as_json(outcomes)] == [True, True, False, True]


def test_the_client_knows_scenarios_by_the_names_of_older_suites_as_well() -> None:
    name, before = "enterprise-managed-authorization", "cross-app-access-complete-flow"
    assert SCENARIOS[f"auth/{name}"] is SCENARIOS[f"auth/{before}"], "0.1.16 has the latter"
