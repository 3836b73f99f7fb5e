"""The client benchmark: how calls are shared out, who is compared, and what a round makes of it."""

import sys

import pytest
import trio

from benchmarks.client import (
    COLUMNS,
    IN_PROCESS,
    OFFICIAL,
    OURS,
    ClientFailed,
    Outcome,
    clients,
    clients_table,
    contest,
    measure,
    official,
    panels,
    targets,
)
from benchmarks.clients.measure import run_calls
from benchmarks.eras import TEXT
from benchmarks.peers import Peer
from benchmarks.processes import Command
from tests.benchmarks.peers import as_param

NOBODY = Command([], {})


def outcome(name, *rates, cpu=0.001):
    usual = {**dict.fromkeys(COLUMNS, 0.001), "cpu_many": cpu}
    samples = [usual | {"rate_many": rate} for rate in rates]
    return Outcome(Peer(name, NOBODY), samples)


def outcomes(asyncio=(1000, 1000), trio=(500, 500)):
    return [
        outcome(OURS, 9000, 9000),
        outcome(OFFICIAL[0], *asyncio),
        outcome(OFFICIAL[1], *trio),
        outcome(IN_PROCESS, 18000, 36000, cpu=0.0005),
    ]


async def crowd(caller, number):
    async with trio.open_nursery() as nursery:
        for _ in range(number):
            nursery.start_soon(caller)


@pytest.mark.parametrize(("count", "window"), [(10, 1), (10, 4), (3, 4)])
async def test_so_many_calls_are_made_and_never_more_at_once_than_the_window(
    count, window, autojump_clock
):
    running = most = 0

    async def call():
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1
        return TEXT

    latencies = await run_calls(call, crowd, count, window)
    assert len(latencies) == count
    assert latencies == sorted(latencies)
    assert most == min(count, window)


async def test_a_wrong_answer_is_not_measured():
    async def call():
        await trio.lowlevel.checkpoint()
        return "something else"

    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="something else")):
        await run_calls(call, crowd, 1, 1)


def test_the_official_client_counts_on_its_faster_event_loop():
    assert official(outcomes()).peer.name == OFFICIAL[0]
    assert official(outcomes(trio=(2000, 2000))).peer.name == OFFICIAL[1]
    assert official(outcomes(asyncio=())).peer.name == OFFICIAL[1]


def test_targets_are_ratios_of_calls_per_second_and_of_processor_time():
    found = targets(outcomes())
    assert [target.figure for target in found] == [9, 3, 0.5]
    assert {target.verdict for target in found} == {"met"}


def test_processor_time_is_not_compared_where_the_system_does_not_tell():
    measured = [outcome(OURS, 1, 1, cpu=0.0), *outcomes()[1:]]
    assert targets(measured)[-1].verdict == "not measured: the system does not tell"


def test_without_the_official_client_its_target_is_not_measured():
    to_official, *in_process = targets(outcomes((), ()))
    assert to_official.verdict.startswith("not measured: Python SDK")
    assert {target.verdict for target in in_process} == {"met"}


def test_everybody_takes_a_turn_in_every_round_until_they_fail():
    turns = []

    def take(peer, seconds):
        turns.append(peer.name)
        if turns.count(peer.name) == 2 and peer.name == "b":
            raise ClientFailed("out of breath")
        return dict.fromkeys(COLUMNS, seconds)

    peers = [Peer("a", NOBODY), Peer("b", NOBODY), Peer("c", NOBODY, missing="not installed")]
    a, b, c = contest(peers, rounds=3, seconds=2.0, budget=60, measure=take)
    assert turns == ["a", "b", "a", "b", "a"]
    assert a.values("rate") == [2.0] * 3
    assert (b.peer.missing, b.samples) == ("out of breath", [])
    assert c.peer.missing == "not installed"
    assert clients_table([a, b, c]).split("\n")[-2:] == [
        "b  missing: out of breath",
        "c  missing: not installed",
    ]
    assert [len(panel.bars) for panel in panels([a, b, c])] == [1, 1, 1]


def test_without_time_there_is_one_round():
    take = outcome("a", 1).samples[0]
    (a,) = contest([Peer("a", NOBODY)], rounds=3, seconds=0, budget=0, measure=lambda *_: take)
    assert a.samples == [take]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit('no server here')", "no server here"),
        ("raise SystemExit(3)", "exit code 3"),
        ("print('{}')", "not those that were asked for"),
    ],
)
def test_a_client_without_figures_has_failed(program, reason):
    peer = Peer("x", Command([sys.executable, "-c", program], {}))
    with pytest.raises(ClientFailed, match=reason):
        measure(peer, 0)


@pytest.mark.parametrize("peer", list(map(as_param, clients())))
@pytest.mark.long
def test_every_client_can_be_measured(peer):
    assert peer.missing == ""
    sample = measure(peer, 0)
    assert 0 < sample["connect"] < sample["start"]
    assert 0 < sample["p50"] <= sample["p99"]
    assert sample["rate_many"] > 0
    assert sample["cpu_many"] >= 0
