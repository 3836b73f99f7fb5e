"""What the site shows of records and tests: the committed records are good, broken ones are not."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from attrs import evolve

from benchmarks.picture import picture
from docs._ext.bars import drawing
from docs._ext.drawings import part_of_page
from docs._ext.measured import missed
from docs._ext.promises import tests_by_row as find_tests
from docs._ext.records import (
    CONTESTS,
    Bar,
    Benchmarks,
    Conformance,
    Panel,
    RecordError,
    Scenario,
    Soak,
    Table,
    load,
)
from tests.conformance.install import VERSION
from tests.conformance.run import REVISIONS
from tests.docs.test_readme import table
from tests.soak.picture import picture as memory
from tests.support.processes import ROOT

DOCS = ROOT / "docs"
MEASURED = DOCS / "measured"
REPORT = re.compile(r'\bReport\(\s*"(\w+)"')
SHOWN = re.compile(r"^:::\{measured\} (\w+) (\w+)$", re.MULTILINE)


def test_every_contest_is_on_the_page() -> None:
    shown = SHOWN.findall((DOCS / "benchmarks.md").read_text())
    assert {name for name, _ in shown} == {"benchmarks"}
    assert sorted(part for _, part in shown) == sorted(["run", "missed", *CONTESTS])
    assert set(good()["contests"]) <= set(CONTESTS)


def test_all_bounds_that_are_missed_are_shown_the_worst_first() -> None:
    record = load(MEASURED / "benchmarks.json", Benchmarks, "make bench")
    verdicts = [
        row[-1]
        for contest in record.contests.values()
        for each in contest.tables
        if "verdict" in each.headers
        for row in each.rows
    ]
    assert len(missed(record)) == len(verdicts) - verdicts.count("met")
    record.contests["http"].tables[:] = [
        Table(
            ["target", "bound", "figure", "verdict"],
            [["a", "≥ 4", "3.00", "missed"], ["b", "≤ 1", "9.00", "missed"]],
        )
    ]
    only = evolve(record, contests={"http": record.contests["http"]})
    assert missed(only) == [["http", "b", "≤ 1", "9.00"], ["http", "a", "≥ 4", "3.00"]]


def test_every_contest_is_a_benchmark() -> None:
    folder = ROOT / "benchmarks"
    made = {name for each in folder.glob("*.py") for name in REPORT.findall(each.read_text())}
    assert made == set(CONTESTS)


def test_the_whole_record_of_conformance_is_on_the_page() -> None:
    record = load(MEASURED / "conformance.json", Conformance, "make conformance")
    shown = SHOWN.findall((DOCS / "conformance.md").read_text())
    sides = {each.side for each in record.scenarios}
    assert sorted(shown) == sorted(("conformance", part) for part in ["run", "summary", *sides])
    assert {each.revision for each in record.scenarios} == set(REVISIONS)
    assert record.suite == VERSION


@pytest.mark.requirement("J9")
def test_every_scenario_about_authorization_has_passed() -> None:
    record = load(MEASURED / "conformance.json", Conformance, "make conformance")
    about = [each for each in record.scenarios if each.name.startswith("auth/")]
    assert {each.revision for each in about} == set(REVISIONS)
    assert {each.counted for each in about} >= {"required", "extension"}
    assert [each.name for each in about if not (each.offered and each.passed)] == []
    assert not any("OAuth" in (each.missing or "") for each in record.scenarios)


@pytest.mark.requirement("K8")
@pytest.mark.parametrize(("beginning", "number"), [("tasks-", 10), ("sep-2640-", 7)])
def test_every_scenario_about_extensions_has_passed(beginning: str, number: int) -> None:
    record = load(MEASURED / "conformance.json", Conformance, "make conformance")
    about = [each for each in record.scenarios if each.name.startswith(beginning)]
    assert len(about) >= number
    assert [each.name for each in about if not (each.offered and each.passed)] == []


def number(cell: str) -> float:
    return float(cell.replace(",", ""))


@pytest.mark.requirement("N1")
def test_the_recorded_soak_was_long_and_flat() -> None:
    record = load(MEASURED / "soak.json", Soak, "make soak CALLS=10000000")
    calls = {row[0]: number(row[1]) for row in record.counted.rows}
    assert calls["stdio"] >= 10_000_000
    assert calls["HTTP"] >= 1_000_000
    assert all(number(cell) > 0 for row in record.counted.rows for cell in row[1:])
    assert {"descriptors", "threads", "tasks", "flat"} <= set(record.seen.headers)
    assert [row[-1] for row in record.seen.rows] == ["yes"] * 4


@pytest.mark.requirement("M5")
def test_the_recorded_benchmarks_have_what_processes_and_stores_cost() -> None:
    contests = load(MEASURED / "benchmarks.json", Benchmarks, "make bench").contests
    rows = {row[0]: row for row in contests["workers"].tables[0].rows}
    alone, two = (number(rows[f"trio-mcp, {name}"][1]) for name in ("1 process", "2 processes"))
    assert two / alone >= 1.5
    written = [row[0] for table in contests["stores"].tables for row in table.rows]
    assert {"memory", "SQLite", "Redis"} <= {
        word for name in written for word in re.split(r"[ ,]+", name)
    }


@pytest.mark.parametrize("page", ["benchmarks.md", "conformance.md"])
def test_no_prose_has_a_figure(page: str) -> None:
    """But for dates of revisions, and what names a figure (p50, 64 in flight)."""
    text = re.sub(
        r"`[^`]*`|\d{4}-\d\d-\d\d|p50|p99|@64|64 requests|1,000 tools",
        "",
        (DOCS / page).read_text(),
    )
    assert re.findall(r"\d[\d.,]*", text.replace("0.5 is half", "").replace(", 1 is", "")) == []


PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if not {"_build", "contributing", "examples"} & set(page.relative_to(DOCS).parts)
]


@pytest.mark.requirement("T5")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_what_was_measured_is_in_a_record_and_not_in_the_prose(page: Path) -> None:
    """Times of calls, and ratios: those of the README are held against the records."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"\d[\d.]* (?:µs|times (?:the|as|faster|slower))", prose) == []


