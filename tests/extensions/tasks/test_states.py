"""The states of a task, and the ways from one to another, without a store."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from trio_mcp.extensions.tasks.record import FINAL, Record
from trio_mcp.store.errors import Damaged

pytestmark = pytest.mark.requirement("K2")

NAMES = st.sampled_from(["colour", "shade", "name"])
TEXTS = st.text(max_size=5)


def record(**more: Any) -> Record:
    return Record(id="1", owner=None, created=0.0, updated=0.0, ttl=60.0, poll_interval=1.0, **more)


class Tasks(RuleBasedStateMachine):
    """Moves, by the tool and its owner, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.record = record()
        self.now = 0.0
        self.asked: dict[str, Any] = {}
        self.answered: dict[str, Any] = {}
        self.ended: dict[str, Any] | None = None

    def move(self, moved: Record) -> None:
        before, self.record = self.record, moved
        if moved is before:
            return
        assert not before.is_final, "a task that has ended has changed"
        assert moved.updated == self.now
        assert (moved.id, moved.created, moved.ttl) == (before.id, before.created, before.ttl)

    def time(self) -> float:
        self.now += 1.0
        return self.now

    @rule(progress=st.floats(0, 10), total=st.none() | st.just(10.0), text=st.none() | TEXTS)
    def report(self, progress: float, total: float | None, text: str | None) -> None:
        self.move(self.record.report((progress, total, text), self.time()))

    @rule(name=NAMES, message=TEXTS)
    def ask(self, name: str, message: str) -> None:
        if not self.record.is_final:
            self.asked.setdefault(name, {"method": "elicitation/create", "params": message})
        question = {"method": "elicitation/create", "params": message}
        self.move(self.record.ask(name, question, self.time()))

    @rule(name=NAMES)
    def withdraw(self, name: str) -> None:
        self.move(self.record.withdraw(name, self.time()))
        assert name not in self.record.waiting

    @rule(answers=st.dictionaries(NAMES, TEXTS))
    def answer(self, answers: dict[str, str]) -> None:
        if not self.record.is_final:
            for name in self.asked.keys() & answers:
                self.answered.setdefault(name, answers[name])
        self.move(self.record.answer(answers, self.time()))
        assert not self.record.waiting or self.record.waiting[0] not in answers

    @rule()
    def restart(self) -> None:
        self.move(self.record.restart(self.time()))
        assert self.record.status != "input_required"

    @rule(how=st.sampled_from(["complete", "fail", "cancel"]), text=TEXTS)
    def end(self, how: str, text: str) -> None:
        ends = {
            "complete": lambda: self.record.complete({"content": text}, self.time()),
            "fail": lambda: self.record.fail(-32603, text, None, self.time()),
            "cancel": lambda: self.record.cancel(self.time()),
        }
        self.move(ends[how]())
        self.ended = self.ended or self.record.details()

    @invariant()
    def what_it_shows_is_what_it_is(self) -> None:
        shown = self.record.details()
        assert (shown["status"] in FINAL) == (self.ended is not None)
        assert self.ended is None or shown == self.ended
        assert ("inputRequests" in shown) == (shown["status"] == "input_required")
        assert ("result" in shown) == (shown["status"] == "completed")
        assert ("error" in shown) == (shown["status"] == "failed")
        for name, question in shown.get("inputRequests", {}).items():
            assert question == self.asked[name], "a name stands for two questions"
            assert name not in self.answered
        if self.ended is None:
            assert self.record.answers == self.answered, "an answer has changed"
        assert "requestState" not in shown

    @invariant()
    def it_is_read_as_it_was_written(self) -> None:
        assert Record.decode(self.record.encode()) == self.record


TestTasks = Tasks.TestCase


def test_what_a_call_is_answered_with() -> None:
    assert record(message="soon").seed() == {
        "resultType": "task",
        "taskId": "1",
        "status": "working",
        "statusMessage": "soon",
        "createdAt": "1970-01-01T00:00:00.000Z",
        "lastUpdatedAt": "1970-01-01T00:00:00.000Z",
        "ttlMs": 60_000,
        "pollIntervalMs": 1000,
    }


def test_answers_that_came_between_two_runs_count() -> None:
    asked = record().ask("colour", {"method": "m"}, 1.0).restart(2.0)
    assert asked.status == "working"
    answered = asked.answer({"colour": "blue", "other": "red"}, 3.0)
    assert answered.answers == {"colour": "blue"}
    assert answered.ask("colour", {"method": "m"}, 4.0) is answered


@pytest.mark.parametrize("value", [10**40, 2**64, "\ud800", [1.5, None], {"é": "\x00"}])
def test_values_are_read_as_they_were_written(value: Any) -> None:
    ended = record().complete({"content": value}, 1.0)
    assert Record.decode(ended.encode()) == ended


@pytest.mark.parametrize(
    "kept", [b"", b"{", b"[]", b"null", b'{"form": 1}', b'{"form": 2}', b'{"form": 1, "x": 2}']
)
def test_what_is_damaged_is_not_taken_for_a_task(kept: bytes) -> None:
    with pytest.raises(Damaged, match=r"damaged|newer"):
        Record.decode(kept)
