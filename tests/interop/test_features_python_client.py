"""The official Python client meets every feature of our server, in both eras.

That it meets our processes, too, is shown in `test_python_client.py`.
"""

import base64
import logging
import runpy
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
import trio
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import FileUrl
from trio.testing import wait_all_tasks_blocked

from tests.interop.programs.library import PIXEL
from tests.interop.stream_client import stream_client
from tests.support.processes import ROOT

LIBRARY = ROOT / "tests" / "interop" / "programs" / "library.py"
TIME_LIMIT = 120  # seconds
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
NOT_FOUND = {"legacy": -32002, "auto": types.INVALID_PARAMS}

pytestmark = pytest.mark.requirement("H10")
every_mode = pytest.mark.parametrize("mode", ["legacy", "auto"])

Connect = Callable[..., Any]


@pytest.fixture
def connected(caplog: pytest.LogCaptureFixture) -> Connect:
    """Connects to a server of its own, which logs nothing unless that is expected."""

    @asynccontextmanager
    async def connect(mode: str, says: str = "", **options: Any) -> AsyncIterator[Client]:
        registry = runpy.run_path(str(LIBRARY))["registry"]
        with trio.fail_after(TIME_LIMIT):
            async with Client(stream_client(registry), mode=mode, **options) as client:
                yield client
        ours = [each for each in caplog.records if each.name.startswith("trio_mcp")]
        assert [each.getMessage() for each in ours if each.levelno >= logging.WARNING] == (
            [says] if says else []
        )

    return connect


async def pages(
    ask: Callable[..., Awaitable[Any]], items: Callable[[Any], list[Any]]
) -> list[list[Any]]:
    """All pages of a list."""
    found, cursor = [], None
    while True:
        page = await ask(cursor=cursor)
        found.append(items(page))
        if (cursor := page.next_cursor) is None:
            return found


def text_of(result: types.CallToolResult) -> str:
    """The text of a result that is one block of it."""
    assert result.is_error is False, result
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


# -- resources ------------------------------------------------------------------------------------


@every_mode
async def test_what_there_is_is_listed_page_by_page(mode: str, connected: Connect) -> None:
    async with connected(mode) as client:
        offered = client.server_capabilities
        assert offered.tools == types.ToolsCapability(list_changed=True)
        assert offered.resources == types.ResourcesCapability(subscribe=True, list_changed=True)
        assert offered.prompts == types.PromptsCapability(list_changed=True)
        assert offered.completions == types.CompletionsCapability()
        assert offered.logging == types.LoggingCapability()

        found = await pages(client.list_resources, lambda page: page.resources)
        assert [[each.uri for each in page] for page in found] == [
            ["config://app", "data://pixel"],
            ["text://motto", "count://visits"],
            ["books://both"],
        ]
        config, pixel = found[0]
        assert (config.name, config.title) == ("config", "Settings")
        assert config.description == "How the library is run."
        assert config.annotations == types.Annotations(audience=["assistant"], priority=0.5)
        assert config.meta == {"example.com/owner": "librarian"}
        assert (pixel.mime_type, pixel.size) == ("image/png", len(PIXEL))

        found = await pages(client.list_resource_templates, lambda page: page.resource_templates)
        assert [[each.uri_template for each in page] for page in found] == [
            ["books://{id}/title", "notes://{user}/{note}"],
            ["files:///{+path}"],
        ]
        found = await pages(client.list_prompts, lambda page: page.prompts)
        assert [[each.name for each in page] for page in found] == [
            ["review", "picture"],
            ["introduce"],
        ]
        for ask in (client.list_resources, client.list_resource_templates, client.list_prompts):
            with pytest.raises(MCPError, match="cursor") as refused:
                await ask(cursor="nonsense")
            assert refused.value.code == types.INVALID_PARAMS


