"""What the user does at a page, and the word that it is done (2025-11-25, "Elicitation")."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair

from trio_mcp import (
    Client,
    Context,
    Handlers,
    McpError,
    Registry,
    Remote,
    connect,
    serve_http,
    serve_stream,
)

LIMIT = 60
PAGE = "https://shop.example.com/pay"


class Shop:
    """A server that sends users to pages, and what it has kept of them."""

    def __init__(self) -> None:
        self.registry = Registry("shop")
        self.contexts: dict[str, Context] = {}
        self.registry.add_tool(self.pay)
        self.registry.add_tool(self.need)

    async def pay(self, bill: str, context: Context, at_once: bool = False) -> str:
        """Have a bill paid at a page."""
        self.contexts[bill] = context
        answer = await context.elicit_url("Please pay.", PAGE, id=bill)
        if at_once:
            await context.complete_elicitation(bill)
        return answer.action

    async def need(self, bill: str, context: Context) -> str:
        """Refuse to work until a bill is paid."""
        self.contexts[bill] = context
        asked = {"mode": "url", "elicitationId": bill, "url": PAGE, "message": "Please pay."}
        raise McpError(-32042, "Please pay first.", {"elicitations": [asked]})


class Person:
    """Someone who goes to pages, and what they are asked and told."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.done: list[str] = []
        self._news = trio.lowlevel.ParkingLot()
        self.handlers = Handlers(elicitation_url=self._go, elicitation_complete=self._note)

    async def _go(self, params: Any) -> Any:
        self.asked.append(params)
        return {"action": "accept"}

    def _note(self, id: str) -> None:
        self.done.append(id)
        self._news.unpark_all()

    async def told(self, *ids: str) -> None:
        while len(self.done) < len(ids):
            await self._news.park()
        assert self.done == list(ids)


@asynccontextmanager
async def at(
    registry: Registry, over: str, person: Person, revision: str = "2025-11-25"
) -> AsyncIterator[Client]:
    """A client of a registry, over one transport or another."""
    options: dict[str, Any] = {"revision": revision, "handlers": person.handlers}
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            target: Any = registry
            if over == "stream":
                target, theirs = memory_stream_pair()
                nursery.start_soon(serve_stream, registry, theirs)
            elif over == "http":
                handle = await nursery.start(partial(serve_http, registry, port=0))
                target = handle.url
            elif over == "proxy":
                target = Registry("front")
                target.mount(Remote(registry, era="legacy"))
            async with connect(target, **options) as client:
                yield client
            nursery.cancel_scope.cancel()


@pytest.mark.requirement("H8")
@pytest.mark.parametrize("over", ["memory", "stream", "http", "proxy"])
async def test_the_client_hears_that_something_is_done(over: str) -> None:
    shop, person = Shop(), Person()
    async with at(shop.registry, over, person) as client:
        result = await client.call_tool("pay", {"bill": "1", "at_once": True})
        assert result.text == "accept"
        await person.told("1")
        await client.call_tool("pay", {"bill": "2"})
        with pytest.raises(McpError) as refused:
            await client.call_tool("need", {"bill": "3"})
        assert refused.value.code == -32042
        assert refused.value.data["elicitations"][0]["elicitationId"] == "3"
        for told in (["1", "2"], ["1", "2", "3"]):  # when the requests have ended
            await shop.contexts[told[-1]].complete_elicitation(told[-1])
            await person.told(*told)  # through a proxy, each goes its own way
        assert [asked["elicitationId"] for asked in person.asked] == ["1", "2"]


async def test_no_other_client_hears_of_it() -> None:
    shop, ada, bob = Shop(), Person(), Person()
    front = Registry("front")
    front.mount(Remote(shop.registry, era="legacy"))
    async with at(front, "stream", ada) as one, at(front, "stream", bob) as other:
        await one.call_tool("pay", {"bill": "ada's"})
        await other.call_tool("pay", {"bill": "bob's"})
        await shop.contexts["ada's"].complete_elicitation("ada's")
        await ada.told("ada's")
        await shop.contexts["bob's"].complete_elicitation("bob's")
        await bob.told("bob's")
    assert (ada.done, bob.done) == (["ada's"], ["bob's"])


async def test_what_is_unknown_or_done_already_is_ignored() -> None:
    shop, person = Shop(), Person()
    async with at(shop.registry, "memory", person) as client:
        await client.call_tool("pay", {"bill": "1"})
        for id in ("another", "1", "1", "", "1"):
            await shop.contexts["1"].complete_elicitation(id)
        await client.call_tool("pay", {"bill": "2", "at_once": True})
        await person.told("1", "2")


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
async def test_other_revisions_have_no_such_word(revision: str) -> None:
    registry, person, kept = Registry("shop"), Person(), list[Context]()

    @registry.tool
    async def look(context: Context) -> None:
        """Keep the context."""
        kept.append(context)
        await context.complete_elicitation("1")

    async with at(registry, "memory", person, revision) as client:
        messages = client.messages()
        await client.call_tool("look")
        await kept[0].complete_elicitation("1")
        await client.call_tool("look")
        seen = [await anext(messages) for _ in range(2)]
        assert not any(b"elicitation/complete" in line for line in seen)


async def test_a_modern_question_gets_an_id_for_a_caller_whose_revision_wants_one() -> None:
    shop, person = Shop(), Person()
    front = Registry("front")
    front.mount(Remote(shop.registry, era="modern"))
    async with at(front, "stream", person) as client:
        for bill in ("1", "2"):
            assert (await client.call_tool("pay", {"bill": bill})).text == "accept"
    ids = [asked.pop("elicitationId") for asked in person.asked]
    assert all(isinstance(id, str) and id for id in ids)
    assert len(set(ids)) == 2
    assert person.asked == 2 * [{"mode": "url", "message": "Please pay.", "url": PAGE}]


async def test_an_older_caller_is_asked_in_the_words_of_its_revision() -> None:
    asked: list[Any] = []

    async def fill_in(params: Any) -> Any:
        asked.append(params)
        return {"action": "accept", "content": {"value": "Ada"}}

    async def write(params: Any) -> Any:
        asked.append(params)
        said = {"type": "text", "text": "Hm."}
        return {"role": "assistant", "content": said, "model": "m"}

    registry, front = Registry("shop"), Registry("front")

    @registry.tool
    async def ask(context: Context) -> str:
        """Ask for a name, and have something written."""
        name = (await context.elicit("Who?", str)).value
        two = [{"type": "text", "text": name}, {"type": "text", "text": "Well?"}]
        params = {"messages": [{"role": "user", "content": two}], "maxTokens": 5}
        await context.ask("sampling/createMessage", params)
        return name

    front.mount(Remote(registry, era="modern"))
    handlers = Handlers(elicitation=fill_in, sampling=write)
    async with connect(front, revision="2025-06-18", handlers=handlers) as client:
        assert (await client.call_tool("ask")).text == "Ada"
    assert "mode" not in asked[0]
    assert [said["content"]["text"] for said in asked[1]["messages"]] == ["Ada", "Well?"]
