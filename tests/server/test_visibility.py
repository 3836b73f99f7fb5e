"""What a caller sees is decided by a function of the author's, the same wherever it asks."""

import logging
from typing import Any

import pytest
from attrs import evolve

from tests.support.client import serving
from tests.support.tools import echo, error_of, registry_of
from trio_mcp import Client, Context, Handlers, Implementation, Limits, McpError, Registry, connect
from trio_mcp.server.caller import UNKNOWN_CALLER
from trio_mcp.server.request import RequestContext
from trio_mcp.server.scopes import needed_scopes
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session
from trio_mcp.wire.jsonrpc import Request

pytestmark = pytest.mark.requirement("L5")

FRIEND = Implementation("friend", "1.0")
STRANGER = Implementation("stranger", "1.0")


def for_friends(shown: Any, caller: Context) -> bool:
    """Whether it is not a secret, or the caller a friend."""
    is_friend = caller.client is not None and caller.client.name == "friend"
    return is_friend or "secret" not in shown.name


def with_secrets(**options: Any) -> Registry:
    """A registry with something secret of every kind."""
    registry = registry_of(echo, **{"visible": for_friends, **options})
    for number in range(3):
        registry.add_tool(echo, name=f"secret_{number}")
    registry.add_tool(echo, name="last")

    @registry.resource("vault://{name}", name="secrets")
    async def vault(name: str) -> str:
        return name

    @registry.resource("note://a", name="note")
    async def note() -> str:
        return "a"

    @registry.prompt(name="secret_plan")
    async def plan(loud: bool = False) -> str:
        return "a plan"

    @registry.prompt
    async def hello(loud: bool = False) -> str:
        return "hello"

    return registry


async def refusal(client: Client, method: str, params: dict[str, Any]) -> McpError:
    """The error that a request is answered with."""
    with pytest.raises(McpError) as refused:
        await client.request(method, params)
    return refused.value


def completing(kind: str, **target: str) -> dict[str, Any]:
    """Parameters of `completion/complete`."""
    argument = {"name": "loud" if "name" in target else "name", "value": ""}
    return {"ref": {"type": kind, **target}, "argument": argument}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_is_hidden_is_not_there_wherever_it_is_asked_for(era):
    registry = with_secrets()
    async with connect(registry, era=era, client_info=STRANGER, list_tools=False) as client:
        assert [each.name for each in await client.list_resource_templates()] == []
        assert [each.name for each in await client.list_prompts()] == ["hello"]
        listed = await client.request("tools/list")
        assert [each["name"] for each in listed["tools"]] == ["echo", "last"]
        if era == "modern":
            assert listed["cacheScope"] == "private"
        for method, params, words in [
            ("tools/call", {"name": "secret_1", "arguments": {}}, "Unknown tool: secret_1"),
            ("tools/call", {"name": "secret_", "arguments": {}}, "Unknown tool: secret_"),
            ("prompts/get", {"name": "secret_plan"}, "Unknown prompt: secret_plan"),
            ("resources/read", {"uri": "vault://x"}, "Resource not found: vault://x"),
            ("completion/complete", completing("ref/prompt", name="secret_plan"), "Unknown prompt"),
            ("completion/complete", completing("ref/prompt", name="secret_pla"), "Unknown prompt"),
            (
                "completion/complete",
                completing("ref/resource", uri="vault://{name}"),
                "Unknown resource template",
            ),
        ]:
            error = await refusal(client, method, params)
            assert words in str(error)
            assert "didYouMean" not in (error.data or {})
        async with client.subscribe(resources=["vault://x", "note://a"]) as changes:
            assert changes.uris == {"note://a"}


