"""The name that was probably meant, among few names and among many."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest

from trio_mcp.wire.closest import close_names, closest

pytestmark = pytest.mark.requirement("A12")

MANY = [
    f"{verb}_{noun}_{n}"
    for verb in ("get", "put")
    for noun in ("thing", "part")
    for n in range(200)
]


@pytest.mark.parametrize("wrong", ["ehco", "ecoh", "Echo", "echos", "ech"])
def test_a_slip_is_understood_among_many_names(wrong: str) -> None:
    assert closest(wrong, [*MANY, "echo"]) == "echo"


def test_nothing_is_close_to_what_is_like_nothing() -> None:
    assert closest("", MANY) is closest("x", []) is closest("zzz", ["", *MANY]) is None


def test_several_are_close() -> None:
    assert close_names("get_thing", [*MANY, "get_things"], 1) == ["get_things"]
    assert len(close_names("get_thing_1", MANY, 3)) == 3


def test_few_of_many_names_are_compared_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """To compare two long names that are much alike takes a quarter of a millisecond."""
    compared = 0
    whole = SequenceMatcher.ratio

    def ratio(self: SequenceMatcher[str]) -> float:
        nonlocal compared
        compared += 1
        return whole(self)

    monkeypatch.setattr(SequenceMatcher, "ratio", ratio)
    names = [f"{'update_records_' * 8}{number}" for number in range(1000)]
    assert closest(f"{'update_records_' * 8}5555", names) == names[555]
    assert 0 < compared < len(names) / 5
