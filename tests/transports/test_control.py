"""`ControlRouter`: every scenario of the control protocol, and every way to get it wrong."""

import json
from contextlib import asynccontextmanager

import pytest
import trio

from trio_mcp import Context, ControlRouter, Limits, Registry


def registry_named(name: str, **options) -> Registry:
    registry = Registry(name, version="1.0", **options)

    @registry.tool
    async def whoami(context: Context) -> str:
        return f"{name} {context.revision} {context.lifespan}"

    @registry.tool
    async def sleep(seconds: float) -> str:
        await trio.sleep(seconds)
        return "slept"

    return registry


@pytest.fixture
def router() -> ControlRouter:
    return ControlRouter({"one": registry_named("one"), "two": registry_named("two")})


def control(message, server="one", request_id="r1") -> dict:
    body = {"subtype": "mcp_message", "server_name": server, "message": message}
    return {"type": "control_request", "request_id": request_id, "request": body}


def mcp(method, id=1, **params) -> dict:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def success(answer, request_id="r1"):
    assert answer["type"] == "control_response"
    assert answer["response"]["subtype"] == "success"
    assert answer["response"]["request_id"] == request_id
    return answer["response"]["response"]["mcp_response"]


def failure(answer) -> str:
    assert answer["type"] == "control_response"
    assert answer["response"]["subtype"] == "error"
    return answer["response"]["error"]


def call(name, id=1, **arguments) -> dict:
    return mcp("tools/call", id, name=name, arguments=arguments)


@pytest.mark.requirement("D3")
async def test_a_message_reaches_the_server_that_it_names(router):
    for name in ("one", "two"):
        answer = success(await router.handle(control(call("whoami"), name)))
        assert answer["id"] == 1
        assert answer["result"]["content"][0]["text"].startswith(name)


@pytest.mark.requirement("D3")
async def test_bytes_in_bytes_out(router):
    answer = await router.handle_bytes(json.dumps(control(mcp("ping"), request_id=7)).encode())
    assert success(json.loads(answer), 7) == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.requirement("D3")
async def test_a_notification_has_no_answer(router):
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert success(await router.handle(control(message))) is None


@pytest.mark.requirement("D3")
async def test_a_conversation_is_remembered_for_each_server(router):
    old = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {}}
    answer = success(await router.handle(control(mcp("initialize", **old))))
    assert answer["result"]["protocolVersion"] == "2024-11-05"
    for name, revision in (("one", "2024-11-05"), ("two", "2025-11-25")):
        answer = success(await router.handle(control(call("whoami"), name)))
        assert revision in answer["result"]["content"][0]["text"]


@pytest.mark.requirement("D3")
async def test_a_client_that_cannot_be_told_of_changes_is_promised_none(router):
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    answer = success(await router.handle(control(mcp("initialize", **hello))))
    assert answer["result"]["capabilities"] == {"tools": {}, "logging": {}}


@pytest.mark.requirement("D3")
async def test_an_unknown_server_is_named(router):
    answer = success(await router.handle(control(mcp("ping", id="x"), "three")))
    assert answer["id"] == "x"
    assert answer["error"]["code"] == -32601
    assert answer["error"]["message"] == "Server not found: three"
    assert success(await router.handle(control("nonsense", "three")))["id"] == ""


@pytest.mark.requirement("D3")
@pytest.mark.parametrize(
    ("message", "code"),
    [
        (None, -32600),
        (5, -32600),
        ([], -32600),
        ({}, -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, -32602),
        (mcp("no/such"), -32601),
        (call("no such tool"), -32602),
    ],
)
async def test_a_malformed_message_is_an_error_of_the_server(router, message, code):
    assert success(await router.handle(control(message)))["error"]["code"] == code


@pytest.mark.requirement("D3")
@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (None, "must be an object, not null"),
        ([], "must be an object, not an array"),
        ({}, '"type" must be'),
        ({"type": "control_response"}, '"type" must be'),
        ({"type": "control_request"}, '"request" must be an object, not nothing'),
        ({"type": "control_request", "request_id": {}}, '"request_id" must be'),
        ({"type": "control_request", "request_id": "r"}, '"request" must be an object'),
        ({"type": "control_request", "request_id": "r", "request": []}, '"request" must be'),
        ({"type": "control_request", "request_id": "r", "request": {}}, '"request.subtype"'),
        (
            {"type": "control_request", "request_id": "r", "request": {"subtype": "other"}},
            '"request.subtype"',
        ),
        (
            {"type": "control_request", "request_id": "r", "request": {"subtype": "mcp_message"}},
            '"request.server_name" must be a string',
        ),
        (
            {
                "type": "control_request",
                "request_id": "r",
                "request": {"subtype": "mcp_message", "server_name": "one"},
            },
            '"request.message" must be there',
        ),
    ],
)
async def test_a_malformed_envelope_is_told_in_the_envelope(router, request_, why):
    assert why in failure(await router.handle(request_))


