"""The guide to revisions: each cell of its tables is what a client of that revision meets."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal

import pytest
from attrs import frozen

from tests.docs.test_readme import table
from tests.support.client import LEGACY, MODERN, REVISIONS, serving
from tests.support.processes import ROOT
from tests.transports.http.support import LegacyClient, ModernClient, client_of, hosting
from trio_mcp import (
    AudioContent,
    CallToolResult,
    Context,
    Icon,
    McpError,
    Registry,
    ResourceLink,
    SchemaError,
    SessionOptions,
    TextContent,
    ToolAnnotations,
    handle_message,
)
from trio_mcp.wire.payloads import ToolDescription
from trio_mcp.wire.revisions import ALL

GUIDE = ROOT / "docs" / "guides" / "revisions.md"
ICONS = [Icon("https://x.test/icon.png")]
CAPABILITIES = {
    "roots": {},
    "sampling": {"tools": {}},
    "elicitation": {"form": {}, "url": {}},
}
ANSWERS: dict[str, Any] = {
    "roots/list": {"roots": []},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Hello"},
        "model": "some",
    },
    "elicitation/create": {"action": "cancel"},
}

Probe = Callable[[str], Awaitable[str]]
"""Meets the server as a client of a revision, and says what the guide should say."""


def yes(it: bool) -> str:
    return "yes" if it else "no"


# -- what becomes of what you offer ---------------------------------------------------------------


@frozen
class Place:
    """An object."""

    name: str


def everything() -> Registry:
    """A registry that gives all that there is to give."""
    registry = Registry(
        "everything", title="Everything", website_url="https://x.test/", icons=ICONS
    )
    hints = ToolAnnotations(title="Say it", read_only_hint=True)
    meta = {"x.test/key": 1}

    @registry.tool(title="Say", icons=ICONS, annotations=hints, meta=meta)
    async def say() -> CallToolResult:
        return CallToolResult([TextContent("said")], meta=meta)

    @registry.tool
    async def place() -> Place:
        return Place("Graz")

    @registry.tool(output_schema={"type": "array"})
    async def numbers() -> list[int]:
        return [1, 2]

    @registry.tool
    async def audio() -> AudioContent:
        return AudioContent("AAAA", "audio/wav")

    @registry.tool
    async def link() -> ResourceLink:
        return ResourceLink("x://y", "why")

    @registry.tool
    async def work(context: Context) -> None:
        await context.progress(1, message="half of it")

    @registry.resource("x://there", title="There", icons=ICONS)
    async def there() -> str:
        return "here"

    @registry.prompt(title="Ask", icons=ICONS)
    async def ask(word: Literal["a", "b"]) -> str:
        return word

    @registry.tool
    async def log(context: Context) -> None:
        await context.debug("of little use")
        await context.info("of some use")

    return registry


async def listed(revision: str, kind: str) -> dict[str, Any]:
    """The first of a list."""
    async with serving(everything(), revision=revision) as (client, _):
        answer = await client.request(f"{kind}/list")
        first: dict[str, Any] = answer["result"][kind][0]
        return first


async def called(revision: str, tool: str, **meta: Any) -> tuple[dict[str, Any], list[Any]]:
    """The result of a call, and what was told before it."""
    async with serving(everything(), revision=revision) as (client, _):
        params = {"name": tool, "arguments": {}, **({"_meta": meta} if meta else {})}
        answer = await client.request("tools/call", params)
        return answer["result"], client.told


async def about(revision: str) -> dict[str, Any]:
    """What the server says of itself, with its capabilities."""
    async with serving(everything(), revision=revision, shake_hands=False) as (client, _):
        if revision in MODERN:
            result = (await client.request("server/discover"))["result"]
            info = result["_meta"]["io.modelcontextprotocol/serverInfo"]
        else:
            result = (await client.initialize())["result"]
            info = result["serverInfo"]
        return {**info, "capabilities": result["capabilities"]}


async def on_all_kinds(revision: str, key: str) -> str:
    found = {key in await listed(revision, kind) for kind in ("tools", "resources", "prompts")}
    (has_it,) = found
    return yes(has_it)


async def hints(revision: str) -> str:
    annotations = (await listed(revision, "tools")).get("annotations")
    assert annotations in (None, {"title": "Say it", "readOnlyHint": True})
    return yes(annotations is not None)


async def icons(revision: str) -> str:
    has_it = await on_all_kinds(revision, "icons")
    assert yes("icons" in await about(revision)) == has_it
    return has_it


async def of_the_server(key: str, revision: str) -> str:
    return yes(key in await about(revision))


async def meta_of_a_tool(revision: str) -> str:
    return yes("_meta" in await listed(revision, "tools"))


async def meta_of_a_result(revision: str) -> str:
    result, _ = await called(revision, "say")
    return yes("x.test/key" in result.get("_meta", {}))


async def form_of_result(tool: str, revision: str) -> str:
    result, _ = await called(revision, tool)
    assert result["content"][0]["type"] == "text"
    found = result.get("structuredContent")
    return "text" if found is None else "wrapped" if "result" in found else "structured"


async def form_of_audio(revision: str) -> str:
    (block,) = (await called(revision, "audio"))[0]["content"]
    if block["type"] == "resource":
        assert block["resource"]["blob"] == "AAAA"
        return "embedded"
    return yes(block["type"] == "audio")


async def form_of_link(revision: str) -> str:
    (block,) = (await called(revision, "link"))[0]["content"]
    if block["type"] == "text":
        assert block["text"] == "why: x://y"
        return "text"
    return yes(block["type"] == "resource_link")


async def progress_message(revision: str) -> str:
    _, (told,) = await called(revision, "work", progressToken="p")
    return yes("message" in told["params"])


async def completion(revision: str) -> str:
    async with serving(everything(), revision=revision) as (client, _):
        of = {"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": "word"}}
        of["argument"]["value"] = ""
        answer = await client.request("completion/complete", of)
        assert answer["result"]["completion"]["values"] == ["a", "b"]
    return yes("completions" in (await about(revision))["capabilities"])


async def caching(revision: str) -> str:
    async with serving(everything(), revision=revision) as (client, _):
        result = (await client.request("tools/list"))["result"]
        return yes({"ttlMs", "cacheScope"} <= result.keys())


OFFERED: dict[str, Probe] = {
    "`title` of a tool, resource or prompt": partial(on_all_kinds, key="title"),
    "`title` in `ToolAnnotations`, and the four hints": hints,
    "`icons`, of whatever has some": icons,
    "`Registry(title=…)`": partial(of_the_server, "title"),
    "`Registry(website_url=…)`": partial(of_the_server, "websiteUrl"),
    "`meta` of a tool": meta_of_a_tool,
    "`meta` of a `CallToolResult`": meta_of_a_result,
    "an object as result": partial(form_of_result, "place"),
    "a result with an output schema that is not an object": partial(form_of_result, "numbers"),
    "`AudioContent`": form_of_audio,
    "`ResourceLink`": form_of_link,
    "the message of `context.progress`": progress_message,
    "completion, in the capabilities": completion,
    "`cache_ttl` and `cache_scope`": caching,
}


# -- what can be asked ----------------------------------------------------------------------------

Ask = Callable[[Context], Awaitable[object]]


async def notifies_completion(revision: str) -> str:
    """Whether a client hears that what it was asked to do at a page is done."""
    registry = Registry("curious")

    @registry.tool
    async def curious(context: Context) -> str:
        await context.complete_elicitation("page-1")
        return "said"

    async with serving(registry, revision=revision, capabilities=CAPABILITIES) as (client, _):
        await client.call("curious")
        return yes("notifications/elicitation/complete" in [each["method"] for each in client.told])


async def is_asked(ask: Ask, revision: str) -> str:
    """Whether a question arrives at a client that has declared everything."""
    registry = Registry("curious")
    asked: list[str] = []

    @registry.tool
    async def curious(context: Context) -> str:
        try:
            await ask(context)
        except (McpError, SchemaError):
            return "refused"
        return "answered"

    def answer(method: str, _: Any) -> Any:
        asked.append(method)
        return ANSWERS[method]

    async with serving(registry, revision=revision, capabilities=CAPABILITIES) as (client, _):
        client.answers = {method: partial(answer, method) for method in ANSWERS}
        result = (await client.call("curious"))["result"]
    if revision in MODERN:
        return yes(result["resultType"] == "input_required")
    refused = result["content"][0]["text"] == "refused"
    assert refused == (not asked)
    return yes(bool(asked))


async def meanwhile(revision: str) -> str:
    """What becomes of a handler that asks."""
    registry = Registry("curious")
    runs = 0

    @registry.tool
    async def curious(context: Context) -> str:
        nonlocal runs
        runs += 1
        await context.roots()
        return "done"

    async with serving(registry, revision=revision, capabilities=CAPABILITIES) as (client, _):
        client.answers = {"roots/list": lambda _: ANSWERS["roots/list"]}
        result = (await client.call("curious"))["result"]
        if result.get("resultType") == "input_required":
            given = dict.fromkeys(result["inputRequests"], ANSWERS["roots/list"])
            again = {"requestState": result["requestState"], "inputResponses": given}
            call = {"name": "curious", "arguments": {}, **again}
            result = (await client.request("tools/call", call))["result"]
    assert result["content"][0]["text"] == "done"
    return {1: "waits", 2: "ends, and runs again"}[runs]


TOOL = ToolDescription("dig", {"type": "object"})
ASKED: dict[str, Probe] = {
    "`context.roots`": partial(is_asked, lambda context: context.roots()),
    "`context.sample`": partial(is_asked, lambda context: context.sample("Hi", max_tokens=9)),
    "`context.sample` with tools": partial(
        is_asked, lambda context: context.sample("Hi", max_tokens=9, tools=[TOOL])
    ),
    "`context.elicit`": partial(is_asked, lambda context: context.elicit("Sure?", bool)),
    "`context.elicit` for a list of choices": partial(
        is_asked, lambda context: context.elicit("Which?", list[Literal["a", "b"]])
    ),
    "`context.elicit_url`": partial(
        is_asked, lambda context: context.elicit_url("Log in", "https://x.test/")
    ),
    "`context.complete_elicitation`": notifies_completion,
    "the handler, meanwhile": meanwhile,
}


# -- what clients see -----------------------------------------------------------------------------


async def is_known(method: str, revision: str, **params: Any) -> str:
    """Whether there is such a request."""
    async with serving(everything(), revision=revision) as (client, _):
        request = client.request_of(method, params)
        await client.send(request)
        while "id" not in (answer := await client.receive()) and "error" not in answer:
            if answer["method"] == "notifications/subscriptions/acknowledged":
                return "yes"
        return yes("result" in answer)


async def initialize(revision: str) -> str:
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {}}
    return await is_known("initialize", revision, **params)


async def unwanted_logs(revision: str) -> str:
    _, told = await called(revision, "log")
    levels = [each["params"]["level"] for each in told]
    return f"from {levels[0]}" if levels else "none"


async def batches(revision: str) -> str:
    async with serving(everything(), revision=revision) as (client, _):
        client.judging = False  # only one revision has a schema for arrays
        await client.send([client.request_of("tools/list")])
        answer = await client.receive()
        return yes(isinstance(answer, list) and "result" in answer[0])


async def bad_arguments(revision: str) -> str:
    registry = Registry("strict")

    @registry.tool
    async def double(number: int) -> int:
        return 2 * number

    async with serving(registry, revision=revision) as (client, _):
        answer = await client.call("double", number="two")
    if "error" in answer:
        return str(answer["error"]["code"])
    assert answer["result"]["isError"] is True
    return "a result"


async def missing_resource(revision: str) -> str:
    async with serving(everything(), revision=revision) as (client, _):
        answer = await client.request("resources/read", {"uri": "x://nowhere"})
        return str(answer["error"]["code"])


async def http_session(revision: str) -> str:
    async with hosting(everything()) as host:
        client = await client_of(host, revision)
        response = await client.post(client.request_of("tools/list"))
        assert response.status == 200
        return yes("mcp-session-id" in response.headers)


async def name_in_results(revision: str) -> str:
    result, _ = await called(revision, "say")
    return yes("io.modelcontextprotocol/serverInfo" in result.get("_meta", {}))


SEEN: dict[str, Probe] = {
    "`initialize`, before anything else": initialize,
    "`server/discover`": partial(is_known, "server/discover"),
    "`ping`": partial(is_known, "ping"),
    "`resources/subscribe`": partial(is_known, "resources/subscribe", uri="x://there"),
    "`subscriptions/listen`": partial(is_known, "subscriptions/listen", notifications={}),
    "`logging/setLevel`": partial(is_known, "logging/setLevel", level="info"),
    "log messages, if no level was asked for": unwanted_logs,
    "a JSON array of requests": batches,
    "arguments that do not fit": bad_arguments,
    "a resource that does not exist": missing_resource,
    "an HTTP session": http_session,
    "the server's name in every result": name_in_results,
}


# -- the tables -----------------------------------------------------------------------------------

TABLES = {"What you give": OFFERED, "Question": ASKED, "On the wire": SEEN}
ROWS = [
    pytest.param(row[1:], TABLES[heading].get(row[0]), id=row[0].replace("`", ""))
    for heading in TABLES
    for row in table(GUIDE, heading)
]


@pytest.mark.parametrize(("cells", "probe"), ROWS)
async def test_a_row_says_what_clients_meet(cells: list[str], probe: Probe | None) -> None:
    assert probe is not None, "nothing tests this row"
    assert [await probe(revision) for revision in REVISIONS] == cells


def test_every_table_has_all_revisions_and_every_row_its_probe() -> None:
    assert [each.name for each in ALL] == REVISIONS
    for heading, probes in TABLES.items():
        assert f"| {heading} | {' | '.join(REVISIONS)} |\n" in GUIDE.read_text()
        assert [row[0] for row in table(GUIDE, heading)] == list(probes)


def test_the_eras_have_the_revisions_that_are_said() -> None:
    (row,) = (row for row in table(GUIDE, "Era") if row[0] == "Revisions")
    assert row[1:] == [", ".join(LEGACY), ", ".join(MODERN)]


# -- how a server finds out -----------------------------------------------------------------------


def telling() -> Registry:
    """A registry with a tool that tells its caller's revision."""
    registry = Registry("telling")

    @registry.tool
    async def revision(context: Context) -> str:
        return str(context.revision)

    return registry


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "revision"}}


