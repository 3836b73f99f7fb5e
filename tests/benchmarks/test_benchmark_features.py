"""The features benchmark: what is sent, what is counted, who is compared, and what is shown."""

import json
import os
import sys
from argparse import Namespace
from functools import partial

import pytest
from attrs import frozen

from benchmarks import features
from benchmarks.columns import Column, ratio
from benchmarks.contest import Outcome, in_rounds
from benchmarks.eras import FIRST_ID, LEGACY, MODERN
from benchmarks.features import LISTENERS, Sample, hear, prompts, reads
from benchmarks.load import Lines, Load, LoadError
from benchmarks.peers import OURS, PYTHON, TYPESCRIPT, Peer, feature_peers
from benchmarks.processes import Command
from tests.benchmarks.peers import as_param

NOTHING = Command([], {})
TOLD = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n'
ANSWER = b'{"jsonrpc":"2.0","id":7,"result":{}}\n'
INSTALLED = [
    peer
    for peer in feature_peers(install=False)
    if peer.name != TYPESCRIPT or not peer.missing  # that one comes with `make bench`
]
ERROR = b'{"jsonrpc":"2.0","id":7,"error":{}}\n'


def load(rate):
    return Load(count=1000, seconds=1000 / rate, p50=1 / rate, p99=2 / rate)


def measured(name, rate, *, rounds=2):
    sample = Sample(*[load(rate)] * 4, progress=10.0 * rate, fan_out=100 / rate)
    return Outcome(Peer(name, NOTHING), [sample] * rounds)


@pytest.fixture
def outcomes():
    missing = Outcome(Peer(TYPESCRIPT, NOTHING).lacking("no network"))
    return [measured(OURS, 9000), missing, measured(PYTHON, 1000)]


@frozen
class Server:
    """What `hear` needs of a server."""

    lines: Lines


@pytest.fixture
def said():
    """Makes a server that has said something, and then closed its output."""
    readers = []

    def make(data):
        reader, writer = os.pipe()
        readers.append(reader)
        os.write(writer, data)
        os.close(writer)
        return Server(Lines(reader))

    yield make
    for reader in readers:
        os.close(reader)


@pytest.mark.parametrize(
    ("make", "method", "about"),
    [(reads, "resources/read", "uri"), (prompts, "prompts/get", "name")],
)
@pytest.mark.parametrize("era", [LEGACY, MODERN], ids=lambda era: era.name)
def test_requests_are_valid_lines_of_one_length_with_consecutive_ids(make, method, about, era):
    requests = make(era, 3, FIRST_ID + 5)
    lines = requests.blob.splitlines(keepends=True)
    assert {len(line) for line in lines} == {requests.size}
    messages = [json.loads(line) for line in lines]
    assert [message["id"] for message in messages] == [FIRST_ID + 5, FIRST_ID + 6, FIRST_ID + 7]
    assert {message["method"] for message in messages} == {method}
    assert about in messages[0]["params"]
    assert ("_meta" in messages[0]["params"]) is (era is MODERN)


def test_the_meta_of_a_request_is_added_to_that_of_the_era():
    params = {"name": "x", "_meta": {"progressToken": "p"}}
    meta = json.loads(MODERN.request(1, "tools/call", params))["params"]["_meta"]
    assert meta.keys() == {*MODERN.meta["_meta"], "progressToken"}
    assert json.loads(LEGACY.request(1, "tools/call", params))["params"] == params


def test_notifications_are_counted_up_to_the_last(said):
    assert hear(said(TOLD * 3 + ANSWER), features.PROGRESS, 3, results=1, in_order=True) > 0
    assert hear(said(ANSWER + TOLD * 3), features.PROGRESS, 3, results=1) > 0
    assert hear(said(TOLD * 3), features.PROGRESS, 3, results=0) > 0


@pytest.mark.parametrize(
    ("data", "in_order", "complaint"),
    [
        (TOLD * 4 + ANSWER, True, "4 notifications"),
        (TOLD * 2 + ANSWER, True, "2 notifications"),
        (TOLD * 2 + ANSWER, False, "closed its output"),
        (TOLD * 3 + ANSWER * 2, False, "2 answers"),
        (TOLD + ERROR, False, "an error"),
    ],
)
def test_too_much_too_little_and_errors_are_noticed(said, data, in_order, complaint):
    with pytest.raises(LoadError, match=complaint):
        hear(said(data), features.PROGRESS, 3, results=1, in_order=in_order)


def test_the_tables_show_figures_who_is_missing_and_ratios(outcomes):
    _, _, ours, missing, theirs = features.features_table(outcomes).split("\n")
    assert ours.split()[1:] == ["9,000"] * 4 + ["90,000", "11.1", "1.00"]
    assert missing == f"{TYPESCRIPT}  missing: no network"
    assert theirs.split()[-3:] == ["10,000", "100.0", "1.00"]
    _, _, to_typescript, to_python = features.ratios_table(outcomes).split("\n")
    assert to_typescript.split()[-6:] == ["-"] * 6
    assert to_python.split()[-6:] == ["9.0"] * 6  # also where less is better


def test_rounds_that_do_not_match_are_not_compared(outcomes):
    column = Column("read", "", lambda sample: sample.read.rate, 1, ".0f")
    outcomes[2] = measured(PYTHON, 1000, rounds=1)
    assert ratio(outcomes, column, OURS, PYTHON) == (None, "the rounds do not match")
    assert ratio(outcomes, column, OURS, TYPESCRIPT) == (None, f"{TYPESCRIPT} is missing")


def test_the_chart_and_the_figures_have_everybody_who_was_measured(outcomes):
    panels = features.panels(outcomes)
    assert [[bar.label for bar in panel.bars] for panel in panels] == [[OURS, PYTHON]] * 4
    figures = features.measurements(outcomes, features.COLUMNS)
    assert figures[TYPESCRIPT]["missing"] == "no network"
    assert figures[PYTHON]["read_many"] == [1000, 1000]


@pytest.mark.long
@pytest.mark.parametrize("peer", list(map(as_param, INSTALLED)))
def test_every_server_can_be_measured(peer):
    assert peer.missing == ""
    sample = features.take(peer, 0, pinned=False)
    assert {load.count for load in (sample.read, sample.read_many, sample.prompt)} == {200}
    assert sample.prompt_many.rate > 0
    assert sample.progress > 0
    assert sample.fan_out > 0


def test_everybody_is_measured_in_the_revision_that_has_it_all():
    peers = feature_peers(install=False)
    assert [peer.name for peer in peers] == [OURS, TYPESCRIPT, PYTHON]
    assert all(peer.era is MODERN for peer in peers)


def test_a_server_that_does_not_start_is_missing():
    peer = Peer("x", Command([sys.executable, "-c", "raise SystemExit('no server here')"], {}))
    take = partial(features.take, pinned=False)
    (found,) = in_rounds([peer], take, rounds=1, seconds=0, budget=1)
    assert (found.peer.missing, found.samples) == ("no server here", [])


def test_a_report_is_made_of_all_rounds(monkeypatch):
    turns = []

    def take(peer, seconds, *, pinned):
        turns.append((peer.name, seconds, pinned))
        return measured(peer.name, 1000).samples[0]

    monkeypatch.setattr(features, "take", take)
    options = Namespace(rounds=2, seconds=4.0, budget=60, no_install=True, unpinned=True)
    report = features.run(options)
    assert report.name == "features"
    assert turns.count((OURS, 1.0, False)) == 2
    assert turns[0] == (OURS, 0.0, False)
    assert f"1 to {LISTENERS:,} ms" in report.text
