"""Meeting servers of both eras, and servers that are hard to meet."""

import sys
import threading

import pytest
import trio

from tests.client.programs.torture import Torture
from tests.client.support import served, tortured
from tests.support.processes import EXAMPLES
from tests.support.tools import echo, registry_of
from trio_mcp import Implementation, Limits, McpError, Registry, connect
from trio_mcp.client import negotiation
from trio_mcp.client.cache import ConnectionCache
from trio_mcp.client.client import Client, session_of
from trio_mcp.client.handlers import Handlers
from trio_mcp.client.negotiation import ClientIdentity
from trio_mcp.client.notifications import Notifications, RawLines
from trio_mcp.client.session import ClientSession, ConnectOptions
from trio_mcp.client.state import StateLog
from trio_mcp.client.tools import ToolTable
from trio_mcp.client.transport import InboundHandler
from trio_mcp.errors import CallTimeout, ClientError, NotConnected, ProtocolError, UnknownTool
from trio_mcp.wire.limits import SERVER_BOUNDS
from trio_mcp.wire.revisions import ALL


def methods(torture) -> list[str]:
    return [each["method"] for each in torture.heard]


@pytest.mark.requirement("E1", "E3")
@pytest.mark.parametrize("over", ["stream", "memory"])
async def test_on_entry_the_handshake_is_done_and_the_tools_are_known(over) -> None:
    registry = registry_of(echo, instructions="Say it.")
    async with served(registry) if over == "stream" else connect(registry) as client:
        assert client.revision == "2026-07-28"
        assert client.server_info == Implementation("test", "1.2")
        assert client.instructions == "Say it."
        assert client.capabilities == {"tools": {"listChanged": True}, "logging": {}}
        [tool] = client.tools.values()
        assert tool.name == "echo"
        assert tool.description == "Return the text."
        assert tool.input_schema["required"] == ["text"]
        assert tool.timeout == 5.0
        assert tool.enabled
        assert tool.details["name"] == "echo"


@pytest.mark.requirement("E1")
@pytest.mark.parametrize("over", ["stream", "memory"])
async def test_after_the_block_the_client_is_of_no_use(over) -> None:
    registry = registry_of(echo)
    async with served(registry) if over == "stream" else connect(registry) as client:
        pass
    with pytest.raises(NotConnected, match="was left"):
        await client.call_tool("echo", {"text": "x"})
    with pytest.raises(NotConnected):
        await client.ping()


@pytest.mark.requirement("E5")
async def test_before_the_handshake_nothing_is_known() -> None:
    identity = ClientIdentity(info=Implementation("x", "1"), capabilities={})
    inbound = InboundHandler(Handlers(), 1, Notifications(None, ConnectionCache()), RawLines(1))
    options = ConnectOptions(
        identity=identity, states=StateLog(), inbound=inbound, tools=ToolTable(1, 1, {})
    )
    client = Client(ClientSession(None, options))
    with pytest.raises(NotConnected, match="not connected yet"):
        _ = client.era


@pytest.mark.parametrize("bound", SERVER_BOUNDS)
async def test_bounds_that_only_a_server_has_are_refused(bound) -> None:
    limits = Limits(**{bound: 7})
    with pytest.raises(ValueError, match=f"Limits.{bound} is for who serves"):
        async with connect("http://127.0.0.1:1/mcp", limits=limits):
            pass
    async with connect(registry_of(echo), limits=limits) as client:
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


@pytest.mark.requirement("E2")
@pytest.mark.parametrize(
    ("switch", "era", "asked"),
    [
        ("dual", "modern", ["server/discover"]),
        ("modern", "modern", ["server/discover"]),
        ("legacy", "legacy", ["server/discover", "initialize"]),
        ("legacy:-32602", "legacy", ["server/discover", "initialize"]),
        ("legacy:-32600", "legacy", ["server/discover", "initialize"]),
        ("legacy:-32000", "legacy", ["server/discover", "initialize"]),
        ("other-versions:2025-11-25", "legacy", ["server/discover", "initialize"]),
        ("offers:2025-06-18,2025-11-25", "legacy", ["server/discover", "initialize"]),
        ("offers:2026-07-28,2025-11-25", "modern", ["server/discover"]),
    ],
)
async def test_the_era_is_found_out(switch, era, asked) -> None:
    async with tortured(switch) as (client, torture):
        assert client.era == era
        assert methods(torture)[: len(asked)] == asked
        assert ("initialize" in methods(torture)) == ("initialize" in asked)
        assert (methods(torture).count("notifications/initialized") == 1) == (era == "legacy")
        await client.ping()
        assert methods(torture)[-1] == ("ping" if era == "legacy" else "server/discover")
        modern = "io.modelcontextprotocol/protocolVersion"
        assert (modern in torture.heard[-1].get("params", {}).get("_meta", {})) == (era == "modern")
        assert methods(torture).count("initialize") < 2  # what was found out is kept