@every_mode
async def test_resources_are_read_where_there_are_any(mode: str, connected: Connect) -> None:
    async with connected(mode) as client:

        async def read(uri: str) -> list[Any]:
            return list((await client.read_resource(uri)).contents)

        def text(
            uri: str, text: str, kind: str | None = "text/plain"
        ) -> types.TextResourceContents:
            return types.TextResourceContents(uri=uri, text=text, mime_type=kind)

        blob = base64.b64encode(PIXEL).decode()
        config = text("config://app", '{"open":true,"floors":3}', "application/json")
        assert await read("config://app") == [config]
        pixel = types.BlobResourceContents(uri="data://pixel", blob=blob, mime_type="image/png")
        assert await read("data://pixel") == [pixel]
        motto = "grüß dich\n\u2028😀"
        assert await read("text://motto") == [text("text://motto", motto)]
        assert await read("books://both") == [
            text("books://1", "Emma", None),
            types.BlobResourceContents(uri="books://2", blob=blob),
        ]
        assert await read("books://2/title") == [text("books://2/title", "Middlemarch")]
        (program,) = await read("files:///library.py")
        assert program.text == LIBRARY.read_text()

        for uri in (
            "nowhere://at/all",  # no resource and no template
            "books://3/title",  # the function says so
            "books://three/title",  # not a number
            "files:///../test_features_python_client.py",
            "files:///%2e%2e/test_features_python_client.py",
        ):
            with pytest.raises(MCPError, match="Resource not found") as refused:
                await client.read_resource(uri)
            assert refused.value.code == NOT_FOUND[mode]
            assert refused.value.error.data["uri"] == uri


@every_mode
async def test_a_resource_is_kept_for_as_long_as_it_says(mode: str, connected: Connect) -> None:
    """The client keeps it (there are no such hints in legacy revisions) until it changes."""
    async with connected(mode) as client:

        async def read() -> str:
            return str((await client.read_resource("count://visits")).contents[0].text)

        assert [await read(), await read()] == (["1", "2"] if mode == "legacy" else ["1", "1"])
        if mode == "legacy":
            return
        result = await client.read_resource("count://visits")
        assert (result.ttl_ms, result.cache_scope) == (60_000, "public")
        async with client.listen(resource_subscriptions=["count://visits"]) as changes:
            await client.call_tool("touch", {"uris": ["count://visits"]})
            await anext(changes)
            assert await read() == "2"


# -- prompts and completion -----------------------------------------------------------------------


@every_mode
async def test_prompts_are_described_and_written_or_refused(mode: str, connected: Connect) -> None:
    async with connected(mode) as client:
        review = (await client.list_prompts()).prompts[0]
        assert (review.title, review.description) == ("Review a text", "Have a text reviewed.")
        assert review.arguments == [
            types.PromptArgument(name="text", description="The text.", required=True),
            types.PromptArgument(
                name="language", description="What it is written in.", required=False
            ),
            types.PromptArgument(name="depth", description="How closely to look.", required=False),
        ]
        written = await client.get_prompt("review", {"text": "3", "depth": "4"})
        assert written.description == "Have a text reviewed."
        (message,) = written.messages
        assert message.role == "user"
        assert message.content == types.TextContent(text="Review this english text 5 times: 3")

        image, resource, words = (await client.get_prompt("picture")).messages
        assert image.content == types.ImageContent(
            data=base64.b64encode(PIXEL).decode(), mime_type="image/png"
        )
        assert isinstance(resource.content, types.EmbeddedResource)
        assert resource.content.resource == types.TextResourceContents(
            uri="text://motto", text="hello", mime_type="text/plain"
        )
        assert (words.role, words.content) == ("assistant", types.TextContent(text="I see."))

        for name, arguments, complaint in [
            ("nonesuch", {}, "Unknown prompt: nonesuch"),
            ("review", {}, "'text'"),
            ("review", {"text": "x", "language": "latin"}, "'language'"),
            ("review", {"text": "x", "depth": "deep"}, "'depth'"),
        ]:
            with pytest.raises(MCPError, match=complaint) as refused:
                await client.get_prompt(name, arguments)
            assert refused.value.code == types.INVALID_PARAMS


