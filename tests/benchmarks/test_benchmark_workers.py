"""The benchmark of several processes: what is compared, and that all of it ends."""

import time

import psutil
import pytest

from benchmarks import workers
from benchmarks.contest import Outcome
from benchmarks.peers import Peer
from benchmarks.processes import Command
from benchmarks.workers import OURS, PYTHON, Sample
from benchmarks.wrk import new_sessions, serving

NOTHING = Command([], {})


def measured(name: str, rate: float, cpu: float) -> Outcome[Sample]:
    return Outcome(Peer(name, NOTHING), [Sample(rate, 0.01, cpu)] * 2)


def test_the_same_number_of_processes_is_compared() -> None:
    found = [
        measured(OURS[1], 8000, 0.0001),
        measured(OURS[2], 12000, 0.00011),
        measured(PYTHON[1], 2000, 0.0004),
        Outcome[Sample](Peer(PYTHON[2], NOTHING).lacking("mcp is not installed")),
    ]
    one, two, more, time = workers.targets(found)
    assert (one.figure, one.verdict) == (4, "met")
    assert two.verdict == f"not measured: {PYTHON[2]} is missing"
    assert (more.figure, more.verdict) == (1.5, "missed")
    assert round(time.figure or 0, 2) == 1.1
    *_, last = workers.workers_table(found).split("\n")
    assert last == f"{PYTHON[2]}  missing: mcp is not installed"
    assert [peer.name for peer in workers.peers()] == [*OURS.values(), *PYTHON.values()]


@pytest.mark.long
def test_two_processes_serve_and_neither_is_left() -> None:
    _, two, *_ = workers.peers()
    with serving(two) as (port, pid):
        workers.wait_for_an_answer(port)
        while len(children := psutil.Process(pid).children()) < 2:
            time.sleep(0.01)  # the second one is started when the first one listens
        assert len(new_sessions(port, [{}])) == 1
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []
