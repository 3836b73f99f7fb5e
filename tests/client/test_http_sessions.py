"""Legacy sessions over HTTP: their id and version, the server's own messages, and their end."""

import logging

import pytest
import trio

from tests.client.http_support import LEGACY, Incoming, Script, in_memory, serving
from trio_mcp.client import Handlers, HttpOptions, SessionExpired, connect
from trio_mcp.registry.changes import ListChanged, ResourceUpdated
from trio_mcp.wire.errors import McpError

f23 = pytest.mark.requirement("F23")
f24 = pytest.mark.requirement("F24")

QUIET = HttpOptions(listen=False)


def note(method: str, **params: object) -> dict[str, object]:
    """A notification."""
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


@f23
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


@f23
async def test_a_server_need_not_have_sessions() -> None:
    script = Script("legacy", session=None)
    async with serving(script) as url, connect(url) as client:
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
    assert all("mcp-session-id" not in each.headers for each in script.requests)
    assert script.asked("tools/call")[0].headers["mcp-protocol-version"] == LEGACY
    assert script.asked("DELETE") == []


@f23
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


@f23
async def test_leaving_ends_the_session_even_if_that_is_cancelled() -> None:
    script = Script("legacy")
    async with serving(script) as url:
        with trio.CancelScope() as scope:
            async with connect(url):
                scope.cancel()
                await trio.sleep_forever()
        assert len(script.asked("DELETE")) == 1


@f23
@pytest.mark.parametrize("status", [405, 404, 500])
async def test_a_server_may_refuse_to_end_the_session(status) -> None:
    script = Script("legacy", on={"DELETE": lambda incoming: incoming.respond(status)})
    async with serving(script) as url, connect(url):
        pass


@f23
async def test_a_server_that_says_nothing_to_the_end_keeps_nobody(autojump_clock) -> None:
    script = Script("legacy", on={"DELETE": Incoming.until_gone})
    async with in_memory(script) as (url, http, _):
        async with connect(url, http=http):
            start = trio.current_time()
        assert trio.current_time() - start <= 2.0


@f23
async def test_a_session_id_with_line_ends_is_refused() -> None:
    script = Script("legacy", session="two words")
    async with serving(script) as url:
        with pytest.raises(Exception, match="visible ASCII"):
            async with connect(url):
                raise AssertionError("connected")


# -- the server forgets ----------------------------------------------------------------------


class Forgetful(Script):
    """A legacy server that can forget its sessions."""

    __slots__ = ("begun",)

    def __init__(self) -> None:
        super().__init__("legacy")
        self.begun = 0

    def forget(self) -> None:
        self.session = None

    async def handle(self, incoming: Incoming) -> None:
        if incoming.rpc == "initialize":
            self.begun += 1
            self.session = f"session-{self.begun}"
        elif incoming.headers.get("mcp-session-id") not in (None, self.session):
            error = {"code": -32001, "message": "Session not found"}
            await incoming.json({"jsonrpc": "2.0", "id": None, "error": error}, 404)
            return
        await super().handle(incoming)


@f23
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


@f23
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


@f23
async def test_a_server_that_forgets_every_session_at_once_is_not_asked_endlessly() -> None:
    script = Forgetful()

    async def call(incoming: Incoming) -> None:
        await incoming.respond(404)

    async with serving(script) as url, connect(url, http=QUIET) as client:
        script.on["tools/call"] = call
        with pytest.raises(SessionExpired):
            await client.call_tool("echo")
        assert len(script.asked("tools/call")) == 2


@f23
async def test_a_404_that_answers_the_request_itself_is_no_lost_session() -> None:
    script = Script("legacy")
    script.on["tools/call"] = lambda incoming: incoming.error(404, -32601, "no tools here")
    async with serving(script) as url, connect(url, http=QUIET) as client:
        with pytest.raises(McpError, match="no tools here"):
            await client.call_tool("echo")
    assert len(script.asked("initialize")) == 1


# -- the server's own messages -----------------------------------------------------------------


@f24
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


@f24
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


@f24
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


@f24
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


@f24
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


@f24
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