@every_mode
async def test_arguments_are_completed(mode: str, connected: Connect) -> None:
    review = types.PromptReference(name="review")
    titles = types.ResourceTemplateReference(uri="books://{id}/title")
    notes = types.ResourceTemplateReference(uri="notes://{user}/{note}")
    async with connected(mode) as client:

        async def complete(ref: Any, name: str, value: str, **chosen: str) -> types.Completion:
            argument = {"name": name, "value": value}
            found: types.CompleteResult = await client.complete(ref, argument, chosen or None)
            return found.completion

        found = await complete(review, "language", "ger")
        assert found == types.Completion(values=["german"], total=1, has_more=False)
        found = await complete(titles, "id", "")
        assert found.values == [str(number) for number in range(100)]
        assert (found.total, found.has_more) == (250, True)
        found = await complete(titles, "id", "24")
        assert found.values == ["24", *(f"24{digit}" for digit in range(10))]
        assert (found.total, found.has_more) == (11, False)
        assert (await complete(notes, "note", "x", user="ada")).values == ["ada-x"]
        found = await complete(
            types.ResourceTemplateReference(uri="files:///{+path}"), "path", "li"
        )
        assert found.values == ["library.py"]
        assert (await complete(review, "text", "any")).values == []
        for ref, name in ((review, "nonesuch"), (types.PromptReference(name="nonesuch"), "text")):
            with pytest.raises(MCPError, match="nonesuch") as refused:
                await complete(ref, name, "")
            assert refused.value.code == types.INVALID_PARAMS


# -- progress and logging -------------------------------------------------------------------------


@every_mode
async def test_progress_is_told(mode: str, connected: Connect) -> None:
    async with connected(mode) as client:
        told: list[Any] = []

        async def hear(*step: Any) -> None:
            told.append(step)

        result = await client.call_tool("steps", {"count": 3}, progress_callback=hear)
        assert text_of(result) == "done"
        await wait_all_tasks_blocked()  # each notification has a task of its own in this client
        assert sorted(told) == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
        await client.call_tool("steps", {"count": 3})  # to nobody
        await wait_all_tasks_blocked()
        assert len(told) == 3


