"""Cancellation, time-outs and the end of the block: nothing is left, and the server is told.

Warnings are errors in these tests: a socket or generator that is left to the garbage collector
fails them. So does a connection that is open after the block (`serving`).
"""

import gc
import ssl

import pytest
import trio
import trustme
from trio.testing import wait_all_tasks_blocked

from tests.client.http_support import ECHO, Incoming, Script, in_memory, serving
from trio_mcp import Client, Handlers, HttpOptions, Limits, connect
from trio_mcp.errors import CallTimeout, CannotReach, ConnectionLost, NotConnected, ResponseTooLarge

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@pytest.fixture(autouse=True)
def nothing_is_left_to_the_collector():
    gc.freeze()  # what is older is not looked at below
    yield
    gc.collect()


async def stall_before(incoming: Incoming) -> None:
    """Say nothing."""
    await incoming.until_gone()


async def stall_within_json(incoming: Incoming) -> None:
    """Say half of an answer."""
    await incoming.start(content_type="application/json")
    await incoming.write(b'{"jsonrpc":')
    await incoming.until_gone()


async def stall_within_events(incoming: Incoming) -> None:
    """Say something, and half of an event."""
    await incoming.start()
    await incoming.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
    await incoming.write(b'data: {"json')
    await incoming.until_gone()


STALLS = pytest.mark.parametrize("stall", [stall_before, stall_within_json, stall_within_events])


@pytest.mark.requirement("F15")
@ERAS
@STALLS
@pytest.mark.parametrize("how", ["cancelled", "timed out"])
async def test_a_request_that_is_given_up_closes_its_stream(era, stall, how, mock_clock) -> None:
    mock_clock.rate = 1  # so that what hangs is noticed
    script = Script(era)
    closed = trio.Event()

    async def call(incoming: Incoming) -> None:
        await stall(incoming)
        closed.set()

    script.on["tools/call"] = call
    async with serving(script) as url, connect(url) as client:
        async with trio.open_nursery() as nursery:
            if how == "timed out":
                nursery.start_soon(script.let_time_pass, "tools/call", mock_clock)
                with pytest.raises(CallTimeout, match="tool 'echo'"):
                    await client.call_tool("echo", timeout=60)
            else:
                nursery.start_soon(client.call_tool, "echo")
                await script.wait_asked("tools/call")
                await wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        await closed.wait()
        if era == "legacy":
            told = await script.wait_asked("notifications/cancelled")
            assert told.params == {"requestId": script.asked("tools/call")[0].message["id"]}
        del script.on["tools/call"]
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
    assert len(script.asked("notifications/cancelled")) == (era == "legacy")


@pytest.mark.requirement("F15")
@ERAS
@STALLS
async def test_requests_that_are_open_when_the_block_is_left_end_with_it(era, stall) -> None:
    script = Script(era, on={"tools/call": stall})
    failures: list[Exception] = []

    async def call(client: Client) -> None:
        try:
            await client.call_tool("echo")
        except NotConnected as error:
            failures.append(error)

    async with serving(script) as url:
        async with trio.open_nursery() as nursery:
            async with connect(url) as client:
                for _ in range(3):
                    nursery.start_soon(call, client)
                await script.wait_asked("tools/call", 3)
        assert len(failures) == 3


@pytest.mark.requirement("F15")
@pytest.mark.parametrize(
    ("era", "stage"),
    [
        ("modern", "server/discover"),
        ("modern", "tools/list"),
        ("modern", "subscriptions/listen"),
        ("legacy", "initialize"),
        ("legacy", "notifications/initialized"),
        ("legacy", "tools/list"),
        ("legacy", "GET"),
        ("legacy", "resources/subscribe"),
    ],
)
async def test_it_can_be_cancelled_at_any_stage(era, stage) -> None:
    script = Script(era, on={stage: Incoming.until_gone})

    async def use(url: str) -> None:
        async with connect(url) as client:
            async with client.subscribe(resources=["x://1"]):
                await script.wait_asked("GET")

    async with serving(script) as url, trio.open_nursery() as nursery:
        nursery.start_soon(use, url)
        await script.wait_asked(stage)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


