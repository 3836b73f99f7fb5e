"""Two servers answer a scripted session: what is sent (→) and what comes back (←).

Each server is a process of its own, and this program is its client: it writes one JSON message a
line and reads one a line, so everything that is shown has travelled through pipes. Every answer
is compared with what it should be; where one differs, that is shown and the exit status is 1.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

import trio
from attrs import frozen

HERE: Final = Path(__file__).parent
TIME_LIMIT: Final = 20  # seconds for one server's session
NO_ANSWER: Final = object()
ANYTHING: Final = ...

PREFIX: Final = "io.modelcontextprotocol/"
CLIENT: Final = {"name": "demo", "version": "1.0"}
META: Final = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientInfo": CLIENT,
    f"{PREFIX}clientCapabilities": {},
}


@frozen
class Step:
    """One line that is sent, and the answer that should come."""

    title: str
    sent: dict[str, Any] | str
    """A message, or text that is sent as it is."""
    expected: Any
    """What the answer must contain; `ANYTHING` stands for any value."""


def request(id: int, method: str, **params: Any) -> dict[str, Any]:
    """Make a request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(id: int, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Make a request that calls a tool."""
    return request(id, "tools/call", name=tool, arguments=arguments)


def modern(message: dict[str, Any]) -> dict[str, Any]:
    """Let a request say in itself which revision it speaks."""
    return {**message, "params": {**message["params"], "_meta": META}}


def text(id: int, words: Any, **more: Any) -> dict[str, Any]:
    """Describe the result of a tool that says something."""
    return {"id": id, "result": {"content": [{"type": "text", "text": words}], **more}}


def error(id: int | str, code: int, message: Any = ANYTHING) -> dict[str, Any]:
    """Describe an error."""
    return {"id": id, "error": {"code": code, "message": message}}


def tools(id: int, *names: str) -> dict[str, Any]:
    """Describe a list of tools."""
    return {"id": id, "result": {"tools": [{"name": name} for name in names]}}


HELLO: Final = request(
    1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=CLIENT
)
WELCOME: Final = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "calculator"}}

CALCULATOR: Final = [
    Step("A handshake comes first", HELLO, {"id": 1, "result": WELCOME}),
    Step(
        "A notification is not answered",
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        NO_ANSWER,
    ),
    Step(
        "The tools",
        request(2, "tools/list"),
        tools(2, "add", "subtract", "multiply", "divide"),
    ),
    Step(
        "A call; floats are floats",
        call(3, "add", a=0.1, b=0.2),
        text(3, "0.30000000000000004"),
    ),
    Step(
        "An error that the tool raises for its caller",
        call(4, "divide", a=1, b=0),
        text(4, "Error: Division by zero", isError=True),
    ),
    Step(
        "An argument that does not fit never reaches the tool",
        call(5, "add", a=1, b="two"),
        text(
            5,
            "Invalid arguments for tool add: "
            "Argument 'b' must be a number, but a string came ('two').",
            isError=True,
        ),
    ),
    Step(
        "A tool that does not exist",
        call(6, "devide", a=1, b=2),
        error(6, -32602, "Unknown tool: devide"),
    ),
    Step(
        "A line that is not JSON: its id cannot be known, and the connection lives on",
        '{"jsonrpc":"2.0","id":7,"method":"tools/ca',
        error("", -32700),
    ),
    Step("All is well", call(8, "multiply", a=6, b=7), text(8, "42.0")),
]

CLOCK: Final = [
    Step(
        "No handshake: every request says for itself which revision it speaks",
        modern(request(1, "server/discover")),
        {
            "id": 1,
            "result": {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "resultType": "complete",
            },
        },
    ),
    Step("The tools", modern(request(2, "tools/list")), tools(2, "now", "days_between")),
    Step(
        "A result with structure, and its text for models",
        modern(call(3, "now", timezone="Europe/Vienna")),
        text(
            3,
            ANYTHING,
            structuredContent={
                "iso": ANYTHING,
                "weekday": ANYTHING,
                "timezone": "Europe/Vienna",
            },
        ),
    ),
    Step(
        "Dates travel as text; the tool gets them as `date`",
        modern(call(4, "days_between", start="2024-02-28", end="2024-03-13", unit="weeks")),
        text(4, "2.0"),
    ),
    Step(
        "A day that does not exist",
        modern(call(5, "days_between", start="2023-02-29", end="2024-03-13")),
        text(5, ANYTHING, isError=True),
    ),
    Step(
        "An unknown revision",
        request(6, "tools/list", _meta={**META, f"{PREFIX}protocolVersion": "2099-01-01"}),
        {"id": 6, "error": {"code": -32022, "data": {"supported": ["2026-07-28"]}}},
    ),
]


# -- playing ----------------------------------------------------------------------------------


async def play(program: str, steps: Sequence[Step], screen: "Screen") -> bool:
    """Play a script with a server and show it. Tells whether all was as expected."""
    process = await trio.lowlevel.open_process(
        [sys.executable, str(HERE / program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines = Lines(process.stdout)
    right = True
    try:
        with trio.fail_after(TIME_LIMIT):
            for step in steps:
                sent = step.sent if isinstance(step.sent, str) else json.dumps(step.sent)
                await process.stdin.send_all(sent.encode() + b"\n")
                screen.sent(step)
                if step.expected is not NO_ANSWER:
                    answer = json.loads(await lines.next())
                    right &= screen.answered(answer, step.expected)
            await process.stdin.aclose()
            right &= screen.ended(await process.wait())
    finally:
        if process.returncode is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        await process.stdout.aclose()
    return right


class Lines:
    """The lines that come from a stream."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._buffer = b""

    async def next(self) -> bytes:
        """Return the next line; what there is of it, if the stream ends."""
        while b"\n" not in self._buffer:
            chunk = await self._stream.receive_some()
            if not chunk:
                raise EOFError("the server closed its output")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


def contains(value: Any, expected: Any) -> bool:
    """Tell whether a JSON value is as expected; objects may hold more than that."""
    if expected is ANYTHING:
        return True
    if isinstance(expected, dict) and isinstance(value, dict):
        return all(key in value and contains(value[key], expected[key]) for key in expected)
    if isinstance(expected, list) and isinstance(value, list):
        return len(value) == len(expected) and all(map(contains, value, expected))
    return bool(value == expected)


# -- showing ----------------------------------------------------------------------------------

BOLD, DIM, GREEN, YELLOW, RED, CYAN = "1", "2", "32", "33", "31", "36"


class Screen:
    """Where the session is shown, one line for each message, cut to the width there is."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # an encoding without arrows
        self._width = shutil.get_terminal_size((100, 24)).columns
        self._colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")

    def headline(self, words: str) -> None:
        """Begin a session."""
        self._line("", words, "", BOLD)

    def sent(self, step: Step) -> None:
        """Show what is sent, under its title."""
        print()
        self._line("  ", step.title, "", DIM)
        if isinstance(step.sent, str):
            self._message("→", "", "", step.sent, CYAN)
        else:
            method = step.sent["method"]
            self._message("→", step.sent.get("id", ""), method, told(step.sent), CYAN)

    def answered(self, answer: Any, expected: Any) -> bool:
        """Show an answer, and what it should have been if it is not."""
        kind, *words = summary(answer)
        colour = GREEN if kind == "result" else YELLOW
        for number, line in enumerate(words):
            id = json.dumps(answer.get("id")) if number == 0 else ""
            self._message(
                "←" if number == 0 else " ", id, kind if number == 0 else "", line, colour
            )
        if contains(answer, expected):
            return True
        self._message("✗", "", "expected", compact(expected), RED)
        self._message("✗", "", "came", compact(answer), RED)
        return False

    def ended(self, status: int) -> bool:
        """Show how the server ended."""
        print()
        self._line("  ", "End of input: the server exits", f" with status {status}", DIM)
        print()
        return status == 0

    def failed(self, program: str, why: BaseException) -> None:
        """Show that a session broke off."""
        self._message("✗", "", program, f"{type(why).__name__}: {why}", RED)

    def _message(self, arrow: str, id: Any, kind: str, words: str, colour: str) -> None:
        self._line(f"  {arrow} {id!s:<2} {kind:<25} ", words, "", colour)

    def _line(self, lead: str, words: str, tail: str, colour: str) -> None:
        line = (lead + words + tail).rstrip()
        if len(line) > self._width:
            line = line[: self._width - 1] + "…"
        print(f"\x1b[{colour}m{line}\x1b[0m" if self._colour else line)


def told(message: dict[str, Any]) -> str:
    """Say what a request asks, without what every request carries."""
    params = {key: value for key, value in message.get("params", {}).items() if key != "_meta"}
    if message["method"] == "tools/call":
        return f"{params['name']} {compact(params['arguments'])}"
    version = message.get("params", {}).get("_meta", {}).get(f"{PREFIX}protocolVersion")
    if version is not None:
        params["_meta"] = {"…/protocolVersion": version}
    return compact(params) if params else ""


def summary(answer: Any) -> Iterator[str]:
    """Say what an answer is, and then its content, line by line."""
    if "error" in answer:
        problem = answer["error"]
        yield "error"
        yield f"{problem['code']}  {problem['message']}"
        if "data" in problem:
            yield compact(problem["data"])
        return
    result = answer["result"]
    yield "result, isError" if result.get("isError") else "result"
    if "tools" in result:
        yield ", ".join(tool["name"] for tool in result["tools"])
    elif "content" in result:
        for block in result["content"]:
            yield block["text"]
        if "structuredContent" in result:
            yield f"structured {compact(result['structuredContent'])}"
    else:
        yield compact({key: value for key, value in result.items() if key != "_meta"})


def compact(value: Any) -> str:
    """Write a value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=lambda _: "…")


async def main() -> int:
    """Play both sessions; return the exit status."""
    screen = Screen()
    right = True
    for program, what, steps in [
        ("calculator.py", "revision 2025-11-25, with a handshake", CALCULATOR),
        ("clock.py", "revision 2026-07-28, without one", CLOCK),
    ]:
        screen.headline(f"{program}: {what}")
        try:
            right &= await play(program, steps, screen)
        except (EOFError, ValueError, trio.TooSlowError, trio.BrokenResourceError) as why:
            screen.failed(program, why)
            right = False
    print("Everything was answered as expected." if right else "Something was not as expected.")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(trio.run(main))