@pytest.mark.requirement("E2", "E9")
@pytest.mark.parametrize("switch", ["modern", "legacy"])
async def test_a_server_that_says_much_of_itself_holds_up_nothing(switch, monkeypatch) -> None:
    """What is no part of the answer, but passed on by proxies, is put aside in a thread."""
    read = negotiation.others_of
    threads = []

    def others(result):
        threads.append(threading.get_ident())
        return read(result)

    class Talkative(Torture):
        def receive(self, message):
            for each in super().receive(message):
                if message["method"] in ("server/discover", "initialize") and "result" in each:
                    each["result"].update({f"x{number}": 1 for number in range(5000)})
                yield each

    monkeypatch.setattr("tests.client.support.Torture", Talkative)
    monkeypatch.setattr(negotiation, "others_of", others)
    async with tortured(switch) as (client, _):
        assert len(session_of(client).negotiated.others) >= 5000
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.requirement("E2")
async def test_a_legacy_server_may_be_silent_about_what_it_does_not_know(autojump_clock) -> None:
    started = trio.current_time()
    async with tortured("legacy-silent") as (client, torture):
        assert client.era == "legacy"
        assert trio.current_time() - started == 1.0
        assert client.instructions == "be gentle"
        probe = torture.heard[0]
        assert {"requestId": probe["id"]} in [each.get("params") for each in torture.heard]


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("_", range(8))
async def test_a_slow_server_that_answers_both_questions_at_once_is_modern(
    order, _, autojump_clock
) -> None:
    async with tortured(f"late-to-meet:{order}") as (client, torture):
        assert client.era == "modern"
        assert "initialize" in methods(torture)
        assert client.tools


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_era_can_be_forced(era) -> None:
    async with tortured("dual", era=era) as (client, torture):
        assert client.era == era
        assert methods(torture)[0] == {"modern": "server/discover", "legacy": "initialize"}[era]
    async with connect(registry_of(echo), era=era) as client:
        assert client.era == era
        result = await client.call_tool("echo", {"text": "hello"})
        assert result.text == "hello"


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("revision", [each.name for each in ALL])
async def test_the_revision_can_be_chosen(revision) -> None:
    async with connect(registry_of(echo), revision=revision) as client:
        assert client.revision == revision
        assert client.tools


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("revision", [ALL[0].name, ALL[-1].name])
async def test_the_revision_can_be_chosen_for_a_process(revision) -> None:
    calculator = [sys.executable, str(EXAMPLES / "calculator.py")]
    async with connect(calculator, revision=revision) as client:
        assert client.revision == revision
        assert client.tools


@pytest.mark.requirement("E2")
async def test_a_server_that_does_not_speak_the_chosen_revision() -> None:
    with pytest.raises(ProtocolError, match="does not speak 2024-11-05, but 2025-"):
        async with tortured("legacy", revision="2024-11-05"):
            raise AssertionError("they have agreed on nothing")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"revision": "2023-01-01"}, "there is no revision '2023-01-01'; there are 2024-11-05, "),
        ({"revision": "2024-11-05", "era": "modern"}, "2024-11-05 is a legacy one, not modern"),
        ({"revision": "2026-07-28", "era": "legacy"}, "2026-07-28 is a modern one, not legacy"),
    ],
)
async def test_a_revision_that_cannot_be_chosen(options, why) -> None:
    with pytest.raises(ValueError, match=why):
        async with connect(registry_of(echo), **options):
            raise AssertionError("there is no such client")


@pytest.mark.requirement("E2")
async def test_a_version_that_was_refused_is_tried_again_if_the_server_says_so() -> None:
    async with tortured("refuses-once") as (client, torture):
        assert client.revision == "2026-07-28"
        assert methods(torture)[:2] == ["server/discover", "server/discover"]


@pytest.mark.requirement("E2", "E5")
@pytest.mark.parametrize(
    ("switch", "options", "why"),
    [
        ("other-versions:2027-01-01", {}, "the server speaks 2027-01-01"),
        ("other-versions:2026-07-28", {}, "no common protocol version"),
        ("offers:2027-01-01", {}, "no common protocol version"),
        ("nonsense", {}, "refuses the handshake"),
        ("chooses:1999-01-01", {"era": "legacy"}, "'1999-01-01'"),
        ("legacy", {"era": "modern"}, "server/discover"),
        ("modern", {"era": "legacy"}, "refuses the handshake"),
        ("no-list", {}, "no tools"),
        ("refuses-list", {}, "not today"),
        ("same-page", {}, "no end"),
        (f"other-versions:{'x' * 1000}", {}, "speaks x{200}, this client"),
        ("odd-versions", {}, "the server speaks v, this client"),
        (f"chooses:{'x' * 1000}", {"era": "legacy"}, "'x{99}$"),
    ],
)
async def test_what_cannot_be_agreed_on_is_a_protocol_error(switch, options, why) -> None:
    with pytest.raises(ProtocolError, match=why):
        async with tortured(switch, **options):
            raise AssertionError("connected")


