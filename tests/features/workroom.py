"""A server with prompts that take arguments, and tools that report, log and ask."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import trio
from attrs import frozen

from tests.features.ways import on_tcp
from tests.support.client import MODERN, RawClient, serving
from tests.support.processes import TIME_LIMIT, python, running
from trio_mcp import Context, Limits, Registry, serve

CITIES = ["Berlin", "Bern", "Boston", "Lisbon"]
EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
"""The capabilities of a client that can be asked anything."""


class Tone(Enum):
    """How it shall sound."""

    WARM = "warm"
    COLD = "cold"


@frozen
class Author:
    """Who writes."""

    name: str
    age: int = 0


def make() -> Registry:
    """Make the registry."""
    registry = Registry("workroom", version="1.0")
    _add_prompts(registry)
    _add_reporters(registry)
    _add_askers(registry)
    return registry


def _add_prompts(registry: Registry) -> None:
    @registry.prompt
    async def letter(to: str, city: str, tone: Tone = Tone.WARM, pages: int = 1) -> str:
        """Write a letter.

        Args:
            to: Who gets it.
            city: Where they live.
            tone: How it sounds.
            pages: How long it is.
        """
        return f"A {tone.value} letter to {to!r} in {city}, {pages + 1} pages with its cover"

    registry.add_completion(CITIES, prompt="letter", argument="city")

    @registry.resource("towns://{city}")
    async def town(city: Literal["Rome", "Riga"]) -> str:
        return city


def _add_reporters(registry: Registry) -> None:
    bridged = logging.Logger("workroom.bridged")  # nobody else's
    bridged.addHandler(registry.log_handler(logging.DEBUG))

    @registry.tool
    async def count(to: int, context: Context) -> int:
        """Report progress."""
        for number in range(1, to + 1):
            await context.progress(number, total=to, message=f"at {number}")
        return to

    @registry.tool
    def count_in_a_thread(to: int, context: Context) -> int:
        """Report progress from a worker thread."""
        for number in range(1, to + 1):
            trio.from_thread.run(context.progress, number, to)
        return to

    @registry.tool
    async def speak(context: Context) -> str:
        """Log at every level."""
        levels: tuple[Any, ...] = (
            "debug",
            "info",
            "notice",
            "warning",
            "error",
            "critical",
            "alert",
            "emergency",
        )
        for level in levels:
            await context.log(level, {"said": level}, logger="speaker")
        return "spoken"

    @registry.tool
    def mutter(text: str) -> str:
        """Log through the standard library, in a worker thread."""
        bridged.warning("muttered %s", text)
        return "muttered"


def _add_askers(registry: Registry) -> None:
    @registry.tool
    async def book(context: Context) -> str:
        """Ask for several things, one after the other and side by side."""
        who = (await context.elicit("Who travels?", Author)).value
        found: dict[str, Any] = {}

        async def ask(name: str, question: Callable[[], Any]) -> None:
            found[name] = await question()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "roots", context.roots)
            nursery.start_soon(ask, "poem", lambda: context.sample("A poem!", max_tokens=20))
        sure = await context.elicit("Sure?", bool)
        return (
            f"{who.name} ({who.age}), {found['poem'].text}, {found['roots'][0].uri}, {sure.action}"
        )


def answers() -> dict[str, Callable[[Any], Any]]:
    """What a client may answer to `book`."""

    def form(params: Any) -> Any:
        content = {"name": "Ida", "age": 7} if "Who" in params["message"] else {"value": True}
        return {"action": "accept", "content": content}

    poem = {"type": "text", "text": "Roses"}
    return {
        "elicitation/create": form,
        "sampling/createMessage": lambda _: {"role": "assistant", "content": poem, "model": "m"},
        "roots/list": lambda _: {"roots": [{"uri": "file:///home"}]},
    }


# -- ways there -----------------------------------------------------------------------------------

WAYS = ["memory", "tcp", "stdio"]


@asynccontextmanager
async def reaching(way: str, revision: str) -> AsyncIterator[RawClient]:
    """A raw client of the workroom that can be asked anything, hands shaken."""

    async def shake_hands(client: RawClient) -> None:
        client.revision = revision
        client.capabilities = capabilities_in(revision)
        client.answers = answers()
        await client.initialize()

    if way == "memory":
        async with serving(make(), revision=revision, shake_hands=False) as (client, _):
            await shake_hands(client)
            yield client
    elif way == "tcp":
        with trio.fail_after(TIME_LIMIT):
            async with on_tcp(make()) as stream:
                client = RawClient(stream)
                await shake_hands(client)
                yield client
    else:
        async with running(python(Path(__file__))) as server:
            await shake_hands(server.client)
            yield server.client
            assert await server.finish() == 0


def capabilities_in(revision: str) -> dict[str, Any]:
    """Everything that a client of a revision can declare."""
    known = {**EVERYTHING}
    if revision < "2025-06-18":
        del known["elicitation"]
    return known


async def settle(client: RawClient, method: str, params: dict[str, Any]) -> Any:
    """Send a request, answer whatever is asked because of it, and return the final answer."""
    return (await rounds(client, method, params))[-1]


async def rounds(client: RawClient, method: str, params: dict[str, Any]) -> list[Any]:
    """The same, and return all answers: in legacy revisions there is only one."""
    received = [await client.request(method, params)]
    while client.revision in MODERN and is_question(received[-1]):
        assert len(received) < 50, "there is no end to the questions"
        more = retry_of(received[-1], client.answers)
        received.append(await client.request(method, {**params, **more}))
    return received


def is_question(answer: Any) -> bool:
    """Whether an answer asks for input."""
    return answer.get("result", {}).get("resultType") == "input_required"


def retry_of(answer: Any, answers: dict[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """What to add to a request that was answered with questions."""
    result = answer["result"]
    given = {
        key: answers[question["method"]](question["params"])
        for key, question in result["inputRequests"].items()
    }
    return {"inputResponses": given, "requestState": result["requestState"]}


if __name__ == "__main__":
    trio.run(lambda: serve(make(), limits=Limits(eof_grace=60.0, shutdown_grace=60.0)))
