"""Middleware: what runs around requests, and around calls of the author's functions."""

import json
import logging
from collections.abc import Awaitable, Callable

import httpx2
import pytest
import trio
from attrs import evolve, frozen

from tests.support.client import serving
from tests.support.tools import (
    INTERNAL,
    each_revision,
    echo,
    error_of,
    failure_of,
    registry_of,
    some_revisions,
    text_of,
    wait,
)
from trio_mcp import (
    Context,
    Handlers,
    HttpPolicy,
    Limits,
    McpError,
    Registry,
    ToolError,
    connect,
    handle_message,
    serve_http,
)
from trio_mcp.middleware import McpCall, McpRequest

pytestmark = pytest.mark.requirement("L5")


async def through(request: McpRequest, call_next):
    """Do nothing."""
    return await call_next(request)


async def through_calls(call: McpCall, call_next):
    """Do nothing."""
    return await call_next(call)


@frozen
class Put:
    """Puts a function that knows both around one of them."""

    around: str
    function: Callable[..., Awaitable[object]]

    async def __call__(self, given, call_next):
        return await self.function(given, call_next)


class Witness:
    """Middleware that writes down what it sees, in the order of its calls."""

    def __init__(self, name: str, seen: list, around: str = "requests") -> None:
        self.name = name
        self.seen = seen
        self.around = around

    async def __call__(self, given, call_next):
        what = given.method if isinstance(given, McpRequest) else given.name
        self.seen.append(f"{self.name}: {what}")
        try:
            result = await call_next(given)
        except BaseException as error:
            self.seen.append(f"{self.name}: {type(error).__name__}")
            raise
        self.seen.append(f"{self.name}: done")
        return result


def everything(**options) -> Registry:
    """A registry with one of each kind."""
    registry = registry_of(echo, wait, **options)

    @registry.tool
    def plain(text: str, context: Context) -> str:
        return f"{context.tool} {text}"

    @registry.resource("note://{name}")
    async def note(name: str) -> str:
        return name

    @registry.prompt
    async def ask(loud: bool = False) -> str:
        return "loud" if loud else "quiet"

    return registry


# -- around calls -----------------------------------------------------------------------------


@some_revisions
async def test_around_calls_of_every_kind_the_first_is_outermost(revision):
    seen: list[str] = []
    calls: list[McpCall] = []

    async def keep(call: McpCall, call_next):
        calls.append(call)
        return await call_next(call)

    around = [Witness("outer", seen, "calls"), Witness("inner", seen, "calls"), keep]
    async with serving(everything(middleware=around), revision=revision) as (client, _):
        await client.call("plain", text="x")
        await client.request("resources/read", {"uri": "note://a"})
        await client.request("prompts/get", {"name": "ask"})
        about = {"ref": {"type": "ref/prompt", "name": "ask"}}
        about["argument"] = {"name": "loud", "value": "t"}
        await client.request("completion/complete", about)
    assert seen[:4] == ["outer: plain", "inner: plain", "inner: done", "outer: done"]
    assert [(each.kind, each.method, each.target) for each in calls] == [
        ("tool", "tools/call", "plain"),
        ("resource", "resources/read", "note://a"),
        ("prompt", "prompts/get", "ask"),
        ("completion", "completion/complete", "loud of ask"),
    ]
    assert calls[0].arguments == {"text": "x"}
    assert calls[0].description.name == "plain"
    assert calls[1].name == "note://{name}"
    assert calls[0].context.revision == revision


async def test_it_may_change_arguments_and_results_also_without_a_server():
    async def shout(call: McpCall, call_next):
        loud = evolve(call, arguments={"text": call.arguments["text"].upper()})
        return f"{await call_next(loud)}!"

    registry = registry_of(echo, middleware=[shout])
    assert await registry.call("echo", {"text": "hi"}) == "HI!"
    async with serving(registry) as (client, _):
        assert text_of(await client.call("echo", text="hi")) == "HI!"


@pytest.mark.parametrize(
    ("error", "told"),
    [(ToolError("Not you."), "Not you."), (KeyError("s3cret"), f"Tool echo failed: {INTERNAL}")],
)
async def test_what_it_raises_is_told_as_if_the_tool_had_raised_it(error, told):
    async def refuse(call: McpCall, call_next):
        raise error

    async with serving(registry_of(echo, middleware=[refuse])) as (client, _):
        assert failure_of(await client.call("echo", text="hi")) == told


