"""Legacy sessions over HTTP: their id and version, the server's own messages, and their end."""

import logging

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.client.http_support import LEGACY, Incoming, Script, in_memory, serving
from trio_mcp import Client, Handlers, HttpOptions, Limits, connect
from trio_mcp.errors import CallTimeout, HttpError, NotConnected, ProtocolError, SessionExpired
from trio_mcp.registry.changes import ListChanged, ResourceUpdated
from trio_mcp.wire.errors import McpError

f10 = pytest.mark.requirement("F10")
f11 = pytest.mark.requirement("F11")

QUIET = HttpOptions(listen=False)


def note(method: str, **params: object) -> dict[str, object]:
    """A notification."""
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


@f10
async def test_what_initialize_agreed_on_goes_with_all_that_follows() -> None:
    script = Script("legacy", session="0-secure-Session!")
    async with serving(script) as url, connect(url, era="legacy") as client:
        await client.call_tool("echo")
        await script.wait_asked("GET")
    first, *others = script.requests
    assert first.rpc == "initialize"
    assert "mcp-session-id" not in first.headers
    assert {each.rpc or each.method for each in others} == {
        "notifications/initialized",
        "tools/list",
        "tools/call",
        "GET",
        "DELETE",
    }
    for each in others:
        assert each.headers["mcp-session-id"] == "0-secure-Session!"
        assert each.headers["mcp-protocol-version"] == LEGACY


@f10
async def test_a_server_need_not_have_sessions() -> None:
    script = Script("legacy", session=None)
    async with serving(script) as url, connect(url) as client:
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
    assert all("mcp-session-id" not in each.headers for each in script.requests)
    assert script.asked("tools/call")[0].headers["mcp-protocol-version"] == LEGACY
    assert script.asked("DELETE") == []


@f10
async def test_nothing_is_asked_before_the_server_knows_that_the_handshake_is_done() -> None:
    script = Script("legacy")
    done = False

    async def initialized(incoming: Incoming) -> None:
        nonlocal done
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        done = True
        await incoming.respond(202)

    async def tools(incoming: Incoming) -> None:
        assert done
        await script.legacy(incoming)

    script.on |= {"notifications/initialized": initialized, "tools/list": tools}
    async with serving(script) as url, connect(url) as client:
        assert list(client.tools) == ["echo"]


@f10
async def test_leaving_ends_the_session_even_if_that_is_cancelled() -> None:
    script = Script("legacy")
    async with serving(script) as url:
        with trio.CancelScope() as scope:
            async with connect(url):
                scope.cancel()
                await trio.sleep_forever()
        assert len(script.asked("DELETE")) == 1


async def silence(incoming: Incoming) -> None:
    """Begin a session, and say nothing more."""
    await incoming.start(mcp_session_id="session-2")
    await incoming.until_gone()


async def refusal(incoming: Incoming) -> None:
    """Begin a session, and refuse the handshake."""
    error = {"code": -32603, "message": "not today"}
    answer = {"jsonrpc": "2.0", "id": incoming.message["id"], "error": error}
    await incoming.json(answer, mcp_session_id="session-2")


@f10
@pytest.mark.parametrize("answer", [silence, refusal])
async def test_a_session_ends_even_if_connecting_goes_no_further(answer, autojump_clock) -> None:
    script = Script("legacy", on={"initialize": answer})
    async with in_memory(script) as (url, http, _):
        with pytest.raises((CallTimeout, ProtocolError)):
            async with connect(url, http=http, era="legacy", connect_timeout=1):
                raise AssertionError("connected")
    [end] = script.asked("DELETE")
    assert end.headers["mcp-session-id"] == "session-2"


@f10
@pytest.mark.parametrize("answer", [silence, refusal])
async def test_a_session_ends_even_if_its_renewal_goes_no_further(answer, autojump_clock) -> None:
    script = Forgetful()
    async with in_memory(script) as (url, http, _):
        async with connect(url, http=http, tool_timeout=100) as client:
            script.forget()
            script.on["initialize"] = answer
            with pytest.raises(SessionExpired):
                await client.call_tool("echo")
    assert script.asked("DELETE")[-1].headers["mcp-session-id"] == "session-2"


