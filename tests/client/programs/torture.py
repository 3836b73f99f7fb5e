"""A server that misbehaves on demand: `torture.py SWITCH`, with nothing but the standard library.

`Torture` is what it says, without any I/O, so that tests can have it in their own process. `main`
is what only a process can do: die, close its pipes, flood them, or leave children behind.

A switch chooses what happens from the start. What happens during a call is chosen by the tool.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

Message = dict[str, Any]

LAST_WORDS = "these are my last words"
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
ENDLESS = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"


def result(id: Any, **value: Any) -> Message:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(id: Any, code: int, message: str, data: Any = None) -> Message:
    body = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": id, "error": body if data is None else {**body, "data": data}}


def text(id: Any, words: str, **more: Any) -> Message:
    return result(id, content=[{"type": "text", "text": words}], **more)


def structured(id: Any, value: Any) -> Message:
    return text(id, json.dumps(value), structuredContent=value)


class Torture:
    """A server without I/O: messages in, messages out."""

    def __init__(self, switch: str = "dual") -> None:
        self.switch, _, self.option = switch.partition(":")
        self.heard: list[Message] = []
        self.pages = 0
        self.rounds = 0
        self.asking: Any = None  # the id of the call during which the client is asked
        self.answers: dict[str, Any] = {}
        self.forgotten: list[Any] = []  # ids of calls that get no answer

    def receive(self, message: Message) -> list[Message]:
        """Take a message and return what to send."""
        self.heard.append(message)
        method, id = message.get("method"), message.get("id")
        if method is None:
            return self.answered(message)
        if method == "notifications/cancelled":
            return self.cancelled(message["params"]["requestId"])
        if id is None:
            return []
        answer = self.REQUESTS.get(method)
        if answer is None:
            return [error(id, -32601, "no such method")]
        return answer(self, id, message.get("params", {}))

    # -- meeting --------------------------------------------------------------------------

    def discover(self, id: Any, params: Message) -> list[Message]:
        match self.switch:
            case "legacy":
                return [error(id, int(self.option or -32601), "what is that?")]
            case "legacy-silent" | "mute":
                return []
            case "other-versions":
                return [error(id, -32022, "not that", {"supported": self.option.split(",")})]
            case "odd-versions":
                odd = [7, ["x"], "v", *[None] * 100, MODERN]
                return [error(id, -32022, "not that", {"supported": odd})]
            case "refuses-once":
                self.switch = "dual"
                return [error(id, -32022, "not yet", {"supported": [MODERN]})]
            case "offers":
                return [result(id, supportedVersions=self.option.split(","), capabilities={})]
            case "late-to-meet":
                self.forgotten.append(id)
                return []
            case "nonsense":
                return [result(id, nonsense=True)]
        capabilities = {} if self.switch == "no-tools" else {"tools": {}}
        about = {"io.modelcontextprotocol/serverInfo": {"name": "torture", "version": "1"}}
        return [
            result(id, supportedVersions=[MODERN], capabilities=capabilities, _meta=about),
        ]

    def initialize(self, id: Any, params: Message) -> list[Message]:
        if self.switch in ("modern", "mute", "nonsense"):
            return [] if self.switch == "mute" else [error(id, -32601, "too old")]
        version = self.option if self.switch == "chooses" else LEGACY
        met = result(
            id,
            protocolVersion=version,
            capabilities={"tools": {}},
            serverInfo={"name": "torture", "version": "1"},
            instructions="be gentle",
        )
        if self.switch == "late-to-meet":  # both answers at once
            return [*self.discover_late(), met][:: int(self.option)]
        return [met]

    def discover_late(self) -> list[Message]:
        self.switch, switch = "dual", self.switch
        answers = self.discover(self.forgotten.pop(), {})
        self.switch = switch
        return answers

    def ping(self, id: Any, params: Message) -> list[Message]:
        return [result(id)]

    # -- tools ----------------------------------------------------------------------------

    def list_tools(self, id: Any, params: Message) -> list[Message]:
        def page(*names: str, **more: Any) -> list[Message]:
            schema = {"type": "object"}
            tools = [{"name": each, "inputSchema": schema} for each in names]
            return [result(id, tools=tools, **more)]

        self.pages += 1
        match self.switch:
            case "endless-pages":
                return page(f"tool-{self.pages}", nextCursor=f"page-{self.pages}")
            case "nested-page":
                return page("tool", nextCursor=[self.pages])
            case "same-page":
                return page("tool", nextCursor="again")
            case "pages" if self.pages < 3:
                return page(f"tool-{self.pages}", nextCursor=f"page-{self.pages}")
            case "no-list":
                return [result(id, nothing=[])]
            case "no-names":
                return [result(id, tools=[{"description": "who am I?"}])]
            case "refuses-list":
                return [error(id, -32603, "not today")]
        [whole] = page(*self.TOOLS)
        whole["result"]["tools"][0]["inputSchema"] = {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        }
        if self.switch == "output-schema":
            whole["result"]["tools"][1]["outputSchema"] = json.loads(self.option)
        return [whole]

    def call_tool(self, id: Any, params: Message) -> list[Message]:
        return self.TOOLS[params["name"]](self, id, params.get("arguments") or {}, params)

    def echo(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        return [text(id, arguments["text"])]

    def give(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        return [result(id, **arguments)]

    def give_back(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        """Answer with anything at all."""
        return [{"jsonrpc": "2.0", "id": id, **arguments}]

    def refuse(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        return [error(id, -32000, "I will not")]

    def fail(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        return [text(id, "it went wrong", isError=True)]

    def forget(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        """Answer only when it is too late."""
        self.forgotten.append(id)
        return []

    def cancelled(self, id: Any) -> list[Message]:
        return [text(id, "late")] * 2 if id in self.forgotten else []

    def progress(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        token = params.get("_meta", {}).get("progressToken")
        steps = [{"progress": 1}, {"progress": 2, "total": 2, "message": "done"}, {"progress": "x"}]
        steps += [{"progress": 3, "total": "many"}, {"progress": 3, "message": 5}, {}]
        others = [{"progressToken": "unknown", "progress": 1}, {"progressToken": [], "progress": 1}]
        notes = [{"progressToken": token, **step} for step in steps] + others
        return [
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": each} for each in notes
        ] + [text(id, str(token))]

    # -- asking the client ----------------------------------------------------------------

    QUESTIONS = (
        "ping",
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
        "no/such/thing",
    )

    def ask(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        """Ask with requests, as legacy servers do, and answer with the answers."""
        self.asking = id
        return [
            {"jsonrpc": "2.0", "id": each, "method": each, "params": {"what": each}}
            for each in self.QUESTIONS
        ]

    def answered(self, message: Message) -> list[Message]:
        self.answers[message["id"]] = message.get("result", message.get("error"))
        if len(self.answers) < len(self.QUESTIONS):
            return []
        return [structured(self.asking, self.answers)]

    def inquire(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        """Ask with results, as modern servers do, for so many rounds."""
        if self.rounds == arguments["rounds"]:
            seen = {"answers": params.get("inputResponses"), "state": params.get("requestState")}
            return [structured(id, seen)]
        self.rounds += 1
        asked = {
            each: {"method": each, "params": {"what": each}} for each in arguments.get("ask", [])
        }
        more = arguments.get("raw", {"inputRequests": asked} if asked else {})
        state = f"round-{self.rounds}"
        return [result(id, resultType="input_required", requestState=state, **more)]

    # -- what only a process can do ---------------------------------------------------------

    def exit(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        say(LAST_WORDS)
        os._exit(arguments["status"])

    def die(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        os.kill(os.getpid(), arguments["signal"])
        return []

    def close_stdout(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        say(LAST_WORDS)
        os.close(1)
        return []

    def close_stdin(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        say(LAST_WORDS)
        os.close(0)
        write(text(id, "closed"))
        signal.pause()
        return []

    def stop_reading(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        say(LAST_WORDS)
        write(text(id, "stopped"))
        signal.pause()
        return []

    def flood_stderr(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        flood(2, arguments["bytes"])
        return [text(id, "flooded")]

    def flood_stdout(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        flood(1, arguments["bytes"])
        return [text(id, "flooded")]

    def surroundings(self, id: Any, arguments: Message, params: Message) -> list[Message]:
        """Tell what the process was given."""
        pid = os.getpid()
        return [
            structured(
                id,
                {
                    "arguments": sys.argv[1:],
                    "environment": dict(os.environ),
                    "directory": os.getcwd(),
                    "descriptors": sorted(
                        int(each)
                        for each in os.listdir("/proc/self/fd")
                        if os.path.exists(f"/proc/self/fd/{each}")
                    ),
                    "leads": [os.getpgid(0) == pid, os.getsid(0) == pid],
                },
            )
        ]

    REQUESTS: ClassVar = {
        "server/discover": discover,
        "initialize": initialize,
        "ping": ping,
        "tools/list": list_tools,
        "tools/call": call_tool,
    }
    TOOLS: ClassVar = {
        each.__name__: each
        for each in (
            echo,
            give,
            give_back,
            refuse,
            fail,
            forget,
            progress,
            ask,
            inquire,
            exit,
            die,
            close_stdout,
            close_stdin,
            stop_reading,
            flood_stderr,
            flood_stdout,
            surroundings,
        )
    }


# -- the process --------------------------------------------------------------------------------


def say(words: str) -> None:
    os.write(2, f"{words}\n".encode())


def write(message: Message) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def flood(fd: int, size: int) -> None:
    lines = b"water, water everywhere\n" * 1000
    while size > 0:
        size -= os.write(fd, lines)


def start_child() -> None:
    """Leave a child that holds our pipes and does not mind SIGTERM."""
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", ENDLESS])
    say(f"child {child.pid}")


def read_to_the_end() -> None:
    while os.read(0, 65536):
        pass


def at_once(option: str) -> None:
    say(LAST_WORDS)
    os._exit(int(option))


def killed(option: str) -> None:
    say(LAST_WORDS)
    os.kill(os.getpid(), int(option))


def banner(option: str) -> None:
    os.write(1, b"Welcome to torture 1.0!\n\n{not json}\n\xff\xfe\n42\n")


def closes_stdout(option: str) -> None:
    say(LAST_WORDS)
    os.close(1)
    read_to_the_end()
    os._exit(0)


def closes_stdin(option: str) -> None:
    say(LAST_WORDS)
    os.close(0)
    signal.pause()


def deaf(option: str) -> None:
    say(LAST_WORDS)
    signal.pause()


def floods_stderr(option: str) -> None:
    flood(2, 4 << 20)
    say(LAST_WORDS)


def floods_stdout(option: str) -> None:
    os.write(1, b"first of all\n")  # who has read the last words finds it
    say(LAST_WORDS)
    flood(1, 1 << 40)


def floods_line(option: str) -> None:
    say(LAST_WORDS)
    while True:
        os.write(1, b"x" * 65536)


def garbage(option: str) -> None:
    lines = b'{"jsonrpc": "1.0", "id": 1, "result": {}}\n\x00\x01\x02\n[]\n'
    os.write(1, lines)  # who has read the last words finds it
    say(LAST_WORDS)
    while os.read(0, 65536):
        os.write(1, lines)
    os._exit(0)


def mute(option: str) -> None:
    say(LAST_WORDS)


def slow(option: str) -> None:
    time.sleep(float(option))


def stubborn(option: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def family(option: str) -> None:
    start_child()


def orphan(option: str) -> None:
    start_child()
    say(LAST_WORDS)
    os._exit(3)


START: dict[str, Callable[[str], None]] = {
    "at-once": at_once,
    "killed": killed,
    "banner": banner,
    "closes-stdout": closes_stdout,
    "closes-stdin": closes_stdin,
    "deaf": deaf,
    "floods-stderr": floods_stderr,
    "floods-stdout": floods_stdout,
    "floods-line": floods_line,
    "garbage": garbage,
    "mute": mute,
    "slow": slow,
    "stubborn": stubborn,
    "family": family,
    "orphan": orphan,
}
STAYS = ("stays", "stubborn")
"""Switches with which the end of the input is not the end."""


def main() -> None:
    torture = Torture(sys.argv[1] if len(sys.argv) > 1 else "dual")
    START.get(torture.switch, lambda option: None)(torture.option)
    for line in sys.stdin.buffer:
        for message in torture.receive(json.loads(line)):
            write(message)
    while torture.switch in STAYS:
        signal.pause()
    os._exit(0)


if __name__ == "__main__":
    main()