@pytest.mark.requirement("D3")
@pytest.mark.parametrize(
    ("request_", "data"),
    [
        (5, {"got": "a number"}),
        ({"type": "other"}, {"field": "type", "expected": '"control_request"', "got": '"other"'}),
        ({}, {"field": "type", "expected": '"control_request"', "got": "nothing"}),
        (
            {"type": "control_request", "request": {"subtype": "mcp_message", "server_name": 1}},
            {"field": "request.server_name", "expected": "a string", "got": "a number"},
        ),
    ],
)
async def test_the_details_of_an_error_are_in_its_data(router, request_, data):
    answer = await router.handle(request_)
    assert failure(answer)
    assert answer["response"]["data"] == data


@pytest.mark.requirement("D3")
async def test_the_details_of_an_error_of_a_server_are_in_its_data(router):
    answer = success(await router.handle(control({"jsonrpc": "1.0", "id": 1, "method": "ping"})))
    assert answer["error"]["data"] == {"reason": '"jsonrpc" must be "2.0"', "got": "a string"}
    answer = success(await router.handle(control(call("whoam", 7))))
    assert answer["error"]["data"] == {"tool": "whoam", "requestId": 7, "didYouMean": "whoami"}
    answer = success(await router.handle(control(mcp("ping"), "three")))
    assert answer["error"]["data"] == {"server": "three", "known": ["one", "two"]}


@pytest.mark.requirement("D3")
async def test_a_request_without_an_id_has_an_answer_without_one(router):
    request = control(mcp("ping"))
    del request["request_id"]
    answer = await router.handle(request)
    assert answer["response"]["subtype"] == "success"
    assert "request_id" not in answer["response"]
    for wrong in ({}, {**request, "type": "other"}, {**request, "request_id": []}, None):
        assert "request_id" not in (await router.handle(wrong))["response"]


@pytest.mark.requirement("D3")
async def test_what_is_not_json_is_told(router):
    answer = json.loads(await router.handle_bytes(b"{"))
    assert "not JSON" in failure(answer)
    assert answer["response"]["data"]["reason"] in failure(answer)
    assert "request_id" not in answer["response"]


@pytest.mark.requirement("D3")
async def test_time_and_concurrency_are_bounded_for_each_server(autojump_clock):
    limits = Limits(tool_timeout=5, max_concurrent_calls=1)
    servers = {name: registry_named(name) for name in ("one", "two")}
    router = ControlRouter(servers, limits=limits)
    finished = []

    async def sleep(server: str, id: int, seconds: float) -> None:
        answer = success(await router.handle(control(call("sleep", id, seconds=seconds), server)))
        finished.append((server, id, trio.current_time(), answer["result"].get("isError", False)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sleep, "two", 1, 2)
        nursery.start_soon(sleep, "one", 1, 99)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(sleep, "one", 2, 3)
    assert finished == [("two", 1, 2, False), ("one", 1, 5, True), ("one", 2, 8, False)]


@pytest.mark.requirement("D3")
async def test_cancelling_the_host_cancels_the_call(router, autojump_clock):
    with trio.move_on_after(1):
        await router.handle(control(call("sleep", seconds=99)))
    assert success(await router.handle(control(mcp("ping"))))["result"] == {}


@pytest.mark.requirement("D4")
def test_with_nothing_to_serve_there_is_no_router():
    with pytest.raises(ValueError, match="no server"):
        ControlRouter({})
    with pytest.raises(TypeError, match="a Registry is needed"):
        ControlRouter({"one": None})


@pytest.mark.requirement("D4")
async def test_closing_twice_is_fine_and_leaves_the_registry_alone():
    registry = registry_named("one")
    router = ControlRouter({"one": registry})
    router.close()
    router.close()
    assert failure(await router.handle(control(mcp("ping")))) == "The router is closed"
    assert (await registry.call("sleep", {"seconds": 0})) == "slept"


@pytest.mark.requirement("D4", "B13")
async def test_lifespans_are_open_within_the_block():
    events = []

    @asynccontextmanager
    async def lifespan(registry):
        events.append("open")
        yield "state"
        events.append("closed")

    registry = registry_named("one", lifespan=lifespan)
    router = ControlRouter({"one": registry})
    assert "lifespan" in failure(await router.handle(control(mcp("ping"))))
    async with router:
        for _ in range(2):
            answer = success(await router.handle(control(call("whoami"))))
            assert answer["result"]["content"][0]["text"].endswith("state")
        assert events == ["open"]
    assert events == ["open", "closed"]
    assert failure(await router.handle(control(mcp("ping")))) == "The router is closed"


@pytest.mark.requirement("D3")
async def test_integers_of_any_size_survive(router):
    request = json.dumps(control(mcp("ping", id=2**70))).encode()
    assert success(json.loads(await router.handle_bytes(request)))["id"] == 2**70


# -- tools that are approved beforehand ---------------------------------------------------------


def tools_in(answer) -> list[str]:
    return [tool["name"] for tool in success(answer)["result"]["tools"]]


@pytest.mark.requirement("D3")
@pytest.mark.parametrize(
    ("allowed", "one", "two"),
    [
        (None, ["whoami", "sleep"], ["whoami", "sleep"]),
        ([], [], []),
        (["mcp__one__whoami"], ["whoami"], []),
        (["mcp__one"], ["whoami", "sleep"], []),
        (["mcp__one__*", "mcp__two__s*"], ["whoami", "sleep"], ["sleep"]),
        (["mcp__*__whoami"], ["whoami"], ["whoami"]),
        (["mcp__one__who"], [], []),
    ],
)
async def test_only_tools_that_are_allowed_are_listed_and_called(allowed, one, two):
    servers = {"one": registry_named("one"), "two": registry_named("two")}
    router = ControlRouter(servers, allowed=allowed)
    for name, expected in (("one", one), ("two", two)):
        assert tools_in(await router.handle(control(mcp("tools/list"), name))) == expected
        for tool, arguments in (("whoami", {}), ("sleep", {"seconds": 0})):
            answer = success(await router.handle(control(call(tool, 3, **arguments), name)))
            assert answer["id"] == 3
            if tool in expected:
                assert "result" in answer
            else:
                assert answer["error"]["code"] == -32602
                assert answer["error"]["message"] == f"Unknown tool: {tool}"
                assert answer["error"]["data"]["requestId"] == 3
    assert router.allowed_tools == [
        *(f"mcp__one__{tool}" for tool in one),
        *(f"mcp__two__{tool}" for tool in two),
    ]


@pytest.mark.requirement("D3")
async def test_in_a_batch_too_no_other_tool_is_called():
    router = ControlRouter({"one": registry_named("one")}, allowed=["mcp__one__whoami"])
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {}}
    success(await router.handle(control(mcp("initialize", **hello))))
    batch = [call("sleep", 1, seconds=0), call("whoami", 2), mcp("tools/list", 3), mcp("ping", 4)]
    answers = {each["id"]: each for each in success(await router.handle(control(batch)))}
    assert answers[1]["error"]["message"] == "Unknown tool: sleep"
    assert answers[2]["result"]["content"][0]["text"].startswith("one 2025-03-26")
    assert [tool["name"] for tool in answers[3]["result"]["tools"]] == ["whoami"]
    assert answers[4]["result"] == {}
    said = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    (only,) = success(await router.handle(control([batch[0], said])))
    assert "error" in only
    (alone,) = success(await router.handle(control(batch[:1])))
    assert alone["id"] == 1
    assert "error" in alone
    other = ControlRouter({"one": registry_named("one")}, allowed=["mcp__one__whoami"])
    success(
        await other.handle(control(mcp("initialize", **{**hello, "protocolVersion": "2025-11-25"})))
    )
    whole = success(await other.handle(control(batch)))  # other revisions have no batches
    assert whole["error"]["code"] == -32600


