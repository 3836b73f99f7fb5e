"""What a server asks of its client, in both eras, and who answers."""

import json
from typing import Any

import pytest
import trio
from trio.testing import lockstep_stream_pair, wait_all_tasks_blocked

from tests.client.http_support import Script, serving
from tests.client.support import line_of, tortured
from tests.support.client import CLIENT_INFO
from trio_mcp import (
    Client,
    Context,
    ElicitResult,
    Handlers,
    Limits,
    McpError,
    Registry,
    Root,
    connect,
)
from trio_mcp.errors import CallTimeout, NotConnected, ProtocolError

ROOTS = ["file:///srv/data", "file:///srv/more"]


async def sample(params) -> dict:
    return {"role": "assistant", "content": {"type": "text", "text": params["what"]}, "model": "m"}


async def decline(params) -> dict:
    return {"action": "decline"}


ALL = Handlers(sampling=sample, elicitation=decline, roots=ROOTS)


def declared(torture, era: str) -> dict:
    """The capabilities that a server was told of."""
    if era == "legacy":
        [params] = [each["params"] for each in torture.heard if each.get("method") == "initialize"]
        return params["capabilities"]
    meta = torture.heard[-1]["params"]["_meta"]
    return meta["io.modelcontextprotocol/clientCapabilities"]


@pytest.mark.requirement("E4")
async def test_a_legacy_server_is_answered_while_it_is_being_asked() -> None:
    async with tortured("legacy", handlers=ALL) as (client, torture):
        answers = (await client.call_tool("ask")).structured_content
        assert answers["ping"] == {}
        assert answers["roots/list"] == {"roots": [{"uri": each} for each in ROOTS]}
        assert answers["sampling/createMessage"]["content"]["text"] == "sampling/createMessage"
        assert answers["elicitation/create"] == {"action": "decline"}
        assert answers["no/such/thing"]["code"] == -32601
        roots = {"listChanged": True}
        assert declared(torture, "legacy") == {"sampling": {}, "elicitation": {}, "roots": roots}


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize(
    ("handlers", "capabilities"),
    [
        (None, {}),
        (Handlers(), {}),
        (Handlers(roots=[]), {"roots": {}}),
        (Handlers(sampling=sample), {"sampling": {}}),
        (Handlers(elicitation=decline), {"elicitation": {}}),
    ],
)
async def test_only_what_has_a_handler_is_declared(handlers, capabilities, era) -> None:
    async with tortured(era, handlers=handlers) as (_, torture):
        if "roots" in capabilities and era == "legacy":
            capabilities = {"roots": {"listChanged": True}}
        assert declared(torture, era) == capabilities


@pytest.mark.requirement("E4")
async def test_what_has_no_handler_is_refused() -> None:
    async with tortured("legacy") as (client, _):
        answers = (await client.call_tool("ask")).structured_content
        assert answers.pop("ping") == {}
        assert {each["code"] for each in answers.values()} == {-32601}
        assert len(answers) == 4


@pytest.mark.requirement("E4")
async def test_a_handler_that_fails_gives_an_error_without_its_secrets(caplog) -> None:
    async def fail(params) -> dict:
        raise LookupError("the password is swordfish")

    async def refuse(params) -> dict:
        raise McpError(-1, "the user said no")

    handlers = Handlers(sampling=fail, elicitation=refuse)
    async with tortured("legacy", handlers=handlers) as (client, _):
        answers = (await client.call_tool("ask")).structured_content
        assert answers["sampling/createMessage"]["code"] == -32603
        assert "swordfish" not in str(answers)
        assert "swordfish" in caplog.text
        assert answers["elicitation/create"] == {"code": -1, "message": "the user said no"}