async def test_who_may_see_it_may_use_it_too():
    async with connect(with_secrets(), client_info=FRIEND) as client:
        assert "secret_1" in client.tools
        assert (await client.call_tool("secret_1", {"text": "x"})).text == "x"
        [contents] = (await client.read_resource("vault://x")).contents
        assert contents.text == "x"
        assert (await client.get_prompt("secret_plan")).messages
        found = await client.request(
            "completion/complete", completing("ref/prompt", name="secret_plan")
        )
        assert found["completion"]["values"] == ["true", "false"]
        error = await refusal(client, "tools/call", {"name": "secret_", "arguments": {}})
        assert error.data["didYouMean"].startswith("secret_")


async def test_pages_have_what_is_seen_and_cursors_lead_on():
    registry = with_secrets(page_size=1)
    for info, expected in [(STRANGER, ["echo", "last"]), (FRIEND, list(registry.tools))]:
        async with connect(registry, client_info=info) as client:
            assert list(client.tools) == expected
    async with connect(registry, client_info=FRIEND) as client:
        second = (await client.request("tools/list"))["nextCursor"]
        hidden = (await client.request("tools/list", {"cursor": second}))["nextCursor"]
    async with connect(registry, client_info=STRANGER) as client:
        assert "Invalid cursor" in str(await refusal(client, "tools/list", {"cursor": hidden}))


async def test_each_part_has_the_say_over_its_own_by_the_names_that_it_knows():
    part = registry_of(echo, visible=lambda shown, caller: shown.name == "echo")
    part.add_tool(echo, name="other")
    whole = registry_of(echo, visible=lambda shown, caller: shown.name != "echo")
    whole.mount(part, prefix="part")
    async with connect(whole) as client:
        assert list(client.tools) == ["part_echo"]


async def test_one_that_fails_shows_nothing(caplog):
    def broken(shown: Any, caller: Context) -> bool:
        raise KeyError("s3cret")

    caplog.set_level(logging.ERROR)
    async with serving(registry_of(echo, visible=broken)) as (client, _):
        for answer in [await client.request("tools/list"), await client.call("echo", text="x")]:
            assert error_of(answer) == (-32603, "Internal error")
    assert "s3cret" in caplog.text


def test_a_scope_is_not_asked_for_what_is_hidden():
    registry = Registry("test", visible=for_friends)
    registry.add_tool(echo, name="secret", scopes=["high"])
    server = Server(registry, Limits())
    callers = []

    def context_of(request):
        callers.append(caller)
        return RequestContext(server, 1, request.method, {}, caller, Session())

    request = Request(1, "tools/call", {"name": "secret"})
    caller = UNKNOWN_CALLER
    assert needed_scopes(request, server, context_of) == set()
    caller = evolve(UNKNOWN_CALLER, client_info={"name": "friend", "version": "1"})
    assert needed_scopes(request, server, context_of) == {"high"}
    assert len(callers) == 2


def test_a_context_is_made_only_where_an_entry_has_visibility_rules():
    registry = Registry("test")
    registry.add_tool(echo, name="plain", scopes=["low"])
    request = Request(1, "tools/call", {"name": "plain"})
    assert needed_scopes(request, Server(registry, Limits()), pytest.fail) == {"low"}


@pytest.mark.parametrize("wrong", ["all", 7, [for_friends], lambda shown: True])
def test_what_is_no_function_is_refused_at_once(wrong):
    with pytest.raises(TypeError, match="visible must be a plain function"):
        Registry("test", visible=wrong)


def test_one_that_waits_is_refused_at_once():
    async def waits(shown: Any, caller: Context) -> bool:
        return False

    with pytest.raises(TypeError, match="visible must be a plain function"):
        Registry("test", visible=waits)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_is_seen_may_depend_on_what_the_caller_can_do(era):
    registry = registry_of(echo, visible=lambda shown, caller: "sampling" in caller.capabilities)
    async with connect(registry, era=era) as client:
        assert client.tools == {}
    async with connect(registry, era=era, handlers=Handlers(sampling=print)) as client:
        assert list(client.tools) == ["echo"]
        assert (await client.call_tool("echo", {"text": "hey"})).text == "hey"