@f10
@pytest.mark.parametrize("status", [405, 404, 500, None])
async def test_a_server_may_refuse_to_end_the_session(status) -> None:
    script = Script("legacy", on={"DELETE": lambda incoming: incoming.respond(status)})
    if status is None:
        script.on["DELETE"] = Incoming.drop
    async with serving(script) as url, connect(url):
        pass


@f10
async def test_a_server_that_says_nothing_to_the_end_keeps_nobody(autojump_clock) -> None:
    script = Script("legacy", on={"DELETE": Incoming.until_gone})
    async with in_memory(script) as (url, http, _):
        async with connect(url, http=http):
            start = trio.current_time()
        assert trio.current_time() - start <= 2.0


@f10
@pytest.mark.parametrize("version", ["\u00e9", "1999-01-01", "1\r\n2"])
async def test_a_session_with_a_version_that_is_none_ends_as_any_other(version: str) -> None:
    """What the server says does not get into a header."""
    script = Script("legacy")
    begun = {"protocolVersion": version, "capabilities": {}}
    script.on["initialize"] = lambda i: i.result(begun, mcp_session_id="session-1")
    async with serving(script) as url:
        with pytest.raises(ProtocolError, match="protocol version"):
            async with connect(url, era="legacy"):
                raise AssertionError("connected")
    [end] = script.asked("DELETE")
    assert end.headers["mcp-session-id"] == "session-1"
    assert "mcp-protocol-version" not in end.headers


@f10
async def test_a_session_id_with_line_ends_is_refused() -> None:
    script = Script("legacy", session="two words")
    async with serving(script) as url:
        with pytest.raises(Exception, match="visible ASCII"):
            async with connect(url):
                raise AssertionError("connected")


# -- the server forgets ----------------------------------------------------------------------


class Forgetful(Script):
    """A legacy server that can forget its sessions."""

    __slots__ = ("begun", "refusal", "status")

    def __init__(self, says: str = "Session not found", status: int = 404) -> None:
        super().__init__("legacy")
        self.begun = 0
        self.refusal = {"code": -32001, "message": says}
        self.status = status

    def forget(self) -> None:
        self.session = None

    async def handle(self, incoming: Incoming) -> None:
        if incoming.rpc == "initialize":
            self.begun += 1
            self.session = f"session-{self.begun}"
        elif incoming.headers.get("mcp-session-id") not in (None, self.session):
            error = {"jsonrpc": "2.0", "id": None, "error": self.refusal}
            await incoming.json(error, self.status)
            return
        await super().handle(incoming)


@f10
async def test_a_session_that_was_forgotten_is_begun_anew_and_nothing_is_lost(caplog) -> None:
    script = Forgetful()
    async with serving(script) as url, connect(url, http=QUIET) as client:
        await client.set_log_level("error")
        async with client.subscribe(resources=["x://1", "x://2"]):
            await client.request("resources/unsubscribe", {"uri": "x://2"})
            script.forget()
            script.requests.clear()
            texts = []

            async def ask(number: int) -> None:
                texts.append((await client.call_tool("echo", {"text": f"{number}"})).text)

            async with trio.open_nursery() as nursery:
                for number in range(5):
                    nursery.start_soon(ask, number)
            assert sorted(texts) == ["0", "1", "2", "3", "4"]
            again = [each for each in script.requests if each.rpc != "tools/call"]
            assert [each.rpc for each in again] == [
                "initialize",
                "notifications/initialized",
                "logging/setLevel",
                "resources/subscribe",
            ]
            assert again[2].params == {"level": "error"}
            assert again[3].params == {"uri": "x://1"}
            assert {each.headers["mcp-session-id"] for each in again[1:]} == {"session-2"}
    assert "session" in caplog.text
    assert "session-1" not in caplog.text
    assert script.asked("DELETE")[0].headers["mcp-session-id"] == "session-2"


