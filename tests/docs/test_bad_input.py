"""The page on bad input: what it says of versions, extensions and the end is what is answered."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.docs.test_readme import table
from tests.support.client import CAPABILITIES, modern_meta, serving
from tests.support.processes import ROOT
from tests.support.tools import error_of, registry_of
from tests.transports.http.support import modern
from trio_mcp import Context, Limits
from trio_mcp.extensions.tasks import Tasks

PAGE = ROOT / "docs" / "bad-input.md"
VERSION = "io.modelcontextprotocol/protocolVersion"


async def hang() -> None:
    """Wait until it is cancelled."""
    await trio.sleep_forever()


async def ask(context: Context) -> str:
    """Ask the user."""
    return str((await context.elicit("Yes?", bool)).value)


async def answer_to(**meta: Any) -> Any:
    """The error for a modern request with another `_meta`; of `None`, a member is left out."""
    kept = {key: value for key, value in {**modern_meta(), **meta}.items() if value is not None}
    async with serving(registry_of(ask), revision="2026-07-28") as (client, _):
        client.judging = False  # what is asked does not fit the schema
        params = {"_meta": kept}
        await client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params})
        return (await client.receive())["error"]


async def other_version() -> Any:
    error = await answer_to(**{VERSION: "2030-01-01"})
    assert error["data"]["supported"] == ["2026-07-28"]
    return error


async def wrong_members() -> Any:
    missing, wrong = await answer_to(**{CAPABILITIES: None}), await answer_to(**{CAPABILITIES: 1})
    assert missing["code"] == wrong["code"]
    return missing


async def undeclared_extension() -> Any:
    registry = registry_of(ask, extensions=[Tasks()])
    async with serving(registry, revision="2026-07-28") as (client, _):
        client.judging = False  # the method is the extension's
        error = (await client.request("tasks/get", {"taskId": "x"}))["error"]
    assert "io.modelcontextprotocol/tasks" in json.dumps(error["data"])
    return error


async def contradicting_headers() -> Any:
    async with modern(registry_of(ask)) as client:
        response = await client.begin("tools/list", None, **{"mcp-method": "tools/call"}).end()
        return (await response.answer())["error"]


async def used_id() -> Any:
    async with serving(registry_of(hang)) as (client, _):
        id = await client.start("hang")
        client.judging = False  # one id has two answers
        await client.send({"jsonrpc": "2.0", "id": id, "method": "ping"})
        return (await client.receive())["error"]


async def outlives_its_grace() -> Any:
    async with serving(registry_of(hang)) as (client, handle):
        await client.start("hang")
        await wait_all_tasks_blocked()
        handle.stop()
        return (await client.receive())["error"]


async def after_the_end() -> Any:
    limits = Limits(max_outgoing_bytes=100)
    pair = trio.testing.lockstep_stream_pair
    async with serving(registry_of(hang), limits, pair=pair) as (client, handle):
        await client.send(*(client.request_of("ping") for _ in range(100)))
        await wait_all_tasks_blocked()  # no answer is read, so dispatching pauses
        handle.stop()
        await wait_all_tasks_blocked()
        return [each["error"] for each in await client.receive_all() if "error" in each][-1]


CASES: dict[str, Callable[[], Awaitable[Any]]] = {
    "names a modern version": other_version,
    "lacks a required member": wrong_members,
    "uses an extension": undeclared_extension,
    "has HTTP headers": contradicting_headers,
    "has an id that is in use": used_id,
    "runs when the server is stopped": outlives_its_grace,
    "comes after the end": after_the_end,
}


@pytest.mark.requirement("A9", "A12")
@pytest.mark.parametrize("row", table(PAGE, "The request"), ids=lambda row: row[0])
async def test_a_request_is_refused_with_the_code_of_the_table(
    row: list[str], autojump_clock: trio.testing.MockClock
) -> None:
    what, says = row
    (case,) = (case for beginning, case in CASES.items() if what.startswith(beginning))
    error = await case()
    code, _, text = says.partition(", ")
    assert error["code"] == int(code)
    assert not text.startswith('"') or error["message"] == text.strip('"')


@pytest.mark.parametrize(("revision", "code"), [("2025-11-25", -32600), ("2026-07-28", -32021)])
async def test_a_question_that_the_client_has_not_declared(revision: str, code: int) -> None:
    async with serving(registry_of(ask), revision=revision) as (client, _):
        assert error_of(await client.call("ask"))[0] == code
