"""Our client meets every feature of servers made by others, in every era that they speak."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import field, frozen

from tests.support.processes import ROOT, TIME_LIMIT, python
from trio_mcp import (
    Annotations,
    BlobResourceContents,
    Client,
    Completion,
    Handlers,
    ListChanged,
    McpError,
    PromptMessage,
    ResourceNotFound,
    ResourceUpdated,
    TextContent,
    TextResourceContents,
    connect,
)
from trio_mcp.client.negotiation import Era
from trio_mcp.transports.process import ProcessOptions

PROGRAMS = ROOT / "tests" / "interop" / "programs"
EVERYTHING = Path("node_modules/@modelcontextprotocol/server-everything/dist/index.js")
OPTIONS = ProcessOptions(env={"PYTHONPATH": str(ROOT)})
PIXEL = b"\x89not really a picture"

pytestmark = [pytest.mark.needs("sdk-server"), pytest.mark.requirement("H10")]


@frozen(kw_only=True)
class Peer:
    """A server made with the official Python SDK, and what it does not do as the other one."""

    program: str
    tells_all: bool
    """Whether it pages its lists, has caching hints, and describes all there is to describe."""
    legacy: bool
    """Whether it has subscriptions and log levels in legacy revisions."""
    not_found: dict[Era, int]
    """Its code for a resource that does not exist. The specification has -32002 in legacy."""


HIGH = Peer(
    program="official_features_high.py",
    tells_all=False,
    legacy=False,
    not_found={"legacy": -32602, "modern": -32602},
)
LOW = Peer(
    program="official_features_low.py",
    tells_all=True,
    legacy=True,
    not_found={"legacy": -32002, "modern": -32602},
)

every_peer_and_era = pytest.mark.parametrize(
    ("peer", "era"),
    [
        pytest.param(peer, era, id=f"{peer.program.rpartition('_')[2]}-{era}")
        for peer in (HIGH, LOW)
        for era in ("legacy", "modern")
    ],
)


@asynccontextmanager
async def connected(peer: Peer, era: Era, **options: Any) -> AsyncIterator[Client]:
    """A client of such a server, within a time limit."""
    command = python(PROGRAMS / peer.program)
    with trio.fail_after(TIME_LIMIT):
        async with connect(command, era=era, process_options=OPTIONS, **options) as client:
            yield client
            assert client.stray_output == []


# -- resources, prompts, completion ---------------------------------------------------------------


@every_peer_and_era
async def test_what_there_is_is_found_read_and_completed(peer: Peer, era: Era) -> None:
    async with connected(peer, era, handlers=Handlers(elicitation=answer)) as client:
        await check_lists(client, peer)
        await check_reading(client, peer)
        await check_prompts(client, peer)
        await check_completion(client)


async def check_lists(client: Client, peer: Peer) -> None:
    """Every list is complete, on however many pages it comes."""
    resources = await client.list_resources()
    assert [each.uri for each in resources[:2]] == ["config://app", "data://pixel"]
    config = resources[0]
    assert (config.name, config.title) == ("config", "Settings")
    assert config.description == "How the library is run."
    assert config.mime_type == "application/json"
    templates = [each.uri_template for each in await client.list_resource_templates()]
    assert templates[:2] == ["books://{id}/title", "notes://{user}/{note}"]
    if peer.tells_all:
        assert (config.size, config.meta) == (13, {"example.com/owner": "librarian"})
        assert config.annotations == Annotations(audience=["assistant"], priority=0.5)
        assert (len(resources), len(templates), len(client.tools)) == (3, 3, 6)
        assert len((await client.request("resources/list"))["resources"]) == 2


async def check_reading(client: Client, peer: Peer) -> None:
    """Text and bytes are read, and what is not there is not."""
    config = await client.read_resource("config://app")
    (contents,) = config.contents
    assert isinstance(contents, TextResourceContents)
    assert (contents.uri, contents.mime_type) == ("config://app", "application/json")
    assert "".join(config.text.split()) == '{"open":true}'
    pixel = await client.read_resource("data://pixel")
    assert isinstance(pixel.contents[0], BlobResourceContents)
    assert (pixel.data, pixel.contents[0].mime_type) == (PIXEL, "image/png")
    assert (await client.read_resource("books://2/title")).text == "Middlemarch"
    if peer.tells_all and client.era == "modern":
        assert (config.ttl, config.cache_scope) == (90.0, "public")
        assert (pixel.ttl, pixel.cache_scope) == (1.0, "private")
    for uri in ("nowhere://at/all", "books://3/title"):
        with pytest.raises(ResourceNotFound, match=uri) as refused:
            await client.read_resource(uri)
        assert isinstance(refused.value.__cause__, McpError)
        assert refused.value.__cause__.code == peer.not_found[client.era]
    note = await client.read_resource("notes://ada/first")  # which asks first
    assert note.text == "first: True"


async def check_prompts(client: Client, peer: Peer) -> None:
    """Prompts are described and written."""
    review, introduce, *_ = await client.list_prompts()
    assert (review.name, review.title) == ("review", "Review a text")
    assert review.description == "Have a text reviewed."
    arguments = {each.name: each.required for each in review.arguments or []}
    assert arguments == {"text": True, "language": False}
    assert not introduce.arguments
    written = await client.get_prompt("review", {"text": "grüß dich", "language": "german"})
    assert written.messages == [
        PromptMessage("user", "Review this german text: grüß dich"),
        PromptMessage("assistant", "I will."),
    ]
    for name in ("nonesuch", "review"):
        with pytest.raises(McpError):
            await client.get_prompt(name)
    (message,) = (await client.get_prompt("introduce")).messages  # which asks first
    assert message.content == TextContent("I am Ada.")


async def check_completion(client: Client) -> None:
    """Arguments are completed, with those that were chosen already."""
    found = await client.complete("language", "", prompt="review")
    assert found == Completion(["english", "german"], total=2, has_more=False)
    found = await client.complete(
        "note", "x", resource="notes://{user}/{note}", chosen={"user": "ada"}
    )
    assert found == Completion(["ada-x"], total=7, has_more=True)


# -- what is said and asked during a call ---------------------------------------------------------

ANSWERS: dict[str, Any] = {
    "Who are you?": {"name": "Ada", "age": 36},
    "Show ada's note first?": {"value": True},
}


async def answer(params: dict[str, Any]) -> dict[str, Any]:
    """Answer every question."""
    content = ANSWERS[params["message"]]
    assert params["requestedSchema"]["properties"].keys() == content.keys()
    return {"action": "accept", "content": content}


async def parrot(params: dict[str, Any]) -> dict[str, Any]:
    """Answer in place of a model."""
    (message,) = params["messages"]
    words = message["content"]["text"].removeprefix("Greet ")
    content = {"type": "text", "text": f"Hello {words}"}
    return {"role": "assistant", "model": "parrot", "content": content}


@every_peer_and_era
async def test_what_is_said_and_asked(peer: Peer, era: Era) -> None:
    action = "accept"
    log: list[Any] = []

    async def person(params: dict[str, Any]) -> dict[str, Any]:
        return await answer(params) if action == "accept" else {"action": action}

    handlers = Handlers(elicitation=person, sampling=parrot, roots=["file:///srv/books"])
    hear = {"handlers": handlers, "on_log": lambda *message: log.append(message)}
    async with connected(peer, era, **hear) as client:
        steps: list[Any] = []
        await client.call_tool("steps", {"count": 3}, on_progress=lambda *step: steps.append(step))
        assert steps == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
        await client.call_tool("steps", {"count": 3})
        assert len(steps) == 3

        said = [("info", {"said": "aloud"}, "library"), ("warning", "loudly", None)]
        await client.call_tool("speak")
        assert log == ([] if era == "modern" else [("debug", "quietly", None), *said])
        if era == "modern" or peer.legacy:
            log.clear()
            await client.set_log_level("info")
            await client.call_tool("speak")
            assert log == said

        result = await client.call_tool("register")
        assert (result.success, result.text) == (True, "Ada 36; Hello Ada.; file:///srv/books")
        for action in ("accept", "decline", "cancel"):
            assert (await client.call_tool("enquire")).text == action


# -- what changes ---------------------------------------------------------------------------------


@every_peer_and_era
async def test_changes_are_heard_of(peer: Peer, era: Era) -> None:
    uris = ["config://app", "books://1/title"]
    async with connected(peer, era) as client:
        if era == "legacy" and not peer.legacy:
            await check_that_nothing_is_offered(client, uris)
            return
        async with client.subscribe(lists=["tools", "prompts"]) as lists:
            assert set(lists.kinds) == {"tools", "prompts"}
            for kind in ("resources", "prompts", "tools"):
                await client.call_tool("add", {"kind": kind})
            assert await anext(lists) == ListChanged("prompts")
            assert await anext(lists) == ListChanged("tools")

        touched = {"uris": ["data://pixel", *uris]}
        async with client.subscribe(resources=uris) as both:
            assert set(both.uris) == set(uris)
            async with client.subscribe(resources=uris[:1]) as one:
                await client.call_tool("touch", touched)
                assert await anext(one) == ResourceUpdated("config://app")
            await client.call_tool("touch", touched)
            assert {await anext(both), await anext(both)} == set(map(ResourceUpdated, uris))
        async with client.subscribe(resources=["data://pixel"]) as pixel:
            await client.call_tool("touch", touched)
            assert await anext(pixel) == ResourceUpdated("data://pixel")


async def check_that_nothing_is_offered(client: Client, uris: list[str]) -> None:
    """A server that declares no `listChanged` and no `subscribe` is taken at its word."""
    async with client.subscribe(lists=["tools", "prompts"], resources=uris) as changes:
        assert (set(changes.kinds), set(changes.uris)) == (set(), set())


# -- the TypeScript server ------------------------------------------------------------------------


@frozen
class Heard:
    """The log messages of a server, to be waited for."""

    said: list[str] = field(factory=list)

    def __call__(self, level: str, data: Any, logger: str | None) -> None:
        self.said.append(data)


@pytest.mark.needs("node")
async def test_the_typescript_server(npm: Path) -> None:
    text = "demo://resource/dynamic/text/{resourceId}"
    heard = Heard()
    command: list[str | Path] = ["node", npm / EVERYTHING, "stdio"]
    with trio.fail_after(TIME_LIMIT):
        async with connect(command, era="legacy", on_log=heard, log_level="info") as client:
            documents = [each.uri for each in await client.list_resources()]
            features = "demo://resource/static/document/features.md"
            assert features in documents
            assert (await client.read_resource(features)).text.startswith("# ")
            templates = await client.list_resource_templates()
            assert text in [each.uri_template for each in templates]
            uri = text.format(resourceId=7)
            assert (await client.read_resource(uri)).text.startswith("Resource 7: ")
            blob = await client.read_resource(uri.replace("text", "blob"))
            assert isinstance(blob.contents[0], BlobResourceContents)
            assert blob.data.startswith(b"Resource 7: ")

            prompts = {each.name: each for each in await client.list_prompts()}
            arguments = prompts["args-prompt"].arguments or []
            assert [(each.name, each.required) for each in arguments] == [
                ("city", True),
                ("state", False),
            ]
            (message,) = (await client.get_prompt("args-prompt", {"city": "Graz"})).messages
            assert message == PromptMessage("user", "What's weather in Graz?")
            with pytest.raises(McpError) as refused:
                await client.get_prompt("args-prompt")
            assert refused.value.code == -32602

            assert (await client.complete("resourceId", "7", resource=text)).values == ["7"]
            chosen = {"department": "Sales"}
            found = await client.complete("name", "", prompt="completable-prompt", chosen=chosen)
            assert found.values == ["David", "Eve", "Frank"]

            async with client.subscribe(resources=[uri]) as changes:
                await client.call_tool("toggle-subscriber-updates")  # and tells at once
                assert await anext(changes) == ResourceUpdated(uri)
            assert [line.partition(" Resource ")[0] for line in heard.said] == [
                "Received Subscribe",
                "Received Unsubscribe",
            ]