@pytest.mark.requirement("E4")
async def test_a_handler_that_takes_too_long_is_cancelled(autojump_clock) -> None:
    async def dawdle(params) -> dict:
        await trio.sleep_forever()

    handlers = Handlers(sampling=dawdle)
    async with tortured("legacy", handlers=handlers, request_timeout=3) as (client, _):
        answers = (await client.call_tool("ask", timeout=10)).structured_content
        assert answers["sampling/createMessage"]["code"] == -32603


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("rounds", [1, 2, 9])
async def test_a_modern_server_that_needs_input_gets_it_and_is_asked_again(rounds) -> None:
    asked = ["sampling/createMessage", "elicitation/create", "roots/list"]
    async with tortured("modern", handlers=ALL) as (client, torture):
        result = await client.call_tool("inquire", {"rounds": rounds, "ask": asked})
        seen = result.structured_content
        assert seen["state"] == f"round-{rounds}"
        assert seen["answers"]["elicitation/create"] == {"action": "decline"}
        assert seen["answers"]["sampling/createMessage"]["model"] == "m"
        assert len(seen["answers"]["roots/list"]["roots"]) == 2
        calls = [each for each in torture.heard if each["method"] == "tools/call"]
        assert len(calls) == rounds + 1
        assert len({each["id"] for each in calls}) == rounds + 1
        assert all(each["params"]["arguments"]["rounds"] == rounds for each in calls)
        assert "inputResponses" not in calls[0]["params"]


@pytest.mark.requirement("E4")
async def test_a_state_without_questions_is_given_back() -> None:
    async with tortured("modern") as (client, _):
        result = await client.call_tool("inquire", {"rounds": 2})
        assert result.structured_content == {"answers": None, "state": "round-2"}


@pytest.mark.requirement("E5")
async def test_questions_beyond_a_thousand_at_once_are_not_answered() -> None:
    question = {"method": "elicitation/create", "params": {"what": "elicitation/create"}}
    for number in (1000, 1001):
        raw = {"inputRequests": {str(key): question for key in range(number)}}
        async with tortured("modern", handlers=ALL) as (client, _):
            inquiry = client.call_tool("inquire", {"rounds": 1, "raw": raw})
            if number == 1000:
                assert len((await inquiry).structured_content["answers"]) == number
            else:
                with pytest.raises(ProtocolError, match="more than 1000 questions at once"):
                    await inquiry


@pytest.mark.requirement("E5")
async def test_a_server_that_always_needs_more_is_given_up() -> None:
    async with tortured("modern", handlers=ALL) as (client, torture):
        with pytest.raises(ProtocolError, match="10 times in a row"):
            await client.call_tool("inquire", {"rounds": 1000, "ask": ["elicitation/create"]})
        assert torture.rounds == 10


@pytest.mark.requirement("E4", "E5")
async def test_a_question_that_cannot_be_answered_ends_the_call() -> None:
    async def fail(params) -> dict:
        raise LookupError("no idea")

    async def hang(params) -> dict:
        await trio.sleep_forever()

    async with tortured("modern", handlers=Handlers(sampling=hang)) as (client, _):
        with pytest.raises(McpError, match="roots/list handler not registered") as caught:
            await client.call_tool(
                "inquire", {"rounds": 1, "ask": ["sampling/createMessage", "roots/list"]}
            )
        assert caught.value.code == -32601
    async with tortured("modern", handlers=Handlers(sampling=fail)) as (client, _):
        with pytest.raises(LookupError, match="no idea"):
            await client.call_tool("inquire", {"rounds": 1, "ask": ["sampling/createMessage"]})


@pytest.mark.requirement("E4")
async def test_a_question_has_a_time_limit_of_its_own(autojump_clock) -> None:
    async def dawdle(params) -> dict:
        await trio.sleep_forever()

    options = {"handlers": Handlers(sampling=dawdle), "limits": Limits(question_timeout=40.0)}
    async with tortured("modern", **options) as (client, _):
        with pytest.raises(CallTimeout, match="question of the server"):
            await client.call_tool("inquire", {"rounds": 1, "ask": ["sampling/createMessage"]})
    assert 40 <= trio.current_time() < 42


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_time_to_answer_a_question_is_not_the_call_s(era, autojump_clock) -> None:
    async def think(params) -> dict:
        await trio.sleep(60)
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hm"}}

    async with tortured(era, handlers=Handlers(sampling=think)) as (client, _):
        asked = {"rounds": 1, "ask": ["sampling/createMessage"]}
        tool, arguments = ("inquire", asked) if era == "modern" else ("ask", {})
        assert (await client.call_tool(tool, arguments, timeout=5.0)).success
        assert trio.current_time() >= 60


@pytest.mark.requirement("E1")
async def test_the_client_says_who_it_is() -> None:
    from trio_mcp import Implementation

    info = Implementation(CLIENT_INFO["name"], CLIENT_INFO["version"])
    for era, find in {
        "legacy": lambda params: params["clientInfo"],
        "modern": lambda params: params["_meta"]["io.modelcontextprotocol/clientInfo"],
    }.items():
        async with tortured(era, era=era, client_info=info) as (_, torture):
            assert find(torture.heard[0]["params"]) == CLIENT_INFO


