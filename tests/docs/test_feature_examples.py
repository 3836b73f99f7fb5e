"""The examples of each feature, met by the client: as processes and within this one."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import trio

from tests.support.processes import EXAMPLES, ROOT, TIME_LIMIT, python
from trio_mcp import (
    Client,
    EmbeddedResource,
    Handlers,
    ListChanged,
    McpError,
    PromptMessage,
    ResourceNotFound,
    ResourceUpdated,
    TextContent,
    connect,
)
from trio_mcp.cli.target import load_registry
from trio_mcp.client.connect import Target
from trio_mcp.transports.process import ProcessOptions

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["modern, a process", "legacy, in process"])
def connected(request: pytest.FixtureRequest) -> Connect:
    """Connects to an example."""
    era, _, where = request.param.partition(", ")

    @asynccontextmanager
    async def connect_to(name: str, **options: Any) -> AsyncIterator[Client]:
        program = EXAMPLES / f"{name}.py"
        target: Target = python(program) if where == "a process" else load_registry(str(program))
        process = ProcessOptions(env={"PYTHONPATH": str(ROOT)})
        with trio.fail_after(TIME_LIMIT):
            async with connect(target, era=era, process_options=process, **options) as client:
                yield client
                assert client.stray_output == []
                assert client.stderr() == ""

    return connect_to


async def test_resources(connected: Connect) -> None:
    async with connected("resources") as client:
        assert [each.uri for each in await client.list_resources()] == [
            "museum://hours",
            "museum://ticket",
        ]
        assert [each.uri_template for each in await client.list_resource_templates()] == [
            "museum://paintings/{year}",
            "museum://search{?words,limit}",
            "guides:///{+path}",
        ]
        hours = await client.read_resource("museum://hours")
        assert '"weekdays":"10:00 to 18:00"' in hours.text
        assert hours.contents[0].mime_type == "application/json"
        kept = (3600.0, "public") if client.era == "modern" else (0.0, "private")
        assert (hours.ttl, hours.cache_scope) == kept
        assert (await client.read_resource("museum://ticket")).data.startswith(b"GIF89a")
        assert (await client.read_resource("museum://paintings/1503")).text == "Mona Lisa"
        found = await client.read_resource("museum://search?words=l&limit=2")
        assert found.text.count('"') == 4
        found = await client.read_resource("museum://search?words=PEARL")
        assert found.text == '["Girl with a Pearl Earring"]'
        guide = await client.read_resource("guides:///resources.md")
        assert guide.text == (ROOT / "docs" / "guides" / "resources.md").read_text()
        assert guide.contents[0].mime_type == "text/markdown"
        for uri in (
            "museum://paintings/1504",
            "museum://paintings/old",
            "guides:///../promises.md",
            "guides:///%2e%2e/promises.md",
        ):
            with pytest.raises(ResourceNotFound):
                await client.read_resource(uri)
        names = await client.complete("path", "resou", resource="guides:///{+path}")
        assert names.values == ["resources.md"]


async def test_prompts(connected: Connect) -> None:
    async with connected("prompts") as client:
        review, debug, strict = await client.list_prompts()
        assert (review.title, review.description) == ("Review code", "Have code reviewed.")
        assert [
            (each.name, each.description, each.required) for each in review.arguments or []
        ] == [
            ("code", "The code.", True),
            ("language", "What it is written in.", False),
            ("points", "How many points to make, at most.", False),
        ]
        (message,) = (await client.get_prompt("review", {"code": "1", "points": "5"})).messages
        assert message == PromptMessage(
            "user", "Review this python code. Make 5 points at most.\n\n1"
        )
        user, assistant = (await client.get_prompt(debug.name, {"error": "E1"})).messages
        assert user == PromptMessage("user", "My program fails: E1")
        assert assistant.role == "assistant"
        *_, rules = (await client.get_prompt(strict.name, {"code": "x"})).messages
        assert isinstance(rules.content, EmbeddedResource)
        assert rules.content.resource.uri == "rules://review"
        for arguments, named in (({}, "code"), ({"code": "", "language": "ada"}, "language")):
            with pytest.raises(McpError, match=f"'{named}'") as refused:
                await client.get_prompt("review", arguments)
            assert refused.value.code == -32602


async def test_completion(connected: Connect) -> None:
    async with connected("completion") as client:

        async def complete(argument: str, value: str, **chosen: str) -> list[str]:
            found = await client.complete(argument, value, prompt="trip", chosen=chosen)
            return found.values

        assert await complete("country", "") == ["Austria", "Italy"]
        assert await complete("country", "it") == ["Italy"]
        assert await complete("city", "v", country="Italy") == ["Venice"]
        assert await complete("city", "v", country="Austria") == ["Vienna"]
        assert await complete("city", "v") == []
        assert await complete("season", "su") == ["summer"]
        found = await client.complete("number", "12", resource="trains://{number}")
        assert (len(found.values), found.total, found.has_more) == (20, 111, True)
        trip = await client.get_prompt(
            "trip", {"country": "Italy", "city": "Rome", "season": "winter"}
        )
        assert trip.messages[0].content == TextContent("Plan a winter trip to Rome in Italy.")
        assert (await client.read_resource("trains://8")).text == '{"number":8,"coaches":4}'


async def test_progress(connected: Connect) -> None:
    async with connected("progress") as client:
        told: list[Any] = []

        async def call(name: str, **arguments: Any) -> str:
            told.clear()
            result = await client.call_tool(
                name, arguments, on_progress=lambda *step: told.append(step)
            )
            return result.text

        assert await call("count_words", texts=["one", "two three", ""]) == "3"
        assert told == [
            (1, 3, "1 words so far"),
            (2, 3, "3 words so far"),
            (3, 3, "3 words so far"),
        ]
        assert await call("fetch", pages=["a", "bb"]) == "2"
        assert [step[:2] for step in told] in ([(1, 2), (2, 2)], [(2, 2)])  # it only increases
        assert {step[2] for step in told} <= {"a", "bb"}
        assert await call("factorial", number=5) == "120"
        assert told == [(number, 5, None) for number in range(1, 6)]
        assert await call("factorial", number=500)  # which is not told step by step
        assert told[-1] == (500, 500, None)
        assert len(told) < 500


async def test_logging(connected: Connect) -> None:
    said: list[Any] = []
    async with connected("logs", on_log=lambda *message: said.append(message)) as client:
        await client.set_log_level("info")
        await client.call_tool("bake", {"loaves": 12})
        assert said == [
            ("info", {"loaves": 12}, "oven"),
            ("warning", "That is a lot of bread.", None),
        ]
        said.clear()
        await client.call_tool("clean")
        assert said == [("info", "Sweeping the floor", "bakery")]
        await client.set_log_level("debug")
        await client.call_tool("bake", {"loaves": 1})
        assert ("debug", "The oven is warm.", None) in said


class Customer:
    """Answers what the bookshop asks."""

    def __init__(self) -> None:
        self.action = "accept"
        self.asked: list[str] = []

    async def fill_in(self, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(params["message"])
        if self.action != "accept":
            return {"action": self.action}
        known = {
            "Your favourite author?": {"value": "Jane Austen"},
            "Your favourite book?": {"value": "Emma"},
            "There are 3 left. Reserve one?": {"value": True},
        }
        address = {"name": "Ada", "street": "High Street 1", "speed": "express"}
        return {"action": "accept", "content": known.get(params["message"], address)}

    async def write(self, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(params["messages"][0]["content"]["text"])
        content = {"type": "text", "text": "Persuasion"}
        return {"role": "assistant", "content": content, "model": "m"}


@pytest.mark.long
async def test_asking(connected: Connect) -> None:
    customer = Customer()
    handlers = Handlers(
        elicitation=customer.fill_in, sampling=customer.write, roots=["file:///srv"]
    )
    async with connected("asking", handlers=handlers) as client:

        async def call(name: str, **arguments: Any) -> str:
            return (await client.call_tool(name, arguments)).text

        assert await call("order", book="Emma") == "Ordered Emma to Ada, express."
        assert customer.asked == ["Emma costs 9 euros. Where shall it go?"]
        reserve = {"book": "Emma", "reader": "Ada"}
        assert await call("reserve", **reserve) == "Emma is reserved for Ada."
        assert await call("recommend") == "Persuasion"
        assert customer.asked[-1] == "One book for a reader who likes Emma by Jane Austen?"
        assert await call("export") == "file:///srv/orders.csv"

        customer.action = "decline"
        assert await call("order", book="Emma") == "The user does not want the book."
        assert await call("reserve", **reserve) == "Nothing is reserved."
        assert await call("recommend") == "The user declined to answer."
        customer.action = "cancel"
        assert "Ask again later" in await call("order", book="Emma")
        with pytest.raises(McpError, match=r"elicitation\.url"):
            await call("pay", bill=7)  # this client shows no pages

    async with connected("asking", handlers=Handlers(elicitation=Customer().fill_in)) as client:
        assert (await client.call_tool("recommend")).text == "Something like Emma."


async def test_subscriptions(connected: Connect) -> None:
    async with connected("subscriptions") as client:
        uris = ["board://notes"]
        async with client.subscribe(resources=uris, lists=["resources"]) as changes:
            await client.call_tool("pin", {"name": "milk", "text": "Buy some"})
            news = {await anext(changes), await anext(changes)}
            assert news == {ResourceUpdated("board://notes"), ListChanged("resources")}
            assert (await client.read_resource("board://notes/milk")).text == "Buy some"
            assert len(await client.list_resources()) == 2
            await client.call_tool("pin", {"name": "milk", "text": "Bought"})
            assert await anext(changes) == ResourceUpdated("board://notes")
        async with client.subscribe(resources=["board://notes/milk"]) as changes:
            await client.call_tool("pin", {"name": "milk", "text": "Drunk"})
            assert await anext(changes) == ResourceUpdated("board://notes/milk")
        assert (await client.read_resource("board://notes")).text == '{"milk":"Drunk"}'
        assert (await client.call_tool("unpin", {"name": "milk"})).success
        assert not (await client.call_tool("unpin", {"name": "milk"})).success
        with pytest.raises(ResourceNotFound):
            await client.read_resource("board://notes/milk")


async def test_mounting(connected: Connect) -> None:
    async with connected("mounting") as client:
        assert list(client.tools) == ["shop_buy", "forecast"]
        assert client.tools["shop_buy"].input_schema["required"] == ["what"]
        bought = await client.call_tool("shop_buy", {"what": "rue", "count": 2})
        assert bought.text == "2 rue, next week"
        (left,) = (await client.read_resource("stock://shop/rue")).contents
        assert (left.uri, getattr(left, "text", None)) == ("stock://shop/rue", "2")
        assert (await client.call_tool("forecast", {"city": "Graz"})).success
