"""The benchmark of servers that do something: who takes part, what is measured, what is shown."""

import sys
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve

from benchmarks import http, packages, work
from benchmarks.complete import contest, lacking
from benchmarks.contest import Outcome, in_rounds
from benchmarks.packages import (
    COMPILED,
    FASTMCP,
    BuiltPackage,
    NpmPackage,
    PythonPackage,
    find_fastmcp,
)
from benchmarks.peers import OURS, PYTHON, TYPESCRIPT, Peer, python_server
from benchmarks.processes import Command
from benchmarks.report import Report
from benchmarks.work import ALIKE, COLUMNS, ECHO, GUESTS, TOOLS, Sample, Work
from tests.benchmarks.peers import as_param

NOTHING = Command([], {})
PEERS = work.peers(install=False)
INSTALLED = [each for each in PEERS if not each.missing or each.name in (OURS, PYTHON)]
GUEST = GUESTS[0].name


def measured(name: str, rate: float, *, kinds: object = tuple(TOOLS)) -> Outcome[Sample]:
    assert isinstance(kinds, tuple)
    sample = Sample(0.1, {kind: Work(rate, 1 / rate) for kind in kinds}, 50 << 20)
    return Outcome(Peer(name, NOTHING), [sample] * 2)


@pytest.fixture
def outcomes() -> list[Outcome[Sample]]:
    missing = Outcome[Sample](Peer(FASTMCP, NOTHING).lacking("fastmcp: no network"))
    gone = [Outcome[Sample](Peer(each.name, NOTHING).lacking("no npm")) for each in GUESTS[1:]]
    ours = measured(OURS, 4000, kinds=(*TOOLS, *ALIKE))
    return [ours, missing, measured(GUEST, 8000, kinds=(GUESTS[0].kind,)), *gone]


def test_fastmcp_go_and_rust_take_part() -> None:
    names = [peer.name for peer in PEERS]
    alike = [OURS, TYPESCRIPT, PYTHON, FASTMCP, *COMPILED]
    assert names == [*alike, *(guest.name for guest in GUESTS)]
    assert [set(work.tools_of(peer)) for peer in PEERS[1 : len(alike)]] == [set(TOOLS)] * 5
    assert set(work.tools_of(PEERS[0])) == {*TOOLS, *(guest.kind for guest in GUESTS)}
    assert http.FASTMCP in [peer.name for peer in http.peers(install=False)]


def test_a_guest_is_compared_with_ours_doing_the_same(outcomes: list[Outcome[Sample]]) -> None:
    _, _, ours, missing = work.servers_table(outcomes).split("\n")
    assert ours.split()[2:6] == ["4,000"] * 4
    assert missing == f"{FASTMCP}  missing: fastmcp: no network"
    _, _, guest, beside, gone, *_ = work.guests_table(outcomes).split("\n")
    assert guest.startswith(GUEST)
    assert guest.split()[-5:] == [GUESTS[0].tool.name, "8,000", "125", "1.00", "2.00"]
    assert beside.split() == [OURS, GUESTS[0].tool.name, "4,000", "250", "1.00", "1.00"]
    assert gone == f"{GUESTS[1].name}  missing: no npm"
    assert "6,400" in work.remarks()[0]


def test_we_are_held_against_the_fastest_other_echo(outcomes: list[Outcome[Sample]]) -> None:
    slow, fast = measured("slow", 1000), measured("fast", 5000)
    (target,) = work.targets([*outcomes, slow, fast])
    assert (target.text, target.figure, target.verdict) == ("echo/s @64 to fast", 0.8, "missed")
    assert work.targets(outcomes) == []


def test_what_a_server_does_not_have_does_not_spoil_a_record(
    outcomes: list[Outcome[Sample]],
) -> None:
    there = [outcomes[0], outcomes[2]]
    report = Report("work", work.servers_table(there), work.panels(there), work.figures(there))
    assert list(lacking(report)) == []
    assert contest(report)["rounds"] == 2
    assert [len(panel.bars) for panel in report.panels] == [1, 1, 1, 1, 2, 1]


