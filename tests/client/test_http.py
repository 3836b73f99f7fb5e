"""`connect("http://…")`: both eras, finding out which, JSON and streams, and what goes where."""

import json
import logging
import ssl
import sys
import time
import traceback
from collections.abc import Callable

import pytest
import trio
import trustme

from tests.client.http_support import (
    ECHO,
    LEGACY,
    MODERN,
    Incoming,
    Script,
    in_memory,
    serving,
)
from trio_mcp import Handlers, HttpOptions, connect
from trio_mcp.client.state import Connected, Disconnected
from trio_mcp.errors import CallTimeout, NotConnected, ProtocolError
from trio_mcp.registry.changes import ListChanged
from trio_mcp.wire.errors import McpError

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
f7 = pytest.mark.requirement("F7")
f8 = pytest.mark.requirement("F8")


@f7
@ERAS
async def test_a_url_is_a_target_like_any_other(era) -> None:
    async with serving(Script(era)) as url:
        async with connect(url) as client:
            assert client.era == era
            assert client.state == Connected()
            assert list(client.tools) == ["echo"]
            assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
        assert client.state == Disconnected(None)
        with pytest.raises(NotConnected):
            await client.call_tool("echo")


@f7
@ERAS
async def test_each_message_is_a_post_that_accepts_both_kinds_of_answer(era) -> None:
    script = Script(era)
    async with serving(script) as url, connect(url, http=HttpOptions(listen=False)) as client:
        await client.call_tool("echo", {"text": "hello"})
    posts = [each for each in script.requests if each.method == "POST"]
    assert len(posts) == len(script.requests) - (era == "legacy")  # and one DELETE
    for each in posts:
        assert each.target == "/mcp"
        assert each.headers["accept"] == "application/json, text/event-stream"
        assert each.headers["content-type"] == "application/json"
        assert each.message["jsonrpc"] == "2.0"
    assert len({each.message["id"] for each in posts if "id" in each.message}) == len(
        [each for each in posts if "id" in each.message]
    )


@f7
@ERAS
async def test_requests_run_side_by_side_and_each_gets_its_own_answer(era) -> None:
    script = Script(era)
    everybody = trio.Event()

    async def call(incoming: Incoming) -> None:
        if len(script.asked("tools/call")) == 20:
            everybody.set()
        await everybody.wait()
        await (script.modern if era == "modern" else script.legacy)(incoming)

    script.on["tools/call"] = call
    texts: dict[int, str] = {}
    async with serving(script) as url, connect(url) as client:

        async def ask(number: int) -> None:
            texts[number] = (await client.call_tool("echo", {"text": f"{number}"})).text

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(ask, number)
    assert texts == {number: f"{number}" for number in range(20)}


