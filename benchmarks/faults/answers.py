"""What servers answer to calls that go wrong, or could be understood in two ways."""

import json
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from benchmarks.faults.session import Answer, Session

_LONGEST = 80


@frozen
class Question:
    """A call.

    Args:
        tool: Which tool is called; where it could not be registered, that is what is seen.
        arguments: With what.
        structure: Whether it is about `structuredContent`, which is left out otherwise.
    """

    tool: str
    arguments: Mapping[str, Any]
    structure: bool = False

    async def ask(self, session: Session) -> str:
        registered = await session.call("registered", name=self.tool)
        assert registered is not None
        (block,) = registered["result"]["content"]
        if block["text"] != "is registered":
            return f"{block['text']}, at its registration"
        answer = await session.call(self.tool, **self.arguments)
        return said(answer, structure=self.structure)


@frozen
class Listed:
    """Asks which media type a resource has that was registered without one."""

    async def ask(self, session: Session) -> str:
        listed = await session.answer(await session.begin("resources/list", {}), 10.0)
        read = await session.answer(
            await session.begin("resources/read", {"uri": "shop://stock"}), 10.0
        )
        assert listed is not None
        assert read is not None
        types = (
            listed["result"]["resources"][0].get("mimeType", "none"),
            read["result"]["contents"][0].get("mimeType", "none"),
        )
        return f"{types[0]} in lists, {types[1]} with the contents"


def said(answer: Answer, *, structure: bool) -> str:
    """Write an answer as one line."""
    if answer is None:
        return "no answer"
    if "error" in answer:
        return f"error {answer['error']['code']}: {_short(answer['error']['message'])}"
    result = answer["result"]
    texts = [_short(block.get("text", block["type"])) for block in result["content"]]
    if result.get("isError"):
        return f"isError: {', '.join(texts)}"
    told = " and ".join(json.dumps(text, ensure_ascii=False) for text in texts) or "no block"
    if structure and "structuredContent" in result:
        told += f", structuredContent {json.dumps(result['structuredContent'])}"
    return told


def _short(text: str) -> str:
    first = text.strip().partition("\n")[0]
    return first if len(first) <= _LONGEST else f"{first[: _LONGEST - 1]}…"


def _of(tool: str, **arguments: Any) -> Question:
    return Question(tool, arguments)


def _type(tool: str, **arguments: Any) -> Question:
    return Question(tool, arguments, structure=True)


QUESTIONS: Mapping[str, Question | Listed] = {
    'A tool raises `KeyError("secret")`': _of("crash"),
    'A tool raises `ToolError("Sold out.")`': _of("sold_out"),
    'A tool raises `MCPError(code=-32000, message="Sold out.")`': _of("protocol_error"),
    "`str()` of that error": _of("error_as_text"),
    "An unknown tool": _of("dance"),
    "An argument that the tool does not have": _of("double", number=1, colour="red"),
    '`"2"` where an integer is expected': _of("double", number="2"),
    '`"[1, 2]"` where a list is expected': _of("total", of="[1, 2]"),
    "`words: str = None`": _of("optional"),
    "`-> str`": _type("a_text"),
    "`-> int`": _type("double", number=1),
    "`-> list[str]`, two of them": _type("two"),
    "`-> list[str]`, empty": _type("none"),
    "`-> dict`, and a text is returned": _of("wrongly_a_dict"),
    "`-> bool`, and a text is returned": _of("wrongly_a_bool"),
    "`-> str | bytes`, and bytes are returned": _of("some_bytes"),
    "A plain function that returns a coroutine, with `functools.wraps`": _of("returns_a_coroutine"),
    "A second tool of one name; the first returns a text, the second fails": _of("twice"),
    "A resource without a media type": Listed(),
}
"""By what is tried."""
PYTHON_ONLY = {
    *("sold_out", "two", "none", "wrongly_a_dict", "wrongly_a_bool", "some_bytes", "optional"),
    "returns_a_coroutine",
}
"""Tools that the server in TypeScript does not have: its types are not those of Python."""
