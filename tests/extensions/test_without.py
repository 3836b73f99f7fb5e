"""An extension that one side does not have: it costs nothing, and nothing of it is sent."""

import json
import subprocess
import sys
from typing import Any

import pytest
import trio

from tests.client.support import beside
from tests.extensions.later import COUNT, GET, LATER, NUDGE, Later, LaterClient, make
from tests.extensions.ways import BLUE, client_of, each_era, raw
from tests.support.client import LEGACY, MODERN
from tests.support.tools import each_revision, text_of
from tests.transports.http.support import client_of as http_client
from tests.transports.http.support import hosting
from trio_mcp import Context, McpError, Registry, connect
from trio_mcp.errors import ProtocolError
from trio_mcp.extending import ClientExtension

pytestmark = pytest.mark.requirement("K1")

MISSING: dict[str, Any] = {"requiredCapabilities": {"extensions": {LATER: {}}}}
NOTHING: dict[str, Any] = {}

each_lack = pytest.mark.parametrize(
    "capabilities",
    [
        {},
        {"extensions": {}},
        {"extensions": {"com.example/other": {}}},
        {"extensions": {LATER: True}},
        {"extensions": {LATER: None}},
        {"extensions": [LATER]},
        {"extensions": 5},
    ],
    ids=str,
)


# -- clients without it ---------------------------------------------------------------------------


@each_lack
@pytest.mark.parametrize("revision", [LEGACY[-1], MODERN[-1]])
async def test_a_client_that_has_not_declared_it(revision: str, capabilities: Any) -> None:
    theirs = Later()
    async with raw(make(theirs), revision, capabilities) as client:
        client.added = ()
        assert text_of(await client.call("add", a=1, b=2)) == "3"
        error = (await client.request(GET.name, {"laterId": "x"}))["error"]
        assert (error["code"], error["data"]) == (-32021, MISSING)
        error = (await client.call("slow"))["error"]  # which cannot be done otherwise
        assert (error["code"], error["data"]) == (-32021, MISSING)
        assert (await client.request(COUNT.name))["result"]["settings"] is None
        await client.notify(NUDGE, {"how": "hard"})
        assert "result" in await client.request(COUNT.name)
        assert theirs.nudges == []
        assert theirs.jobs == {}
        assert client.told == []


async def test_the_error_says_what_is_odd_about_a_declaration() -> None:
    for capabilities, words in (
        ({"extensions": {LATER: True}}, "its settings must be an object, not a boolean"),
        ({"extensions": 5}, "extensions must be an object, not a number"),
    ):
        async with raw(make(), MODERN[-1], capabilities) as client:
            assert words in (await client.request(GET.name))["error"]["message"]


async def test_a_tool_that_may_be_put_off_need_not_be() -> None:
    async with raw(make(), LEGACY[-1], {"elicitation": {}}) as client:
        client.added = ()
        client.answers["elicitation/create"] = lambda params: {
            "action": "accept",
            "content": {"value": "red"},
        }
        assert text_of(await client.call("paint", thing="door")) == "door is red"


async def test_a_subscription_needs_the_extension() -> None:
    async with raw(make(), MODERN[-1], {}) as client:
        wanted = {"notifications": {"laterIds": ["a"]}}
        error = (await client.request("subscriptions/listen", wanted))["error"]
        assert (error["code"], error["data"]) == (-32021, MISSING)
        client.capabilities = {"extensions": {LATER: {}}}
        for odd in ({"laterIds": "a"}, {"laterIds": [1]}, {"laterEmptied": "yes"}):
            answer = await client.request("subscriptions/listen", {"notifications": odd})
            assert answer["error"]["code"] == -32602
        many = {"laterIds": [str(number) for number in range(100_000)]}
        answer = await client.request("subscriptions/listen", {"notifications": many})
        assert "a subscription may take" in answer["error"]["message"]


async def test_what_it_declared_in_another_request_does_not_count() -> None:
    async with raw(make(), MODERN[-1]) as client:
        assert (await client.call("slow"))["result"]["resultType"] == "later"
        client.capabilities = {}
        assert (await client.call("slow"))["error"]["code"] == -32021


async def test_over_http_the_status_says_so() -> None:
    async with hosting(make()) as host:
        client: Any = await http_client(host, MODERN[-1])
        response = await client.post(client.request_of(COUNT.name))
        assert response.status == 200
        response = await client.post(client.request_of("later/modern"))
        assert (response.status, (await response.answer())["error"]["code"]) == (400, -32021)


