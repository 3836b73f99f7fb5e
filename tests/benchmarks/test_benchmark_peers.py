"""Who takes part in a benchmark, and what the tables say about those who do not."""

import json
import sys
from argparse import Namespace

import pytest

from benchmarks import framing, stdio
from benchmarks.contest import Outcome, Sample
from benchmarks.endless import LIMIT, Endless, feed_endless_line
from benchmarks.load import Load
from benchmarks.peers import (
    BARE,
    OURS,
    OURS_1000,
    PYTHON,
    TYPESCRIPT,
    YARDSTICK,
    Peer,
    attempt,
    find_python,
    find_typescript,
    peers,
)
from benchmarks.processes import Command
from benchmarks.report import Report, publish

NOTHING = Command([], {})


def measured(name, rate, *, memory=50_000_000, rounds=2):
    load = Load(count=1000, seconds=1000 / rate, p50=1 / rate, p99=2 / rate)
    return Outcome(
        Peer(name, NOTHING), [Sample(0.1, load, load, 2 / rate, 1 / rate, memory)] * rounds
    )


def missing(name, reason):
    return Outcome(Peer(name, NOTHING).lacking(reason))


@pytest.fixture
def outcomes():
    return [
        measured(OURS, 50_000),
        measured(TYPESCRIPT, 25_000),
        missing(PYTHON, "mcp is not installed"),
        measured(OURS_1000, 40_000),
        measured(BARE, 60_000),
        measured(YARDSTICK, 500_000),
    ]


def test_a_python_package_that_is_not_installed_is_named():
    assert find_python("no-such-package").missing.startswith("no-such-package is not installed")


def test_another_major_version_is_no_peer():
    found = find_python("pytest")  # certainly installed, certainly not at version 2
    assert found.missing.startswith("pytest ")
    assert found.missing.endswith("2.x is needed")


def test_an_interpreter_that_is_not_installed_is_named():
    assert find_typescript(install=True, node="no-such-node").missing == (
        "no-such-node is not installed"
    )


SDK = "@modelcontextprotocol/server"


@pytest.fixture
def servers(tmp_path):
    """A folder of servers that need the SDK and a client of Redis."""
    dependencies = {SDK: "^2.0.0", "redis": "^5.0.0"}
    (tmp_path / "package.json").write_text(json.dumps({"dependencies": dependencies}))
    return tmp_path


def install(servers, package, version):
    folder = servers / "node_modules" / package
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"version": version}))


def test_npm_packages_that_are_not_installed_are_named(servers):
    found = find_typescript(servers, install=False, node=sys.executable)
    assert found.missing == f"{SDK}, redis: not installed"


def test_the_sdk_alone_is_not_all_that_package_json_asks_for(servers):
    install(servers, SDK, "2.3.4")
    found = find_typescript(servers, install=False, node=sys.executable)
    assert found.missing == "redis: not installed"


def test_an_sdk_that_is_installed_tells_its_version(servers):
    install(servers, SDK, "2.3.4")
    install(servers, "redis", "5.6.7")
    found = find_typescript(servers, install=False, node=sys.executable)
    assert (found.missing, found.version) == ("", "2.3.4")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("", ""),
        ("import sys; sys.exit('\\nno network\\nmore of it')", "no network"),
        ("import sys; sys.exit(3)", "exit code 3"),
    ],
)
def test_an_installation_that_fails_says_why(program, reason):
    assert attempt([sys.executable, "-c", program]) == reason


def test_everybody_is_named_once():
    names = [peer.name for peer in peers(install=False)]
    assert len(set(names)) == len(names)
    assert {OURS, OURS_1000, TYPESCRIPT, PYTHON, BARE, YARDSTICK} <= set(names)


def test_the_table_shows_figures_ratios_and_who_is_missing(outcomes):
    lines = stdio.servers_table(outcomes).split("\n")
    assert lines[2].startswith("trio-mcp ")
    assert "50,000" in lines[2]
    assert lines[3].split()[-1] == "0.50"
    assert lines[4] == "Python SDK  missing: mcp is not installed"


def test_what_the_system_does_not_tell_is_not_invented():
    line = stdio.servers_table([measured(OURS, 1000, memory=None)]).split("\n")[2]
    assert line.split()[-3] == "n/a"


def test_targets_are_held_against_ratios_and_say_what_is_missing(outcomes):
    found = stdio.targets(outcomes, Endless(200_000_000, 2 * LIMIT))
    assert [(target.figure, target.verdict) for target in found] == [
        (2.0, "met"),
        (None, "not measured: Python SDK is missing"),
        (1.2, "missed"),
        (1.2, "missed"),
        (1.2, "met"),
        (0.5, "met"),
        (1.0, "met"),
        (None, "not measured: Python SDK is missing"),
        (None, "not measured: Python SDK is missing"),
        (0.8, "missed"),
        (2.0, "missed"),
    ]


def test_remarks_tell_how_far_the_figures_can_be_trusted(outcomes):
    ours = measured(OURS, 50_000)
    slower = measured(OURS, 20_000)
    outcomes[0] = Outcome(ours.peer, ours.samples + slower.samples)
    headroom, spread, growth = stdio.remarks(outcomes, Endless(200_000_000, LIMIT))
    assert "8.3 times" in headroom  # 500,000 to 60,000: the median of the fastest server
    assert "2.5 times" in spread
    assert "10.0 MiB" in growth


def test_there_are_no_remarks_on_nothing():
    assert stdio.remarks([missing(OURS, "not there")], Endless(missing="not there")) == []


def test_the_chart_leaves_out_the_yardstick_and_the_missing(outcomes):
    bars = stdio.panels(outcomes)[0].bars
    assert [(bar.label, bar.ours) for bar in bars] == [
        (OURS, True),
        (TYPESCRIPT, False),
        (OURS_1000, True),
        (BARE, False),
    ]


def test_an_endless_line_needs_our_server():
    assert feed_endless_line(missing(OURS, "not there").peer) == Endless(missing="not there")


@pytest.mark.parametrize("line", [1, 99, 100, 5000])
def test_all_loops_find_the_same_lines(line):
    chunks = framing.Case("", line, 100, 10_000, framing.bare_split).chunks()
    found = [loop(chunks) for loop in (framing.ours, framing.bare_split, framing.bare_join)]
    assert found == [10_000 // line] * 3


def test_reports_are_printed_and_written(tmp_path, capsys, outcomes):
    endless = Endless(200_000_000, LIMIT)
    figures = stdio.figures(outcomes, endless)
    report = Report("stdio", "a table", stdio.panels(outcomes), figures)
    publish([report], Namespace(chart=tmp_path / "a" / "c.svg", json=tmp_path / "f"))
    assert capsys.readouterr().out.startswith("a table\n")
    assert (tmp_path / "a" / "c.svg").read_text().startswith("<svg")
    written = json.loads((tmp_path / "f").read_text())["stdio"]
    assert written["servers"][PYTHON]["missing"] == "mcp is not installed"
    assert written["servers"][OURS]["rate"] == [50_000, 50_000]
    assert written["endless_line"]["growth"] == LIMIT
