"""The official Python client, on Trio's loop, meets our server over HTTP: both eras, all ways."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import mcp_types as types
import pytest
import trio
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import FileUrl

from tests.interop.programs.http_shop import TOOLS, Shop
from trio_mcp import HttpPolicy, SessionOptions, serve_http

TIME_LIMIT = 120  # seconds
REVISIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
WAYS = [("legacy", False), ("legacy", True), ("auto", False), ("auto", True)]
"""How the client negotiates, and whether the server keeps no sessions."""

pytestmark = [
    pytest.mark.requirement("F1"),
    # This client leaves the generators that read its streams to the garbage collector.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]
every_way = pytest.mark.parametrize(("mode", "stateless"), WAYS)
every_mode = pytest.mark.parametrize("mode", list(REVISIONS))


@asynccontextmanager
async def open_shop(stateless: bool = False, **policy: Any) -> AsyncIterator[str]:
    """Serve a shop; yields its URL."""
    failure: BaseException | None = None
    with trio.fail_after(TIME_LIMIT):
        async with trio.open_nursery() as nursery:
            sessions = SessionOptions(retry=0.01, stateless=stateless)
            serve = partial(serve_http, policy=HttpPolicy(**policy), sessions=sessions)
            start = partial(serve, Shop().registry, "127.0.0.1", 0)
            handle: Any = await nursery.start(start)
            try:
                yield handle.url
            except BaseException as error:  # raised again below, outside of any exception group
                failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@asynccontextmanager
async def connected(
    mode: str, stateless: bool = False, *, token: str | None = None, **options: Any
) -> AsyncIterator[Client]:
    """A client of a shop of its own."""
    policy: dict[str, Any] = {"tokens": {"secret": "alice"}} if token else {}
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with (
        open_shop(stateless=stateless, **policy) as url,
        httpx2.AsyncClient(headers=headers, timeout=TIME_LIMIT, verify=False) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, **options) as client,
    ):
        yield client


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """Have what the clients leave behind collected while that is expected."""
    yield
    gc.collect()


def text_of(result: types.CallToolResult) -> str:
    assert result.is_error is False, result
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


class Told:
    """Keeps what a client is told."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[Any](100)

    async def __call__(self, message: Any) -> None:
        await self._send.send(message)

    async def next(self, count: int) -> list[Any]:
        return [await self._receive.receive() for _ in range(count)]


@every_way
async def test_what_there_is(mode: str, stateless: bool) -> None:
    async with connected(mode, stateless) as client:
        assert client.protocol_version == REVISIONS[mode]
        assert client.server_info is not None
        assert client.server_info.name == "shop"
        assert client.instructions == "Ask for anything."
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        (prompt,) = (await client.get_prompt("greet", {"name": "Bob"})).messages
        assert prompt.content == types.TextContent(text="Greet Bob.")
        (contents,) = (await client.read_resource("stock://tëa")).contents
        assert isinstance(contents, types.TextResourceContents)
        assert contents.text == "some tëa"


async def check_calls(client: Any) -> None:
    """One with much to say, and many side by side."""
    words = "grüß dich\r\n\u2028😀 " * 10_000
    assert text_of(await client.call_tool("text", {"words": words})) == words
    told: set[str] = set()

    async def call(number: int) -> None:
        told.add(text_of(await client.call_tool("text", {"words": f"{number}"})))

    async with trio.open_nursery() as nursery:
        for number in range(30):
            nursery.start_soon(call, number)
    assert told == {f"{number}" for number in range(30)}


@every_way
async def test_calls_one_by_one_and_side_by_side(mode: str, stateless: bool) -> None:
    async with connected(mode, stateless) as client:
        await check_calls(client)


@every_way
async def test_failures(mode: str, stateless: bool) -> None:
    async with connected(mode, stateless) as client:
        result = await client.call_tool("fail", {"kind": "tool"})
        assert result.is_error is True
        assert result.content == [types.TextContent(text="Error: not today")]
        result = await client.call_tool("fail", {"kind": "any"})
        assert result.is_error is True
        assert "secret" not in result.model_dump_json()
        with pytest.raises(MCPError, match="The shop is closed") as raised:
            await client.call_tool("fail", {"kind": "protocol"})
        assert raised.value.code == -32050
        assert raised.value.error.data == {"opens": "tomorrow"}
        with pytest.raises(MCPError, match="Unknown tool: nothing") as raised:
            await client.call_tool("nothing")
        assert raised.value.code == types.INVALID_PARAMS
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource("nowhere://at/all")
        assert text_of(await client.call_tool("text", {"words": "still here"})) == "still here"


@every_way
async def test_progress_and_log_messages(mode: str, stateless: bool) -> None:
    heard = Told()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        await heard((progress, total, message))

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        await heard((params.level, params.data, params.logger))

    async with connected(mode, stateless, logging_callback=log, log_level="info") as client:
        result = await client.call_tool("steps", {"count": 3}, progress_callback=hear)
        assert text_of(result) == "done"
        steps = sorted(await heard.next(3))  # in any order: each has a task of its own there
        assert steps == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
        assert text_of(await client.call_tool("chat")) == "said"
        assert await heard.next(1) == [("warning", {"said": "aloud"}, "shop")]