def good() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((MEASURED / "benchmarks.json").read_text())
    return content


def break_type(record: dict[str, Any]) -> None:
    record["contests"]["stdio"]["rounds"] = "many"


def break_row(record: dict[str, Any]) -> None:
    record["contests"]["stdio"]["tables"][0]["rows"][0] = ["a", "b"]


def break_contests(record: dict[str, Any]) -> None:
    record["contests"] = {}


def break_made(record: dict[str, Any]) -> None:
    del record["made"]["date"]


def break_more(record: dict[str, Any]) -> None:
    record["host"] = "somebody's"


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (break_type, "'many' @ benchmarks.json.contests['stdio'].rounds"),
        (break_row, "a row has 2 cells below"),
        (break_contests, "Length of 'contests'"),
        (break_made, "required field missing @ benchmarks.json.made.date"),
        (break_more, "host"),
    ],
)
def test_a_broken_record_is_refused_with_what_is_wrong(
    tmp_path: Path, harm: Any, reason: str
) -> None:
    record = good()
    harm(record)
    path = tmp_path / "benchmarks.json"
    path.write_text(json.dumps(record))
    with pytest.raises(RecordError) as refused:
        load(path, Benchmarks, "make bench")
    assert reason in str(refused.value)
    assert str(refused.value).endswith("`make bench` makes it again")


