"""What can be written: which values make no sense."""

from __future__ import annotations

import math

import pytest

from trio_mcp.store.changes import Add, Append, Conflict, Put, Touch


@pytest.mark.parametrize("seconds", [0, -1, math.nan, -math.inf])
def test_times_to_live_are_above_0(seconds: float) -> None:
    for make in (
        lambda: Put("a:x", b"", ttl=seconds),
        lambda: Touch("a:x", ttl=seconds),
        lambda: Add("a:x", ttl=seconds),
        lambda: Append("a:x", b"", ttl=seconds, limit=1),
    ):
        with pytest.raises(ValueError, match="more than 0 seconds"):
            make()


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf])
def test_delays_are_finite_and_not_below_0(seconds: float) -> None:
    with pytest.raises(ValueError, match="0 seconds or more"):
        Put("a:x", b"", ttl=1, delay=seconds)
    with pytest.raises(ValueError, match="0 seconds or more"):
        Touch("a:x", delay=seconds)


def test_a_conflict_says_what_it_is_about_and_not_what_was_to_be_written() -> None:
    conflict = Conflict(Put("a:x", b"secret", ttl=1))
    assert str(conflict) == "Put of 'a:x': it is not as expected"