class Person:
    """Answers all questions."""

    async def elicit(self, _: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert params.message == "Your name?"
        return types.ElicitResult(action="accept", content={"value": "Bob"})

    async def sample(self, _: Any, params: types.CreateMessageRequestParams) -> Any:
        words = types.TextContent(text="Hello.")
        return types.CreateMessageResult(role="assistant", content=words, model="tiny")

    async def roots(self, _: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///srv"))])

    @property
    def callbacks(self) -> dict[str, Any]:
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
        }


@pytest.mark.parametrize(
    ("mode", "stateless"), [("legacy", False), ("auto", False), ("auto", True)]
)
async def test_questions(mode: str, stateless: bool) -> None:
    async with connected(mode, stateless, **Person().callbacks) as client:
        assert text_of(await client.call_tool("ask")) == "Hello Bob"
        assert text_of(await client.call_tool("ask_model")) == "tiny"
        assert text_of(await client.call_tool("list_roots")) == '["file:///srv"]'
        answers: list[str] = []

        async def ask() -> None:
            answers.append(text_of(await client.call_tool("ask")))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
        assert answers == ["Hello Bob"] * 5


async def test_legacy_clients_without_a_session_cannot_be_asked() -> None:
    async with connected("legacy", True, **Person().callbacks) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("ask")
        assert refused.value.code == types.INVALID_REQUEST


@pytest.mark.requirement("B7", "F3")
@pytest.mark.parametrize(
    ("mode", "stateless"), [("legacy", False), ("auto", False), ("auto", True)]
)
async def test_a_cancelled_call_ends_on_the_server(mode: str, stateless: bool) -> None:
    """By a notification, or by leaving."""
    async with connected(mode, stateless) as client:
        with pytest.raises(MCPError, match=r"(?i)timed out"):
            await client.call_tool("wait", read_timeout_seconds=0.05)
        await client.call_tool("until_waiting", {"calls": 0})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait")
            await client.call_tool("until_waiting", {"calls": 1})
            nursery.cancel_scope.cancel()
        await client.call_tool("until_waiting", {"calls": 0})


@every_mode
async def test_arguments_in_headers(mode: str) -> None:
    async with connected(mode) as client:
        await client.list_tools()  # which tells what belongs into headers
        for arguments in (
            {"region": "us-west1", "count": 42, "sure": True, "where": {"tenant": "a b"}},
            {"region": "größe", "count": -7, "sure": False, "where": {"tenant": " =?base64?x?="}},
            {"region": "line1\r\nline2: x", "count": 2**53 - 1},
            {"region": "", "where": {}},
            {},
        ):
            result = await client.call_tool("mirror", arguments)
            assert result.structured_content == arguments


async def test_changes_are_told_to_a_legacy_client() -> None:
    told = Told()
    async with connected("legacy", message_handler=told) as client:
        with pytest.warns(MCPDeprecationWarning, match="resources/subscribe"):
            await client.subscribe_resource("stock://tea")
        await client.call_tool("touch", {"uris": ["stock://coffee", "stock://tea"]})
        [update] = await told.next(1)
        assert isinstance(update, types.ResourceUpdatedNotification)
        assert update.params.uri == "stock://tea"
        await client.call_tool("add", {"name": "more"})
        [changed] = await told.next(1)
        assert isinstance(changed, types.ToolListChangedNotification)


@pytest.mark.parametrize("stateless", [False, True])
async def test_changes_are_told_to_a_modern_client(stateless: bool) -> None:
    async with connected("auto", stateless) as client:
        async with client.listen(
            resource_subscriptions=["stock://tea"], tools_list_changed=True
        ) as changes:
            await client.call_tool("touch", {"uris": ["stock://coffee", "stock://tea"]})
            assert await anext(changes) == ResourceUpdated("stock://tea")
            await client.call_tool("add", {"name": "more"})
            assert await anext(changes) == ToolsListChanged()


@pytest.mark.requirement("F3")
async def test_a_client_that_is_sent_away_comes_back() -> None:
    async with connected("legacy") as client:
        assert text_of(await client.call_tool("pause")) == "resumed"


@every_mode
@pytest.mark.requirement("F4")
async def test_clients_with_a_token(mode: str) -> None:
    async with connected(mode, token="secret") as client:
        assert text_of(await client.call_tool("text", {"words": "x"})) == "x"
    async with open_shop(tokens={"secret": "alice"}) as url:
        with pytest.raises(BaseException) as refused:  # noqa: PT011  # whatever this client makes of it
            async with Client(url, mode=mode):
                raise AssertionError
        assert not isinstance(refused.value, AssertionError)


@every_way
async def test_many_clients_of_one_server(mode: str, stateless: bool) -> None:
    async with open_shop(stateless=stateless) as url:

        async def visit(number: int) -> None:
            async with (
                httpx2.AsyncClient(timeout=TIME_LIMIT, verify=False) as http,
                Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            ):
                for _ in range(3):
                    words = f"{number}"
                    assert text_of(await client.call_tool("text", {"words": words})) == words

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(visit, number)