async def test_it_sees_the_exceptions_of_the_tool_as_they_were_raised():
    async def mend(call: McpCall, call_next):
        try:
            return await call_next(call)
        except LookupError as error:
            return f"mended {error.args[0]}"

    async def fail() -> str:
        raise KeyError("it")

    async with serving(registry_of(fail, middleware=[mend])) as (client, _):
        assert text_of(await client.call("fail")) == "mended it"


async def test_what_it_returns_in_place_of_the_function_is_checked():
    async def lie(call: McpCall, call_next):
        return {"not": "a number"} if call.arguments["text"] == "wrong" else b"bytes"

    async def length(text: str) -> dict[str, int]:
        return {"length": len(text)}

    async with serving(registry_of(length, middleware=[lie])) as (client, _):
        code, _message = error_of(await client.call("length", text="wrong"))
        assert code == -32603
        code, message = error_of(await client.call("length", text="bytes"))
        assert (code, message) == (-32603, "Invalid handler result type: bytes (tool length)")


async def test_it_may_run_the_function_twice_and_hand_on_nothing_else():
    calls: list[str] = []

    async def count(text: str) -> str:
        calls.append(text)
        return text

    async def twice(call: McpCall, call_next):
        await call_next(call)
        return await call_next(call)

    async def wrong(call: McpCall, call_next):
        return await call_next(call.arguments)

    async with serving(registry_of(count, middleware=[twice])) as (client, _):
        await client.call("count", text="x")
        assert calls == ["x", "x"]
    async with serving(registry_of(count, middleware=[wrong])) as (client, _):
        assert failure_of(await client.call("count", text="x")) == f"Tool count failed: {INTERNAL}"


async def hang(given, call_next):
    await trio.sleep_forever()


async def swallow(given, call_next):
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        return "nothing happened"


@pytest.mark.parametrize("around", [hang, swallow])
async def test_around_a_call_it_ends_with_the_time_limit_of_the_call(around, autojump_clock):
    registry = registry_of(echo, middleware=[Put("calls", around)], tool_timeout=3)
    async with serving(registry) as (client, _):
        assert failure_of(await client.call("echo", text="")) == "Tool echo timed out after 3 s"
        id = await client.start("echo", text="")
        await trio.testing.wait_all_tasks_blocked()
        await client.cancel(id)
        assert "result" in await client.request("ping")
    assert trio.current_time() < 4  # it was not waited for


@each_revision
async def test_around_a_call_it_may_ask_the_caller(revision):
    async def confirm(call: McpCall, call_next):
        answer = await call.context.elicit(f"Run {call.name}?", bool)
        return await call_next(call) if answer.content else "not run"

    async def answer(params):
        [name] = params["requestedSchema"]["properties"]
        return {"action": "accept", "content": {name: asked.append(1) is None}}

    asked: list[int] = []
    if revision < "2025-06-18":
        return  # which has no such questions
    registry = registry_of(echo, middleware=[confirm])
    handlers = Handlers(elicitation=answer)
    async with connect(registry, revision=revision, handlers=handlers) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
        assert asked == [1]


# -- around requests --------------------------------------------------------------------------


@some_revisions
async def test_around_requests_of_every_method(revision):
    seen: list[str] = []
    around = [Witness("outer", seen), Witness("inner", seen)]
    async with serving(everything(middleware=around), revision=revision) as (client, _):
        seen.clear()
        listed = await client.request("tools/list")
        assert [each["name"] for each in listed["result"]["tools"]] == ["echo", "wait", "plain"]
        assert seen == ["outer: tools/list", "inner: tools/list", "inner: done", "outer: done"]
        seen.clear()
        assert text_of(await client.call("plain", text="x")) == "plain x"
        error_of(await client.request("no/such"))
        assert seen[0::4] == ["outer: tools/call", "outer: no/such"]
        assert seen[-2:] == ["inner: McpError", "outer: McpError"]


