"""Servers made with FastMCP, and the same by the guide on migrating: clients find no difference.

The programs lie in `migrated`, each before and after. They are asked by the official client and by
ours, in both eras, and what each of the two servers says is compared in meaning: how schemas are
spelt, and how FastMCP wraps values that are not objects, is left aside.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import trio
from mcp.client.client import Client as OfficialClient
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.interop.auth.support import peer
from tests.interop.packages import FASTMCP
from tests.support.processes import ENVIRONMENT, ROOT
from trio_mcp import Client, HttpOptions, McpError, connect
from trio_mcp.errors import Unauthorized
from trio_mcp.transports import ProcessOptions

pytestmark = [
    pytest.mark.needs("fastmcp"),
    pytest.mark.requirement("L2", "L4", "L5"),
    # The official client leaves the generators that read its streams to the garbage collector.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """Have what that client leaves behind collected while that is expected."""
    yield
    gc.collect()


HERE = ROOT / "tests" / "interop" / "migrated"
TIME_LIMIT = 180  # seconds
WHEN = {"before": str(FASTMCP.python), "after": sys.executable}

Ask = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a request, and returns the members of its result, or `{"error": …}`."""


# The four ways to ask -----------------------------------------------------------------------


async def by_ours(client: Client, method: str, params: dict[str, Any]) -> dict[str, Any]:
    try:
        return await client.request(method, params)
    except McpError as error:
        return {"error": error.code, "message": error.message}
    except Unauthorized as error:
        return {"error": 403, "message": str(error)}


async def by_the_official(client: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
    calls = {
        "tools/list": lambda: client.list_tools(),
        "resources/list": lambda: client.list_resources(),
        "resources/templates/list": lambda: client.list_resource_templates(),
        "prompts/list": lambda: client.list_prompts(),
        "tools/call": lambda: client.call_tool(params["name"], params["arguments"]),
        "resources/read": lambda: client.read_resource(params["uri"]),
        "prompts/get": lambda: client.get_prompt(params["name"], params["arguments"]),
    }
    try:
        result = await calls[method]()
    except Exception as error:
        code = getattr(getattr(error, "error", None), "code", None)
        if code is None:
            raise
        return {"error": code, "message": str(error)}
    wire: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return wire


@asynccontextmanager
async def asking(way: str, command: list[str]) -> AsyncIterator[Ask]:
    """Run a server on stdio, and a client that has its handshake behind it."""
    client, era = way.split()
    if client == "ours":
        options = ProcessOptions(env=ENVIRONMENT, stderr="ignore")
        era_of_ours: Any = era
        async with connect(command, era=era_of_ours, process_options=options) as ours:
            yield lambda method, params: by_ours(ours, method, params)
        return
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(ENVIRONMENT))
    mode = "auto" if era == "modern" else "legacy"
    with open("/dev/null", "w") as errors:
        async with OfficialClient(stdio_client(parameters, errlog=errors), mode=mode) as official:
            yield lambda method, params: by_the_official(official, method, params)


WAYS = ["ours modern", "ours legacy", "official modern", "official legacy"]
every_way = pytest.mark.parametrize("way", WAYS)


# In meaning ---------------------------------------------------------------------------------