@pytest.mark.requirement("D3")
@pytest.mark.parametrize("names", [("shop", "shop__eu"), ("shop_", "shop")])
def test_servers_whose_tools_may_have_one_name_are_not_told_apart_by_it(names):
    servers = {name: registry_named(name) for name in names}
    assert ControlRouter(servers).allowed_tools
    with pytest.raises(ValueError, match="one name for a tool of 'shop' and one of 'shop_"):
        ControlRouter(servers, allowed=["mcp__shop__eu"])


@pytest.mark.requirement("D3")
def test_a_star_is_all_that_stands_for_other_characters():
    registry = Registry("one")
    for name in ("a", "b"):
        registry.add_tool(lambda: "", name=name)
    for allowed in ("mcp__one__?", "mcp__one__[ab]"):
        assert ControlRouter({"one": registry}, allowed=[allowed]).allowed_tools == []


@pytest.mark.requirement("D3")
async def test_what_is_added_later_is_allowed_by_its_name():
    registry = registry_named("one")
    router = ControlRouter({"one": registry}, allowed=["mcp__one__late*"])
    assert router.allowed_tools == []

    @registry.tool
    async def later() -> str:
        return "late"

    assert router.allowed_tools == ["mcp__one__later"]
    answer = success(await router.handle(control(call("later"))))
    assert answer["result"]["content"][0]["text"] == "late"


@pytest.mark.requirement("D3")
@pytest.mark.parametrize("name", ["whoami", "mcp__three__x", "mcp__one_x", "", "mcp_*"])
def test_a_name_that_means_no_tool_is_refused(name):
    servers = {"one": registry_named("one"), "two": registry_named("two")}
    if name == "mcp_*":  # for it means all of them
        assert len(ControlRouter(servers, allowed=[name]).allowed_tools) == 4
    else:
        with pytest.raises(ValueError, match="means no tool of mcp__one, mcp__two"):
            ControlRouter(servers, allowed=[name])


def test_one_name_alone_is_no_list():
    with pytest.raises(TypeError, match="a list of names"):
        ControlRouter({"one": registry_named("one")}, allowed="mcp__one")