async def test_it_may_answer_refuse_and_change():
    async def change(request: McpRequest, call_next):
        if request.method == "com.example/hello":
            return {"hello": request.context.client.name}
        if request.target == "wait":
            raise McpError(-32000, "Not now", {"retryAfter": 3})
        if request.method == "tools/list":
            result = await call_next(request)
            for each in result["tools"]:
                each["title"] = each["name"].title()
            result["tools"].pop()
            return result
        if request.method == "tools/call":
            arguments = {"text": "changed"}
            request = evolve(request, params={**request.params, "arguments": arguments})
            assert request.description.name == "echo"
        return await call_next(request)

    registry = registry_of(echo, wait, middleware=[change])
    async with serving(registry) as (client, _):
        client.judging = False  # a method that nobody knows
        assert (await client.request("com.example/hello"))["result"] == {"hello": "test-client"}
        assert (await client.call("wait", seconds=0))["error"]["data"] == {"retryAfter": 3}
        assert text_of(await client.call("echo", text="hi")) == "changed"
        for _ in range(2):  # what is kept of the list has not changed
            [tool] = (await client.request("tools/list"))["result"]["tools"]
            assert (tool["name"], tool["title"]) == ("echo", "Echo")


@pytest.mark.parametrize("garbage", [None, 7, "text", [1], {"bad": float("nan")}, {1: 2}])
async def test_a_result_that_is_none_is_an_error_that_names_the_type(garbage):
    async def lie(request: McpRequest, call_next):
        return await call_next(request) if request.method == "initialize" else garbage

    async with serving(registry_of(echo, middleware=[lie])) as (client, _):
        code, message = error_of(await client.request("tools/list"))
        assert code == -32603
        assert f"type: {type(garbage).__name__} (" in message


async def test_what_it_raises_stays_in_the_log(caplog):
    async def fail(request: McpRequest, call_next):
        await call_next(request)
        raise OSError(2, "s3cret")

    async with serving(registry_of(echo, middleware=[fail]), shake_hands=False) as (client, _):
        answer = await client.request("tools/list")
        assert error_of(answer) == (-32603, f"tools/list failed: {INTERNAL}")
        assert failure_of(await client.call("echo", text="x")) == f"tools/call failed: {INTERNAL}"
    assert "s3cret" in caplog.text


async def test_it_can_change_neither_the_method_nor_run_two_calls_at_once():
    async def other(request: McpRequest, call_next):
        return await call_next(evolve(request, method="tools/call"))

    async def both(request: McpRequest, call_next):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call_next, request)
            nursery.start_soon(call_next, request)
        return {}

    async with serving(registry_of(wait, middleware=[other]), shake_hands=False) as (client, _):
        assert error_of(await client.request("tools/list"))[0] == -32603
    async with serving(registry_of(wait, middleware=[both]), shake_hands=False) as (client, _):
        failure_of(await client.call("wait", seconds=0))


async def test_a_call_that_is_too_slow_is_a_result_for_the_middleware(autojump_clock):
    results: list[dict] = []

    async def keep(request: McpRequest, call_next):
        await trio.sleep(1)  # which the call has no part in
        results.append(await call_next(request))
        await trio.sleep(1)
        return {**results[-1], "_meta": {"com.example/seen": True}}

    registry = registry_of(wait, middleware=[keep], tool_timeout=3)
    async with serving(registry, shake_hands=False) as (client, _):
        assert text_of(await client.call("wait", seconds=2.5)) == "waited 2.5"
        answer = await client.call("wait", seconds=5)
        assert failure_of(answer) == "Tool wait timed out after 3 s"
        assert answer["result"]["_meta"] == {"com.example/seen": True}


@pytest.mark.parametrize("around", [hang, swallow])
async def test_around_a_request_it_ends_with_the_usual_time_limit(around, autojump_clock):
    registry = registry_of(echo, middleware=[Put("requests", around)], tool_timeout=3)
    async with serving(registry, shake_hands=False) as (client, _):
        answer = await client.request("tools/list")
        assert error_of(answer) == (-32603, "tools/list timed out after 3 s")


async def insist(given, call_next):
    with trio.CancelScope(shield=True):
        await trio.sleep(60)
    return await call_next(given)