@each_era
async def test_our_client_without_it_is_not_disturbed(era: Any) -> None:
    async with client_of(make(), "in-process", era) as client:
        assert client.extensions == {}
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert LATER not in (result.meta or {})
        assert await client.call_tool("paint", {"thing": "door"}, returns=str) == "door is blue"
        with pytest.raises(McpError, match="required client capability"):
            await client.request("later/get", {"laterId": "x"})


# -- servers without it ---------------------------------------------------------------------------


def plain() -> Registry:
    """A registry that tells what its caller has declared."""
    registry = Registry("plain")

    @registry.tool
    async def declares(name: str, context: Context) -> bool:
        return context.supports("extensions", name)

    return registry


class Insistent(ClientExtension):
    """Tells every server of itself."""

    identifier = "com.example/insistent"
    one_sided = True


@pytest.mark.parametrize("way", ["in-process", "stream", "http"])
@each_era
async def test_a_server_without_it_hears_no_more_of_it(way: str, era: Any) -> None:
    ours = LaterClient()
    extensions = [ours, Insistent()]
    async with client_of(plain(), way, era, extensions=extensions) as client:
        assert client.extensions == {}
        heard = await client.call_tool("declares", {"name": LATER}, returns=bool)
        # A legacy client has said so in the handshake, before it knew the server.
        assert heard is (era == "legacy")
        name = Insistent.identifier
        assert await client.call_tool("declares", {"name": name}, returns=bool)
        with pytest.raises(McpError, match="does not have the extension"):
            await client.request("later/get", {"laterId": "x"})
        async with client.subscribe(lists=["tools"], extensions={"laterIds": ["a"]}) as stream:
            assert stream.extensions == {}
        with pytest.raises(ValueError, match="no extension of this client has the key 'others'"):
            async with client.subscribe(extensions={"others": True}):
                pass
        assert ours.life == []


async def test_a_result_of_an_extension_that_the_server_does_not_have() -> None:
    """It must not be sent; a server that does so all the same is not believed."""

    async def serve(stream: trio.abc.Stream) -> None:
        buffer = b""
        async for chunk in stream:
            buffer += chunk
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "id" not in message:
                    continue
                found: dict[str, Any] = {"resultType": "later", "laterId": "x"}
                if message["method"] == "server/discover":
                    found = {"supportedVersions": MODERN, "capabilities": {"tools": {}}}
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": found}
                await stream.send_all(json.dumps(answer).encode() + b"\n")

    async with beside(serve) as stream:
        async with connect(stream, extensions=[LaterClient()], list_tools=False) as client:
            with pytest.raises(ProtocolError, match="'later' result"):
                await client.call_tool("any")


async def test_a_request_that_may_not_be_answered_so() -> None:
    theirs = Later()
    registry = make(theirs)

    @registry.prompt(extensions={LATER: True})
    async def poem() -> str:
        return "Roses are red"

    async with connect(registry, extensions=[LaterClient()], handlers=BLUE) as client:
        with pytest.raises(ProtocolError, match="'later' result"):
            await client.get_prompt("poem")


# -- what is declared -----------------------------------------------------------------------------


@each_revision
async def test_who_has_none_declares_none(revision: str) -> None:
    async with raw(plain(), revision, NOTHING) as client:
        method = "server/discover" if revision in MODERN else "initialize"
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {}}
        answer = await client.request(method, None if revision in MODERN else params)
        assert "extensions" not in answer["result"]["capabilities"]


class ForModern(Later):
    """There is none of it in legacy revisions."""

    era = "modern"


@each_revision
async def test_one_of_a_single_era(revision: str, autojump_clock: object) -> None:
    async with raw(make(ForModern()), revision) as client:
        answer = await client.request(COUNT.name)
        assert ("result" in answer) is (revision in MODERN)
        put_off = (await client.call("slow"))["result"].get("resultType") == "later"
        assert put_off is (revision in MODERN)
        if revision in LEGACY:
            assert answer["error"]["code"] == -32601


def test_nothing_is_imported_that_is_not_used() -> None:
    program = (
        "import sys, trio, trio_mcp\n"
        "registry = trio_mcp.Registry('x')\n"
        "@registry.tool\n"
        "async def add(a: int) -> int: return a\n"
        "from trio_mcp import serve\n"
        "import trio_mcp.transports.stdio.serve\n"
        "print([name for name in sys.modules if 'extension' in name or 'extended' in name])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