@f10
@pytest.mark.parametrize(
    "says",
    [
        "Bad Request: No valid session ID provided",
        "Invalid or missing session ID",
        "Bad Request: Server not initialized",
    ],
)
async def test_a_server_may_say_with_400_that_it_has_forgotten_a_session(says: str) -> None:
    script = Forgetful(says, 400)
    async with serving(script) as url, connect(url, http=QUIET) as client:
        script.forget()
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
        assert script.begun == 2


@f10
async def test_any_other_400_is_no_lost_session() -> None:
    script = Forgetful("the arguments are too long", 400)
    async with serving(script) as url, connect(url, http=QUIET) as client:
        script.forget()
        with pytest.raises((HttpError, McpError), match="too long"):
            await client.call_tool("echo")
        assert script.begun == 1


@f10
async def test_a_session_that_cannot_be_begun_anew_is_an_error_and_tried_again_later() -> None:
    script = Forgetful()
    async with serving(script) as url, connect(url, http=QUIET) as client:
        script.forget()
        script.on["initialize"] = lambda incoming: incoming.respond(503)
        with pytest.raises(SessionExpired, match=r"begins no new one.*503"):
            await client.call_tool("echo")
        del script.on["initialize"]
        script.forget()
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"


@f10
async def test_a_server_that_forgets_every_session_at_once_is_not_asked_endlessly() -> None:
    script = Forgetful()

    async def call(incoming: Incoming) -> None:
        await incoming.respond(404)

    async with serving(script) as url, connect(url, http=QUIET) as client:
        script.on["tools/call"] = call
        with pytest.raises(SessionExpired):
            await client.call_tool("echo")
        assert len(script.asked("tools/call")) == 2


@f10
async def test_a_404_that_answers_the_request_itself_is_no_lost_session() -> None:
    script = Script("legacy")
    script.on["tools/call"] = lambda incoming: incoming.error(404, -32601, "no tools here")
    async with serving(script) as url, connect(url, http=QUIET) as client:
        with pytest.raises(McpError, match="no tools here"):
            await client.call_tool("echo")
    assert len(script.asked("initialize")) == 1


@f10
@pytest.mark.parametrize(
    ("method", "answer", "why"),
    [
        (
            "initialize",
            lambda i: i.result({"protocolVersion": "2025-06-18", "capabilities": {}}),
            "gone over to protocol version 2025-06-18",
        ),
        (
            "initialize",
            lambda i: i.result({"protocolVersion": "1999-01-01", "capabilities": {}}),
            "gone over to protocol version unknown",
        ),
        ("initialize", lambda i: i.error(200, -32603, "not today"), "not today"),
        ("initialize", Incoming.until_gone, "no answer within 30 s"),
        ("resources/subscribe", Incoming.drop, "resources/subscribe: the connection"),
    ],
)
async def test_a_new_session_that_is_not_like_the_old_one_is_none(
    autojump_clock, method, answer, why
) -> None:
    script = Forgetful()
    async with in_memory(script, listen=False) as (url, http, _):
        async with connect(url, http=http, tool_timeout=100) as client:
            await client.request("resources/subscribe", {"uri": "x://1"})
            script.forget()
            script.on[method] = answer
            with pytest.raises(SessionExpired, match=f"begins no new one: .*{why}"):
                await client.call_tool("echo")
            del script.on[method]
            script.forget()


@f10
async def test_what_a_new_session_refuses_is_told_in_the_log(caplog) -> None:
    script = Forgetful()
    async with serving(script) as url, connect(url, http=QUIET) as client:
        await client.request("resources/subscribe", {"uri": "x://1"})
        script.forget()
        script.on["resources/subscribe"] = lambda i: i.error(200, -32602, "gone")
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
        assert "resources/subscribe was refused in the new session: gone" in caplog.text
        script.forget()
        script.requests.clear()
        await client.call_tool("echo")
        assert script.asked("resources/subscribe") == []


