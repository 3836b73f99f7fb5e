"""Tools that are found by words and called by way of another tool, as if they had been themselves."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import pytest
import trio

from tests.auth.server.support import ISSUER, Issuer, ec_key, protected
from tests.client.support import served
from tests.compose.support import named, remote_to
from tests.extensions.tasks.jobs import make as make_jobs
from tests.extensions.tasks.support import client_of as client_of_tasks
from tests.extensions.ways import client_of
from tests.support.telemetry import collecting
from tests.support.tools import echo, registry_of, wait
from tests.transports.http.support import ModernClient
from trio_mcp import (
    ArgumentTransform,
    BlobResourceContents,
    Client,
    Context,
    Implementation,
    Limits,
    McpError,
    PromptMessage,
    Registry,
    Remote,
    ResourceNotFound,
    SchemaError,
    TextContent,
    ToolDescription,
    Transform,
    connect,
)
from trio_mcp.compose import Provider, forwarded_entry, searchable
from trio_mcp.errors import InvalidArguments
from trio_mcp.extensions.tasks import TasksClient
from trio_mcp.middleware import McpCall, McpRequest
from trio_mcp.wire.jsonrpc import encode

pytestmark = pytest.mark.requirement("Q1")

OWN = ["search_tools", "call_tool"]
each_way = pytest.mark.parametrize("way", ["in-process", "stream", "http"])
each_era = pytest.mark.parametrize("era", ["modern", "legacy"])


def library(**options: Any) -> Registry:
    """A library with a few tools, resources and a prompt."""
    registry = Registry("library", "1.0", **options)

    @registry.tool
    async def borrow(title: str, weeks: int = 4) -> str:
        """Lend a book to a reader. It has to come back."""
        return f"{title} for {weeks} weeks"

    @registry.tool
    async def paint(thing: str, context: Context) -> str:
        """Paint something in a colour that the caller chooses."""
        await context.progress(1, 2, "mixing")
        await context.log("info", "stirred")
        colour = (await context.elicit("Which colour?", str)).value
        return f"{thing} is {colour}"

    @registry.resource("book://{title}")
    async def book(title: str) -> str:
        """The text of a book."""
        if title == "lost":
            raise ResourceNotFound(title)
        return f"the text of {title}"

    @registry.resource("cover://emma", mime_type="image/png")
    async def cover() -> bytes:
        """The picture on a cover."""
        return b"png"

    @registry.prompt
    async def review(title: str, tone: str = "kind") -> list[PromptMessage]:
        """Ask for a review of a book."""
        said = TextContent(f"Review {title}."), TextContent(f"In a {tone} tone?")
        return [PromptMessage("user", said[0]), PromptMessage("assistant", said[1])]

    return registry


async def find(client: Client, query: str, **arguments: Any) -> list[str]:
    """The names that a search returns."""
    name = next(each for each in client.tools if each.endswith("search_tools"))
    text = (await client.call_tool(name, {"query": query, **arguments})).text
    lines = text.splitlines()
    return [line.partition("(")[0] for line in lines if not line.startswith((" ", "Nothing is"))]


async def call(client: Client, name: str, arguments: Any = None, **options: Any) -> Any:
    """Call a tool by way of the other one."""
    way = next(each for each in client.tools if each.endswith("call_tool"))
    given = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    return await client.call_tool(way, given, **options)


# -- finding ----------------------------------------------------------------------------------


@each_way
@each_era
async def test_tools_are_found_and_called_by_every_way(way: str, era: str) -> None:
    async with client_of(searchable(library()), way, era) as client:
        assert list(client.tools) == OWN
        found = (await client.call_tool("search_tools", {"query": "lending books"})).text
        assert found == "borrow(title: string, weeks?: integer)\n  Lend a book to a reader."
        assert (await call(client, "borrow", {"title": "Emma"})).text == "Emma for 4 weeks"
        said: list[Any] = []
        result = await call(
            client, "paint", {"thing": "door"}, on_progress=lambda *p: said.append(p)
        )
        assert result.text == "door is blue"
        assert said[0][:2] == (1, 2)


async def test_a_thousand_tools_cost_fewer_than_two_thousand_tokens() -> None:
    """The list, with a search and what it found: a token is about four bytes."""
    text = "Look after the thing of this number in the store, and say what has become of it. " * 4
    registry = Registry("large")
    for number in range(1000):
        registry.add_tool(echo, name=f"look_after_thing_{number}", description=text)
    async with connect(searchable(registry)) as client:
        listed = await client.request("tools/list", {})
        found = await client.request(
            "tools/call", {"name": "search_tools", "arguments": {"query": "thing 77"}}
        )
        assert found["content"][0]["text"].startswith("look_after_thing_77(")
        assert len(encode(listed)) / 4 < 500
        assert (len(encode(listed)) + len(encode(found))) / 4 < 2000
    async with connect(registry) as client:
        assert len(encode(await client.request("tools/list", {}))) / 4 > 100_000


async def test_as_many_results_and_details_as_are_asked_for() -> None:
    registry = registry_of(echo)
    for number in range(30):
        registry.add_tool(echo, name=f"book_{number}", description="First. Second.")
    async with connect(searchable(registry, results=3)) as client:
        assert len(await find(client, "book")) == 3
        assert len(await find(client, "book", limit=20)) == 20
        with pytest.raises(InvalidArguments, match="at most 20"):
            await find(client, "book", limit=21)
        told = (await client.call_tool("search_tools", {"query": "book 7", "details": True})).text
        assert told.startswith("book_7(text: string)\n  First. Second.\n  {")
        schema = json.loads(told.splitlines()[2])
        assert (
            schema["properties"] == registry.tools["book_7"].description.input_schema["properties"]
        )


async def test_what_is_not_found_is_said() -> None:
    async with connect(searchable(library())) as client:
        for query in ("submarine", "   ", "?!"):
            text = (await client.call_tool("search_tools", {"query": query})).text
            assert text.startswith(f"Nothing is found by {query!r}. Try other words")


async def test_changes_are_found_and_the_list_stays_as_it_is() -> None:
    registry = library()
    async with connect(searchable(registry, pinned=["borrow"])) as client:
        assert await find(client, "submarine") == []
        registry.add_tool(echo, name="dive", description="Dive in a submarine.")
        assert await find(client, "submarine") == ["dive"]
        assert (await call(client, "dive", {"text": "deep"})).text == "deep"
        registry.remove_tool("dive")
        assert await find(client, "submarine") == []
        assert "There is no tool 'dive'" in (await call(client, "dive", {"text": "x"})).text
        await client.refresh_tools()
        assert list(client.tools) == [*OWN, "borrow"]


async def test_pinned_tools_stay_in_view(caplog: pytest.LogCaptureFixture) -> None:
    async with connect(searchable(library(), pinned=["borrow"], about="Books.")) as client:
        assert list(client.tools) == [*OWN, "borrow"]
        assert (client.tools["search_tools"].description or "").endswith(" Books.")
        assert (await client.call_tool("borrow", {"title": "Emma"})).text == "Emma for 4 weeks"
        assert (await call(client, "borrow", {"title": "Emma"})).text == "Emma for 4 weeks"
        assert await find(client, "lend") == ["borrow"]
    with pytest.raises(SchemaError, match="no tool, resource or prompt 'borow'; did you mean"):
        searchable(library(), pinned=["borow"])
    far = searchable(remote_to(library(), name="far"), pinned=["borow", "borrow"])
    async with connect(far) as client:
        assert await find(client, "lend") == ["borrow"]
        assert list(client.tools) == [*OWN, "borrow"]
    assert "has no tool, resource or prompt 'borow'; did you mean 'borrow'?" in caplog.text


# -- calling ----------------------------------------------------------------------------------


@each_era
async def test_arguments_are_those_of_the_tool_that_is_called(era: Any) -> None:
    async with connect(searchable(library()), era=era) as client:
        wrong = await call(client, "borrow", {"title": 3})
        assert not wrong.success
        assert wrong.text == (
            "Invalid arguments for tool borrow: "
            "Argument 'title' must be a string, but a number came (3)."
        )
        missing = await call(client, "borrow")
        assert "Missing required argument 'title'" in missing.text
        as_text = '{"title": "Emma", "weeks": "2"}'  # as many models write it
        for given in (as_text, {"title": "Emma", "weeks": "2"}):
            assert (await call(client, "borrow", given)).text == "Emma for 2 weeks"
        with pytest.raises(InvalidArguments, match="'arguments' must be an object"):
            await call(client, "borrow", "Emma")
        none = await client.request(
            "tools/call", {"name": "call_tool", "arguments": {"name": "borrow", "arguments": None}}
        )
        assert "Missing required argument 'title'" in none["content"][0]["text"]
        with pytest.raises(McpError, match="The arguments must be an object, not a string"):
            await client.request("tools/call", {"name": "call_tool", "arguments": "borrow"})


async def test_what_cannot_be_called() -> None:
    async with connect(searchable(library())) as client:
        for name, why in {
            "borow": "There is no tool 'borow'. Did you mean 'borrow'?",
            "zzz": "There is no tool 'zzz'. search_tools finds what there is.",
            "call_tool": "'call_tool' is not called by way of call_tool, but by itself.",
            "search_tools": "'search_tools' is not called by way of call_tool, but by itself.",
        }.items():
            refused = await call(client, name)
            assert not refused.success
            assert refused.text == f"Invalid arguments for tool call_tool: {why}"


async def test_other_tools_of_the_same_names_are_called() -> None:
    """What is behind may have such tools itself; so may what is searchable twice."""
    async with connect(searchable(searchable(library()))) as client:
        assert await find(client, "find tools by words") == ["search_tools", "call_tool"]
        found = await call(client, "search_tools", {"query": "lend"})
        assert found.text.startswith("borrow(")
        arguments = {"name": "borrow", "arguments": {"title": "Emma"}}
        assert (await call(client, "call_tool", arguments)).text == "Emma for 4 weeks"
    with pytest.raises(SchemaError, match="'call_tool'"):
        searchable(named("x", named_call_tool), pinned=["call_tool"])


async def named_call_tool() -> None:
    """Take the name of another tool."""


named_call_tool.__name__ = "call_tool"


@each_era
async def test_a_call_ends_with_its_own_limit_and_name(
    era: Any, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trio_mcp.calls")
    registry = Registry("slow")
    registry.add_tool(wait, timeout=2)
    async with connect(searchable(registry), era=era, tool_timeout=100) as client:
        begun = trio.current_time()
        assert (await call(client, "wait", {"seconds": 50})).text == "Tool wait timed out after 2 s"
        assert trio.current_time() - begun == pytest.approx(2)
        with trio.move_on_after(1):
            await call(client, "wait", {"seconds": 50})
        await trio.sleep(1)
    outcomes = [each.message.partition(" in ")[0] for each in caplog.records]
    assert outcomes == ["Tool wait: timeout", "Tool wait: cancelled"]


async def test_clients_wait_as_long_as_the_slowest_tool_may_take() -> None:
    registry = registry_of(echo)
    async with connect(searchable(registry)) as client:
        usual = client.tools["call_tool"].timeout
    registry.add_tool(wait, timeout=usual + 90)
    async with connect(searchable(registry)) as client:
        assert client.tools["call_tool"].timeout > usual + 90


@each_era
async def test_traces_and_logs_name_the_tool_that_is_called(
    era: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry = collecting(monkeypatch)
    registry = registry_of(echo)
    logger = logging.getLogger("tests.search")
    logger.addHandler(registry.log_handler())

    @registry.tool
    async def say(words: str) -> None:
        """Log some words."""
        logger.warning(words)

    @registry.resource("book://{title}")
    async def book(title: str) -> str:
        return title

    said: list[Any] = []
    front = searchable(registry, resources=True)
    options: Any = {"on_log": lambda *each: said.append(each), "log_level": "info"}
    async with connect(front, era=era, **options) as client:
        await call(client, "say", {"words": "hello"})
        await call(client, "unknown")
        await client.call_tool("read_resource", {"uri": "book://emma"})
    logger.handlers.clear()
    assert [each[1] for each in said] == ["hello"]
    served = [span for span in telemetry.spans if span.kind.name == "SERVER"]
    called = [span.name for span in served if span.name.startswith("tools/call")]
    assert called == ["tools/call say", "tools/call call_tool", "tools/call read_resource"]


async def test_middleware_and_state_are_those_of_the_tools_owner() -> None:
    seen: list[str] = []

    async def note(call: McpCall, call_next: Any) -> Any:
        seen.append(f"{call.kind} {call.name}")
        return await call_next(call)

    inner = library(middleware=[note])
    async with connect(searchable(inner, resources=True, prompts=True)) as client:
        await call(client, "borrow", {"title": "Emma"})
        await client.call_tool("read_resource", {"uri": "book://emma"})
        await client.call_tool("get_prompt", {"name": "review", "arguments": {"title": "Emma"}})
    assert seen == ["tool borrow", "resource book://{title}", "prompt review"]
    front = Registry("front", middleware=[note])
    front.mount(searchable(library()), "far")
    seen.clear()
    async with connect(front) as client:
        await call(client, "far_borrow", {"title": "Emma"})
    assert seen == ["tool far_borrow"]

    async def around(request: McpRequest, call_next: Any) -> Any:
        return await call_next(request)

    with pytest.raises(SchemaError, match="middleware around requests, which would be lost"):
        searchable(library(middleware=[around]))


@pytest.mark.parametrize("up", ["modern", "legacy"])
@each_era
async def test_servers_elsewhere_are_found_and_ask(up: Any, era: Any) -> None:
    gateway = Registry("gateway")
    gateway.mount(remote_to(library(), name="library", era=up), "library")
    async with client_of(searchable(gateway), "in-process", era) as client:
        assert await find(client, "lend") == ["library_borrow"]
        assert (await call(client, "library_borrow", {"title": "Emma"})).text == "Emma for 4 weeks"
        assert (await call(client, "library_paint", {"thing": "door"})).text == "door is blue"


async def test_a_call_may_be_a_task() -> None:
    created: list[Any] = []
    ours = TasksClient(on_created=lambda id, name: created.append(name))
    async with client_of_tasks(searchable(make_jobs()), ours) as client:
        assert (await call(client, "plain")).text == "plain"
        assert created == []
        assert (await call(client, "add", {"a": 1, "b": 2})).text == "3"
        assert (await call(client, "paint", {"thing": "door"})).text == "door is blue"
        assert created == ["call_tool", "call_tool"]


async def test_it_is_called_without_a_client() -> None:
    registry = searchable(library(), resources=True)
    assert (await registry.call("search_tools", {"query": "lend"})).startswith("borrow(")
    arguments = {"name": "borrow", "arguments": {"title": "Emma"}}
    assert await registry.call("call_tool", arguments) == "Emma for 4 weeks"
    read = await registry.call("read_resource", {"uri": "book://emma"})
    assert read.content == [TextContent("the text of emma")]
    with pytest.raises(McpError, match="There is no tool 'x'"):
        await registry.call("call_tool", {"name": "x"})
    with pytest.raises(McpError, match="Argument 'title' must be a string"):
        await registry.call("call_tool", {**arguments, "arguments": {"title": 1}})


# -- who sees what ------------------------------------------------------------------------------


def for_friends(shown: Any, caller: Context) -> bool:
    """Whether it is not a secret, or the caller a friend."""
    return "secret" not in shown.name or (
        caller.client is not None and caller.client.name == "friend"
    )


def secrets(**options: Any) -> Registry:
    """Many secrets, and something else."""
    registry = registry_of(echo, **options)
    for number in range(120):
        registry.add_tool(echo, name=f"secret_{number}", description="A text.")
    return registry


@pytest.mark.parametrize("where", ["inside", "in front", "mounted"])
@each_era
async def test_nothing_hidden_is_found_or_called(where: str, era: Any) -> None:
    if where == "inside":
        registry = searchable(secrets(visible=for_friends))
    else:
        registry = Registry("front", visible=for_friends)
        registry.mount(searchable(secrets()), "far" if where == "mounted" else None)
    prefix = "far_" if where == "mounted" else ""
    async with connect(registry, era=era, client_info=Implementation("stranger", "1")) as client:
        assert await find(client, "text secret", limit=20) == [f"{prefix}echo"]
        refused = await call(client, "secret_7", {"text": "x"})
        unknown = await call(client, "secret_x", {"text": "x"})
        assert refused.text == unknown.text.replace("secret_x", "secret_7")
        assert "Did you mean" not in refused.text
    async with connect(registry, era=era, client_info=Implementation("friend", "1")) as client:
        assert len(await find(client, "text secret", limit=20)) == 20
        assert (await call(client, "secret_7", {"text": "x"})).text == "x"


@pytest.mark.parametrize("filtered", [True, False])
async def test_scopes_are_those_of_the_tool_that_is_called(filtered: bool) -> None:
    registry = registry_of(echo, filter_lists=filtered)
    registry.add_tool(echo, name="write", description="Echo in writing.", scopes=["files:write"])
    issuer = Issuer(ISSUER, ec_key())
    asked = {"name": "call_tool", "arguments": {"name": "write", "arguments": {"text": "x"}}}
    search = {"name": "search_tools", "arguments": {"query": "echo"}}
    async with protected(issuer, registry=searchable(registry)) as host:

        def client_with(scope: str) -> ModernClient:
            return ModernClient(host, {"authorization": f"Bearer {issuer.token(scope=scope)}"})

        refused = await client_with("mcp").begin("tools/call", asked).end()
        assert refused.status == 403
        assert 'scope="files:write mcp"' in refused.headers["www-authenticate"]
        for scope, sees in (("mcp", not filtered), ("mcp files:write", True)):
            found = await client_with(scope).request("tools/call", search)
            assert ("write(" in found["result"]["content"][0]["text"]) is sees
        allowed = await client_with("mcp files:write").request("tools/call", asked)
        assert allowed["result"]["content"][0]["text"] == "x"


async def test_a_hidden_tool_of_a_similar_name_spares_nobody_the_scopes_of_another() -> None:
    registry = registry_of(visible=lambda shown, caller: shown.name != "write")
    registry.add_tool(echo, name="write")
    registry.add_tool(echo, name="far_write", scopes=["files:write"])
    front, issuer = Registry("front"), Issuer(ISSUER, ec_key())
    front.mount(searchable(registry), "far")
    asked = {"name": "far_write", "arguments": {"text": "x"}}
    async with protected(issuer, registry=front) as host:
        for scope, status in (("mcp", 403), ("mcp files:write", 200)):
            client = ModernClient(host, {"authorization": f"Bearer {issuer.token(scope=scope)}"})
            call = {"name": "far_call_tool", "arguments": asked}
            assert (await client.begin("tools/call", call).end()).status == status


async def test_what_a_mount_hides_is_not_found_and_what_it_renames_is() -> None:
    front = Registry("front")
    far = remote_to(searchable(registry_of(echo)), name="far")
    front.mount(far, tools={"call_tool": Transform(name="run")})
    async with connect(front) as client:
        assert list(client.tools) == ["search_tools", "run"]
    inner = Registry("inner")
    inner.mount(library(), tools={"borrow": Transform(name="lend"), "paint": None})
    async with connect(searchable(inner)) as client:
        assert await find(client, "book") == ["lend"]
        assert (await call(client, "lend", {"title": "Emma"})).text == "Emma for 4 weeks"
        assert "There is no tool 'paint'" in (await call(client, "paint")).text
    with pytest.raises(SchemaError, match="its arguments cannot be others"):
        changed = Transform(arguments={"name": ArgumentTransform(name="tool")})
        front.mount(searchable(library()), "x", tools={"call_tool": changed})


async def test_what_a_mount_hides_of_a_server_elsewhere_is_neither_found_nor_called() -> None:
    """Its names are not known when it is mounted, so none of them is a mistake then."""
    secret = registry_of(echo)
    secret.add_tool(echo, name="secret", tags={"staff"})
    for hidden in ("secret", "tag:staff"):
        front = Registry("front")
        front.mount(searchable(remote_to(secret, name="far")), tools={hidden: None})
        async with connect(front) as client:
            assert await find(client, "echo secret text") == ["echo"]
            refused = await call(client, "secret", {"text": "x"})
            assert "There is no tool 'secret'" in refused.text


async def test_names_that_are_too_long_with_a_prefix_stay_short() -> None:
    registry = Registry("long")
    registry.add_tool(echo, name="x" * 128)
    front = Registry("front")
    front.mount(searchable(registry), "far")
    async with connect(front) as client:
        assert await find(client, "x" * 128) == ["x" * 128]
        assert (await call(client, "x" * 128, {"text": "a"})).text == "a"


# -- resources and prompts ------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [None, "far"])
@each_era
async def test_resources_and_prompts_are_tools_for_hosts_that_know_no_others(
    prefix: str | None, era: Any
) -> None:
    registry = Registry("front")
    registry.mount(searchable(library(), resources=True, prompts=True), prefix)
    uri, start = ("book://", "") if prefix is None else ("book://far/", "far_")
    async with connect(registry, era=era) as client:
        names = [*OWN, "read_resource", "get_prompt"]
        assert list(client.tools) == [f"{start}{name}" for name in names]
        read, get = f"{start}read_resource", f"{start}get_prompt"
        text = (await client.call_tool(f"{start}search_tools", {"query": "text of a book"})).text
        assert f"{uri}{{title}} (resources: read_resource)\n  The text of a book." in text
        assert f"{start}review(title, tone?) (a prompt: get_prompt)" in text
        assert (await client.call_tool(read, {"uri": f"{uri}emma"})).text == "the text of emma"
        cover = await client.call_tool(read, {"uri": f"{uri}emma".replace("book", "cover")})
        assert cover.content[0].mime_type == "image/png"  # type: ignore[union-attr]
        arguments = {"name": f"{start}review", "arguments": {"title": "Emma"}}
        written = await client.call_tool(get, arguments)
        assert [each.text for each in written.content] == [  # type: ignore[union-attr]
            "Review Emma.",
            "assistant: In a kind tone?",
        ]
        for tool, given, why in (
            (read, {"uri": f"{uri}lost"}, f"There is no resource {uri}lost"),
            (read, {"uri": "other://a"}, "There is no resource 'other://a'"),
            (get, {"name": "revue"}, f"Did you mean '{start}review'?"),
            (get, {**arguments, "arguments": {"title": 3}}, "Argument 'title' must be a string"),
        ):
            refused = await client.call_tool(tool, given)
            assert not refused.success
            assert why in refused.text
        assert client.server_info is not None
        assert (await client.read_resource(f"{uri}emma")).contents[0].text == "the text of emma"  # type: ignore[union-attr]


@pytest.mark.parametrize("way", ["stream", "http"])
@each_era
async def test_a_resource_says_things_and_has_its_own_limit(way: str, era: str) -> None:
    registry = Registry("slow")

    @registry.resource("slow://one")
    async def one(context: Context) -> str:
        await context.progress(1, 2)
        return f"one, {(await context.elicit('Which colour?', str)).value}"

    @registry.resource("slow://two", timeout=0.01)
    async def two() -> str:
        await trio.sleep_forever()

    said: list[Any] = []
    async with client_of(searchable(registry, resources=True), way, era) as client:
        read = await client.call_tool(
            "read_resource", {"uri": "slow://one"}, on_progress=lambda *each: said.append(each)
        )
        assert read.text == "one, blue"
        assert said[0][:2] == (1, 2)
        read = await client.call_tool("read_resource", {"uri": "slow://two"})
        assert read.text == "Tool read_resource timed out after 0.01 s"


@each_era
async def test_a_resource_of_a_server_elsewhere_is_read_by_a_tool(era: Any) -> None:
    inner = library()

    @inner.resource("blob://one", mime_type="application/zip")
    async def blob() -> BlobResourceContents:
        return BlobResourceContents("blob://one", b"zip", mime_type="application/zip")

    front = searchable(remote_to(inner, name="library", era=era), resources=True, prompts=True)
    async with connect(front, era=era) as client:
        read = await client.call_tool("read_resource", {"uri": "book://emma"})
        assert read.text == "the text of emma"
        (zipped,) = (await client.call_tool("read_resource", {"uri": "blob://one"})).content
        assert zipped.resource.uri == "blob://one"  # type: ignore[union-attr]
        prompt = {"name": "review", "arguments": {"title": "Emma"}}
        assert (await client.call_tool("get_prompt", prompt)).text.startswith("Review Emma.")


# -- the author's own ranking -------------------------------------------------------------------------


async def test_a_function_ranks_in_place_of_words() -> None:
    offered: list[Mapping[str, Any]] = []
    threads: set[int] = set()

    async def by_length(query: str, offers: Mapping[str, Any]) -> list[str]:
        offered.append(offers)
        return sorted(offers, key=len)

    def in_thread(query: str, offers: Mapping[str, Any]) -> Iterator[str]:
        threads.add(threading.get_ident())
        yield from sorted(offers, key=len)

    registry = library()
    async with connect(searchable(registry, rank=by_length, prompts=True)) as client:
        assert await find(client, "x") == ["paint", "borrow", "review"]
        assert await find(client, "y") == ["paint", "borrow", "review"]
        assert offered[0] is offered[1]
        assert list(offered[0]) == ["borrow", "paint", "prompt:review"]
        assert isinstance(offered[0]["paint"], ToolDescription)
        registry.add_tool(echo)
        assert await find(client, "x", limit=1) == ["echo"]
        assert offered[2] is not offered[0]
    async with connect(searchable(registry, rank=in_thread)) as client:
        assert await find(client, "x", limit=1) == ["echo"]
        assert threads.isdisjoint({threading.get_ident()})


async def test_a_function_sees_everything_and_a_caller_only_what_it_may() -> None:
    def all_of_them(query: str, offers: Mapping[str, Any]) -> list[str]:
        return [*list(offers)[::-1], "unknown", *offers]

    front = searchable(secrets(visible=for_friends), rank=all_of_them)
    async with connect(front, client_info=Implementation("stranger", "1")) as client:
        assert await find(client, "x") == ["echo"]


@pytest.mark.parametrize("returned", [RuntimeError("no"), None, "borrow", [1], {"borrow": 1}, 3])
async def test_words_are_compared_if_the_function_fails(
    returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(query: str, offers: Mapping[str, Any]) -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned

    async with connect(searchable(library(), rank=fails)) as client:
        assert await find(client, "lend") == ["borrow"]
    assert "The function that ranks has failed; words are compared instead" in caplog.text


async def test_names_that_are_not_there_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    def names(query: str, offers: Mapping[str, Any]) -> Iterator[str]:
        yield "nowhere"
        yield from offers
        yield from (f"more_{number}" for number in count())  # without end

    async with connect(searchable(library(), rank=names)) as client:
        assert await find(client, "x") == ["borrow", "paint"]
    assert "The function that ranks named 'nowhere', which is not there" in caplog.text


async def test_a_function_that_hangs_ends_with_the_call(autojump_clock: object) -> None:
    async def hangs(query: str, offers: Mapping[str, Any]) -> list[str]:
        await trio.sleep_forever()

    registry = library(tool_timeout=3)
    async with connect(searchable(registry, rank=hangs), tool_timeout=100) as client:
        result = await client.call_tool("search_tools", {"query": "x"})
        assert result.text == "Tool search_tools timed out after 3 s"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"rank": "words"}, "rank must be a function"),
        ({"rank": lambda query: []}, "rank must be a function"),
        ({"results": 0}, "results must be a number from 1 to 20"),
        ({"results": 21}, "results must be a number from 1 to 20"),
        ({"pinned": "borrow"}, "put it in brackets"),
    ],
)
def test_wrong_options_are_refused(options: Any, why: str) -> None:
    with pytest.raises((TypeError, ValueError, SchemaError), match=why):
        searchable(library(), **options)
    with pytest.raises(TypeError, match="searchable takes a Registry"):
        searchable("library")  # type: ignore[arg-type]


# -- quantities ---------------------------------------------------------------------------------------


class Many(Provider):
    """Very many tools."""

    is_loaded = True

    async def fill(self, count: int) -> None:
        text = "Look after a thing of the store, and tell what has become of it."
        schema = {"type": "object", "properties": {"path": {"type": "string"}}}
        names = [f"look_after_{number}" for number in range(count)]
        described = [ToolDescription(name, schema, description=text) for name in names]
        await self.replace("tools", [forwarded_entry(each, self.answer) for each in described])

    async def answer(self, params: Any, context: Context) -> Any:
        return {"content": [{"type": "text", "text": params["name"]}]}


async def test_a_search_that_is_given_up_leaves_its_work_to_the_next_one() -> None:
    many = Many("many")
    await many.fill(3000)
    async with connect(searchable(many), tool_timeout=100) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(find, client, "look after 77")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(find, client, "look after 78")
        assert (await find(client, "look after 79"))[0] == "look_after_79"
        assert (await call(client, "look_after_2999")).text == "look_after_2999"


async def test_others_are_served_while_a_large_catalogue_is_searched() -> None:
    """The loop goes round while a thread builds the index, and while it looks through it."""
    many = Many("many")
    await many.fill(15_000)  # so that it takes long enough to be seen beside others
    rounds = 0

    async def go_round() -> None:
        nonlocal rounds
        while True:
            await trio.sleep(0)
            rounds += 1

    async with (
        trio.open_nursery() as nursery,
        connect(searchable(many), tool_timeout=100) as client,
    ):
        nursery.start_soon(go_round)
        for query in ("look after 4999", "the path of a thing " * 50):
            rounds = 0
            assert await find(client, query)
            assert rounds > 10
        nursery.cancel_scope.cancel()


@each_era
async def test_a_query_and_a_name_of_a_megabyte_are_refused(era: Any) -> None:
    async with served(searchable(library()), era=era) as client:
        for length in (1001, 1_000_000, 2_000_000):
            long = "a " * (length // 2) + "b"
            for arguments in ({"query": long}, {"name": long}):
                name = OWN["name" in arguments]
                try:
                    result = await client.request(
                        "tools/call", {"name": name, "arguments": arguments}
                    )
                except McpError as error:
                    text = error.message
                else:
                    assert result["isError"]
                    text = result["content"][0]["text"]
                assert len(text) < 1000
                assert "1000 characters" in text or "length" in text


async def test_large_arguments_are_passed_on() -> None:
    async def count_of(numbers: list[int]) -> int:
        """Count numbers."""
        return len(numbers)

    front = searchable(registry_of(count_of))
    async with connect(front, limits=Limits(), tool_timeout=60) as client:
        numbers = list(range(100_000))
        assert (await call(client, "count_of", {"numbers": numbers})).text == "100000"
        refused = await call(client, "count_of", {"numbers": [*numbers, "x"]})
        assert refused.text.startswith("Invalid arguments for tool count_of: ")


async def test_a_remote_that_is_away_is_found_once_it_is_there(autojump_clock: object) -> None:
    front = searchable(Remote(library(), name="library", wait=0))
    async with connect(front) as client:
        assert list(client.tools) == OWN
        with trio.fail_after(20):
            while not await find(client, "lend"):
                await trio.sleep(0.01)
