"""The benchmark of the proxy measures what it says."""

import pytest

from benchmarks import proxy
from benchmarks.contest import contest


@pytest.mark.long
def test_the_time_of_the_server_behind_the_proxy_counts() -> None:
    direct, through = contest(proxy.peers(), rounds=1, seconds=1.0, budget=30, pinned=False)
    assert (direct.peer.missing, through.peer.missing) == ("", "")
    assert [each.cpu_alone for each in direct.samples] < [
        each.cpu_alone for each in through.samples
    ]
    (target,) = proxy.targets([direct, through])
    assert target.figure is not None
