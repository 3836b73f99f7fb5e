"""A task as it is kept: its states, and the moves between them. Values only, without a store.

    working ⇄ input_required → completed, failed or cancelled, which are final

Every move returns a record. One that changes nothing returns the same record, so that nothing has
to be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar, Final, Literal, Self

from attrs import evolve, field, fields, frozen

from trio_mcp.extending import offload
from trio_mcp.extensions.tasks.info import PROGRESS
from trio_mcp.store.exact import dumps, read

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
Wire = dict[str, Any]

FINAL: Final = frozenset({"completed", "failed", "cancelled"})
_MESSAGE_LENGTH: Final = 1000
_FOR_EVER: Final = 1e12
"""Seconds that are as good as any longer time, and a number in any language as milliseconds."""


@frozen
class Kept:
    """A value that is kept with all its fields. Derive from it."""

    _form: ClassVar[int] = 1
    """Another number after each change that older versions do not understand."""
    _what: ClassVar[str]
    """What it is called in errors."""

    def encode(self) -> bytes:
        """Write it as JSON. What is not JSON, such as in an author's own claims, becomes text."""
        kept = {part.name: getattr(self, part.name) for part in fields(self.__class__)}
        return dumps({"form": self._form, **kept})

    @property
    def _bulk(self) -> object:
        """The fields that may be large. To look at all of them takes longer than to write them."""
        return self

    async def written(self) -> bytes:
        """Write it as `encode` does, in a worker thread if it is large."""
        return await offload(lambda _: self.encode(), self._bulk)

    @classmethod
    def decode(cls, kept: bytes) -> Self:
        """Read what `encode` wrote, or raise `Damaged`."""
        return read(kept, cls._what, cls._of)

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Self:
        if fields.pop("form") != cls._form:
            raise ValueError("of another version")
        return cls(**fields)


@frozen(kw_only=True)
class Record(Kept):
    """A task. The name of a question is never used for another one."""

    _what: ClassVar = "the record of a task"

    id: str
    owner: str | None
    created: float
    """Seconds since 1970, as `updated`."""
    updated: float
    ttl: float | None
    """Seconds from its creation; `None` forever."""
    poll_interval: float
    status: Status = "working"
    message: str | None = None
    progress: Wire | None = None
    """The newest that the tool has reported: `progress`, and `total` and `message` if given."""
    questions: Wire = field(factory=dict)
    """All that was ever asked, by name."""
    waiting: list[str] = field(factory=list)
    """The names of those that the tool waits for."""
    answers: Wire = field(factory=dict)
    answered: int = 0
    """Bytes of all answers that were taken: they count as kept until its end."""
    outcome: Wire | None = None
    """The result, or the JSON-RPC error."""

    @property
    def _bulk(self) -> object:
        return [self.questions, self.answers, self.outcome]

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    # -- moves ----------------------------------------------------------------------------------

    def report(self, newest: tuple[float, float | None, str | None], now: float) -> Record:
        """Note progress, total and message of the tool: for programs, and in words for people."""
        progress, total, message = newest
        words = message or (f"{progress:g}" if total is None else f"{progress:g} of {total:g}")
        told: Wire = {"progress": progress}
        if total is not None:
            told["total"] = total
        if message:
            told["message"] = message[:_MESSAGE_LENGTH]
        if self.is_final or told == self.progress:
            return self
        return evolve(self, progress=told, message=words[:_MESSAGE_LENGTH], updated=now)

    def ask(self, name: str, question: Wire, now: float) -> Record:
        """Wait for an answer. A name that was asked before means what it meant then."""
        if self.is_final or name in self.answers or name in self.waiting:
            return self
        questions = {**self.questions, name: self.questions.get(name, question)}
        return self._wait(now, [*self.waiting, name], questions=questions)

    def withdraw(self, name: str, now: float) -> Record:
        """Wait for an answer no more."""
        if self.is_final or name not in self.waiting:
            return self
        return self._wait(now, [other for other in self.waiting if other != name])

    def answer(self, answers: Mapping[str, Any], now: float) -> Record:
        """Take answers to what was asked and has no answer yet, and ignore all others.

        A run that was interrupted may have asked it, so that no run waits for it just now.
        """
        open_ = [name for name in self.questions if name not in self.answers]
        taken = {name: answers[name] for name in open_ if name in answers}
        if self.is_final or not taken:
            return self
        waiting = [name for name in self.waiting if name not in taken]
        answered = self.answered + len(dumps(taken))
        return self._wait(now, waiting, answers={**self.answers, **taken}, answered=answered)

    def restart(self, now: float) -> Record:
        """Begin again: no run waits yet for what the last one has asked."""
        return self if self.is_final or not self.waiting else self._wait(now, [])

    def complete(self, result: Wire, now: float) -> Record:
        return self._end("completed", now, outcome=result, message=None)

    def fail(self, code: int, text: str, data: Any, now: float) -> Record:
        error: Wire = {"code": code, "message": text}
        if data is not None:
            error["data"] = data
        message = text[:_MESSAGE_LENGTH]
        return self._end("failed", now, outcome=error, message=message)

    def cancel(self, now: float) -> Record:
        """End at the request of its owner."""
        return self._end("cancelled", now, message=None)

    def _wait(self, now: float, waiting: list[str], **changed: Any) -> Record:
        status: Status = "input_required" if waiting else "working"
        return evolve(self, updated=now, waiting=waiting, status=status, **changed)

    def _end(self, status: Status, now: float, **changed: Any) -> Record:
        if self.is_final:
            return self
        gone: Any = {"progress": None, "waiting": [], "questions": {}, "answers": {}}
        return evolve(self, status=status, updated=now, **gone, **changed)

    # -- as others see it ---------------------------------------------------------------------

    def seed(self) -> Wire:
        """Return what the call is answered with."""
        return {"resultType": "task", **self._base()}

    def details(self) -> Wire:
        """Return what `tasks/get` answers with."""
        shown = self._base()
        if self.status == "input_required":
            shown["inputRequests"] = {name: self.questions[name] for name in self.waiting}
        elif self.status == "completed":
            shown["result"] = self.outcome
        elif self.status == "failed":
            shown["error"] = self.outcome
        return shown

    def _base(self) -> Wire:
        message = {} if self.message is None else {"statusMessage": self.message}
        meta = {} if self.progress is None else {"_meta": {PROGRESS: self.progress}}
        return {
            "taskId": self.id,
            "status": self.status,
            **message,
            "createdAt": _timestamp(self.created),
            "lastUpdatedAt": _timestamp(self.updated),
            "ttlMs": None if self.ttl is None else _milliseconds(self.ttl),
            "pollIntervalMs": _milliseconds(self.poll_interval),
            **meta,
        }


def _milliseconds(seconds: float) -> int:
    return round(min(seconds, _FOR_EVER) * 1000)


def _timestamp(seconds: float) -> str:
    whole, part = divmod(int(seconds * 1000), 1000)
    return f"{_date_and_time(whole)}.{part:03}Z"


@lru_cache(maxsize=64)  # most times are in the same second as others
def _date_and_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