@pytest.mark.requirement("F15")
@pytest.mark.parametrize("checkpoints", range(0, 60, 6))
@ERAS
async def test_it_can_be_cancelled_at_any_checkpoint(era, checkpoints) -> None:
    script = Script(era)

    async def use(url: str) -> None:
        async with connect(url) as client:
            while True:
                await client.call_tool("echo", {"text": "hello"})

    async with serving(script) as url, trio.open_nursery() as nursery:
        nursery.start_soon(use, url)
        for _ in range(checkpoints):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()


@pytest.mark.requirement("F15")
async def test_a_tls_handshake_can_be_cancelled() -> None:
    gone, scope = trio.Event(), trio.CancelScope()

    async def silent(stream: trio.SocketStream) -> None:
        async with stream:
            async for _ in stream:  # what a handshake begins with
                scope.cancel()
        gone.set()

    async with trio.open_nursery() as nursery:
        listener, *_ = await nursery.start(trio.serve_tcp, silent, 0)
        port = listener.socket.getsockname()[1]
        with scope:
            async with connect(f"https://127.0.0.1:{port}/", http=HttpOptions(verify=False)):
                raise AssertionError("connected")
        assert scope.cancelled_caught
        with trio.fail_after(60):
            await gone.wait()
        nursery.cancel_scope.cancel()


@pytest.mark.requirement("F15")
async def test_a_tls_handshake_has_a_time_limit() -> None:
    authority = trustme.CA()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with trio.open_nursery() as nursery:
        listener, *_ = await nursery.start(trio.serve_tcp, lambda _: trio.sleep_forever(), 0)
        port = listener.socket.getsockname()[1]
        options = HttpOptions(verify=context, connect_timeout=0.05)
        with pytest.raises(CannotReach, match="does not answer in time"):
            async with connect(f"https://127.0.0.1:{port}/", http=options):
                raise AssertionError("connected")
        nursery.cancel_scope.cancel()