@pytest.mark.requirement("E2")
@pytest.mark.parametrize(
    ("handlers", "capability"),
    [
        (Handlers(elicitation_url=decline), {"elicitation": {"url": {}}}),
        (
            Handlers(elicitation=decline, elicitation_url=decline),
            {"elicitation": {"form": {}, "url": {}}},
        ),
        (Handlers(sampling=decline, sampling_tools=True), {"sampling": {"tools": {}}}),
    ],
)
def test_details_of_capabilities_are_declared(handlers, capability) -> None:
    assert handlers.capabilities == capability


@pytest.mark.parametrize(
    ("handlers", "method", "params"),
    [
        (Handlers(elicitation=decline), "elicitation/create", {"mode": "url"}),
        (Handlers(elicitation_url=decline), "elicitation/create", {}),
        (Handlers(elicitation=decline), "elicitation/create", {"mode": ["form"]}),
        (Handlers(sampling=decline), "sampling/createMessage", {"tools": []}),
    ],
)
async def test_what_was_not_declared_is_refused(handlers, method, params) -> None:
    with pytest.raises(McpError, match="does not declare") as refused:
        await handlers.answer(method, params)
    assert refused.value.code == -32602


# -- roots ----------------------------------------------------------------------------------------

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


async def seen(context: Context) -> list[tuple[str, str | None]]:
    """The roots that the server can see."""
    return [(each.uri, each.name) for each in await context.roots()]


def looking() -> Registry:
    registry = Registry("looks", version="1")
    registry.add_tool(seen)
    return registry


@pytest.mark.requirement("E4")
@ERAS
async def test_roots_may_have_names_and_may_change(era) -> None:
    handlers = Handlers(roots=["file:///a", Root("file:///b", name="B")])
    async with connect(looking(), era=era, handlers=handlers) as client:
        first = await client.call_tool("seen", returns=list)
        assert first == [["file:///a", None], ["file:///b", "B"]]
        await client.set_roots([Root("file:///c", name="C")])
        assert (await client.call_tool("seen", returns=list)) == [["file:///c", "C"]]
        await client.set_roots([])
        assert (await client.call_tool("seen", returns=list)) == []
    async with connect(looking(), era=era, handlers=handlers) as other:
        assert (await other.call_tool("seen", returns=list)) == first, "others keep theirs"


@pytest.mark.requirement("E4")
@ERAS
async def test_a_legacy_server_is_told_that_roots_have_changed(era) -> None:
    switch = "legacy" if era == "legacy" else "dual"
    async with tortured(switch, handlers=Handlers(roots=[])) as (client, torture):
        await client.set_roots(["file:///a"])
        await client.ping()
        told = [each for each in torture.heard if each.get("method", "").endswith("list_changed")]
        expected = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        assert told == ([expected] if era == "legacy" else [])


@pytest.mark.requirement("E4")
async def test_roots_that_were_not_declared_cannot_change() -> None:
    async with connect(looking()) as client:
        with pytest.raises(ValueError, match=r"Handlers\(roots=\[\]\)"):
            await client.set_roots(["file:///a"])
    async with connect(looking(), handlers=Handlers(roots=["file:///a"])) as client:
        with pytest.raises(TypeError, match="roots must be a list"):
            await client.set_roots("file:///b")
        assert (await client.call_tool("seen", returns=list)) == [["file:///a", None]]


@pytest.mark.parametrize("roots", ["file:///a", [b"file:///a"], {"file:///a"}, 3])
def test_roots_are_a_list(roots) -> None:
    with pytest.raises(TypeError, match="roots must be a list"):
        Handlers(roots=roots)


@pytest.mark.requirement("E4")
def test_handlers_are_of_their_class() -> None:
    with pytest.raises(TypeError, match=r"handlers must be Handlers, as in .*, not dict"):
        connect(Registry("test"), handlers={"roots": []})  # type: ignore[arg-type]