def test_a_package_that_is_not_there_is_named(tmp_path: Path) -> None:
    for package in (PythonPackage("x", "", tmp_path), NpmPackage("x", "1", tmp_path)):
        found = packages.find(Peer("x", NOTHING), package, install=False)
        assert found.missing == "x: not installed"


def test_a_package_that_cannot_be_installed_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = packages.find(Peer("x", NOTHING), NpmPackage("x", "1", tmp_path), install=True)
    assert found.missing == "x: npm: No such file or directory"


def test_a_package_that_is_there_tells_its_version(tmp_path: Path) -> None:
    (tmp_path / "node_modules" / "x").mkdir(parents=True)
    (tmp_path / "node_modules" / "x" / "package.json").write_text('{"version": "v1.2"}')
    place = tmp_path / "lib" / "python3" / "site-packages" / "x-3.4.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text("Name: x\nVersion: 3.4\n")
    assert NpmPackage("x", "1", tmp_path).version == "1.2"
    assert PythonPackage("x", "", tmp_path).version == "3.4"
    assert find_fastmcp("fastmcp_work.py", install=False).name == FASTMCP


def built(folder: Path, sdk: str, versions: str, build: str) -> BuiltPackage:
    """A server whose compiler is Python."""
    sources = folder / "sources"
    sources.mkdir()
    (sources / versions).write_text(f"other v0.1\n{sdk}")
    (sources / "build.py").write_text(build)
    name = "example.org/sdk" if "/" in sdk else "sdk"
    command = f"{sys.executable} {{folder}}/build.py"
    return BuiltPackage(name, "", folder / "copy", sources, command, versions, "bin")


@pytest.mark.parametrize(
    ("sdk", "version"),
    [
        ("example.org/sdk v1.2.3 // indirect", "1.2.3"),
        ('"sdk",\n"x"\n[[package]]\nname = "sdk"\nversion = "0.1.0-beta.2"\n', "0.1.0-beta.2"),
    ],
    ids=["go.mod", "Cargo.lock"],
)
def test_a_server_that_is_built_tells_the_version_of_its_sdk(
    tmp_path: Path, sdk: str, version: str
) -> None:
    package = built(tmp_path, sdk, "versions", "")
    assert package.version == ""
    assert packages.find(Peer("x", NOTHING), package, install=True).version == version


def test_a_server_that_cannot_be_built_is_missing(tmp_path: Path) -> None:
    package = built(tmp_path, "example.org/sdk v1", "go.mod", "import sys; sys.exit('no space')")
    found = packages.find(Peer("x", NOTHING), package, install=True)
    assert found.missing == "example.org/sdk: no space"
    lacking_compiler = evolve(package, build="no-such-compiler")
    found = packages.find(Peer("x", NOTHING), lacking_compiler, install=True)
    assert found.missing == "example.org/sdk: no-such-compiler: No such file or directory"


@pytest.mark.parametrize("peer", list(map(as_param, INSTALLED)))
@pytest.mark.long
def test_every_server_can_be_measured(peer: Peer) -> None:
    assert peer.missing == ""
    sample = work.take(peer, 0, pinned=False)
    assert sample.work.keys() == work.tools_of(peer).keys()
    assert all(each.rate > 0 for each in sample.work.values())


def test_a_wrong_answer_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Peer(OURS, python_server("trio_mcp_echo.py"))
    tools = {ECHO: evolve(TOOLS[ECHO], answer="another text")}
    monkeypatch.setattr(work, "TOOLS", tools)
    broken = Peer("x", Command([sys.executable, "-c", "raise SystemExit('no licence')"], {}))
    take = partial(work.take, pinned=False)
    found = in_rounds([ours, broken], take, rounds=1, seconds=0, budget=1)
    reasons = [each.peer.missing for each in found]
    assert reasons == ["the tool echo gave a wrong answer", "no licence"]


def test_columns_are_told_apart() -> None:
    sample = Sample(0.1, {"cpu": Work(5, 0.2)}, None)
    assert COLUMNS["cpu"].pick(sample) == 5
    assert COLUMNS["cpu_cpu"].pick(sample) == 0.2
    assert COLUMNS["large"].pick(sample) is None