def schema_in_meaning(schema: Any, definitions: dict[str, Any] | None = None) -> Any:
    """A schema without references, titles and what the other spells otherwise."""
    if isinstance(schema, list):
        return [schema_in_meaning(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    definitions = schema.get("$defs", definitions) or {}
    if schema.get("x-fastmcp-wrap-result"):
        schema = schema["properties"]["result"]
    if "$ref" in schema:
        beside = {key: each for key, each in schema.items() if key != "$ref"}
        schema = {**definitions[schema["$ref"].rpartition("/")[2]], **beside}
    plain = {
        key: {name: schema_in_meaning(one, definitions) for name, one in each.items()}
        if key == "properties"
        else schema_in_meaning(each, definitions)
        for key, each in schema.items()
        if key not in ("$defs", "title", "additionalProperties")
        and not (key == "default" and each is None)
        and not (key == "required" and not each)
    }
    if len(plain.get("enum", ())) == 1:
        plain["const"] = plain.pop("enum")[0]
    plain.pop("x-fastmcp-wrap-result", None)
    return plain


def list_in_meaning(items: list[dict[str, Any]]) -> dict[str, Any]:
    found = {}
    for each in items:
        key = each.get("uri") or each.get("uriTemplate") or each["name"]
        found[key] = {
            name: schema_in_meaning(value) if name == "inputSchema" else value
            for name, value in each.items()
            if name in ("description", "inputSchema", "mimeType", "annotations")
        }
        if "arguments" in each:
            found[key]["arguments"] = {
                one["name"]: one.get("required", False) for one in each["arguments"]
            }
        for name in ("readOnlyHint",):
            if "annotations" in found[key]:
                found[key]["annotations"] = found[key]["annotations"].get(name)
    return found


def outputs_in_meaning(items: list[dict[str, Any]], way: str) -> dict[str, Any]:
    """The output schemas but for those that only FastMCP has.

    These are those of plain text, and in legacy revisions, which have schemas of objects only, all
    that it wraps in objects.
    """
    found = {each["name"]: each.get("outputSchema") or {} for each in items}
    if "legacy" in way:
        found = {name: {} if "x-fastmcp-wrap-result" in it else it for name, it in found.items()}
    plain = {name: schema_in_meaning(each) for name, each in found.items()}
    return {name: each for name, each in plain.items() if each and each.get("type") != "string"}


def result_in_meaning(result: dict[str, Any]) -> Any:
    if "error" in result and "tool" in result["message"]:
        return "failed"  # a tool that there is not: the one and only error that is a result there
    if "error" in result:
        return "error"
    if "messages" in result:
        return [(each["role"], each["content"]) for each in result["messages"]]
    if "contents" in result:
        return [
            {key: each.get(key) for key in ("uri", "mimeType", "text", "blob")}
            for each in result["contents"]
        ]
    structured = result.get("structuredContent")
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        structured = structured["result"]
    if result.get("isError"):
        return "failed"
    if isinstance(structured, dict):
        return structured
    pictures = [each for each in result["content"] if each["type"] != "text"]
    texts = [each["text"] for each in result["content"] if each["type"] == "text"]
    texts = [] if texts == ["[]"] else texts  # which says that a list is empty
    return [[(each["type"], each["data"], each["mimeType"]) for each in pictures], texts]


LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


async def compare(
    name: str, way: str, requests: list[tuple[str, dict[str, Any]]]
) -> tuple[list[Any], list[Any]]:
    """Ask both servers the same; what they say must mean the same."""
    said: dict[str, list[Any]] = {}
    with trio.fail_after(TIME_LIMIT):
        for when, python in WHEN.items():
            async with asking(way, [python, str(HERE / f"{name}_{when}.py")]) as ask:
                said[when] = await answers(ask, way, requests)
    return said["before"], said["after"]


async def answers(ask: Ask, way: str, requests: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    found: list[Any] = []
    for method, member in LISTS.items():
        result = await ask(method, {})
        items = result.get(member, [])
        found.append(list_in_meaning(items))
        if method == "tools/list":
            found.append(outputs_in_meaning(items, way))
    for method, params in requests:
        found.append(result_in_meaning(await ask(method, params)))
    return found


def call(name: str, /, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": name, "arguments": arguments}


def read(uri: str) -> tuple[str, dict[str, Any]]:
    return "resources/read", {"uri": uri}


def prompt(name: str, /, **arguments: str) -> tuple[str, dict[str, Any]]:
    return "prompts/get", {"name": name, "arguments": arguments}


# The servers --------------------------------------------------------------------------------

SOUP: dict[str, Any] = {"title": "Soup", "ingredients": [{"name": "Leek", "grams": 300}]}
RECIPES = [
    call("count"),
    call("add", recipe=SOUP),
    call("add", recipe={**SOUP, "title": "Cake", "course": "dessert"}),
    call("count", course="dessert"),
    call("find", words="o"),
    call("find", words="nothing"),
    call("photo", title="Soup"),
    call("card", title="Soup"),
    call("photo", title="Stew"),
    # As the models have it: text for a number, and refusals of every kind.
    call("add", recipe={"title": "Tea", "ingredients": [{"name": "Tea", "grams": "5"}]}),
    call("add", recipe={"title": "Air", "ingredients": []}),
    call("add", recipe={"title": "Stones", "ingredients": [{"name": "stone", "grams": 1}]}),
    call("add", recipe={"title": "Stew"}),
    call("add", recipe={**SOUP, "course": "supper"}),
    call("find", words="o", limit=51),
    call("find", words="o", colour="red"),
    read("recipes://titles"),
    read("recipes://Soup/text"),
    read("recipes://Stew/text"),
    read("recipes://Soup/photo"),
    read("recipes://nothing"),
    prompt("cook", title="Soup", guests="4"),
    prompt("cook", title="Soup"),
    prompt("cook"),
]
OFFICE = [
    call("hello"),
    call("calendar_schedule", what="Lunch", hour=12),
    call("schedule", what="Lunch", hour=12),
    call("search", words="plan"),
    call("archive_restore", name="plan.txt"),
    read("calendar://calendar/today"),
    read("calendar://today"),
    read("files://plan/size"),
    prompt("calendar_plan", day="Monday"),
    prompt("plan", day="Monday"),
]


@every_way
@pytest.mark.parametrize(("name", "requests"), [("recipes", RECIPES), ("parts", OFFICE)])
async def test_a_server_on_stdio(
    name: str, requests: list[tuple[str, dict[str, Any]]], way: str
) -> None:
    before, after = await compare(name, way, requests)
    asked = ["tools/list", "output schemas", *list(LISTS)[1:], *requests]
    differing = [
        (what, one, other)
        for what, one, other in zip(asked, before, after, strict=True)
        if one != other
    ]
    assert differing == []


# Over HTTP ----------------------------------------------------------------------------------


@asynccontextmanager
async def asking_over_http(way: str, url: str, token: str) -> AsyncIterator[Ask]:
    client, era = way.split()
    headers = {"Authorization": f"Bearer {token}"}
    if client == "ours":
        era_of_ours: Any = era
        async with connect(
            url, era=era_of_ours, http=HttpOptions(headers=headers, trust_env=False)
        ) as ours:
            yield lambda method, params: by_ours(ours, method, params)
        return
    mode = "auto" if era == "modern" else "legacy"
    async with httpx2.AsyncClient(timeout=TIME_LIMIT, headers=headers, trust_env=False) as http:
        transport = streamable_http_client(url, http_client=http)
        async with OfficialClient(transport, mode=mode) as official:
            yield lambda method, params: by_the_official(official, method, params)


ALICE = [
    call("whoami"),
    call("transfer", amount=10, to="bob"),
    call("transfer", amount=-1, to="bob"),
    call("transfer", amount=2000, to="bob"),
    call("dance"),
]
BOB = [call("whoami")]


@every_way
async def test_a_server_over_http_with_tokens_and_middleware(way: str) -> None:
    said: dict[str, list[Any]] = {}
    with trio.fail_after(TIME_LIMIT):
        for when, python in WHEN.items():
            async with peer(python, str(HERE / f"bank_{when}.py")) as origin:
                url = f"{origin}/mcp"
                async with httpx2.AsyncClient(timeout=TIME_LIMIT, trust_env=False) as http:
                    refused = await http.post(url, json={}, headers={"Authorization": "Bearer x"})
                async with asking_over_http(way, url, "token-of-alice") as ask:
                    alice = await answers(ask, way, ALICE)
                async with asking_over_http(way, url, "token-of-bob") as ask:
                    bob = await answers(ask, way, BOB)
                    forbidden = await ask(*call("transfer", amount=1, to="x"))
                    counts = result_in_meaning(await ask(*call("calls")))
                assert forbidden.get("isError") or "error" in forbidden
                assert set(bob[0]) == {"whoami", "calls"}
                said[when] = [refused.status_code, alice, bob, counts["whoami"]]
    assert said["before"] == said["after"]