class Log:
    """Keeps what a server logs."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Any, str | None]] = []

    async def __call__(self, params: types.LoggingMessageNotificationParams) -> None:
        self.said.append((params.level, params.data, params.logger))

    async def take(self) -> list[tuple[str, Any, str | None]]:
        await wait_all_tasks_blocked()
        said, self.said = self.said, []
        return sorted(said)


DEBUG = ("debug", "quietly", None)
INFO = ("info", {"said": "aloud"}, "library")
WARNING = ("warning", "loudly", None)


async def test_legacy_clients_set_a_log_level(connected: Connect) -> None:
    log = Log()
    async with connected("legacy", logging_callback=log) as client:
        for level, heard in (("warning", [WARNING]), ("debug", [DEBUG, INFO, WARNING])):
            with pytest.warns(MCPDeprecationWarning, match="logging"):
                await client.set_logging_level(level)
            await client.call_tool("speak")
            assert await log.take() == heard


async def test_modern_requests_carry_a_log_level(connected: Connect) -> None:
    log = Log()
    async with connected("auto", logging_callback=log) as client:
        await client.call_tool("speak")  # which does not ask for anything
        assert await log.take() == []
        for level, heard in (("warning", [WARNING]), ("debug", [DEBUG, INFO, WARNING])):
            await client.call_tool("speak", meta={LOG_LEVEL: level})
            assert await log.take() == heard
    async with connected("auto", logging_callback=log, log_level="info") as client:
        await client.call_tool("speak")
        assert await log.take() == [INFO, WARNING]


# -- asking ---------------------------------------------------------------------------------------


class Person:
    """Answers all questions, and notes how they were asked."""

    def __init__(self, action: Any = "accept") -> None:
        self.action = action
        self.forms: list[types.ElicitRequestFormParams] = []
        self.pages: list[types.ElicitRequestURLParams] = []
        self.models: list[types.CreateMessageRequestParams] = []

    async def elicit(self, _: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        if isinstance(params, types.ElicitRequestURLParams):
            self.pages.append(params)
            return types.ElicitResult(action=self.action)
        self.forms.append(params)
        content = ANSWERS[params.message] if self.action == "accept" else None
        return types.ElicitResult(action=self.action, content=content)

    async def sample(self, _: Any, params: types.CreateMessageRequestParams) -> Any:
        self.models.append(params)
        if params.tools:
            use = types.ToolUseContent(id="1", name=params.tools[0].name, input={"title": "Emma"})
            return types.CreateMessageResultWithTools(
                role="assistant", content=[use], model="m", stop_reason="toolUse"
            )
        words = types.TextContent(text="Hello.")
        return types.CreateMessageResult(role="assistant", content=words, model="m")

    async def roots(self, _: Any) -> types.ListRootsResult:
        return types.ListRootsResult(
            roots=[types.Root(uri=FileUrl("file:///srv/books"), name="books")]
        )

    @property
    def callbacks(self) -> dict[str, Any]:
        tools = types.SamplingCapability(tools=types.SamplingToolsCapability())
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "sampling_capabilities": tools,
            "list_roots_callback": self.roots,
        }


ANSWERS: dict[str, Any] = {
    "Who are you?": {"name": "Ada", "age": 36, "shelf": "poetry"},
    "Your name?": {"value": "Ada"},
    "Your town?": {"value": "London"},
    "Show ada's note first?": {"value": True},
}


@every_mode
async def test_questions_of_every_kind(mode: str, connected: Connect) -> None:
    person = Person()
    async with connected(mode, **person.callbacks) as client:
        result = await client.call_tool("register")
        assert text_of(result) == "Ada 36 poetry; Hello.; file:///srv/books books"
        assert text_of(await client.call_tool("pay")) == "accept"
        assert text_of(await client.call_tool("consult")) == "look_up {'title': 'Emma'} toolUse"
    (form,) = person.forms  # asked once, however often the tool ran
    assert form.message == "Who are you?"
    assert form.requested_schema["properties"]["age"]["type"] == "integer"
    assert form.requested_schema["required"] == ["name", "age"]

    (page,) = person.pages
    assert (page.message, str(page.url)) == ("A fine is due.", "https://example.com/pay?bill=7")
    assert bool(page.elicitation_id) == (mode == "legacy")  # it exists in 2025-11-25 alone

    greet, consult = person.models
    assert (greet.max_tokens, greet.system_prompt) == (20, "Be brief.")
    assert greet.model_preferences == types.ModelPreferences(
        hints=[types.ModelHint(name="small")], speed_priority=1.0
    )
    (message,) = greet.messages
    assert (message.role, message.content) == ("user", types.TextContent(text="Greet Ada."))
    assert [tool.name for tool in consult.tools or []] == ["look_up"]
    assert consult.tool_choice == types.ToolChoice(mode="auto")


@every_mode
async def test_users_may_say_no(mode: str, connected: Connect) -> None:
    person = Person()
    async with connected(mode, **person.callbacks) as client:
        for person.action in ("decline", "cancel"):
            assert text_of(await client.call_tool("register")) == f"nobody: {person.action}"
            assert text_of(await client.call_tool("pay")) == person.action
    assert person.models == []


@every_mode
async def test_questions_side_by_side(mode: str, connected: Connect) -> None:
    person = Person()
    async with connected(mode, **person.callbacks) as client:
        assert text_of(await client.call_tool("survey")) == "Ada from London"
    assert sorted(form.message for form in person.forms) == ["Your name?", "Your town?"]


async def test_questions_side_by_side_travel_together_and_are_sealed(connected: Connect) -> None:
    person = Person()
    says = "A requestState was refused: foreign: it was sealed for another request or principal"
    async with connected("auto", says=says, **person.callbacks) as client:
        session = client.session
        await client.list_tools()

        async def survey(before: types.InputRequiredResult | None = None, *keys: str) -> Any:
            asked = before.input_requests if before and before.input_requests else {}
            answers = {key: await session.dispatch_input_request(None, asked[key]) for key in keys}
            return await session.call_tool(
                "survey",
                input_responses=answers or None,
                request_state=before.request_state if before else None,
                allow_input_required=True,
            )

        first = await survey()
        assert set(first.input_requests) == {"name", "town"}
        second = await survey(first, "name")
        assert set(second.input_requests) == {"town"}  # what is missing is asked again
        assert text_of(await survey(second, "town")) == "Ada from London"
        with pytest.raises(MCPError) as refused:  # the state belongs to another request
            await session.call_tool("register", request_state=first.request_state)
        assert refused.value.code == types.INVALID_PARAMS


@every_mode
async def test_resources_and_prompts_ask_as_well(mode: str, connected: Connect) -> None:
    async with connected(mode, **Person().callbacks) as client:
        (message,) = (await client.get_prompt("introduce")).messages
        assert message.content == types.TextContent(text="I am Ada, 36.")
        (contents,) = (await client.read_resource("notes://ada/first")).contents
        assert isinstance(contents, types.TextResourceContents)
        assert contents.text == "notes://ada/first: True"


@every_mode
async def test_who_cannot_be_asked_is_not(mode: str, connected: Connect) -> None:
    async with connected(mode) as client:
        for tool, capability in (
            ("register", "elicitation"),
            ("pay", "elicitation.url"),
            ("consult", "sampling"),
        ):
            with pytest.raises(MCPError, match=capability) as refused:
                await client.call_tool(tool)
            if mode == "legacy":
                assert refused.value.code == types.INVALID_REQUEST
            else:
                assert refused.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
                kind = capability.partition(".")[0]
                assert kind in refused.value.error.data["requiredCapabilities"]


# -- what changes ---------------------------------------------------------------------------------


class Told:
    """What a legacy client is told; it hands it over in any order."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[Any](100)

    async def __call__(self, message: Any) -> None:
        await self._send.send(message)

    async def next(self, count: int = 1) -> list[Any]:
        return [await self._receive.receive() for _ in range(count)]

    async def nothing_more(self) -> None:
        await wait_all_tasks_blocked()
        with pytest.raises(trio.WouldBlock):
            self._receive.receive_nowait()