@pytest.mark.parametrize(
    ("text", "reason"), [(None, "there is no record x.json"), ("{", "x.json cannot be read")]
)
def test_no_record_at_all_is_told(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "x.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RecordError, match=reason):
        load(path, Benchmarks, "make bench")


@pytest.mark.parametrize(
    ("scenario", "outcome"),
    [
        (Scenario("r", "server", "x", "required", True, True, 1, [], None), "passed, 1 check"),
        (
            Scenario("r", "server", "x", "pending", True, True, 2, [], None),
            "passed, 2 checks (pending)",
        ),
        (
            Scenario("r", "server", "x", "required", True, False, 2, ["a", "b"], None),
            "failed: a; b",
        ),
        (
            Scenario("r", "server", "x", "required", False, False, 0, [], "OAuth"),
            "not offered: OAuth",
        ),
    ],
)
def test_outcomes_are_told_in_words(scenario: Scenario, outcome: str) -> None:
    assert scenario.outcome == outcome


def test_bars_are_as_long_as_their_values_and_leave_room_for_figures() -> None:
    bars = [
        Bar("a & b", 25, "25", ours=True),
        Bar("c", 100, "100", ours=False),
        Bar("d", 0, "0", False),
    ]
    root = ElementTree.fromstring(drawing(Panel("speed <1>", bars)))
    widths = [float((each.get("width") or "").rstrip("%")) for each in root.iter("rect")]
    assert widths[1] == 4 * widths[0]
    assert widths[2] == 0
    assert max(widths) < 85
    assert [each.get("class") for each in root.iter("rect")] == ["ours", "other", "other"]
    texts = [each.text for each in root.iter("text")]
    assert texts == ["a & b", "25", "c", "100", "d", "0"]


# -- promises -------------------------------------------------------------------------------------


def test_tests_are_found_wherever_markers_stand(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "room"
    folder.mkdir(parents=True)
    (folder / "test_it.py").write_text(
        "raise SystemExit('nobody imports me')\n"
        "pytestmark = [pytest.mark.requirement('A1'), pytest.mark.other('X1')]\n"
        "@pytest.mark.parametrize('x', [1])\n"
        "@pytest.mark.requirement('A2', 'A1')\n"
        "async def test_one(): ...\n"
        "class TestTwo:\n"
        "    @pytest.mark.requirement('A2')\n"
        "    def test_three(self): ...\n"
    )
    assert find_tests(tmp_path / "tests") == {
        "A1": {"tests/room/test_it.py": ["test_one"]},
        "A2": {"tests/room/test_it.py": ["test_one", "TestTwo::test_three"]},
    }


# -- drawings -------------------------------------------------------------------------------------

DRAWINGS = sorted([*(DOCS / "_static").glob("*.svg"), *MEASURED.glob("*.svg")])
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.stem)
def test_a_drawing_can_be_read_out_and_has_a_dark_side(path: Path) -> None:
    root = ElementTree.parse(path).getroot()
    named = {each.get("id") for each in root if each.tag in (f"{SVG}title", f"{SVG}desc")}
    assert set((root.get("aria-labelledby") or "").split()) == named
    assert len(named) == 2
    assert root.get("viewBox")
    svg = path.read_text()
    page = part_of_page(svg)
    assert svg.count("prefers-color-scheme: dark") == 1
    assert 'body[data-theme="dark"] {' in page
    assert 'body:not([data-theme="light"])' in page
    assert page.count("{") == page.count("}")


def test_the_chart_of_memory_shows_the_record() -> None:
    load(MEASURED / "soak.json", Soak, "make soak")
    record = json.loads((MEASURED / "soak.json").read_text())
    shown = MEASURED / "soak.svg"
    assert f"({shown.relative_to(DOCS)})" in (DOCS / "soak.md").read_text()
    assert shown.read_text() == memory(record), "`python -m tests.soak.picture` draws it anew"
    assert len(record["memory"]) == len(record["seen"]["rows"]) == 4


def test_the_picture_on_the_front_page_shows_the_record() -> None:
    shown = MEASURED / "benchmarks.svg"
    assert f"({shown.relative_to(ROOT)})" in (ROOT / "README.md").read_text()
    assert shown.read_text() == picture(good()), "`python -m benchmarks.picture` draws it anew"
    drawn = [each.text for each in ElementTree.parse(shown).getroot().iter(f"{SVG}text")]
    (record, *_) = good()["contests"]["stdio"]["tables"]
    for row in record["rows"]:
        if re.fullmatch(r"trio-mcp|(TypeScript|Python) SDK [\d.]+", row[0]):
            figures = dict(zip(record["headers"], row, strict=True))
            for header in ("req/s @64", "p50 µs", "start ms", "peak MiB"):
                assert figures[header] in drawn
                assert drawn.count(row[0]) == 4


def test_drawings_show_every_package() -> None:
    packages = {
        row[0].strip("`") for row in table(DOCS / "architecture.md", "Package | What it knows")
    }
    root = ElementTree.parse(DOCS / "_static" / "packages.svg").getroot()
    assert {
        each.text for each in root.iter(f"{SVG}text") if each.get("class") == "name"
    } == packages
    source = ROOT / "trio_mcp"
    assert packages == {each.parent.name for each in source.glob("*/__init__.py")}