@f7
@ERAS
async def test_an_answer_may_come_in_a_stream_after_other_messages(era) -> None:
    script = Script(era)

    async def call(incoming: Incoming) -> None:
        token = incoming.params["_meta"]["progressToken"]
        await incoming.start()
        await incoming.write(b": keep-alive\n\n")
        for step in (1, 2):
            params = {"progressToken": token, "progress": step, "total": 2}
            await incoming.event(
                {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            )
        await incoming.event(b"to be ignored", event="endpoint")
        content = [{"type": "text", "text": "done"}]
        await incoming.event(incoming.answer({"resultType": "complete", "content": content}))
        await incoming.end()

    script.on["tools/call"] = call
    steps: list[float] = []
    async with serving(script) as url, connect(url) as client:
        result = await client.call_tool(
            "echo", on_progress=lambda step, total, text: steps.append(step)
        )
        assert result.text == "done"
    assert steps == [1, 2]


@f7
async def test_a_stream_that_stays_open_after_the_answer_keeps_nobody_waiting() -> None:
    script = Script()

    async def call(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.event(incoming.answer({"resultType": "complete", "content": []}))
        await incoming.until_gone()

    script.on["tools/call"] = call
    async with serving(script) as url, connect(url) as client:
        assert (await client.call_tool("echo")).success


@f7
async def test_connections_are_used_again(autojump_clock) -> None:
    script = Script()

    async def call(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.event(incoming.answer({"resultType": "complete", "content": []}))
        await trio.sleep(0.5)
        await incoming.end()

    script.on["tools/call"] = call
    async with in_memory(script) as (url, http, network), connect(url, http=http) as client:
        for _ in range(5):
            await client.call_tool("echo")
            await trio.sleep(0.6)
        assert len(network.attempts) == 1


@f7
@pytest.mark.parametrize(
    ("keep_alive", "passed", "connections"), [(None, 30.0, 1), (None, 61.0, 2), (5.0, 6.0, 2)]
)
async def test_a_connection_is_kept_for_a_minute(
    keep_alive: float | None, passed: float, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, now = Script(), time.monotonic
    http = HttpOptions() if keep_alive is None else HttpOptions(keep_alive=keep_alive)
    async with serving(script) as url, connect(url, http=http) as client:
        await client.call_tool("echo", {"text": "hello"})
        monkeypatch.setattr(time, "monotonic", lambda: now() + passed)
        await client.call_tool("echo", {"text": "hello"})
        assert script.accepted == connections


@f7
@ERAS
async def test_raw_messages_are_seen_as_they_come(era) -> None:
    async with serving(Script(era)) as url:
        connection = connect(url)
        seen = connection.messages()
        async with connection as client:
            listener = client.messages()
            await client.call_tool("echo", {"text": "hello"})
            assert json.loads(await anext(listener))["result"]["content"]
    first = "supportedVersions" if era == "modern" else "serverInfo"
    assert first in (await anext(seen)).decode()


@f7
async def test_an_error_in_the_block_comes_out_as_it_is() -> None:
    for era in ("modern", "legacy"):
        async with serving(Script(era)) as url:
            with pytest.raises(LookupError, match=r"^mine$"):
                async with connect(url):
                    raise LookupError("mine")


@f7
async def test_httpx2_is_needed_and_asked_for_by_name(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'trio-mcp\[http\]'"):
        connect("https://server.test/mcp")


@f7
@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://", "connect: the URL has no host; it should look like https://"),
        ("https:///mcp", "no host"),
        ("http://:80/", "no host"),
        ("http://[::1/mcp", "connect: this is not a URL of an HTTP server, such as https://"),
        ("http://x:port/", "a port that is not a number; the port of a server is from 1 to 65535"),
        ("http://x:99999/", "connect: the URL has port 99999; the port of a server is from 1"),
        (f"http://x:{'9' * 5000}/", "has port 9{20};"),
        ("http://x:0/", "has port 0;"),
    ],
)
def test_what_is_no_url_is_refused_at_once(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        connect(url)


@f7
@pytest.mark.parametrize("url", ["http://u:s3cret/x@h/", "http://u:s3cret\u2100@h/"])
def test_what_is_wrong_with_a_url_is_said_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="connect: th") as caught:
        connect(url)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


@f7
async def test_a_url_that_httpx2_does_not_take_is_refused() -> None:
    with pytest.raises(ValueError, match="not a URL of an HTTP server"):
        async with connect("http://x/\0"):
            raise AssertionError("connected")


@f7
async def test_tls_is_verified_and_its_context_can_be_given() -> None:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with serving(Script(), tls=server) as url:
        async with connect(url, http=HttpOptions(verify=trusting)) as client:
            assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"


@f7
async def test_a_proxy_is_asked_in_place_of_the_server() -> None:
    script = Script()
    async with serving(script) as url:
        proxy = HttpOptions(proxy=url.removesuffix("/mcp"))
        async with connect("http://server.test/mcp?x=1", http=proxy) as client:
            assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
    assert {each.target for each in script.requests} == {"http://server.test/mcp?x=1"}


@f7
@pytest.mark.parametrize("status", [307, 308])
async def test_redirects_within_the_server_are_followed(status) -> None:
    script = Script()
    script.on["/mcp?key=1"] = lambda incoming: incoming.respond(status, location="/mcp/?key=2")
    async with serving(script, path="/mcp?key=1") as url, connect(url) as client:
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
    redirected = [each for each in script.requests if each.target == "/mcp?key=1"]
    assert len(redirected) == (3 if status == 307 else 1)  # a permanent one is remembered


# -- which era ---------------------------------------------------------------------------------


@f8
@ERAS
async def test_a_modern_request_comes_first_and_the_era_can_be_forced(era) -> None:
    script = Script(era)
    async with serving(script) as url:
        async with connect(url) as client:
            assert (client.era, client.revision) == (era, MODERN if era == "modern" else LEGACY)
        assert script.requests[0].rpc == "server/discover"
        script.requests.clear()
        async with connect(url, era=era) as client:
            assert client.era == era
        expected = "server/discover" if era == "modern" else "initialize"
        assert script.requests[0].rpc == expected


Refusal = Callable[[Incoming], object]


def refusals() -> list[object]:
    """Ways in which servers refuse what they have never heard of."""

    def plain(status: int, body: bytes = b"", kind: str = "text/plain") -> Refusal:
        return lambda incoming: incoming.respond(status, body, content_type=kind)

    def about(id: object) -> Refusal:
        error = {"code": -32000, "message": "Bad Request: no valid session"}
        return lambda incoming: incoming.json({"jsonrpc": "2.0", "id": id, "error": error}, 400)

    return [
        pytest.param(plain(400), id="400, empty"),
        pytest.param(plain(404, b"<html>", "text/html"), id="404, a page"),
        pytest.param(plain(405, b"{}", "application/json"), id="405, an object"),
        pytest.param(plain(400, b"not json", "application/json"), id="400, no JSON"),
        pytest.param(plain(406), id="406"),
        pytest.param(plain(422), id="422"),
        pytest.param(about(None), id="400, an error with id null"),
        pytest.param(about("server-error"), id="400, an error with another id"),
        pytest.param(lambda i: i.error(400, -32600, "what?"), id="400, -32600"),
        pytest.param(lambda i: i.error(404, -32601, "what?"), id="404, -32601"),
        pytest.param(lambda i: i.error(200, -32601, "what?"), id="200, -32601"),
        pytest.param(lambda i: i.error(200, -32602, "what?"), id="200, -32602"),
        pytest.param(lambda i: i.result({}), id="200, an odd result"),
        pytest.param(
            lambda i: i.error(400, -32022, "no", {"supported": [LEGACY]}), id="only legacy versions"
        ),
    ]


@f8
@pytest.mark.parametrize("refuse", refusals())
async def test_whoever_does_not_know_the_modern_request_gets_initialize(refuse) -> None:
    script = Script("legacy", on={"server/discover": refuse})
    async with serving(script) as url, connect(url) as client:
        assert client.era == "legacy"
        with pytest.raises(ProtocolError):
            async with connect(url, era="modern"):
                raise AssertionError("connected")


@f8
async def test_another_version_that_a_modern_server_offers_is_taken() -> None:
    script = Script()

    async def refuse_once(incoming: Incoming) -> None:
        del script.on["server/discover"]
        await incoming.error(400, -32022, "not that", {"supported": [MODERN, LEGACY]})

    script.on["server/discover"] = refuse_once
    async with serving(script) as url, connect(url) as client:
        assert client.era == "modern"
    assert script.asked("initialize") == []


@f8
@pytest.mark.parametrize(
    ("code", "data"),
    [
        (-32020, None),
        (-32021, {"requiredCapabilities": {"roots": {}}}),
        (-32022, {"supported": ["2099-01-01"]}),
    ],
)
async def test_an_error_that_only_modern_servers_know_is_no_reason_to_fall_back(code, data) -> None:
    script = Script()
    script.on["server/discover"] = lambda incoming: incoming.error(400, code, "no", data)
    async with serving(script) as url:
        with pytest.raises(ProtocolError):
            async with connect(url):
                raise AssertionError("connected")
    assert script.asked("initialize") == []


@f8
async def test_a_slow_server_is_not_taken_for_an_old_one(autojump_clock) -> None:
    script = Script()

    async def think(incoming: Incoming) -> None:
        await trio.sleep(20)
        await script.modern(incoming)

    script.on["server/discover"] = think
    async with in_memory(script) as (url, http, _), connect(url, http=http) as client:
        assert client.era == "modern"
    assert script.asked("initialize") == []


@f8
async def test_a_server_that_never_answers_is_given_up(autojump_clock) -> None:
    script = Script(on={"server/discover": Incoming.until_gone})
    async with in_memory(script) as (url, http, _):
        with pytest.raises(CallTimeout, match="connecting: no answer within 7 s"):
            async with connect(url, http=http, connect_timeout=7):
                raise AssertionError("connected")
    assert trio.current_time() == pytest.approx(7)


# -- subscriptions and questions of modern servers ----------------------------------------------


@f7
async def test_a_subscription_is_a_stream_of_its_own() -> None:
    script = Script()
    proceed = trio.Event()

    async def listen(incoming: Incoming) -> None:
        meta = {"io.modelcontextprotocol/subscriptionId": incoming.message["id"]}
        await incoming.start()
        wanted = incoming.params["notifications"]
        acknowledged = "notifications/subscriptions/acknowledged"
        for method, params in [
            (acknowledged, {"notifications": wanted, "_meta": meta}),
            ("notifications/tools/list_changed", {"_meta": meta}),
        ]:
            await incoming.event({"jsonrpc": "2.0", "method": method, "params": params})
        await proceed.wait()
        await incoming.event(incoming.answer({"resultType": "complete"}))
        await incoming.end()

    script.on["subscriptions/listen"] = listen
    async with serving(script) as url, connect(url) as client:
        async with client.subscribe(lists=["tools"]) as changes:
            assert await anext(changes) == ListChanged("tools")
            assert (await client.call_tool("echo", {"text": "meanwhile"})).text == "meanwhile"
            proceed.set()
            assert [each async for each in changes] == []


@f7
async def test_a_modern_servers_questions_are_answered_with_the_next_request() -> None:
    script = Script()

    async def call(incoming: Incoming) -> None:
        if "inputResponses" not in incoming.params:
            question = {"method": "elicitation/create", "params": {"message": "?"}}
            asked = {"resultType": "input_required", "inputRequests": {"q": question}}
            await incoming.result({**asked, "requestState": "s"})
            return
        assert incoming.params["requestState"] == "s"
        text = incoming.params["inputResponses"]["q"]["action"]
        content = [{"type": "text", "text": text}]
        await incoming.result({"resultType": "complete", "content": content})

    async def decline(params: object) -> dict[str, object]:
        return {"action": "decline"}

    script.on["tools/call"] = call
    handlers = Handlers(elicitation=decline)
    async with serving(script) as url, connect(url, handlers=handlers) as client:
        assert (await client.call_tool("echo")).text == "decline"


@f7
async def test_a_modern_server_that_asks_on_a_stream_is_not_answered(caplog) -> None:
    script = Script()

    async def call(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.event({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
        await incoming.event(incoming.answer({"resultType": "complete", "content": []}))
        await incoming.end()

    script.on["tools/call"] = call
    with caplog.at_level(logging.WARNING, "trio_mcp.client"):
        async with serving(script) as url, connect(url, handlers=Handlers(roots=[])) as client:
            assert (await client.call_tool("echo")).success
            assert b"roots/list" in client.stray_output[0]
    assert [each.rpc for each in script.requests if each.rpc is None] == []


@f7
async def test_errors_of_the_protocol_are_what_they_are_over_any_transport() -> None:
    script = Script()
    script.on["tools/call"] = lambda incoming: incoming.error(400, -32602, "no such tool", {"a": 1})
    script.on["prompts/get"] = lambda incoming: incoming.error(500, -32603, "Internal error")
    async with serving(script) as url, connect(url) as client:
        with pytest.raises(McpError, match="no such tool") as failure:
            await client.call_tool("echo")
        assert (failure.value.code, failure.value.data) == (-32602, {"a": 1})
        with pytest.raises(McpError, match="Internal error"):
            await client.get_prompt("p")
        with pytest.raises(McpError, match="Method not found"):
            await client.request("no/such/method")


@f7
async def test_a_tool_of_the_same_name_is_found_again_after_a_refresh() -> None:
    script = Script()
    async with serving(script) as url, connect(url) as client:
        client.tools["echo"].timeout = 1.5
        script.tools = [ECHO, {**ECHO, "name": "other"}]
        await client.refresh_tools()
        assert list(client.tools) == ["echo", "other"]
        assert client.tools["echo"].timeout == 1.5
