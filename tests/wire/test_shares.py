"""Who makes room where there are as many things as may be."""

from __future__ import annotations

from collections import Counter

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire.shares import one_that_goes

pytestmark = pytest.mark.requirement("F2")


@define(eq=False)
class Thing:
    owner: str
    is_busy: bool = False
    asked: int = field(default=0, init=False)

    @property
    def busy(self) -> bool:
        self.asked += 1
        return self.is_busy


THINGS = st.lists(st.builds(Thing, st.sampled_from("abc"), st.booleans()), max_size=12)


@given(THINGS, st.sampled_from("abcd"), st.integers(0, 4))
def test_idle_ones_go_first_then_those_of_the_owner_who_has_most(
    things: list[Thing], newcomer: str, least: int
) -> None:
    counts = Counter(thing.owner for thing in things)
    own = max(counts[newcomer], least)
    idle = [t for t in things if not t.is_busy and (t.owner == newcomer or counts[t.owner] > own)]
    busy = [t for t in things if t.is_busy and counts[t.owner] > own + 1]
    expected = None
    for some in (busy, idle):
        most = max((counts[thing.owner] for thing in some), default=0)
        expected = next((thing for thing in some if counts[thing.owner] == most), expected)
    assert one_that_goes(newcomer, things, least) is expected


def test_few_are_asked_whether_they_are_busy() -> None:
    """It may be a flood, and each look at all of them would take its time."""
    things = [Thing("a") for _ in range(1000)]
    assert one_that_goes("a", things) is things[0]
    assert one_that_goes("b", things) is things[0]
    assert sum(thing.asked for thing in things) == 2
