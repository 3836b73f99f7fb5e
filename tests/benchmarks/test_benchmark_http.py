"""The HTTP benchmark: what it makes of measurements, and that it can take one."""

import subprocess
from itertools import islice

import pytest
from attrs import evolve

from benchmarks import http, wrk
from benchmarks.http import DPOP, JWT, MANY, ONE, OURS, PYTHON, TYPESCRIPT, UVICORN, Outcome
from benchmarks.load import LoadError
from benchmarks.peers import Peer
from benchmarks.processes import Command
from benchmarks.wrk import Sample, new_sessions, serving

NOBODY = Command(["false"], {})


def outcome(name: str, *rates: float, p99: float = 0.01) -> Outcome:
    return Outcome(Peer(name, NOBODY), [Sample(rate, p99) for rate in rates])


OUTCOMES = [
    outcome(OURS, 9000, 8000, p99=0.002),
    outcome(PYTHON, 1000, 2000),
    outcome(TYPESCRIPT, 2000, 2000, p99=0.004),
    outcome(UVICORN, 2000, 2000),
    outcome(ONE, 5000, 5000),
    outcome(MANY, 4500, 4500),
    outcome(JWT, 8500, 7600),
]


def test_the_better_peer_is_the_one_to_beat() -> None:
    memory = {"stream": 30, "idle": 8, "session": 17, "session with a token": 17.5}
    found = {target.text: target for target in http.targets(OUTCOMES, memory)}
    assert found[f"HTTP requests/s to the {TYPESCRIPT}"].figure == 4.25
    assert found[f"HTTP p99 to the {TYPESCRIPT}"].figure == 0.5
    assert found["HTTP requests/s, 1,000 sessions to one"].figure == 0.9
    assert found["KiB for each open stream"].verdict == "missed"
    assert found["KiB for each idle connection"].verdict == "met"
    assert found[f"HTTP requests/s, on uvicorn to the {PYTHON}"].verdict == "missed"
    assert 0.94 < (found["HTTP requests/s, a JWT each to none"].figure or 0) < 0.95
    assert found["KiB more for a session with a token, 10,000 principals"].figure == 0.5


def test_who_is_missing_is_named() -> None:
    absent = [evolve(each, peer=each.peer.lacking("not here"), samples=[]) for each in OUTCOMES]
    assert "missing: not here" in http.servers_table(absent)
    verdicts = {target.verdict for target in http.targets(absent, {})}
    assert all(verdict.startswith("not measured") for verdict in verdicts)


def test_a_server_that_does_not_start_is_not_measured() -> None:
    (found,) = http.contest([Peer(OURS, NOBODY)], rounds=1, seconds=1)
    assert not found.samples
    assert found.peer.missing


@pytest.mark.parametrize(
    ("size", "errors", "said"),
    [(300, 0, ""), (330, 0, "an answer had 330 bytes"), (300, 2, "2 of 1000 requests failed")],
)
def test_load_is_given_up_when_answers_are_wrong(
    monkeypatch: pytest.MonkeyPatch, size: int, errors: int, said: str
) -> None:
    printed = f"RESULT 1000 2000000 1500 {1000 * size} {errors}"
    done = subprocess.CompletedProcess([], 0, printed, "")
    monkeypatch.setattr(wrk.subprocess, "run", lambda *_, **__: done)
    if said:
        with pytest.raises(LoadError, match=said):
            wrk.load(1, 2, [], size=300)
    else:
        assert wrk.load(1, 2, [], size=300) == Sample(500, 0.0015, 1000, 300)
        with pytest.raises(LoadError, match="1,010 senders were too few"):
            wrk.load(1, 2, [{}] * 1010, size=300, once=True)


@pytest.mark.long
def test_sessions_and_streams_can_be_opened(monkeypatch) -> None:
    monkeypatch.setattr(http, "STREAMS", 3)
    monkeypatch.setattr(http, "IDLE", 3)
    monkeypatch.setattr(http, "PRINCIPALS", 3)
    assert http.memory_per_connection().keys() == {"stream", "idle"}
    assert http.memory_per_session().keys() == {"session", "session with a token"}


@pytest.mark.long
def test_a_protected_server_lets_in_tokens_and_proofs_and_nobody_else() -> None:
    (peer,) = (each for each in http.peers(install=False) if each.name == DPOP)
    senders = [*islice(http.ISSUER.bearers(), 2), *islice(http.ISSUER.provers(), 2)]
    with serving(peer) as (port, _):
        assert len(new_sessions(port, senders)) == 4
        for wrong in ({}, senders[2]):
            with pytest.raises(LoadError):
                new_sessions(port, [wrong])
