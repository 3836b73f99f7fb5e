"""Every entrance, on the inputs that are kept, and on what Hypothesis makes of them."""

from __future__ import annotations

import logging
import re
import resource
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.judging import MOST_BYTES, UNIT, Finding, Target, judge, smaller
from tests.fuzz.run import fuzz, fuzzer
from tests.fuzz.targets import CORPUS, TARGETS, corpus_of

pytestmark = pytest.mark.requirement("N2")

PATIENT = 10.0
"""Seconds of processor time: what is imported late, and coverage, take some of it."""
PIECES = [
    *(b"\n", b"\r\n", b"\0", b"\xff", b"\xed\xa0\x80", b'"', b"\\", b"{", b"}", b"[", b"]", b"/"),
    *(b"{}", b"[]", b"null", b"true", b"-1", b"1e999", b"9" * 400, b"ID", b"SESSION", b"%00"),
    *(b"[" * 260, b'{"a":' * 260, b"\\ud800", b"../", b"$ref", b"#", b"?", b"*", b"a" * 5000),
]
each_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def test_the_corpus_has_a_folder_for_each_target_and_no_other() -> None:
    assert sorted(path.name for path in CORPUS.iterdir()) == sorted(TARGETS)
    assert all(corpus_of(name) for name in TARGETS)


@each_target
def test_what_is_kept_is_survived(target: Target) -> None:
    for data in corpus_of(target.name):
        judge(target, data, PATIENT)


@st.composite
def mutated(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """An input of the corpus after somebody has meddled with it."""
    data = draw(st.sampled_from(seeds))
    words = re.findall(rb'"[^"]*"|\w+', data) or [b"x"]
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        gone = draw(st.sampled_from([0, 0, 1, 2, 10, 50]))
        put = draw(st.sampled_from([b"", *PIECES, *words]) | st.binary(max_size=5))
        data = data[:start] + put + data[start + gone :]
    return data


@each_target
@given(data=st.data())
def test_what_is_made_of_it_is_survived(target: Target, data: st.DataObject) -> None:
    judge(target, data.draw(mutated(corpus_of(target.name))), PATIENT)


@pytest.mark.needs("atheris")
def test_the_fuzzer_that_is_led_by_coverage_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with fuzzer() as it:
        for name in ("events", "headers"):
            assert fuzz(it, name, "-runs=200", "-seed=1") == []
            assert re.match(rf"{name}: [\d,]+ inputs, cov: \d+", capsys.readouterr().out)


# -- the judge ---------------------------------------------------------------------------------


def hang(data: bytes) -> None:
    while b"x" in data:
        pass


def leak(data: bytes) -> bytes:
    return b"KeyError: 'x'" if b"x" in data else b"fine"


def log(data: bytes) -> None:
    if b"x" in data:
        logging.getLogger("trio_mcp.http").error("it failed")


def swell(data: bytes) -> None:
    """Take more than the process has ever had: what other tests took is no growth."""
    if b"x" in data:
        most = UNIT * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        now = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        bytearray(b"y") * (most - now + MOST_BYTES + MOST_BYTES // 8)


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.parametrize("run", [hang, leak, log, pytest.param(swell, marks=needs_proc)])
def test_the_judge_sees(run) -> None:
    target = Target("bad", run)
    judge(target, b"fine", 0.2)
    with pytest.raises(Finding):
        judge(target, b"..x..", 0.2)


def test_what_was_found_is_made_small() -> None:
    def fail(data: bytes) -> None:
        if b"a" in data and b"z" in data:
            raise LookupError

    assert smaller(Target("bad", fail), b"0123a456789z0123") == b"az"