async def test_one_that_cannot_be_ended_does_not_keep_the_caller_waiting(autojump_clock):
    registry = registry_of(wait, middleware=[Put("requests", insist)], tool_timeout=3)
    async with serving(registry, Limits(cancel_timeout=1), shake_hands=False) as (client, _):
        started = trio.current_time()
        error_of(await client.request("tools/list"))
        assert trio.current_time() - started == pytest.approx(4)


async def test_a_call_inside_that_cannot_be_ended_is_answered_in_its_words(autojump_clock):
    async def stuck() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(60)
        return "too late"

    registry = registry_of(stuck, middleware=[through], tool_timeout=3)
    async with serving(registry, Limits(cancel_timeout=1), shake_hands=False) as (client, _):
        assert failure_of(await client.call("stuck")) == "Tool stuck timed out after 3 s"
        assert trio.current_time() <= 5 + 1e-6


async def test_a_cancellation_by_the_client_passes_through_and_is_not_answered(caplog):
    seen: list[str] = []
    caplog.set_level(logging.INFO, "trio_mcp.calls")
    around = [Witness("request", seen), Witness("call", seen, "calls")]
    async with serving(registry_of(wait, middleware=around), shake_hands=False) as (client, _):
        id = await client.start("wait", seconds=1000)
        while "call: wait" not in seen:
            await trio.testing.wait_all_tasks_blocked()
        await client.cancel(id)
        assert "result" in await client.request("ping")  # and nothing before it
    assert seen[:4] == [
        "request: tools/call",
        "call: wait",
        "call: Cancelled",
        "request: Cancelled",
    ]
    assert "Tool wait: cancelled" in caplog.text


async def test_at_the_end_of_the_input_what_runs_is_answered_once(autojump_clock):
    async def shielded(request: McpRequest, call_next):
        try:
            return await call_next(request)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.2)

    async with serving(registry_of(wait, middleware=[shielded]), shake_hands=False) as (client, _):
        id = await client.start("wait", seconds=1000)
        await trio.testing.wait_all_tasks_blocked()
        await client.send_eof()
        [answer] = await client.receive_all()
        assert (answer["id"], error_of(answer)) == (id, (-32603, "Request cancelled"))


async def test_lines_of_a_pipe_mean_what_they_would_without_middleware():
    async def slow(request: McpRequest, call_next):
        if request.method == "initialize":
            for _ in range(10):
                await trio.testing.wait_all_tasks_blocked()
        return await call_next(request)

    async with serving(registry_of(echo, middleware=[slow]), shake_hands=False) as (client, _):
        client.judging = False
        first = client.request_of("initialize", {"protocolVersion": "2024-11-05"})
        bad = client.request_of("tools/call", {"name": "echo", "arguments": {"text": 1}})
        await client.send(first, bad)
        answers = await client.receive_many(2)
    assert answers[first["id"]]["result"]["protocolVersion"] == "2024-11-05"
    assert error_of(answers[bad["id"]])[0] == -32602  # a result only since 2025-11-25


async def test_a_batch_is_answered_as_a_batch():
    registry = registry_of(echo, middleware=[through])
    async with serving(registry, revision="2025-03-26") as (client, _):
        batch = [client.request_of("tools/list"), client.request_of("no/such")]
        await client.send(batch)
        answers = await client.receive()
        assert sorted(each["id"] for each in answers) == [each["id"] for each in batch]


async def test_each_round_of_a_question_is_a_request():
    rounds: list[str] = []

    async def keep(request: McpRequest, call_next):
        result = await call_next(request)
        if request.method == "tools/call":
            rounds.append(result["resultType"])
        return result

    async def name(context: Context) -> str:
        return str((await context.elicit("Who?", str)).content)

    async def answer(params):
        [field] = params["requestedSchema"]["properties"]
        return {"action": "accept", "content": {field: "Ada"}}

    registry = registry_of(name, middleware=[keep])
    async with connect(registry, handlers=Handlers(elicitation=answer)) as client:
        assert (await client.call_tool("name")).text == "Ada"
    assert rounds == ["input_required", "complete"]