@f10
async def test_the_block_can_be_left_while_a_session_is_begun_anew() -> None:
    script = Forgetful()

    async def call(client: Client) -> None:
        with pytest.raises(NotConnected):
            await client.call_tool("echo")

    async with serving(script) as url, trio.open_nursery() as nursery:
        async with connect(url, http=QUIET) as client:
            script.forget()
            script.on["initialize"] = Incoming.until_gone
            nursery.start_soon(call, client)
            nursery.start_soon(call, client)
            await script.wait_asked("initialize", 2)


# -- the server's own messages -----------------------------------------------------------------


@f11
async def test_changes_come_on_a_stream_of_the_servers_own() -> None:
    script = Script("legacy")

    async def own(incoming: Incoming) -> None:
        assert incoming.headers["accept"] == "text/event-stream"
        await incoming.start()
        await script.wait_asked("resources/subscribe")
        await incoming.event(note("resources/updated", uri="x://1"))
        await incoming.event(note("tools/list_changed"))
        await incoming.until_gone()

    script.on["GET"] = own
    async with serving(script) as url, connect(url) as client:
        async with client.subscribe(lists=["tools"], resources=["x://1"]) as changes:
            assert await anext(changes) == ResourceUpdated("x://1")
            assert await anext(changes) == ListChanged("tools")


@f11
@pytest.mark.parametrize(
    "refuse",
    [
        lambda incoming: incoming.respond(405),
        lambda incoming: incoming.json(
            {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "not allowed"}}, 405
        ),
    ],
)
async def test_a_server_need_not_have_messages_of_its_own(refuse, caplog) -> None:
    script = Script("legacy", on={"GET": refuse})
    with caplog.at_level(logging.INFO, "trio_mcp.client"):
        async with serving(script) as url, connect(url) as client:
            await script.wait_asked("GET")
            assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
    assert len(script.asked("GET")) == 1
    assert caplog.records == []


@f11
async def test_a_stream_that_is_redirected_to_no_url_does_not_end_the_connection(caplog) -> None:
    script = Script("legacy", on={"GET": lambda i: i.respond(307, location="/a\x7fb")})
    async with in_memory(script) as (url, http, _), connect(url, http=http) as client:
        await wait_all_tasks_blocked()
        assert len(script.asked("GET")) == 1
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
    [told] = caplog.messages
    assert told.startswith("The server's own messages are not heard: ")
    assert told.endswith("redirects (307) to no URL")


