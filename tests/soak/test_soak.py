"""What a soak says of what it has seen."""

from __future__ import annotations

import pytest

from tests.soak.run import Goal, over_http, over_stdio
from tests.soak.seen import Seen

pytestmark = pytest.mark.requirement("N1")
MIB = 1024 * 1024


def seen(growth: int = 0, more: int = 0) -> Seen:
    seen = Seen("a server")
    for second in range(60):
        memory = 40 * MIB + growth * max(0, second - 10)
        seen.add(1000 * second, memory, {"descriptors": 10 + more * second, "threads": 1})
    return seen


def test_what_does_not_grow_is_flat() -> None:
    assert seen().is_flat
    assert seen(growth=1024).is_flat


@pytest.mark.parametrize("grown", [{"growth": MIB}, {"more": 2}])
def test_what_grows_is_not(grown: dict[str, int]) -> None:
    assert not seen(**grown).is_flat


@pytest.mark.long
@pytest.mark.parametrize("over", [over_stdio, over_http])
async def test_a_short_one_counts_and_samples(over) -> None:
    soak = await over(Goal(calls=1000))
    assert soak.calls >= 1000
    for each in (soak.server, soak.client):
        assert len(each.memory) == len(each.held) == len(each.calls) == 60
