"""Percentiles, ratios, targets, tables and charts: the pure parts of the benchmarks."""

from xml.etree import ElementTree

import pytest

from benchmarks.chart import Bar, Panel, svg
from benchmarks.figures import Target, paired_ratio, percentile, targets_table
from benchmarks.tables import table


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1), (1, 1), (50, 50), (99, 99), (99.5, 100), (100, 100)]
)
def test_a_percentile_is_the_nearest_rank(percent, expected):
    assert percentile(range(1, 101), percent) == expected


def test_a_percentile_of_one_value_is_that_value():
    assert percentile([7.0], 50) == percentile([7.0], 99) == 7.0


def test_there_is_no_percentile_of_nothing():
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_ratios_are_paired_by_round_so_that_drift_cancels():
    # The machine became ten times slower, for both: the medians apart would give 10 / 1.
    assert paired_ratio([2, 20, 200], [1, 10, 100]) == 2
    assert paired_ratio([1, 9, 4], [1, 3, 2]) == 2


def test_ratios_need_as_many_rounds_on_both_sides():
    with pytest.raises(ValueError, match="shorter"):
        paired_ratio([1, 2], [1])


@pytest.mark.parametrize(
    ("figure", "at_least", "verdict"),
    [
        (1.2, True, "missed"),
        (1.25, True, "met"),
        (1.3, True, "met"),
        (1.2, False, "met"),
        (1.25, False, "met"),
        (1.3, False, "missed"),
        (None, False, "not measured: the peer is missing"),
    ],
)
def test_a_target_is_met_or_missed_or_was_not_measured(figure, at_least, verdict):
    assert Target("x", 1.25, figure, at_least, "the peer is missing").verdict == verdict


def test_the_table_of_targets_shows_bound_figure_and_verdict():
    lines = targets_table([Target("speed", 25, 17.456, True), Target("memory", 0.6, None)]).split(
        "\n"
    )
    assert lines[2].split() == ["memory", "≤", "0.6", "-", "not", "measured:"]
    assert lines[3].split() == ["speed", "≥", "25", "17.46", "missed"]


def test_what_is_missed_most_is_shown_first():
    speed, time, memory = (
        Target("speed", 4, 3, True),
        Target("time", 1.5, 3),
        Target("memory", 1, 0.5),
    )
    _, _, *rows = targets_table([memory, speed, time]).split("\n")
    assert [row.split()[0] for row in rows] == ["time", "speed", "memory"]


def test_columns_are_aligned_and_remarks_stand_alone():
    rows = [["a", "1,000"], ["a long name  missing: not installed"], ["bb", "1"]]
    assert table(["name", "figure"], rows).split("\n") == [
        "name  figure",
        "----  ------",
        "a      1,000",
        "a long name  missing: not installed",
        "bb         1",
    ]


def test_columns_can_be_aligned_to_the_left():
    assert table(["a", "b"], [["x", "1"], ["x", "22"]], left=(0, 1)).split("\n")[2:] == [
        "x  1",
        "x  22",
    ]


def test_bars_are_as_long_as_their_values():
    panels = [Panel("speed <1>", [Bar("a & b", 50, "50"), Bar("ours", 100, "100", ours=True)])]
    root = ElementTree.fromstring(svg(panels))
    space = "{http://www.w3.org/2000/svg}"
    widths = [float(bar.get("width")) for bar in root.findall(f"{space}rect")[1:]]
    assert widths[1] == 2 * widths[0] > 0
    texts = [text.text for text in root.findall(f"{space}text")]
    assert texts == ["speed <1>", "a & b", "50", "ours", "100"]


def test_a_panel_without_bars_is_left_out():
    assert "empty" not in svg([Panel("empty", []), Panel("full", [Bar("a", 0, "0")])])
