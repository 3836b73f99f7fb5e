"""Answers to a server's questions, scripted before it asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from trio_mcp import Handlers

Answer = Any
"""`DECLINE`, `CANCEL`, the content of a form as a dictionary, or the value of one that has only a
value; for a question to the model, its text or the whole result."""

Answers = Sequence[Answer] | Mapping[str, Answer] | Callable[[str], Answer]
"""Answers in their order; or by the message of the question; or a function of it."""

DECLINE: Final[Mapping[str, Any]] = {"action": "decline"}
"""The person says no."""
CANCEL: Final[Mapping[str, Any]] = {"action": "cancel"}
"""The person closes the form."""


@define
class Script:
    """Scripted answers, which note the questions and what went wrong."""

    answers: Answers | None
    """To questions to the person, in a form or on a page."""
    samples: Answers | None
    """To questions to the model."""
    asked: list[dict[str, Any]]
    """The parameters of all questions."""
    problems: list[str] = field(factory=list)
    _used: dict[str, int] = field(factory=dict)

    def handlers(self, roots: Sequence[str] | None) -> Handlers:
        """Make the handlers of a client that gives these answers."""
        asked = None if self.answers is None else self._elicited
        return Handlers(
            elicitation=asked,
            elicitation_url=asked,
            sampling=None if self.samples is None else self._sampled,
            sampling_tools=self.samples is not None,
            roots=roots,
        )

    def check(self) -> None:
        """Raise `AssertionError` unless exactly the answered questions were asked."""
        for kind, answers in (("answers", self.answers), ("samples", self.samples)):
            left = 0 if answers is None or callable(answers) else len(answers)
            left -= self._used.get(kind, 0)
            if left > 0 and not isinstance(answers, Mapping):
                self.problems.append(f"{left} of the {kind} were not asked for")
        if self.problems:
            raise AssertionError("; ".join(self.problems))

    async def _elicited(self, params: dict[str, Any]) -> dict[str, Any]:
        answer = self._next("answers", self.answers, params, params["message"])
        if answer in (DECLINE, CANCEL):
            return dict(answer)
        content = answer if isinstance(answer, Mapping) else {"value": answer}
        if params.get("mode") == "url":
            return {"action": "accept"}
        return {"action": "accept", "content": dict(content)}

    async def _sampled(self, params: dict[str, Any]) -> dict[str, Any]:
        answer = self._next("samples", self.samples, params, _text_of(params))
        if isinstance(answer, Mapping):
            return dict(answer)
        content = {"type": "text", "text": answer}
        return {"role": "assistant", "model": "scripted", "content": content}

    def _next(self, kind: str, answers: Any, params: dict[str, Any], message: str) -> Answer:
        self.asked.append(params)
        number = self._used.get(kind, 0)
        self._used[kind] = number + 1
        if callable(answers):
            return answers(message)
        try:
            return answers[message] if isinstance(answers, Mapping) else answers[number]
        except LookupError:
            self.problems.append(f"there is none of the {kind} for {message!r}")
            return DECLINE if kind == "answers" else ""


def _text_of(params: Mapping[str, Any]) -> str:
    content = params["messages"][-1]["content"]
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(block["text"] for block in blocks if block.get("type") == "text")
