"""Extensions that fail, peers that declare odd things, and what becomes of the rest."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from tests.extensions.later import COUNT, LATER, NUDGE, TRY, Later, LaterClient, make
from tests.extensions.ways import BLUE, raw
from tests.support.client import LEGACY, MODERN
from tests.support.tools import error_of, failure_of, text_of
from trio_mcp import Client, Context, Limits, McpError, Registry, connect, handle_message
from trio_mcp.errors import LifespanError
from trio_mcp.extending import (
    CallChannel,
    ClientExtension,
    ExtensionRequest,
    ExtensionServing,
    PendingCall,
    ServerExtension,
)

pytestmark = pytest.mark.requirement("K1")

each_era = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN[-1]])


# -- methods --------------------------------------------------------------------------------------


@each_era
@pytest.mark.parametrize("how", ["number", "set", "nan"])
async def test_a_method_that_returns_what_cannot_be_sent(how: str, revision: str) -> None:
    async with raw(make(), revision) as client:
        code, message = error_of(await client.request(TRY.name, {"how": how}))
        assert code == -32603
        assert message.startswith("Invalid handler result type: ")
        assert "later/try" in message
        assert "result" in await client.request(COUNT.name)


@each_era
async def test_a_method_that_raises_tells_nothing_of_it(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw(make(), revision) as client:
        code, message = error_of(await client.request(TRY.name, {"how": "raise"}))
        assert code == -32603
        assert "secret" not in message
        assert "secret" in caplog.text


@each_era
async def test_a_method_that_takes_too_long(revision: str, autojump_clock: object) -> None:
    async with raw(make(), revision, limits=Limits(tool_timeout=5)) as client:
        answer = await client.request(TRY.name, {"how": "sleep"})
        assert error_of(answer) == (-32603, "Method later/try timed out after 5 s")


@each_era
async def test_a_method_that_is_cancelled_is_not_answered(revision: str) -> None:
    async with raw(make(), revision) as client:
        request = client.request_of(TRY.name, {"how": "sleep"})
        await client.send(request)
        await client.cancel(request["id"])
        assert "result" in await client.request(COUNT.name)


async def test_a_method_in_a_batch() -> None:
    async with raw(make(), "2025-03-26") as client:
        await client.send([client.request_of(COUNT.name), client.request_of("later/nothing")])
        [one, other] = await client.receive()
        assert {answer["id"]: "result" in answer for answer in (one, other)} == {2: True, 3: False}


async def test_a_method_without_a_connection() -> None:
    message = b'{"jsonrpc":"2.0","id":1,"method":"later/count","params":{}}'
    answer = await handle_message(make(), message)
    assert answer is not None
    assert b'"count":0' in answer


# -- around calls ---------------------------------------------------------------------------------


class Wrapper(ServerExtension):
    """Does something around calls."""

    identifier = "com.example/wrapper"
    wraps = ("tools/call", "resources/read", "prompts/get", "completion/complete")
    result_types: tuple[str, ...] = ("special",)

    def __init__(self, what: Callable[[ExtensionRequest, Any], Awaitable[Any]]) -> None:
        self.what = what

    async def around(
        self, request: ExtensionRequest, proceed: Callable[[], Awaitable[dict[str, Any]]]
    ) -> Any:
        return await self.what(request, proceed)


def wrapped(what: Callable[[ExtensionRequest, Any], Awaitable[Any]], *more: Any) -> Registry:
    """A registry with one of everything, and extensions around it."""
    registry = Registry("wrapped", extensions=[Wrapper(what), *more])

    @registry.tool
    async def give(how: str) -> Any:
        if how == "odd":
            return {1, object()}
        if how == "raise":
            raise OSError("/etc/secret")
        return how

    @registry.resource("a://b")
    async def read() -> str:
        return "read"

    @registry.prompt
    async def say(word: str) -> str:
        return word

    registry.add_completion(["one", "two"], prompt="say", argument="word")
    return registry


WRAPPER: dict[str, Any] = {"extensions": {Wrapper.identifier: {}}}


@each_era
async def test_around_everything_that_runs_a_function(revision: str) -> None:
    seen: list[str] = []

    async def note(request: ExtensionRequest, proceed: Any) -> Any:
        seen.append(f"{request.method} {request.context.tool}")
        result = await proceed()
        return {**result, "_meta": {**result.get("_meta", {}), "com.example/seen": len(seen)}}

    async with raw(wrapped(note), revision, {}) as client:
        completion = {
            "ref": {"type": "ref/prompt", "name": "say"},
            "argument": {"name": "word", "value": "o"},
        }
        requests: list[tuple[str, dict[str, Any]]] = [
            ("tools/call", {"name": "give", "arguments": {"how": "yes"}}),
            ("resources/read", {"uri": "a://b"}),
            ("prompts/get", {"name": "say", "arguments": {"word": "x"}}),
            ("completion/complete", completion),
        ]
        for number, (method, params) in enumerate(requests):
            result = (await client.request(method, params))["result"]
            assert result["_meta"]["com.example/seen"] == number + 1
        assert [line.split()[0] for line in seen] == list(Wrapper.wraps)


@each_era
@pytest.mark.parametrize(
    "result",
    [None, [], "text", {"odd": {1}}, {"resultType": "other"}, {"resultType": "special"}],
    ids=str,
)
async def test_an_answer_that_cannot_be_sent(result: Any, revision: str) -> None:
    """A result type is only for clients that have declared the extension."""

    async def answer(request: ExtensionRequest, proceed: Any) -> Any:
        return result

    async with raw(wrapped(answer), revision, {}) as client:
        code, message = error_of(await client.call("give", how="yes"))
        assert code == -32603
        assert "Invalid handler result type" in message
    if result == {"resultType": "special"}:
        async with raw(wrapped(answer), revision, WRAPPER) as client:
            client.added = ("special",)
            assert (await client.call("give", how="yes"))["result"]["resultType"] == "special"


@each_era
async def test_something_around_a_call_that_fails(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(request: ExtensionRequest, proceed: Any) -> Any:
        how = request.params["arguments"]["how"]
        if how == "refuse":
            raise McpError(-32000, "not today")
        if how == "crash":
            raise KeyError("/etc/secret")
        return await proceed()

    async with raw(wrapped(answer), revision, {}) as client:
        assert error_of(await client.call("give", how="refuse")) == (-32000, "not today")
        assert "secret" not in failure_of(await client.call("give", how="crash"))
        assert "secret" not in failure_of(await client.call("give", how="raise"))
        assert error_of(await client.call("give", how="odd"))[0] == -32603
        assert "its result cannot be sent" in caplog.text
        assert text_of(await client.call("give", how="well")) == "well"


async def test_the_first_is_outermost() -> None:
    order: list[str] = []

    async def outer(request: ExtensionRequest, proceed: Any) -> Any:
        order.append("outer")
        return await proceed()

    class Inner(Wrapper):
        identifier = "com.example/inner"
        result_types = ()

    async def inner(request: ExtensionRequest, proceed: Any) -> Any:
        order.append("inner")
        return await proceed()

    async with raw(wrapped(outer, Inner(inner)), MODERN[-1], {}) as client:
        await client.call("give", how="yes")
        assert order == ["outer", "inner"]


async def test_a_question_passes_through(autojump_clock: object) -> None:
    async def through(request: ExtensionRequest, proceed: Any) -> Any:
        return await proceed()

    registry = wrapped(through)

    @registry.tool
    async def ask(context: Context) -> str:
        return (await context.elicit("Which?", str)).value

    for era in ("modern", "legacy"):
        async with connect(registry, era=era, handlers=BLUE) as client:
            assert await client.call_tool("ask", returns=str) == "blue"


# -- calls in the background ----------------------------------------------------------------------


class Background(ServerExtension):
    """Has calls answered that no client sends."""

    identifier = "com.example/background"
    serving: ExtensionServing

    @asynccontextmanager
    async def lifespan(self, serving: ExtensionServing) -> AsyncIterator[None]:
        self.serving = serving
        yield


async def test_calls_that_nobody_sends(autojump_clock: object) -> None:
    theirs = Background()
    registry = make(Later())
    registry.add_extension(theirs)

    @registry.tool
    async def who(context: Context) -> str:
        await context.progress(1)
        await context.info("x")
        return f"{context.principal} {context.revision} {context.supports('elicitation')}"

    async with registry.running():
        call = theirs.serving.call

        def request(name: str, **arguments: Any) -> ExtensionRequest:
            params = {"name": name, "arguments": arguments}
            return ExtensionRequest(
                method="tools/call",
                params=params,
                principal="ada",
                capabilities={"elicitation": {}},
            )

        result = await call(request("who"))
        assert result["content"][0]["text"] == "ada 2026-07-28 False"
        with pytest.raises(McpError, match="Unknown tool"):
            await call(request("nothing"))
        with pytest.raises(McpError, match="no client that could be asked"):
            await call(request("paint", thing="door"))
        assert (await call(request("slow"), timeout=5))["isError"]
        assert "isError" not in await call(request("slow"), timeout=100)
        with trio.move_on_after(5) as scope:
            await call(request("fail", how="hang"), timeout=1e9)
        assert scope.cancelled_caught
        listed = await call(ExtensionRequest(method="tools/list", revision="2025-11-25"))
        assert "who" in [tool["name"] for tool in listed["tools"]]
        with pytest.raises(McpError, match="no revision"):
            await call(ExtensionRequest(method="tools/list", revision="1999"))
        with pytest.raises(McpError, match="in the background"):
            await call(
                ExtensionRequest(method="subscriptions/listen", params={"notifications": {}})
            )


async def test_a_call_from_a_lifespan_waits_for_the_others(autojump_clock: object) -> None:
    """It may need them: they run something around it."""
    results: list[Any] = []

    class Early(Background):
        @asynccontextmanager
        async def lifespan(self, serving: ExtensionServing) -> AsyncIterator[None]:
            async def work() -> None:
                params = {"name": "add", "arguments": {"a": 1, "b": 2}}
                request = ExtensionRequest(method="tools/call", params=params)
                results.append(await serving.call(request))

            serving.nursery.start_soon(work)
            yield

    class Late(Wrapper):
        identifier = "com.example/late"
        result_types = ()

        @asynccontextmanager
        async def lifespan(self, serving: ExtensionServing) -> AsyncIterator[str]:
            await trio.sleep(10)
            yield "open"

    async def around(request: ExtensionRequest, proceed: Any) -> Any:
        return {**await proceed(), "state": request.state}

    registry = make()
    registry.add_extension(Early())
    registry.add_extension(Late(around))
    async with registry.running():
        await trio.testing.wait_all_tasks_blocked()
        assert results[0]["state"] == "open"


async def test_the_clock_stands_still_while_it_asks(autojump_clock: object) -> None:
    class Slow(CallChannel):
        can_ask = True

        async def ask(self, key: str, method: str, params: dict[str, Any]) -> Any:
            await trio.sleep(1000)
            return {"action": "accept", "content": {"value": key}}

    theirs = Background()
    registry = make()
    registry.add_extension(theirs)
    async with registry.running():
        params = {"name": "paint", "arguments": {"thing": "door"}}
        request = ExtensionRequest(
            method="tools/call", params=params, capabilities={"elicitation": {}}
        )
        once = await theirs.serving.call(request, channel=Slow(), timeout=1)
        again = await theirs.serving.call(request, channel=Slow(), timeout=1)
        assert once == again  # the question has the same key
        assert "isError" not in once


# -- subscriptions and notifications --------------------------------------------------------------


async def test_subscriptions_that_an_extension_spoils(caplog: pytest.LogCaptureFixture) -> None:
    theirs = Later()
    async with raw(make(theirs), MODERN[-1]) as client:
        for value, words in (("refuse", "No"), ("fail", "internal error")):
            wanted = {"notifications": {"laterIds": [value]}}
            answer = await client.request("subscriptions/listen", wanted)
            assert words in answer["error"]["message"]
            assert "secret" not in answer["error"]["message"]
        assert "secret" in caplog.text
        wait = {"notifications": {"laterIds": ["wait"]}}
        request = client.request_of("subscriptions/listen", wait)
        await client.send(request)
        await client.cancel(request["id"])
        id = (await client.call("fail", how="hang"))["result"]["laterId"]
        await client.send(
            client.request_of("subscriptions/listen", {"notifications": {"laterIds": [id]}})
        )
        assert (await client.receive())["params"]["notifications"] == {"laterIds": [id]}
        job = theirs.jobs[id]
        job.told = [{1}]  # which is not JSON
        job.move(status="odd")
        await trio.testing.wait_all_tasks_blocked()
        assert "cannot be sent" in caplog.text
        job.told = []
        job.move(status="even")
        assert (await client.receive())["params"]["status"] == "even"


async def test_news_that_are_not_made_in_time(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    class Slow(Later):
        async def emptied_params(self, request: ExtensionRequest, value: str | None) -> Any:
            await trio.sleep_forever()

    theirs = Slow()
    async with raw(make(theirs), MODERN[-1], limits=Limits(tool_timeout=5)) as client:
        wanted = {"notifications": {"laterEmptied": True}}
        request = client.request_of("subscriptions/listen", wanted)
        await client.send(request)
        assert (await client.receive())["params"]["notifications"] == {"laterEmptied": True}
        theirs.serving.changed("laterEmptied")
        await trio.sleep(6)
        assert "has not told of laterEmptied in time" in caplog.text
        theirs.serving.changed("laterEmptied")
        await trio.sleep(1)
        await client.cancel(request["id"])
        assert "result" in await client.request(COUNT.name)
        begun = trio.current_time()
    assert trio.current_time() == begun  # nothing is left that would have to be waited for


async def test_who_waits_for_an_extension_to_agree_waits_no_longer_than_for_a_call(
    autojump_clock: object,
) -> None:
    async with raw(make(), MODERN[-1], limits=Limits(tool_timeout=5)) as client:
        wait = {"notifications": {"laterIds": ["wait"]}}
        answer = await client.request("subscriptions/listen", wait)
        assert "did not answer within 5 s" in answer["error"]["message"]


@each_era
async def test_notifications_that_cannot_be_taken(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, ours = Later(), LaterClient()
    async with connect(
        make(theirs),
        era="modern" if revision in MODERN else "legacy",
        extensions=[ours],
        handlers=BLUE,
    ) as client:
        await client.notify(NUDGE, {"fail": True})
        await client.notify("notifications/unknown")
        await client.notify(NUDGE, {"how": "hard"})
        assert "nudged too hard" not in str(await client.request(COUNT.name))
        assert theirs.nudges == ["hard"]
        assert "nudged too hard" in caplog.text
    async with raw(make(theirs), MODERN[-1]) as other:
        await other.notify(NUDGE, {"_meta": {"io.modelcontextprotocol/protocolVersion": "1999"}})
        assert "result" in await other.request(COUNT.name)
        assert theirs.nudges == ["hard"]


async def test_only_its_own_notifications_are_sent() -> None:
    registry = make()

    @registry.tool
    async def tell(method: str, context: Context) -> str:
        await context.notify(method, {})
        return "told"

    async with raw(registry, MODERN[-1]) as client:
        assert "internal error" in failure_of(await client.call("tell", method="notifications/x"))
        assert text_of(await client.call("tell", method="notifications/later/nudged")) == "told"
        assert [message["method"] for message in client.told] == ["notifications/later/nudged"]


# -- what peers declare ---------------------------------------------------------------------------


@each_era
async def test_large_settings(revision: str) -> None:
    settings = {"text": "x" * 1_000_000, "many": dict.fromkeys(map(str, range(10_000)))}
    capabilities: dict[str, Any] = {"extensions": {LATER: settings}}
    limits = Limits(max_client_bytes=10_000_000)
    async with raw(make(), revision, capabilities, limits=limits) as client:
        counted = await client.request(COUNT.name)
        assert counted["result"]["settings"] == settings


async def test_many_extensions_of_a_peer() -> None:
    many: dict[str, Any] = {f"com.example/x{number}": {} for number in range(100_000)}
    limits = Limits(max_client_bytes=1_000_000_000)
    capabilities = {"extensions": {**many, LATER: {}}}
    async with raw(make(), LEGACY[-1], capabilities, limits=limits) as client:
        assert (await client.request(COUNT.name))["result"]["settings"] == {}


# -- lifespans ------------------------------------------------------------------------------------


class Living(ServerExtension):
    """Has a lifespan that a test makes."""

    identifier = "com.example/living"

    def __init__(self, how: Callable[[ExtensionServing], Any]) -> None:
        self.how = how

    def lifespan(self, serving: ExtensionServing) -> Any:
        return self.how(serving)


@pytest.mark.parametrize("when", ["opening", "closing", "working"])
async def test_a_lifespan_that_fails(when: str) -> None:
    @asynccontextmanager
    async def lifespan(serving: ExtensionServing) -> AsyncIterator[None]:
        if when == "opening":
            raise OSError("no water")
        if when == "working":
            serving.nursery.start_soon(fail)
        yield
        if when == "closing":
            raise OSError("no water")

    async def fail() -> None:
        raise OSError("no water")

    with pytest.raises(LifespanError, match=r"extension com\.example/living"):
        async with connect(Registry("x", extensions=[Living(lifespan)])):
            await trio.testing.wait_all_tasks_blocked()
            if when == "working":
                await trio.sleep_forever()


async def test_workers_live_as_long_as_serving_does(autojump_clock: object) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def outer(registry: Registry) -> AsyncIterator[str]:
        yield "water"
        seen.append("registry closed")

    @asynccontextmanager
    async def lifespan(serving: ExtensionServing) -> AsyncIterator[None]:
        async def work() -> None:
            try:
                await trio.sleep_forever()
            finally:
                seen.append(f"worker ended, with {serving.state}")

        serving.nursery.start_soon(work)
        yield
        seen.append("extension closed")

    async with connect(Registry("x", lifespan=outer, extensions=[Living(lifespan)])):
        assert seen == []
    assert seen == ["extension closed", "worker ended, with water", "registry closed"]


async def test_a_lifespan_that_takes_too_long_to_close(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    @asynccontextmanager
    async def lifespan(serving: ExtensionServing) -> AsyncIterator[None]:
        yield
        await trio.sleep_forever()

    registry = Registry("x", extensions=[Living(lifespan)])
    async with connect(registry, limits=Limits(lifespan_timeout=7)):
        begun = trio.current_time()
    assert 7 <= trio.current_time() - begun < 10
    assert "extension com.example/living took longer than 7 s to close" in caplog.text


# -- the client's side ----------------------------------------------------------------------------


class Finishing(ClientExtension):
    """Finishes results as a test wants."""

    identifier = Wrapper.identifier

    def __init__(self, what: Callable[[PendingCall, Any], Awaitable[Any]]) -> None:
        self.what = what
        self.result_types = {"special": ["tools/call"]}

    async def finish(self, call: PendingCall, result: dict[str, Any]) -> Any:
        return await self.what(call, result)


@asynccontextmanager
async def finishing(what: Callable[[PendingCall, Any], Awaitable[Any]]) -> AsyncIterator[Client]:
    """A client whose results are special."""

    async def answer(request: ExtensionRequest, proceed: Any) -> Any:
        return {"resultType": "special", "asked": {"a": {"method": "elicitation/create"}}}

    extensions = [Finishing(what)]
    async with connect(wrapped(answer), extensions=extensions, handlers=BLUE) as client:
        yield client


async def test_what_a_client_makes_of_a_result() -> None:
    async def finish(call: PendingCall, result: Any) -> Any:
        assert (call.method, call.params["name"], call.on_progress) == ("tools/call", "give", None)
        given = await call.answer(result["asked"])
        assert await call.answer({}) == {}
        text = given["a"]["content"]["value"]
        return {"content": [{"type": "text", "text": text}]}

    async with finishing(finish) as client:
        assert await client.call_tool("give", {"how": "yes"}, returns=str) == "blue"


async def test_a_client_that_makes_nothing_of_it() -> None:
    async def finish(call: PendingCall, result: Any) -> Any:
        if result["asked"] is None:
            return None
        return {"how": KeyError}

    async def nothing(call: PendingCall, result: Any) -> Any:
        return None

    async def fail(call: PendingCall, result: Any) -> Any:
        raise ZeroDivisionError

    async with finishing(finish) as client:
        with pytest.raises(McpError.__mro__[1], match="not MCP"):  # `ProtocolError`
            await client.call_tool("give", {"how": "yes"})
    async with finishing(nothing) as client:
        with pytest.raises(TypeError, match="must return a dict, not NoneType"):
            await client.call_tool("give", {"how": "yes"})
    async with finishing(fail) as client:
        with pytest.raises(ZeroDivisionError):
            await client.call_tool("give", {"how": "yes"})


async def test_an_extension_that_does_not_say_how_it_finishes() -> None:
    class Silent(Finishing):
        finish = ClientExtension.finish

    async def answer(request: ExtensionRequest, proceed: Any) -> Any:
        return {"resultType": "special"}

    async def never(call: PendingCall, result: Any) -> Any: ...

    async with connect(wrapped(answer), extensions=[Silent(never)]) as client:
        with pytest.raises(NotImplementedError):
            await client.call_tool("give", {"how": "yes"})
