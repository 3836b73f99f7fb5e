"""The load generator and the processes that it drives."""

import json
import os
import sys

import pytest

from benchmarks.contest import WINDOW, Caller, Outcome, contest
from benchmarks.eras import FIRST_ID, LEGACY, MAX_CALLS, MODERN, TEXT
from benchmarks.load import Lines, LoadError, drive
from benchmarks.peers import Peer, python_server
from benchmarks.processes import Command, running

YARDSTICK = Peer("yardstick", python_server("yardstick.py"))


def program(text):
    return Command([sys.executable, "-c", text], {})


@pytest.fixture
def pipes():
    """The two ends of a server's input, and of its output."""
    ends = [*os.pipe(), *os.pipe()]
    yield ends
    for end in ends:
        os.close(end)


def answers(*ids, body='"result":{}'):
    return b"".join(b'{"jsonrpc":"2.0","id":%d,%b}\n' % (id, body.encode()) for id in ids)


@pytest.mark.parametrize("era", [LEGACY, MODERN], ids=lambda era: era.name)
def test_calls_are_valid_lines_of_one_length_with_consecutive_ids(era):
    calls = era.calls(3)
    lines = calls.blob.splitlines(keepends=True)
    assert {len(line) for line in lines} == {calls.size}
    messages = [json.loads(line) for line in lines]
    assert [message["id"] for message in messages] == [FIRST_ID, FIRST_ID + 1, FIRST_ID + 2]
    assert messages[0]["method"] == "tools/call"
    assert messages[0]["params"]["arguments"] == {"text": TEXT}
    assert ("_meta" in messages[0]["params"]) is (era is MODERN)


@pytest.mark.parametrize("first_id", [FIRST_ID - 1, FIRST_ID + MAX_CALLS])
def test_ids_of_another_length_are_refused(first_id):
    with pytest.raises(ValueError, match="length"):
        LEGACY.calls(1, first_id)


def test_lines_come_whole_however_they_arrive(pipes):
    reader, writer = pipes[:2]
    lines = Lines(reader)
    os.write(writer, b"one\ntw")
    assert lines.read() == b"one\n"
    os.write(writer, b"o\nthree\n")
    assert lines.read() == b"two\nthree\n"
    os.write(writer, b"four\n")
    assert lines.read() == b"four\n"


def test_answers_may_come_in_any_order(pipes):
    _, writer, output, answer = pipes
    os.write(answer, answers(FIRST_ID + 2, FIRST_ID, FIRST_ID + 1))
    load = drive(writer, Lines(output), LEGACY.calls(3), 3)
    assert load.count == 3
    assert 0 <= load.p50 <= load.p99 <= load.seconds


def test_no_more_calls_are_in_flight_than_the_window_holds(pipes):
    server, writer, output, answer = pipes
    calls = LEGACY.calls(3)
    os.write(answer, answers(FIRST_ID, body='"error":{}'))
    with pytest.raises(LoadError, match="error"):
        drive(writer, Lines(output), calls, 2)
    assert os.read(server, 1 << 16) == calls.blob[: 2 * calls.size]


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (answers(FIRST_ID, body='"error":{"code":-32603}'), "with an error"),
        (answers(FIRST_ID, body='"result":{"isError":true}'), "with an error"),
        (answers(FIRST_ID, FIRST_ID), "came twice"),
        (answers(FIRST_ID, FIRST_ID + 7), "not asked for"),
    ],
)
def test_wrong_answers_are_noticed(pipes, said, complaint):
    _, writer, output, answer = pipes
    os.write(answer, said)
    with pytest.raises(LoadError, match=complaint):
        drive(writer, Lines(output), LEGACY.calls(2), 2)


@pytest.mark.parametrize("window", [1, WINDOW])
def test_a_server_is_driven_and_measured(window):
    with running(YARDSTICK.command, lifetime=20) as server:
        caller = Caller(server, LEGACY)
        assert caller.open() > 0
        caller.check()
        load = caller.run(300, window)
        assert load.count == 300
        assert load.rate > 0
        if sys.platform == "linux":
            assert server.peak_memory() > 1_000_000
            assert server.cpu_seconds() >= 0
    assert server.process.returncode is not None


def test_a_server_that_hangs_is_killed():
    with running(program("import time; time.sleep(600)"), lifetime=0.05) as server:
        with pytest.raises(LoadError, match="closed its output"):
            server.lines.read()
    assert server.process.returncode is not None


def test_a_contest_names_those_who_are_missing_and_those_who_fail():
    absent = Peer("absent", Command(["no-such-command"], {})).lacking("not installed")
    broken = Peer("broken", program("raise RuntimeError('no licence')"))
    found = contest([absent, YARDSTICK, broken], rounds=2, seconds=0, budget=60, pinned=False)
    assert [len(outcome.samples) for outcome in found] == [0, 2, 0]
    assert [outcome.peer.missing for outcome in found] == [
        "not installed",
        "",
        "RuntimeError: no licence",
    ]


def test_a_contest_ends_with_its_budget_but_not_before_one_round():
    (found,) = contest([YARDSTICK], rounds=5, seconds=0, budget=0, pinned=False)
    assert isinstance(found, Outcome)
    assert len(found.samples) == 1