async def test_around_a_subscription_for_as_long_as_it_lasts_and_without_a_slot():
    seen: list[str] = []
    registry = registry_of(echo, middleware=[Witness("m", seen)])
    async with connect(registry, limits=Limits(max_concurrent_calls=1)) as client:
        async with client.subscribe(lists=["tools"]) as changes:
            registry.add_tool(wait)
            assert (await anext(aiter(changes))).kind == "tools"
            assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
            assert "m: done" not in seen[seen.index("m: subscriptions/listen") :][:1]
        await client.request("tools/list")
    assert "m: Cancelled" in seen


async def test_a_message_in_this_process():
    registry = registry_of(echo, middleware=[through, through_calls])
    line = await handle_message(registry, b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    assert json.loads(line or b"") == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_over_http(era):
    seen: list[str] = []
    registry = everything(middleware=[Witness("m", seen), Witness("c", seen, "calls")])
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(serve_on_any_port, registry)
        async with connect(handle.url, era=era) as client:
            assert (await client.call_tool("plain", {"text": "x"})).text == "plain x"
            async with client.subscribe(lists=["tools"]) as changes:
                registry.add_tool(echo, name="another")
                assert (await anext(aiter(changes))).kind == "tools"
        handle.stop()
    assert [each for each in seen if each.startswith("c")] == ["c: plain", "c: done"]
    assert ("m: initialize" in seen) is (era == "legacy")


async def test_a_handshake_that_is_refused_begins_no_session_over_http():
    async def refuse(request: McpRequest, call_next):
        if request.method == "initialize":
            raise McpError(-32000, "Not you")
        return await call_next(request)

    registry = registry_of(echo, middleware=[refuse])
    async with trio.open_nursery() as nursery:
        handle = await nursery.start(serve_on_any_port, registry)
        async with httpx2.AsyncClient(verify=False) as client:
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
            accept = {"accept": "application/json, text/event-stream"}
            response = await client.post(handle.url, json=body, headers=accept)
        assert response.status_code == 400
        assert error_of(response.json()) == (-32000, "Not you")
        assert "mcp-session-id" not in response.headers
        handle.stop()


async def serve_on_any_port(registry, task_status):
    await serve_http(registry, port=0, policy=HttpPolicy(), task_status=task_status)


@pytest.mark.parametrize("wrong", [[lambda request, call_next: {}], through, [7], "text"])
def test_what_is_no_middleware_is_refused_at_once(wrong):
    with pytest.raises(TypeError, match="middleware must be"):
        Registry("test", middleware=wrong)


async def knows_both(given: McpRequest | McpCall, call_next):
    return await call_next(given)


@pytest.mark.parametrize("unclear", [hang, knows_both, Put("both", hang)])
def test_middleware_that_does_not_say_what_it_goes_around_is_refused_at_once(unclear):
    with pytest.raises(TypeError, match="annotate its first parameter with McpRequest or McpCall"):
        Registry("test", middleware=[unclear])


async def by_text(call: "tests.unknown.McpCall", call_next: "Unknown"):  # type: ignore[name-defined]  # noqa: F821
    return f"{await call_next(call)} by text"


async def by_subclass(call: type("Ours", (McpCall,), {}), call_next):  # type: ignore[valid-type]
    return f"{await call_next(call)} by subclass"


@pytest.mark.parametrize("around", [by_text, by_subclass])
async def test_an_annotation_may_be_text_or_name_a_subclass(around):
    registry = registry_of(echo, middleware=[around])
    assert (await registry.call("echo", {"text": "a"})).startswith("a by ")


async def takes_one(request):
    return {}


@pytest.mark.parametrize("wrong", [takes_one, Witness])
def test_middleware_that_cannot_be_called_with_what_it_gets_is_refused_at_once(wrong):
    with pytest.raises(TypeError, match=r"take two arguments.* does not$"):
        Registry("test", middleware=[wrong])


async def test_a_hundred_deep():
    seen: list[str] = []
    many = [through] * 99
    calls = [through_calls] * 99
    around = [*many, Witness("request", seen), *calls, Witness("call", seen, "calls")]
    async with serving(registry_of(echo, middleware=around), shake_hands=False) as (client, _):
        assert text_of(await client.call("echo", text="x")) == "x"
    assert seen == ["request: tools/call", "call: echo", "call: done", "request: done"]