@f11
@pytest.mark.parametrize("where", ["own stream", "stream of a request"])
async def test_a_legacy_servers_questions_are_answered_with_a_post(where) -> None:
    script = Script("legacy")
    answers: list[object] = []

    async def ask(incoming: Incoming) -> None:
        for id, method in [
            ("q1", "elicitation/create"),
            (2, "ping"),
            (3, "sampling/createMessage"),
        ]:
            params = {"message": "?"}
            await incoming.event({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        await script.wait_for(lambda: len([each for each in script.requests if answer(each)]) == 3)
        answers.extend(each.message for each in script.requests if answer(each))
        await script.changed()

    def answer(incoming: Incoming) -> bool:
        return incoming.method == "POST" and incoming.rpc is None

    async def own(incoming: Incoming) -> None:
        await incoming.start()
        await ask(incoming)
        await incoming.until_gone()

    async def call(incoming: Incoming) -> None:
        await incoming.start()
        await ask(incoming)
        await incoming.event(incoming.answer({"content": []}))
        await incoming.end()

    async def accept(params: object) -> dict[str, object]:
        return {"action": "accept", "content": {}}

    if where == "own stream":
        script.on["GET"] = own
    else:
        script.on["tools/call"] = call
    async with (
        serving(script) as url,
        connect(url, handlers=Handlers(elicitation=accept)) as client,
    ):
        await client.call_tool("echo")
        await script.wait_for(lambda: bool(answers))
    by_id = {each["id"]: each for each in answers}
    assert by_id["q1"]["result"] == {"action": "accept", "content": {}}
    assert by_id[2]["result"] == {}
    assert by_id[3]["error"]["code"] == -32601


@f11
async def test_time_stands_still_while_a_question_is_open(autojump_clock) -> None:
    script = Script("legacy")

    async def call(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.event({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create"})
        await script.wait_for(lambda: any(e.body and e.rpc is None for e in script.requests))
        await incoming.event(incoming.answer({"content": []}))
        await incoming.end()

    async def think(params: object) -> dict[str, object]:
        await trio.sleep(15)
        return {"action": "decline"}

    script.on["tools/call"] = call
    async with in_memory(script) as (url, http, _):
        async with connect(url, http=http, handlers=Handlers(elicitation=think)) as client:
            assert (await client.call_tool("echo", timeout=5)).success


@f11
async def test_time_stands_still_for_requests_that_begin_meanwhile_too(autojump_clock) -> None:
    script = Script("legacy", on={"tools/call": Incoming.until_gone})
    asked, done = trio.Event(), trio.Event()

    async def own(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.event({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create"})
        await incoming.until_gone()

    async def think(params: object) -> dict[str, object]:
        asked.set()
        await done.wait()
        return {"action": "decline"}

    script.on["GET"] = own
    async with in_memory(script) as (url, http, _):
        async with connect(url, http=http, handlers=Handlers(elicitation=think)) as client:
            await asked.wait()
            async with trio.open_nursery() as nursery:

                async def call() -> None:
                    with pytest.raises(CallTimeout):
                        await client.call_tool("echo", timeout=5)

                await trio.sleep(3)
                nursery.start_soon(call)
                await trio.sleep(7)
                begun = trio.current_time()
                done.set()
            assert trio.current_time() - begun == pytest.approx(5)


@f11
async def test_questions_are_bounded_and_further_ones_wait() -> None:
    script, all_run = Script("legacy"), trio.Event()
    handlers_running = most = 0

    async def call(incoming: Incoming) -> None:
        await incoming.start()
        for id in range(10):
            await incoming.event({"jsonrpc": "2.0", "id": id, "method": "elicitation/create"})
        await script.wait_for(
            lambda: len([each for each in script.requests if each.body and each.rpc is None]) == 10
        )
        await incoming.event(incoming.answer({"content": []}))
        await incoming.end()

    async def think(params: object) -> dict[str, object]:
        nonlocal handlers_running, most
        handlers_running += 1
        most = max(most, handlers_running)
        if handlers_running == 3:
            all_run.set()
        await all_run.wait()
        for _ in range(20):  # if there were a fourth one, it would be seen
            await trio.lowlevel.checkpoint()
        handlers_running -= 1
        return {"action": "decline"}

    script.on["tools/call"] = call
    limits = Limits(max_concurrent_calls=3)
    async with serving(script) as url:
        handlers = Handlers(elicitation=think)
        async with connect(url, handlers=handlers, limits=limits, http=QUIET) as client:
            assert (await client.call_tool("echo")).success
    assert most == 3


@f11
async def test_a_server_that_pings_and_takes_no_answers_makes_no_client_grow() -> None:
    script, may_end = Script("legacy"), trio.Event()
    waiting = most = taken = 0

    async def take(incoming: Incoming) -> None:
        nonlocal waiting, most, taken
        waiting += 1
        taken += 1
        most = max(most, waiting)
        await may_end.wait()
        waiting -= 1
        await incoming.json({}, 202)

    async def call(incoming: Incoming) -> None:
        await incoming.start()
        for id in range(10):
            await incoming.event({"jsonrpc": "2.0", "id": id, "method": "ping"})
        await script.wait_for(lambda: waiting == 3)
        await wait_all_tasks_blocked(0.01)
        may_end.set()
        await script.wait_for(lambda: taken == 10)
        await incoming.event(incoming.answer({"content": []}))
        await incoming.end()

    async with serving(script) as url:
        async with connect(url, limits=Limits(max_concurrent_calls=3), http=QUIET) as client:
            script.on |= {"tools/call": call, "POST": take}
            assert (await client.call_tool("echo")).success
    assert most == 3


@f11
async def test_a_question_that_waits_for_others_can_be_called_off() -> None:
    script = Script("legacy")
    asked: list[object] = []
    begun, called_off, done = trio.Event(), trio.Event(), trio.Event()

    async def call(incoming: Incoming) -> None:
        await incoming.start()
        for id in (1, 2):
            params = {"message": str(id)}
            await incoming.event(
                {"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params}
            )
        await script.wait_for(lambda: any(e.body and e.rpc is None for e in script.requests))
        await incoming.event(incoming.answer({"content": []}))
        await incoming.end()

    async def own(incoming: Incoming) -> None:
        await incoming.start()
        await begun.wait()
        await wait_all_tasks_blocked(0.01)
        await incoming.event(note("cancelled", requestId=2))
        await incoming.event(note("message", level="info", data="called off"))
        await incoming.until_gone()

    async def think(params: dict[str, object]) -> dict[str, object]:
        asked.append(params["message"])
        begun.set()
        await done.wait()
        return {"action": "decline"}

    script.on |= {"tools/call": call, "GET": own}
    async with serving(script) as url:
        handlers = Handlers(elicitation=think)
        limits = Limits(max_concurrent_calls=1)
        async with connect(
            url, handlers=handlers, limits=limits, on_log=lambda *each: called_off.set()
        ) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "echo")
                await called_off.wait()
                done.set()
    assert asked == ["1"]


@f11
async def test_a_request_can_be_cancelled_while_its_question_waits_for_others() -> None:
    script = Script("legacy")

    async def call(incoming: Incoming) -> None:
        await incoming.start()
        for id in (1, 2):
            await incoming.event({"jsonrpc": "2.0", "id": id, "method": "elicitation/create"})
        await incoming.until_gone()

    async def think(params: object) -> dict[str, object]:
        await done.wait()
        return {"action": "decline"}

    done = trio.Event()
    script.on["tools/call"] = call
    limits = Limits(max_concurrent_calls=1)
    async with serving(script) as url:
        handlers = Handlers(elicitation=think)
        async with connect(url, handlers=handlers, limits=limits, http=QUIET) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "echo")
                await script.wait_asked("tools/call")
                await wait_all_tasks_blocked(0.01)
                nursery.cancel_scope.cancel()
            done.set()
            del script.on["tools/call"]
            assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"


@f11
async def test_an_answer_that_the_server_refuses_is_told_in_the_log(caplog) -> None:
    script = Script("legacy")
    script.on["POST"] = lambda incoming: incoming.json({"error": "no, thank you"}, 400)

    async def call(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.event({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        await script.wait_for(lambda: any(e.body and e.rpc is None for e in script.requests))
        await incoming.event(incoming.answer({"content": []}))
        await incoming.end()

    script.on["tools/call"] = call
    async with serving(script) as url, connect(url, http=QUIET) as client:
        assert (await client.call_tool("echo")).success
    assert "could not be sent to the server" in caplog.text
    assert "400 Bad Request: no, thank you" in caplog.text


@f11
async def test_a_question_can_be_called_off() -> None:
    script = Script("legacy")
    asked = trio.Event()
    cancelled = trio.Event()

    async def own(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.event({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create"})
        await asked.wait()
        await incoming.event({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create"})
        await incoming.event(note("cancelled", requestId=1))
        await incoming.until_gone()

    async def think(params: object) -> dict[str, object]:
        assert not asked.is_set(), "a question that was sent twice is asked once"
        asked.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    script.on["GET"] = own
    async with serving(script) as url, connect(url, handlers=Handlers(elicitation=think)):
        await cancelled.wait()
    assert not [each for each in script.requests if each.body and each.rpc is None]


@f11
async def test_messages_may_come_in_batches() -> None:
    script = Script("legacy")
    heard: list[object] = []

    async def call(incoming: Incoming) -> None:
        said = note("message", level="info", data="hello")
        await incoming.json([said, incoming.answer({"content": []})])

    script.on["tools/call"] = call
    async with serving(script) as url:
        async with connect(url, on_log=lambda *each: heard.append(each)) as client:
            assert (await client.call_tool("echo")).success
    assert heard == [("info", "hello", None)]
