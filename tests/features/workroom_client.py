"""Clients of the workroom, which answer whatever it asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.features import workroom
from tests.features.ways import connection_by
from tests.support.client import MODERN, RawClient
from tests.support.processes import python

EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
"""The capabilities of a client that can be asked anything."""
COMMAND = python(Path(workroom.__file__))
"""The command that runs the workroom."""


@asynccontextmanager
async def reaching(way: str, revision: str) -> AsyncIterator[RawClient]:
    """A raw client that can be asked anything, hands shaken; a process has to exit in good order."""
    async with connection_by(way, workroom.make(), COMMAND) as client:
        client.revision = revision
        client.capabilities = capabilities_in(revision)
        client.answers = answers()
        await client.initialize()
        yield client


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
