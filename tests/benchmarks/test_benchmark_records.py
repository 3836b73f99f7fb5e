"""Records of runs: printed tables taken apart again, what is kept, and what is not a record."""

import getpass
import json
import runpy
import socket
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.chart import Bar, Panel
from benchmarks.complete import keep, spread
from benchmarks.picture import TITLES
from benchmarks.records import provenance, write
from benchmarks.report import Report
from benchmarks.tables import parse, table
from tests.support.processes import ROOT, run

TEXT = "\n".join(
    [
        table(["server", "req/s", "× ours"], [["trio-mcp", "1,000", "1.00"], ["x 2.0", "9", "-"]]),
        "The machine was quiet.",
        "",
        table(["target", "bound"], [["speed", "≥ 2"]]),
    ]
)
PANELS = [Panel(title, [Bar("trio-mcp", 1000.0, "1,000", ours=True)]) for title in TITLES]

words = st.lists(st.text("a1≤@", min_size=1, max_size=6), min_size=1, max_size=3).map(" ".join)


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.tuples(*[words] * n), min_size=1)))
def test_what_was_laid_out_is_taken_apart(lines: list[tuple[str, ...]]) -> None:
    headers, *rows = map(list, lines)
    (found,) = parse(table(headers, rows))
    assert (found.headers, found.rows) == (headers, rows)


def test_several_tables_with_remarks_are_taken_apart() -> None:
    servers, targets = parse(f"{TEXT}\n")
    assert servers.headers == ["server", "req/s", "× ours"]
    assert servers.rows == [
        ["trio-mcp", "1,000", "1.00"],
        ["x 2.0", "9", "-"],
        ["The machine was quiet."],
    ]
    assert (targets.headers, targets.rows) == (["target", "bound"], [["speed", "≥ 2"]])


def test_a_row_that_names_who_is_missing_is_a_remark() -> None:
    missing = "TypeScript SDK  missing: npm is not installed, nor  anything"
    (found,) = parse(table(["server", "req/s"], [[missing], ["trio-mcp", "1"]]))
    assert found.rows == [[missing], ["trio-mcp", "1"]]


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(ValueError, match="not a part of a table: 'Hello'"):
        list(parse("Hello\nthere"))


def report(name: str = "stdio", *, rounds: int = 2, missing: str = "") -> Report:
    servers = {"trio-mcp": {"rate": [1.0] * rounds}, "x": {"rate": [2.0] * 3, "missing": missing}}
    return Report(name, TEXT, PANELS, {"servers": servers, "memory": {"idle": 2.0}})


def test_a_complete_run_is_kept(tmp_path) -> None:
    path = tmp_path / "new" / "benchmarks.json"
    said = keep([report(), report("http", rounds=3)], path, seconds=1.5, pinned=True)
    picture = path.with_suffix(".svg")
    assert said == f"record: {path}\npicture: {picture}"
    kept = json.loads(path.read_text())
    assert kept["made"] == provenance()
    assert (kept["seconds"], kept["pinned"]) == (1.5, True)
    assert list(kept["contests"]) == ["stdio", "http"]
    assert [each["rounds"] for each in kept["contests"].values()] == [2, 3]
    stdio = kept["contests"]["stdio"]
    assert stdio["tables"][0]["rows"][1] == ["x 2.0", "9", "-"]
    bar = {"label": "trio-mcp", "value": 1000.0, "text": "1,000", "ours": True}
    assert stdio["panels"] == [{"title": title, "bars": [bar]} for title in TITLES]
    assert picture.read_text().count(">1,000</text>") == len(TITLES)


@pytest.mark.parametrize(
    ("reports", "reason"),
    [
        ([report(missing="it crashed")], "x is missing (it crashed)"),
        ([report(), report("http", rounds=1)], "http was measured in fewer than 2 rounds"),
        (
            [report(missing="it crashed"), report("http", missing="it crashed", rounds=0)],
            "x is missing (it crashed); http was measured in fewer than 2 rounds",
        ),
    ],
)
def test_an_incomplete_run_leaves_the_last_record_as_it_is(tmp_path, reports, reason) -> None:
    path = tmp_path / "benchmarks.json"
    path.write_text("the last one")
    said = keep(reports, path, seconds=1, pinned=True)
    assert said == f"record: not written, since {reason}"
    assert path.read_text() == "the last one"


def test_a_record_of_one_round_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--rounds", "1", "--record", "x.json"])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_module("benchmarks", run_name="__main__")
    assert "a record takes at least 2 rounds" in capsys.readouterr().err


@pytest.mark.long
async def test_a_part_of_the_conformance_suite_is_no_record() -> None:
    command = [sys.executable, "-m", "tests.conformance.run", "--side", "client"]
    done = await run([*command, "--record", "x.json"], cwd=ROOT)
    assert done.returncode == 2
    assert b"a part of a run is not a record" in done.stderr


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_a_record_is_json_whatever_its_layout(tmp_path_factory, content) -> None:
    path = tmp_path_factory.getbasetemp() / "record.json"
    write(path, content)
    assert json.loads(path.read_text(encoding="utf-8")) == content


def test_a_record_gives_each_item_a_line(tmp_path) -> None:
    write(tmp_path / "record.json", {"scenarios": [{"name": "x" * 80}] * 3})
    lines = (tmp_path / "record.json").read_text().splitlines()
    item = f'    {{"name": "{"x" * 80}"}}'
    assert lines == ["{", '  "scenarios": [', f"{item},", f"{item},", item, "  ]", "}"]


def test_a_record_says_nothing_of_whose_machine_it_was() -> None:
    made = provenance()
    assert made["version"]
    assert made["processors"] >= 1
    said = json.dumps(made)
    for private in (socket.gethostname(), getpass.getuser(), "/"):
        assert private not in said


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"a": {"rate": [10.0, 5.0], "p50": [1.0, 1.0, 3.0]}, "b": {"rate": [4.0, 4.0]}}, 2.0),
        ({"a": {"rate": [1.0, 3.0], "cpu": []}, "b": {"memory": 7}}, 3.0),
        ({"a": {"rate": [0.0, 1.0]}}, 1.0),
    ],
)
def test_the_spread_is_how_much_the_same_figure_differs_between_rounds(figures, expected) -> None:
    assert spread(figures) == expected


def test_a_node_that_is_not_there_is_left_out() -> None:
    assert provenance("no-such-program")["node"] == ""
