"""The benchmarks of what is kept: tasks beside calls, and sessions in stores."""

import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from benchmarks import backends, fan_out, operations, stores, tasks
from benchmarks.backends import MEMORY, REDIS, SQLITE
from benchmarks.contest import Caller, Outcome, in_rounds
from benchmarks.load import LoadError
from benchmarks.peers import Peer
from benchmarks.processes import Command, running
from benchmarks.stores import store_of

NOTHING = Command(["no-such-program", "memory:"], {})


@pytest.mark.parametrize("peer", tasks.peers(), ids=lambda peer: peer.name)
@pytest.mark.long
def test_results_are_fetched_and_measured(peer: Peer) -> None:
    sample = tasks.take(peer, 0, pinned=False)
    assert min(sample.rate, sample.rate_many) > 0


def test_a_task_that_is_refused_is_not_measured() -> None:
    (call, *_) = tasks.peers()
    with running(call.command, lifetime=30, pinned=False) as server:
        caller = Caller(server, call.era)
        caller.open()
        assert tasks.results(caller, True, 3, 2) > 0
        with pytest.raises(LoadError, match="tasks/get was refused"):
            tasks.fetch(caller, ["no-such-task"])


def test_tasks_are_held_against_calls() -> None:
    found = [
        Outcome(Peer(name, NOTHING), [tasks.Sample(rate, rate, 1 / rate)])
        for name, rate in ((tasks.CALL, 1000), (tasks.MEMORY, 250))
    ]
    missing = Outcome[tasks.Sample](Peer(tasks.SQLITE, NOTHING).lacking("no room"))
    *_, memory, sqlite = tasks.tasks_table([*found, missing]).split("\n")
    assert memory.split()[-5:] == ["250", "250", "4,000", "1.00", "0.25"]
    assert sqlite == f"{tasks.SQLITE}  missing: no room"


def test_each_server_has_a_store_of_its_own() -> None:
    none, memory, sqlite, _ = stores.peers()
    with store_of(none) as without, store_of(memory) as ready:
        assert ready.command.arguments == [*without.command.arguments, "memory:"]
    with store_of(sqlite) as one, store_of(sqlite) as other:
        paths = {Path(each.command.arguments[-1]) for each in (one, other)}
        assert len(paths) == 2
    assert not any(path.parent.exists() for path in paths)


@pytest.mark.needs("redis-server")
def test_a_redis_server_runs_as_long_as_it_is_needed(tmp_path: Path) -> None:
    *_, peer = stores.peers()
    with store_of(peer) as ready:
        assert ready.command.arguments[-1].startswith("redis://127.0.0.1:")


def without(*programs: str) -> Callable[[str], str | None]:
    which = shutil.which
    return lambda name: None if name in programs else which(name)


def test_without_redis_or_a_load_generator_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends.shutil, "which", without("redis-server", "wrk"))
    found = in_rounds(stores.peers(), stores.take, rounds=1, seconds=0, budget=1)
    text = stores.stores_table(found)
    assert text.count("missing: the load generator wrk is not installed") == 2 * 3
    assert text.count(f"{REDIS}  missing: redis-server is not installed") == 2
    (told,) = fan_out.peers()
    assert told.missing == "redis-server is not installed"


@pytest.mark.parametrize("kind", [MEMORY, SQLITE])
def test_each_operation_of_a_store_is_measured(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "SHORTEST", 0.0)
    monkeypatch.setattr(operations, "PILOT", 3)
    found = in_rounds([Peer(kind, NOTHING)], operations.take, rounds=1, seconds=0, budget=1)
    tables = operations.operations_tables(found).split("\n\n")
    for each in tables:
        assert re.fullmatch(rf"{kind}( +[\d,]+){{5}} +1\.00", each.split("\n")[-1])


@pytest.mark.needs("redis-server")
def test_subscriptions_at_all_instances_are_told_and_measured() -> None:
    (peer,) = fan_out.peers()
    assert fan_out.take(peer, 0).seconds > 0


def test_the_processor_time_of_an_update_is_held_against_its_bound() -> None:
    measured = [fan_out.Sample(1.0, cpu) for cpu in (0.5, 1.25)]
    (target,) = fan_out.targets([Outcome(Peer("x", NOTHING), measured)])
    assert (target.figure, target.verdict) == (1.25, "missed")


def test_the_processor_time_of_tasks_is_held_against_its_bounds() -> None:
    measured = [tasks.Sample(1.0, 1.0, cpu) for cpu in (0.0002, 0.0003)]
    there = [Outcome(Peer(name, NOTHING), measured) for name in (tasks.CALL, tasks.MEMORY)]
    gone = Outcome[tasks.Sample](Peer(tasks.SQLITE, NOTHING).lacking("no disk"))
    memory, sqlite = tasks.targets([*there, gone])
    assert memory.text == "ms of processor time for a task in memory"
    assert (round(memory.figure or 0, 6), memory.verdict) == (0.25, "met")
    assert sqlite.verdict == f"not measured: {tasks.SQLITE} is missing"


def test_a_program_that_is_not_there_is_missing() -> None:
    take = partial(tasks.take, pinned=False)
    (found,) = in_rounds([Peer("x", NOTHING)], take, rounds=1, seconds=0, budget=1)
    assert "No such file" in found.peer.missing