async def test_legacy_subscriptions(connected: Connect) -> None:
    told = Told()
    async with connected("legacy", message_handler=told) as client:
        for uri in ("config://app", "books://1/title"):
            with pytest.warns(MCPDeprecationWarning, match="resources/subscribe"):
                await client.subscribe_resource(uri)
        uris = ["text://motto", "config://app", "books://2/title", "books://1/title"]
        await client.call_tool("touch", {"uris": uris})
        updates = await told.next(2)
        assert {type(each) for each in updates} == {types.ResourceUpdatedNotification}
        assert {each.params.uri for each in updates} == {"config://app", "books://1/title"}
        with pytest.warns(MCPDeprecationWarning, match="resources/unsubscribe"):
            await client.unsubscribe_resource("config://app")
        await client.call_tool("touch", {"uris": uris})
        (update,) = await told.next()
        assert update.params.uri == "books://1/title"
        with pytest.warns(MCPDeprecationWarning), pytest.raises(MCPError) as refused:
            await client.subscribe_resource("nowhere://at/all")
        assert refused.value.code == NOT_FOUND["legacy"]
        await told.nothing_more()


async def test_legacy_clients_are_told_of_changed_lists(connected: Connect) -> None:
    told = Told()
    async with connected("legacy", message_handler=told) as client:
        for kind, notification in [
            ("tools", types.ToolListChangedNotification),
            ("resources", types.ResourceListChangedNotification),
            ("prompts", types.PromptListChangedNotification),
        ]:
            await client.call_tool("add", {"kind": kind})
            assert [type(each) for each in await told.next()] == [notification]
        assert text_of(await client.call_tool("latest")) == "new"
        names = await pages(client.list_prompts, lambda page: [each.name for each in page.prompts])
        assert names == [["review", "picture"], ["introduce", "latest"]]
        await told.nothing_more()


async def test_modern_subscriptions(connected: Connect) -> None:
    async with connected("auto") as client:
        uris = ["config://app", "books://1/title", "nowhere://at/all"]
        async with (
            client.listen(resource_subscriptions=uris, tools_list_changed=True) as changes,
            client.listen(prompts_list_changed=True, resources_list_changed=True) as others,
        ):
            assert changes.honored == types.SubscriptionFilter(
                tools_list_changed=True, resource_subscriptions=["config://app", "books://1/title"]
            )
            for kind in ("prompts", "resources", "tools"):
                await client.call_tool("add", {"kind": kind})
            assert await anext(changes) == ToolsListChanged()
            assert [await anext(others), await anext(others)] == [
                PromptsListChanged(),
                ResourcesListChanged(),
            ]
            uris = ["text://motto", "books://1/title", "books://2/title", "config://app"]
            await client.call_tool("touch", {"uris": uris})
            assert await anext(changes) == ResourceUpdated("books://1/title")
            assert await anext(changes) == ResourceUpdated("config://app")
        async with client.listen(resource_subscriptions=["config://app"]) as again:
            await client.call_tool("touch", {"uris": uris})
            assert await anext(again) == ResourceUpdated("config://app")