def text(answer: Any) -> str:
    said: str = answer["result"]["content"][0]["text"]
    return said


async def test_on_a_stream_each_request_is_looked_at_by_itself() -> None:
    async with serving(telling(), shake_hands=False) as (client, _):
        assert text(await client.call("revision")) == "2025-11-25"
        for asked, agreed in [("1999-12-31", "2025-11-25"), ("2025-03-26", "2025-03-26")]:
            client.revision = asked
            client.judging = False
            assert (await client.initialize())["result"]["protocolVersion"] == agreed
            assert text(await client.call("revision")) == agreed
        client.revision = MODERN[0]
        assert text(await client.call("revision")) == MODERN[0]
        client.revision = "2025-03-26"
        assert text(await client.call("revision")) == "2025-03-26"


async def test_in_process_a_message_stands_for_itself() -> None:
    line = await handle_message(telling(), json.dumps(CALL).encode())
    assert text(json.loads(line or b"")) == "2025-11-25"
    assert await telling().call("revision") == "None"


@pytest.mark.parametrize(("version", "found"), [(None, "2025-03-26"), ("2025-06-18", "2025-06-18")])
async def test_over_http_without_sessions_it_is_the_header(version: str | None, found: str) -> None:
    async with hosting(telling(), sessions=SessionOptions(stateless=True)) as host:
        client = LegacyClient(host)
        response = await client.post(CALL, {"mcp-protocol-version": version})
        assert text(await response.answer()) == found


async def test_a_modern_request_that_is_wrong_is_refused_as_is_said() -> None:
    async with serving(telling(), revision=MODERN[0]) as (client, _):
        request = client.request_of("tools/list")
        for key, value, code in [
            ("io.modelcontextprotocol/protocolVersion", "2030-01-01", -32022),
            ("io.modelcontextprotocol/clientCapabilities", None, -32602),
        ]:
            meta = {**request["params"]["_meta"], key: value}
            if value is None:
                del meta[key]
            await client.send({**request, "params": {"_meta": meta}})
            error = (await client.receive())["error"]
            assert error["code"] == code
            assert code != -32022 or error["data"]["supported"] == MODERN


async def test_over_http_header_and_body_must_agree() -> None:
    async with hosting(telling()) as host:
        client = ModernClient(host)
        request = client.request_of("tools/list")
        response = await client.post(request, {"mcp-protocol-version": "2025-11-25"})
        assert response.status == 400
        assert (await response.answer())["error"]["code"] == -32020