@pytest.mark.requirement("F15")
@pytest.mark.parametrize("how", ["error", "return"])
async def test_questions_that_are_open_end_with_the_block(how) -> None:
    script = Script("legacy")
    asked = trio.Event()
    ended = False

    async def own(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.event({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create"})
        await incoming.until_gone()

    async def think(params: object) -> dict[str, object]:
        nonlocal ended
        asked.set()
        try:
            await trio.sleep_forever()
        finally:
            ended = True
        raise AssertionError

    async def use(url: str) -> None:
        async with connect(url, handlers=Handlers(elicitation=think)):
            await asked.wait()
            if how == "error":
                raise LookupError("mine")

    script.on["GET"] = own
    async with serving(script) as url:
        if how == "error":
            with pytest.raises(LookupError):
                await use(url)
        else:
            await use(url)
        assert ended


@pytest.mark.requirement("F15")
async def test_a_handler_that_fails_is_an_error_for_the_server_alone(caplog) -> None:
    script = Script("legacy")

    async def own(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.event({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create"})
        await incoming.until_gone()

    async def fail(params: object) -> dict[str, object]:
        raise LookupError("private")

    script.on["GET"] = own
    async with serving(script) as url, connect(url, handlers=Handlers(elicitation=fail)) as client:
        await script.wait_for(lambda: any(e.body and e.rpc is None for e in script.requests))
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
    [answer] = [each.message for each in script.requests if each.body and each.rpc is None]
    assert "private" not in str(answer)
    assert answer["error"]["code"] == -32603


@pytest.mark.requirement("F15")
async def test_nothing_can_be_asked_once_the_link_is_closed() -> None:
    script = Script()
    async with serving(script) as url, connect(url) as client:
        pass
    with pytest.raises(NotConnected):
        await client.request("tools/list")
    with pytest.raises(NotConnected):
        await client.notify("notifications/anything")
    assert [each.rpc for each in script.requests] == ["server/discover", "tools/list"]


@pytest.mark.requirement("F15")
@pytest.mark.parametrize("rubbish", [b"", b"zz no chunk\r\n"])
async def test_it_does_not_matter_how_a_stream_ends_after_the_answer(rubbish) -> None:
    async def call(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.event(incoming.answer({"resultType": "complete", "content": []}))
        await incoming.raw(rubbish)
        await incoming.drop()

    script = Script(on={"tools/call": call})
    async with serving(script) as url, connect(url) as client:
        for _ in range(3):
            assert (await client.call_tool("echo")).success


@pytest.mark.requirement("F15")
async def test_rubbish_behind_what_is_too_much_does_no_harm() -> None:
    async def call(incoming: Incoming) -> None:
        body = b"x" * 5000
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked"
        await incoming.raw(head + b"\r\n\r\n1388\r\n" + body + b"\r\nno chunk\r\n")
        await incoming.until_gone()

    script = Script(on={"tools/call": call})
    limits = Limits(max_message_bytes=4000)
    async with serving(script) as url, connect(url, limits=limits) as client:
        with pytest.raises(ResponseTooLarge):
            await client.call_tool("echo")


# -- what is asked twice -----------------------------------------------------------------------

READ_ONLY = {**ECHO, "name": "look", "annotations": {"readOnlyHint": True}}
IDEMPOTENT = {**ECHO, "name": "put", "annotations": {"idempotentHint": True}}
NEITHER = {**ECHO, "name": "add", "annotations": {"readOnlyHint": False, "idempotentHint": "yes"}}
TOOLS = [ECHO, READ_ONLY, IDEMPOTENT, NEITHER]


async def end_early(incoming: Incoming) -> None:
    """End a stream without the answer."""
    await incoming.start()
    await incoming.end()


BREAKS = pytest.mark.parametrize("how", [Incoming.drop, end_early])


class Once:
    """Does something the first time, and what the script does after that."""

    def __init__(self, script: Script, first: object) -> None:
        self.script = script
        self.first = first

    async def __call__(self, incoming: Incoming) -> None:
        first, self.first = self.first, None
        if first is not None:
            await first(incoming)
        else:
            await getattr(self.script, self.script.era)(incoming)


@pytest.mark.requirement("F16")
@ERAS
@BREAKS
@pytest.mark.parametrize("tool", ["look", "put"])
async def test_what_can_be_done_twice_is_asked_once_more(era, how, tool) -> None:
    script = Script(era, tools=TOOLS)
    script.on["tools/list"] = Once(script, how)
    script.on["tools/call"] = Once(script, how)
    async with serving(script) as url, connect(url) as client:
        assert (await client.call_tool(tool, {"text": "hello"})).text == "hello"
    for method in ("tools/list", "tools/call"):
        first, second = script.asked(method)
        assert first.message["id"] != second.message["id"]
        assert first.params == second.params


@pytest.mark.requirement("F16")
@ERAS
@BREAKS
@pytest.mark.parametrize("tool", ["echo", "add"])
async def test_what_might_be_done_twice_is_not(era, how, tool) -> None:
    script = Script(era, tools=TOOLS, on={"tools/call": how})
    async with serving(script) as url, connect(url) as client:
        with pytest.raises(ConnectionLost, match="tools/call"):
            await client.call_tool(tool)
    assert len(script.asked("tools/call")) == 1


@pytest.mark.requirement("F16")
@pytest.mark.parametrize(
    ("method", "times"),
    [
        ("server/discover", 2),
        ("resources/list", 2),
        ("resources/templates/list", 2),
        ("resources/read", 2),
        ("prompts/list", 2),
        ("prompts/get", 2),
        ("completion/complete", 2),
        ("logging/setLevel", 1),
        ("resources/subscribe", 1),
        ("subscriptions/listen", 1),
        ("vendor/anything", 1),
    ],
)
async def test_only_certain_requests_are_asked_twice_and_never_more_often(method, times) -> None:
    script = Script()
    async with serving(script) as url, connect(url) as client:
        script.requests.clear()
        script.on[method] = Incoming.drop
        with pytest.raises(ConnectionLost):
            await client.request(method, {"name": "x", "uri": "x"})
    assert len(script.asked(method)) == times


@pytest.mark.requirement("F16")
async def test_a_server_that_was_away_for_a_moment_is_found_again(autojump_clock) -> None:
    script = Script()
    async with in_memory(script) as (url, http, network), connect(url, http=http) as client:
        script.on["tools/call"] = Incoming.drop
        with pytest.raises(ConnectionLost):
            await client.call_tool("echo")
        network.refuses = 1
        await client.refresh_tools()
        script.on["tools/call"] = Incoming.drop
        with pytest.raises(ConnectionLost):
            await client.call_tool("echo")
        network.refuses = 2
        with pytest.raises(CannotReach):
            await client.refresh_tools()
        assert list(client.tools) == ["echo"]