@pytest.mark.requirement("E4")
async def test_a_handler_that_is_no_async_function_is_told_of() -> None:
    def answers(params):
        return {"action": "decline"}

    registry = Registry("test")

    @registry.tool
    async def ask(context: Context) -> None:
        await context.elicit("Really?", bool)

    told = "answers a server's questions, so it must be an async function"
    async with connect(registry, handlers=Handlers(elicitation=answers)) as client:
        with pytest.raises(TypeError, match=told):
            await client.call_tool("ask")


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("answer", [None, True, "yes", ElicitResult("accept", {})], ids=repr)
async def test_a_handler_that_returns_no_object_is_told_of(answer: Any) -> None:
    async def answers(params):
        return answer

    registry = Registry("test")

    @registry.tool
    async def ask(context: Context) -> None:
        await context.elicit("Really?", bool)

    told = rf"answers must return a JSON object, .*'decline'}}, not {type(answer).__name__}"
    async with connect(registry, handlers=Handlers(elicitation=answers)) as client:
        with pytest.raises(TypeError, match=told):
            await client.call_tool("ask")


@pytest.mark.requirement("L2")
def test_a_connection_says_where_its_client_is() -> None:
    with pytest.raises(AttributeError, match=r"'call_tool'; the client has it: async with"):
        connect(Registry("test")).call_tool("ask")
    assert not hasattr(connect(Registry("test")), "explode")


# -- what the client says of its own accord -------------------------------------------------------


async def given(context: Context) -> object:
    """What the call had in its `_meta` beside what the protocol has there."""
    meta = context.meta or {}
    return {key: value for key, value in meta.items() if not key.startswith("io.model")}


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_a_call_may_carry_meta_of_ones_own(revision) -> None:
    registry = Registry("meta", version="1")
    registry.add_tool(given)
    async with connect(registry, revision=revision) as client:
        meta = {"example.com/trace": {"a": [1]}}
        assert (await client.call_tool("given", returns=dict, meta=meta, timeout=5)) == meta
        both = await client.call_tool("given", returns=dict, meta=meta, on_progress=lambda *_: None)
        assert both.keys() == {"example.com/trace", "progressToken"}
        assert (await client.call_tool("given", returns=dict, timeout=5)) == {}


@pytest.mark.requirement("E4")
@ERAS
async def test_a_notification_is_sent_in_its_place_among_requests(era) -> None:
    switch = "legacy" if era == "legacy" else "dual"
    async with tortured(switch) as (client, torture):
        before = len(torture.heard)
        await client.notify("notifications/example", {"a": 1})
        await client.ping()
        note, _ = torture.heard[before:]
        meta = note["params"].pop("_meta", {})
        assert note == {
            "jsonrpc": "2.0",
            "method": "notifications/example",
            "params": {"a": 1},
        }
        assert ("io.modelcontextprotocol/protocolVersion" in meta) == (era == "modern")
    with pytest.raises(NotConnected):
        await client.notify("notifications/example")


@pytest.mark.requirement("E4", "F9")
@ERAS
async def test_a_notification_over_http_has_the_headers_of_its_revision(era, caplog) -> None:
    script = Script(era)
    script.on["notifications/example"] = lambda incoming: incoming.respond(202)
    script.on["notifications/refused"] = lambda incoming: incoming.respond(403)
    async with serving(script) as url, connect(url) as client:
        await client.notify("notifications/example", {"a": 1})
        method = "notifications/example"
        [sent] = [each for each in script.requests if each.body and each.rpc == method]
        assert sent.headers["mcp-protocol-version"] == client.revision
        assert sent.headers.get("mcp-method") == (sent.rpc if era == "modern" else None)
        await client.notify("notifications/refused")
    assert "A message could not be sent to the server" in caplog.text


@pytest.mark.requirement("E4")
async def test_notifications_wait_while_the_server_does_not_read() -> None:
    ours, theirs = lockstep_stream_pair()
    sent = 0

    async def shake_hands() -> None:
        id = json.loads(await theirs.receive_some())["id"]
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
        await theirs.send_all(line_of({"jsonrpc": "2.0", "id": id, "result": result}))

    async def flood(client: Client) -> None:
        nonlocal sent
        while True:
            await client.notify("notifications/example", {"text": "x" * 1000})
            sent += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(shake_hands)
        limits = Limits(max_outgoing_bytes=10_000, flush_timeout=0)
        async with connect(ours, limits=limits) as client:
            nursery.start_soon(flood, client)
            await wait_all_tasks_blocked()
            assert 5 < sent < 30
            nursery.cancel_scope.cancel()
