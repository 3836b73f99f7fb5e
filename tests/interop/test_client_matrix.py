"""Our client meets the servers of others, and our own, in every era that each of them speaks.

A peer is a row of a table: how it is reached, which eras it speaks, and what its tools are called
and answer. The tests are written once and run for each peer and era; what a peer cannot do is
not in its row, and the tests that need it are not made for it.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import field, frozen

from tests.interop.programs import gallery
from tests.interop.test_python_client import GALLERY
from tests.support.processes import ROOT, TIME_LIMIT, python
from trio_mcp import Client, Handlers, McpError, connect
from trio_mcp.client.connect import Target
from trio_mcp.client.negotiation import Era
from trio_mcp.errors import CallTimeout, InvalidArguments, ProtocolError, ToolFailed, UnknownTool
from trio_mcp.transports.process import ProcessOptions

PROGRAMS = ROOT / "tests" / "interop" / "programs"
EVERYTHING = Path("node_modules/@modelcontextprotocol/server-everything/dist/index.js")
OPTIONS = ProcessOptions(env={"PYTHONPATH": str(ROOT)})

Eras = Mapping[Era | None, tuple[Era, str]]
LEGACY: tuple[Era, str] = ("legacy", "2025-11-25")
MODERN: tuple[Era, str] = ("modern", "2026-07-28")
BOTH: Eras = {None: MODERN, "modern": MODERN, "legacy": LEGACY}


@frozen
class Point:
    """What a tool of most peers returns."""

    x: float
    y: float
    labels: list[str]


@frozen
class Weather:
    """What a tool of the TypeScript server returns."""

    temperature: float
    conditions: str
    humidity: float


@frozen
class Use:
    """A call, and what is found in its answer."""

    tool: str
    arguments: dict[str, Any] = field(factory=dict)
    answer: Any = None


@frozen(kw_only=True)
class Peer:
    """A server, and what it answers."""

    name: str
    target: Callable[[pytest.FixtureRequest], Target]
    server: str
    """The name that it gives."""
    text: Use
    structured: Use
    refused: Use
    """A call that fails, with a part of what the tool says."""
    misused: Use
    """A call with arguments that do not fit, with a part of what the server says."""
    unknown: Use
    """A call of a tool that it does not have, with a part of what it says."""
    errors: Sequence[Use] = ()
    """Which of those two it answers with a JSON-RPC error, not with a result."""
    eras: Eras = BOTH
    page: int | None = None
    """How many tools it lists at a time."""
    progress: Use | None = None
    """A call that takes three steps, with the message at the first of them."""
    questions: Sequence[Use] = ()
    """Calls that ask for a name, for a message of a model, and for roots."""
    waits: bool = True
    """Whether it has a tool that waits, and one that tells how many calls wait."""
    marks: Any = ()

    def __str__(self) -> str:
        return self.name


POINT = {"x": 1.5, "y": 0.0, "labels": ["here", "ünïcode"]}
WEATHER = {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
WORDS = "grüß dich\n\u2028😀"
TEXT = Use("text", {"words": WORDS}, WORDS)
STRUCTURED = Use("structured", {"x": 1.5}, Point(**POINT))
MISUSED = Use("text", {"words": 1}, "words must be a string")
UNKNOWN = Use("nonesuch", {}, "Unknown tool: nonesuch")
REFUSED = Use("refuse", {}, "not today")
PROGRESS = Use("steps", {"count": 3}, "step 1")
QUESTIONS = [
    Use("greet", {}, "Hello, Ada"),
    Use("forecast", {}, "parrot says rain"),
    Use("places", {}, "file:///srv/data"),
]
LONG = "trigger-long-running-operation"

PEERS = [
    Peer(
        name="Python, high level",
        target=lambda _: python(PROGRAMS / "official_high_level.py"),
        marks=pytest.mark.needs("sdk-server"),
        server="official",
        text=TEXT,
        structured=STRUCTURED,
        refused=REFUSED,
        misused=Use("text", {"words": 1}, "Input should be a valid string"),
        unknown=UNKNOWN,
        progress=PROGRESS,
        questions=QUESTIONS,
    ),
    Peer(
        name="Python, low level",
        target=lambda _: python(PROGRAMS / "official_low_level.py"),
        marks=pytest.mark.needs("sdk-server"),
        server="official",
        text=TEXT,
        structured=STRUCTURED,
        refused=REFUSED,
        misused=MISUSED,
        unknown=UNKNOWN,
        errors=[MISUSED, UNKNOWN],
        page=3,
        progress=PROGRESS,
        questions=QUESTIONS,
    ),
    Peer(
        name="TypeScript, everything",
        target=lambda request: ["node", request.getfixturevalue("npm") / EVERYTHING, "stdio"],
        server="mcp-servers/everything",
        eras={None: LEGACY, "legacy": LEGACY},
        text=Use("echo", {"message": WORDS}, f"Echo: {WORDS}"),
        structured=Use("get-structured-content", {"location": "Chicago"}, Weather(**WEATHER)),
        refused=Use("gzip-file-as-resource", {"data": "ftp://a/b"}, "Unsupported URL protocol"),
        misused=Use("echo", {"message": 1}, "expected string, received number"),
        unknown=Use("nonesuch", {}, "Tool nonesuch not found"),
        progress=Use(LONG, {"duration": 0.03, "steps": 3}),
        questions=[
            Use("trigger-elicitation-request", {}, "Name: Ada"),
            Use("trigger-sampling-request", {"prompt": "What weather?"}, '"text": "rain"'),
            Use("get-roots-list", {}, "URI: file:///srv/data"),
        ],
        waits=False,
        marks=pytest.mark.needs("node"),
    ),
    Peer(
        name="ours",
        target=lambda _: python(GALLERY),
        server="gallery",
        text=TEXT,
        structured=STRUCTURED,
        refused=REFUSED,
        misused=Use("text", {"words": 1}, "Invalid arguments for tool text: "),
        unknown=UNKNOWN,
        errors=[UNKNOWN],
        page=4,
    ),
    Peer(
        name="ours, in process",
        target=lambda _: gallery.registry,
        server="gallery",
        text=TEXT,
        structured=STRUCTURED,
        refused=REFUSED,
        misused=Use("text", {"words": 1}, "Invalid arguments for tool text: "),
        unknown=UNKNOWN,
        errors=[UNKNOWN],
        page=4,
    ),
]


def matrix(
    able: Callable[[Peer], Any] = lambda _: True, *, detected: bool = False
) -> pytest.MarkDecorator:
    """Each peer that is able, in each era that it speaks, also in the one that is detected."""

    def cells() -> Iterator[Any]:
        for peer in filter(able, PEERS):
            for era in peer.eras:
                if era is not None or detected:
                    yield pytest.param(peer, era, id=f"{peer}-{era or 'auto'}", marks=peer.marks)

    return pytest.mark.parametrize(("peer", "era"), list(cells()))


Connect = Callable[..., Any]


@pytest.fixture
def connected(request: pytest.FixtureRequest) -> Connect:
    """Connects to a peer, within a time limit."""

    @asynccontextmanager
    async def connect_to(peer: Peer, era: Era | None, **options: Any) -> AsyncIterator[Client]:
        target = peer.target(request)
        with trio.fail_after(TIME_LIMIT):
            async with connect(target, era=era, process_options=OPTIONS, **options) as client:
                yield client
            assert client.stray_output == []

    return connect_to


@pytest.mark.requirement("E1", "E2", "E3", "E4")
@matrix(detected=True)
async def test_meeting_and_calling(peer: Peer, era: Era | None, connected: Connect) -> None:
    async with connected(peer, era) as client:
        assert (client.era, client.revision) == peer.eras[era]
        assert client.server_info is not None
        assert client.server_info.name == peer.server
        await client.ping()

        uses = (peer.text, peer.structured, peer.refused)
        assert {use.tool for use in uses} <= client.tools.keys()
        known = client.tools[peer.text.tool].input_schema["properties"]
        assert peer.text.arguments.keys() == known.keys()
        await check_pages(client, peer)

        result = await client.call_tool(peer.text.tool, peer.text.arguments)
        assert (result.success, result.text) == (True, peer.text.answer)
        text = await client.call_tool(peer.text.tool, peer.text.arguments, returns=str)
        assert text == peer.text.answer

        use, kind = peer.structured, type(peer.structured.answer)
        result = await client.call_tool(use.tool, use.arguments)
        assert isinstance(result.structured_content, dict)
        assert kind(**result.structured_content) == use.answer
        assert await client.call_tool(use.tool, use.arguments, returns=kind) == use.answer
        with pytest.raises(ProtocolError, match="the result is not"):
            await client.call_tool(use.tool, use.arguments, returns=list[int])


async def check_pages(client: Client, peer: Peer) -> None:
    """All tools are known, on however many pages the server lists them."""
    names = list(client.tools)
    page = await client.request("tools/list")
    if peer.page is None:
        assert "nextCursor" not in page
        assert len(page["tools"]) == len(names)
        return
    assert len(names) > 2 * peer.page
    assert [tool["name"] for tool in page["tools"]] == names[: peer.page]
    page = await client.request("tools/list", {"cursor": page["nextCursor"]})
    assert [tool["name"] for tool in page["tools"]] == names[peer.page : 2 * peer.page]


@pytest.mark.requirement("E4", "E5")
@matrix()
async def test_failures(peer: Peer, era: Era, connected: Connect) -> None:
    async with connected(peer, era) as client:
        use = peer.refused
        result = await client.call_tool(use.tool, use.arguments)
        assert not result.success
        assert use.answer in (result.error or "")
        with pytest.raises(ToolFailed, match=use.answer):
            await client.call_tool(use.tool, use.arguments, returns=str)

        with pytest.raises(UnknownTool, match=f"nonesuch.*{peer.text.tool}"):
            await client.call_tool("nonesuch")
        with pytest.raises(InvalidArguments, match=next(iter(peer.misused.arguments))):
            await client.call_tool(peer.misused.tool, peer.misused.arguments)
        for use in (peer.unknown, peer.misused):  # the server would have refused them as well
            is_error, said = await refusal(client, use)
            assert is_error is (use in peer.errors)
            assert use.answer in said

        with pytest.raises(McpError) as refused:
            await client.request("nonesuch/method")
        assert refused.value.code == -32601
        await check_cancellation(client, peer)
        result = await client.call_tool(peer.text.tool, peer.text.arguments)
        assert result.text == peer.text.answer


async def refusal(client: Client, use: Use) -> tuple[bool, str]:
    """What a server says to a call that fails, and whether it says it with an error."""
    try:
        result = await client.request("tools/call", {"name": use.tool, "arguments": use.arguments})
    except McpError as error:
        return True, str(error)
    assert result["isError"] is True
    return False, str(result["content"][0]["text"])


async def check_cancellation(client: Client, peer: Peer) -> None:
    """A call that nobody waits for any longer ends on the server."""
    if not peer.waits:
        return
    with pytest.raises(CallTimeout, match="wait"):
        await client.call_tool("wait", timeout=0.05)
    await client.call_tool("until_waiting", {"calls": 0})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "wait")
        nursery.start_soon(client.call_tool, "wait")
        await client.call_tool("until_waiting", {"calls": 2})
        nursery.cancel_scope.cancel()
    await client.call_tool("until_waiting", {"calls": 0})


@pytest.mark.needs("node")
@pytest.mark.requirement("E4")
async def test_a_server_that_goes_on_does_not_answer_what_was_cancelled(connected: Connect) -> None:
    (peer,) = (peer for peer in PEERS if not peer.waits)
    async with connected(peer, "legacy") as client:
        lines = client.messages()
        with pytest.raises(CallTimeout, match=LONG):
            await client.call_tool(LONG, {"duration": 1, "steps": 1}, timeout=0.02)
        await client.call_tool(LONG, {"duration": 1, "steps": 1})  # it ends after the other one
    messages = [json.loads(line) async for line in lines]
    answered = [message["id"] for message in messages if "id" in message]
    assert len(answered) == 1


@frozen
class Person:
    """Somebody who answers elicitations, as long as they are at home."""

    leaving: trio.Event = field(factory=trio.Event)

    async def answer(self, params: dict[str, Any]) -> dict[str, Any]:
        """Give a name."""
        assert "name" in params["requestedSchema"]["properties"]
        if self.leaving.is_set():
            raise McpError(-32050, "nobody is at home")
        return {"action": "accept", "content": {"name": "Ada"}}


async def parrot(params: dict[str, Any]) -> dict[str, Any]:
    """Answer in place of a model."""
    assert "weather" in params["messages"][0]["content"]["text"]
    return {"role": "assistant", "model": "parrot", "content": {"type": "text", "text": "rain"}}


@pytest.mark.requirement("E4")
@matrix(lambda peer: peer.questions)
async def test_what_a_server_says_during_a_call(peer: Peer, era: Era, connected: Connect) -> None:
    person = Person()
    told: dict[str, str] = {}
    progress: list[tuple[float, float | None, str | None]] = []
    handlers = Handlers(elicitation=person.answer, sampling=parrot, roots=["file:///srv/data"])
    async with connected(peer, era, handlers=handlers) as client:

        async def call(use: Use, **options: Any) -> None:
            told[use.tool] = (await client.call_tool(use.tool, use.arguments, **options)).text

        async with trio.open_nursery() as nursery:
            for use in peer.questions:
                nursery.start_soon(call, use)
            assert peer.progress is not None
            await call(peer.progress, on_progress=lambda *step: progress.append(step))
        for use in peer.questions:
            assert use.answer in told[use.tool]
        assert [(done, total) for done, total, _ in progress] == [(1, 3), (2, 3), (3, 3)]
        assert progress[0][2] == peer.progress.answer

        person.leaving.set()
        _, said = await refusal(client, peer.questions[0])
        assert "nobody is at home" in said
        result = await client.call_tool(peer.text.tool, peer.text.arguments)
        assert result.text == peer.text.answer