@pytest.mark.requirement("E5")
async def test_a_server_that_never_answers_runs_into_the_time_limit(autojump_clock) -> None:
    started = trio.current_time()
    with pytest.raises(CallTimeout, match="connecting: no answer within 3 s") as caught:
        async with tortured("mute", connect_timeout=3):
            raise AssertionError("connected")
    assert trio.current_time() - started == 3
    assert caught.value.seconds == 3
    assert isinstance(caught.value, ClientError)


@pytest.mark.requirement("E3")
async def test_a_list_of_several_pages_is_followed_to_its_end() -> None:
    async with tortured("pages") as (client, torture):
        assert list(client.tools)[:2] == ["tool-1", "tool-2"]
        assert "echo" in client.tools
        cursors = [
            each["params"].get("cursor") for each in torture.heard if each["method"] == "tools/list"
        ]
        assert cursors == [None, "page-1", "page-2"]


@pytest.mark.requirement("E3", "E5")
async def test_a_list_without_an_end_is_given_up() -> None:
    with pytest.raises(ProtocolError, match="no end"):
        async with tortured("endless-pages"):
            raise AssertionError("connected")


@pytest.mark.requirement("E5")
async def test_a_cursor_that_is_no_cursor_is_not_given_back() -> None:
    async with tortured("nested-page", list_tools=False) as (client, torture):
        with pytest.raises(ProtocolError, match='"nextCursor" must be a string, not an array'):
            await client.refresh_tools()
        assert torture.pages == 1


@pytest.mark.requirement("E1", "E4")
async def test_a_server_that_does_not_list_its_tools_can_be_reached_and_called() -> None:
    with pytest.raises(ProtocolError, match=r"list_tools=False does without\): not today"):
        async with tortured("refuses-list"):
            raise AssertionError("connected")
    async with tortured("refuses-list", list_tools=False) as (client, torture):
        assert client.tools == {}
        assert "tools/list" not in methods(torture)
        result = await client.call_tool("echo", {"text": "hello", "anything": "goes"})
        assert result.text == "hello"
        with pytest.raises(McpError, match="not today"):
            await client.refresh_tools()


@pytest.mark.requirement("E1", "E4")
async def test_tools_that_are_listed_later_are_checked_from_then_on() -> None:
    async with connect(registry_of(echo), list_tools=False) as client:
        with pytest.raises(McpError, match="nonesuch"):
            await client.call_tool("nonesuch")
        await client.refresh_tools()
        with pytest.raises(UnknownTool):
            await client.call_tool("nonesuch")
        assert list(client.tools) == ["echo"]
    async with connect(Registry("empty"), list_tools=False) as client:
        with pytest.raises(UnknownTool):  # it has none, so there is nothing to list
            await client.call_tool("nonesuch")


@pytest.mark.requirement("E3")
async def test_a_broken_tool_does_not_take_the_list_with_it(caplog) -> None:
    async with tortured("no-names") as (client, _):
        assert client.tools == {}
    assert "A tool is left out: it has no name or no inputSchema" in caplog.text


@pytest.mark.requirement("E1")
async def test_a_server_may_have_no_tools() -> None:
    async with tortured("no-tools") as (client, torture):
        assert client.tools == {}
        assert "tools/list" not in methods(torture)
    async with connect(Registry("empty")) as client:
        assert client.tools == {}


@pytest.mark.requirement("E1")
@pytest.mark.parametrize("target", ["python server.py", b"python", 42, None])
async def test_what_is_no_target_is_refused(target) -> None:
    with pytest.raises(TypeError, match="a command as a list"):
        async with connect(target):
            raise AssertionError("connected")


@pytest.mark.requirement("E1")
async def test_an_error_in_the_block_comes_out_as_it_is() -> None:
    for block in (tortured(), connect(registry_of(echo)), served(registry_of(echo))):
        with pytest.raises(LookupError, match=r"^mine$"):
            async with block:
                raise LookupError("mine")


@pytest.mark.requirement("E3")
async def test_refreshing_keeps_what_was_set() -> None:
    registry = registry_of(echo)
    async with connect(registry, tool_timeout=7) as client:
        assert client.tools["echo"].timeout == 7
        client.tools["echo"].timeout = 9
        client.tools["echo"].enabled = False
        registry.add_tool(echo, name="again")
        await client.refresh_tools()
        assert [(each.timeout, each.enabled) for each in client.tools.values()] == [
            (9, False),
            (7, True),
        ]


@pytest.mark.requirement("F13")
@pytest.mark.parametrize(
    "url", ["ws://me:secret@host/mcp", " http://me:secret@host", "http:secret"]
)
async def test_what_is_no_target_is_not_shown_since_it_may_have_a_password(url: str) -> None:
    for target in (url, url.encode()):
        with pytest.raises(TypeError, match="a command as a list") as caught:
            async with connect(target):  # type: ignore[arg-type]
                pass
        assert "secret" not in str(caught.value)
