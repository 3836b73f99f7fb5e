"""A server elsewhere in a registry: nothing that passes through is less than it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from tests.compose.support import Mortal, gateway_of, group_of, remote_to
from trio_mcp import (
    CallToolResult,
    Client,
    Completion,
    Context,
    Handlers,
    Limits,
    ListChanged,
    McpError,
    Registry,
    Remote,
    ResourceNotFound,
    ResourceUpdated,
    TextContent,
    connect,
    serve_http,
    serve_stream,
)
from trio_mcp.client.negotiation import Era
from trio_mcp.compose import Backoff, open_proxy
from trio_mcp.errors import NotConnected
from trio_mcp.extending import ServerExtension
from trio_mcp.extensions.tasks import Tasks, TasksClient
from trio_mcp.middleware import McpCall, McpRequest
from trio_mcp.registry import catalogue_of

pytestmark = pytest.mark.requirement("L4")
LIMIT = 60

both_eras = pytest.mark.parametrize("down", ["modern", "legacy"])
all_eras = pytest.mark.parametrize("up", ["modern", "legacy"])


class Library:
    """A server with some of everything, and what happened in it."""

    def __init__(self) -> None:
        self.registry = Registry("library", "2.1", title="The library", instructions="Be quiet.")
        self.started = trio.Event()
        self.cancelled = trio.Event()
        self.runs: list[str] = []
        for each in (self.talk, self.ask, self.wait, self.refuse, self.exact):
            self.registry.add_tool(each)
        self.registry.add_resource("book://{name}", self.book)
        self.registry.add_resource("shelf://one", self.shelf, mime_type="text/x-shelf")
        self.registry.add_prompt(self.review)
        self.registry.add_completion(self.books, prompt="review", argument="book")

    async def talk(self, context: Context) -> str:
        """Say things on the way."""
        await context.progress(1, 3, "one")
        await context.log("warning", {"deep": [1]}, logger="stacks")
        await context.progress(2, 3, "two")
        return "said"

    async def ask(self, context: Context, times: int = 1) -> list[str]:
        """Ask for names."""
        self.runs.append("ask")
        answers = [await context.elicit(f"Name {each}?", str) for each in range(times)]
        return [each.value for each in answers]

    async def wait(self) -> None:
        """Wait for ever."""
        self.started.set()
        try:
            await trio.sleep_forever()
        finally:
            self.cancelled.set()

    async def refuse(self) -> None:
        """Refuse, with a code and data."""
        raise McpError(-32055, "not today", {"why": ["closed"]})

    async def exact(self, number: int, context: Context) -> CallToolResult:
        """Return all that a result may have."""
        seen = (context.meta or {}).get("com.example/id")
        return CallToolResult(
            [TextContent("text")],
            structured_content={"number": number},
            is_error=True,
            meta={"com.example/seen": seen},
        )

    def book(self, name: str) -> str:
        """A book."""
        if name == "none":
            raise ResourceNotFound(name)
        return f"the text of {name}"

    def shelf(self) -> str:
        """A shelf."""
        return "books"

    def review(self, book: str) -> str:
        """Review a book."""
        return f"Review {book}."

    def books(self, value: str) -> Completion:
        """Complete the name of a book."""
        return Completion([f"{value}une"], total=7, has_more=True)


@asynccontextmanager
async def through(
    library: Library, up: Era, down: Era, *, prefix: str | None = None, **options: Any
) -> AsyncIterator[Client]:
    """A client of a registry in which the library is mounted."""
    registry = Registry("front", "1.0")
    registry.mount(remote_to(library.registry, name="library", era=up), prefix)
    with trio.fail_after(LIMIT):
        async with connect(registry, era=down, **options) as client:
            yield client


@all_eras
@both_eras
async def test_calls_and_all_that_is_said_meanwhile(up: Era, down: Era) -> None:
    logged: list[Any] = []
    told: list[Any] = []
    options = {"on_log": lambda *said: logged.append(said), "log_level": "info"}
    async with through(Library(), up, down, prefix="lib", **options) as client:
        assert list(client.tools)[:2] == ["lib_talk", "lib_ask"]
        result = await client.call_tool("lib_talk", on_progress=lambda *said: told.append(said))
        assert result.text == "said"
        assert told == [(1, 3, "one"), (2, 3, "two")]
        assert logged == [("warning", {"deep": [1]}, "stacks")]
        whole = await client.call_tool("lib_exact", {"number": 2**60}, meta={"com.example/id": 5})
        assert whole.structured_content == {"number": 2**60}
        assert whole.error == "text"
        assert (whole.meta or {})["com.example/seen"] == 5
        with pytest.raises(McpError) as refused:
            await client.call_tool("lib_refuse")
        error = refused.value
        assert (error.code, error.message, error.data) == (-32055, "not today", {"why": ["closed"]})
        bad = await client.request(
            "tools/call", {"name": "lib_exact", "arguments": {"number": "x"}}
        )
        assert "number" in bad["content"][0]["text"]


@all_eras
@both_eras
async def test_progress_alone_reaches_the_caller_and_prolongs_its_call(
    up: Era, down: Era, autojump_clock: object
) -> None:
    library = Library()
    steps: list[float] = []

    @library.registry.tool
    async def climb(context: Context) -> str:
        for step in range(7):
            await trio.sleep(3)
            await context.progress(step)
        return "up"

    async with through(library, up, down) as client:
        assert (await client.call_tool("climb")).text == "up"
        result = await client.call_tool("climb", on_progress=lambda step, *_: steps.append(step))
        assert result.text == "up"
    assert steps == list(range(7))


@all_eras
@both_eras
async def test_questions_reach_the_caller_and_answers_the_server(up: Era, down: Era) -> None:
    library = Library()
    asked: list[str] = []

    async def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["message"])
        return {"action": "accept", "content": {"value": f"answer to {params['message']}"}}

    async with through(library, up, down, handlers=Handlers(elicitation=answer)) as client:
        answers = await client.call_tool("ask", {"times": 2}, returns=list[str], timeout=LIMIT)
    assert asked == ["Name 0?", "Name 1?"]
    assert answers == ["answer to Name 0?", "answer to Name 1?"]
    assert len(library.runs) == (1 if up == "legacy" else 3)


@all_eras
@both_eras
async def test_over_http_on_both_sides_it_is_the_same(up: Era, down: Era) -> None:
    library = Library()
    logged: list[Any] = []
    told: list[Any] = []

    async def answer(params: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"value": "Ada"}}

    options: dict[str, Any] = {"on_log": lambda *said: logged.append(said), "log_level": "info"}
    async with trio.open_nursery() as nursery:
        behind = await nursery.start(serve_http, library.registry, "127.0.0.1", 0)
        registry = Registry("front")
        registry.mount(remote_to(behind.url, era=up))
        front = await nursery.start(serve_http, registry, "127.0.0.1", 0)
        handlers = Handlers(elicitation=answer)
        with trio.fail_after(LIMIT):
            async with connect(front.url, era=down, handlers=handlers, **options) as client:
                asked = await client.call_tool(
                    "ask", {"times": 2}, returns=list[str], timeout=LIMIT
                )
                assert asked == ["Ada", "Ada"]
                said = await client.call_tool("talk", on_progress=lambda *said: told.append(said))
                assert said.text == "said"
                with pytest.raises(McpError, match="not today"):
                    await client.call_tool("refuse")
        nursery.cancel_scope.cancel()
    assert told == [(1, 3, "one"), (2, 3, "two")]
    assert logged == [("warning", {"deep": [1]}, "stacks")]


@all_eras
@both_eras
async def test_who_cannot_be_asked_is_not(up: Era, down: Era) -> None:
    async with through(Library(), up, down) as client:
        with pytest.raises(McpError, match="elicitation"):
            await client.call_tool("ask")


@all_eras
@both_eras
async def test_a_cancelled_call_is_cancelled_over_there(up: Era, down: Era) -> None:
    library = Library()
    async with through(library, up, down) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait")
            await library.started.wait()
            nursery.cancel_scope.cancel()
        await library.cancelled.wait()


@pytest.mark.requirement("A0")
@pytest.mark.parametrize(
    ("up", "down"), [("modern", "legacy"), ("legacy", "modern"), ("legacy", "legacy")]
)
async def test_a_call_that_may_be_asked_something_is_a_task_as_any_other(
    up: Era, down: Era
) -> None:
    library = Library()
    async with through(library, up, down, prefix="lib") as client, trio.open_nursery() as nursery:
        nursery.start_soon(partial(client.call_tool, "lib_wait", timeout=100))
        await library.started.wait()
        assert {"Tool lib_wait", "Tool wait"} <= set(_tasks(trio.lowlevel.current_root_task()))
        nursery.cancel_scope.cancel()


def _tasks(task: trio.lowlevel.Task | None) -> list[str]:
    """The names of all tasks from this one on."""
    if task is None:
        return []
    below = [each for nursery in task.child_nurseries for each in nursery.child_tasks]
    return [task.name, *(name for each in below for name in _tasks(each))]


@all_eras
@both_eras
async def test_resources_prompts_and_completions(up: Era, down: Era) -> None:
    async with through(Library(), up, down, prefix="lib") as client:
        (shelf,) = await client.list_resources()
        assert (shelf.uri, shelf.mime_type) == ("shelf://lib/one", "text/x-shelf")
        read = await client.read_resource("shelf://lib/one")
        assert (read.text, read.contents[0].uri) == ("books", "shelf://lib/one")
        (template,) = await client.list_resource_templates()
        assert template.uri_template == "book://lib/{name}"
        assert (await client.read_resource("book://lib/Emma")).text == "the text of Emma"
        with pytest.raises(ResourceNotFound):
            await client.read_resource("book://lib/none")
        prompt = await client.get_prompt("lib_review", {"book": "Emma"})
        assert prompt.messages[0].content.text == "Review Emma."
        found = await client.complete("book", "D", prompt="lib_review")
        assert (found.values, found.total, found.has_more) == (["Dune"], 7, True)


@all_eras
@both_eras
async def test_changes_are_passed_on(up: Era, down: Era) -> None:
    library = Library()
    async with through(library, up, down) as client:
        wanted = {"resources": ["shelf://one", "book://Emma"], "lists": ["tools"]}
        async with client.subscribe(**wanted) as changes:
            assert set(changes.uris) == {"shelf://one", "book://Emma"}
            watchers = catalogue_of(library.registry).changes.watchers
            while "shelf://one" not in watchers:  # a legacy server is asked for one at a time
                await trio.sleep(0.01)
            library.registry.notify_resource_updated("shelf://one")
            assert await anext(changes) == ResourceUpdated("shelf://one")
            library.registry.remove_tool("talk")
            assert await anext(changes) == ListChanged("tools")
            await client.refresh_tools()
            assert "talk" not in client.tools
        while watchers:
            await trio.sleep(0.01)


@both_eras
async def test_what_may_have_changed_while_the_server_was_gone_is_told(
    down: Era, autojump_clock: object
) -> None:
    library = Library()
    remote = remote_to("http://127.0.0.1:1/mcp", backoff=Backoff(first=0.1))
    registry = Registry("front")
    registry.mount(remote)
    async with trio.open_nursery() as nursery:
        server = Mortal(nursery, library.registry)
        remote.connector = partial(server.open, list_tools=False)
        async with remote.running(), connect(registry, era=down) as client:
            await remote.ready()
            async with client.subscribe(resources=["shelf://one"]) as changes:
                while "shelf://one" not in catalogue_of(library.registry).changes.watchers:
                    await trio.sleep(0.01)
                server.die()
                assert await anext(changes) == ResourceUpdated("shelf://one")
                with trio.move_on_after(60) as quiet:  # and once
                    await anext(changes)
                assert quiet.cancelled_caught
        nursery.cancel_scope.cancel()


@all_eras
async def test_a_proxy_says_who_it_stands_for(up: Era) -> None:
    library = Library()
    async with open_proxy(library.registry, era=up) as registry, connect(registry) as client:
        assert client.server_info == library.registry.info
        assert client.instructions == "Be quiet."
        assert (await client.call_tool("talk")).text == "said"


async def test_a_proxied_call_is_one_request_and_no_handshake() -> None:
    remote = remote_to(Library().registry)
    registry = Registry("front")
    registry.mount(remote)
    async with remote.running() as upstream, connect(registry) as client:
        await wait_all_tasks_blocked()  # until the lists are followed
        assert upstream.main.current is not None
        lines = upstream.main.current.messages()
        for _ in range(3):
            await client.call_tool("talk")
    assert len([line async for line in lines if b'"result"' in line]) == 3  # and progress


@all_eras
@both_eras
async def test_a_call_that_takes_too_long_is_ended_on_both_sides(
    up: Era, down: Era, autojump_clock: object
) -> None:
    library = Library()
    registry = Registry("front")
    registry.mount(remote_to(library.registry, era=up, timeout=3))
    async with connect(registry, era=down) as client:
        late = await client.call_tool("wait", timeout=100)
        assert late.error == "Tool wait timed out after 3 s"
        await library.cancelled.wait()


@all_eras
@both_eras
async def test_a_caller_who_vanishes_takes_its_calls_along(up: Era, down: Era) -> None:
    library = Library()
    remote = remote_to(library.registry, era=up)
    registry = Registry("front")
    registry.mount(remote)
    async with remote.running(), trio.open_nursery() as nursery:
        await remote.ready()
        ours, theirs = memory_stream_pair()
        nursery.start_soon(serve_stream, registry, theirs)
        async with trio.open_nursery() as callers:

            async def call() -> None:
                async with connect(ours, era=down) as client:
                    await client.call_tool("wait", timeout=100)

            callers.start_soon(call)
            await library.started.wait()
            callers.cancel_scope.cancel()
        with trio.fail_after(LIMIT):
            await library.cancelled.wait()


@all_eras
async def test_a_server_that_is_cut_off_ends_what_it_has_passed_on(up: Era) -> None:
    library = Library()
    remote = remote_to(library.registry, era=up)
    registry = Registry("front")
    registry.mount(remote)
    async with remote.running(), trio.open_nursery() as nursery:
        await remote.ready()
        async with trio.open_nursery() as both:

            async def call() -> None:
                with suppress(NotConnected):
                    async with connect(ours) as client:
                        await client.call_tool("wait", timeout=100)

            ours, theirs = memory_stream_pair()
            both.start_soon(call)
            async with trio.open_nursery() as serving:
                serving.start_soon(serve_stream, registry, theirs)
                await library.started.wait()
                serving.cancel_scope.cancel()
            with trio.fail_after(LIMIT):
                await library.cancelled.wait()
            both.cancel_scope.cancel()
        nursery.cancel_scope.cancel()


async def test_tasks_are_those_of_their_caller() -> None:
    registry = Registry("slow", extensions=[Tasks(poll_interval=0.05)])

    @registry.tool(task=True)
    async def render(film: str, context: Context) -> str:
        return f"{film} for {(await context.elicit('Who?', str)).value}"

    async def answer(params: Any) -> Any:
        return {"action": "accept", "content": {"value": "Ada"}}

    async with gateway_of({"films": registry}) as gateway:
        tasks, others = TasksClient(), TasksClient()
        options = {"extensions": [tasks], "handlers": Handlers(elicitation=answer)}
        with trio.fail_after(LIMIT):
            async with connect(gateway.registry, **options) as client:
                begun = await tasks.start("films_render", {"film": "Metropolis"})
                assert (await tasks.result(begun.id)).text == "Metropolis for Ada"
                result = await client.call_tool("films_render", {"film": "M"}, timeout=LIMIT)
                assert result.text == "M for Ada"
                gone = await tasks.start("films_render", {"film": "Faust"})
                await tasks.cancel(gone.id)
                assert (await tasks.get(gone.id)).status == "cancelled"
                async with connect(gateway.registry, extensions=[others]):
                    with pytest.raises(McpError, match="Task not found"):
                        await others.get("0" * 32)


async def test_what_runs_around_calls_runs_around_those_that_are_passed_on() -> None:
    class Audit(ServerExtension):
        identifier = "com.example/audit"
        wraps = ("tools/call",)

        async def around(self, request: Any, proceed: Any) -> Any:
            seen.append("extension")
            return await proceed()

    async def around_request(request: McpRequest, proceed: Any) -> Any:
        if request.method == "tools/call":
            seen.append("request")
        return await proceed(request)

    async def around_call(call: McpCall, proceed: Any) -> Any:
        seen.append("call")
        return await proceed(call)

    seen: list[str] = []
    for options in (
        {"extensions": [Audit()]},
        {"middleware": [around_request]},
        {"middleware": [around_call]},
    ):
        registry = Registry("front", **options)  # type: ignore[arg-type]
        registry.mount(remote_to(Library().registry))
        async with connect(registry) as client:
            assert (await client.call_tool("talk")).text == "said"
    assert seen == ["extension", "request", "call"]


async def test_it_runs_once_at_a_time() -> None:
    remote = remote_to(Library().registry, name="library")
    for _ in range(2):
        async with remote.running() as upstream:
            with pytest.raises(RuntimeError, match="Remote 'library' is running already"):
                async with remote.running():
                    raise AssertionError
            assert remote.shared_state is upstream


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("connect_timeout", 0),
        ("timeout", 0),
        ("reconnect_timeout", -1),
        ("max_callers", 0),
        ("max_callers", None),
        ("caller_idle", -1),
        ("max_held", -1),
        ("max_items", 1.5),
    ],
)
def test_what_can_be_no_bound_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be a .*, not {value}$"):
        Remote(["server"], **{name: value})


async def test_bounds_that_only_a_server_has_are_refused_at_once() -> None:
    limits = Limits(tool_timeout=5)
    with pytest.raises(
        ValueError, match=r"tool_timeout .* not for Remote\(\); see Remote\(timeout="
    ):
        Remote(["server"], limits=limits)
    with pytest.raises(
        ValueError, match=r"not for connect_all\(\); see connect_all\(tool_timeout="
    ):
        async with group_of({"a": ["server"]}, limits=limits):
            raise AssertionError
    library = Library().registry
    async with group_of({"a": library}, limits=limits), remote_to(library, limits=limits).running():
        pass
