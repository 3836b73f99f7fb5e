"""A client of servers that know no transport but HTTP+SSE, which revision 2024-11-05 had."""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from typing import Any

import httpx2
import pytest
import trio
import trio.testing
from attrs import define, field
from trio.testing import wait_all_tasks_blocked

from tests.client.http_support import Incoming, Script, in_memory, said, serving
from tests.support.tools import registry_of
from trio_mcp import (
    Client,
    Context,
    Disconnected,
    Handlers,
    HttpOptions,
    HttpPolicy,
    Limits,
    Registry,
    ResourceNotFound,
    ResourceUpdated,
    connect,
    serve_http,
)
from trio_mcp.errors import (
    CallTimeout,
    ClientError,
    ConnectionLost,
    HttpError,
    NotConnected,
    ProtocolError,
    RateLimited,
    RequestTooLarge,
    ResponseTooLarge,
    SessionExpired,
    Unauthorized,
)
from trio_mcp.peer.time_limits import pauses_around

pytestmark = pytest.mark.requirement("F17")

OLDEST = "2024-11-05"
MESSAGES = "/messages?session_id=7"


@pytest.fixture(autouse=True)
def nothing_is_left_to_the_collector() -> Iterator[None]:
    gc.freeze()  # what is older is not looked at below
    yield
    gc.collect()


Part = Callable[[Incoming], Awaitable[None]]


@define(eq=False)
class OldServer(Script):
    """A server of HTTP+SSE."""

    era: str = "legacy"
    refusal: int = 405
    """How it refuses what is no GET."""
    endpoint: str = MESSAGES
    events: Incoming | None = None
    """The stream, once somebody reads it."""
    takes: dict[str, Part] = field(factory=dict)
    """What it does with POSTs of a method, in place of what is usual."""

    async def handle(self, incoming: Incoming) -> None:
        if incoming.method == "GET" and "GET" not in self.on:
            await self.stream(incoming)
        elif incoming.target == MESSAGES:
            await self.take(incoming)
        elif incoming.target in self.on or incoming.method in self.on:
            await super().handle(incoming)
        else:
            await incoming.respond(self.refusal, b"Method Not Allowed")

    async def stream(self, incoming: Incoming) -> None:
        self.events = incoming
        await incoming.start()
        await incoming.event(self.endpoint.encode(), event="endpoint")
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await incoming.until_gone()

    async def take(self, incoming: Incoming) -> None:
        part = self.takes.get(incoming.rpc or "")
        if part is not None:
            await part(incoming)
            return
        await incoming.respond(202, b"Accepted")
        await self.answer(incoming)

    async def answer(self, incoming: Incoming) -> None:
        results: dict[str | None, Any] = {
            "initialize": {
                "protocolVersion": OLDEST,
                "capabilities": {"tools": {}, "resources": {"subscribe": True}},
                "serverInfo": {"name": "old", "version": "1"},
            },
            "tools/list": {"tools": self.tools},
        }
        if incoming.rpc == "tools/call":
            await self.say(incoming.answer(said(incoming)))
        elif incoming.rpc in results:
            await self.say(incoming.answer(results[incoming.rpc]))
        elif incoming.rpc and "id" in incoming.message:
            await self.say(incoming.answer({}))

    async def say(self, message: Any) -> None:
        assert self.events is not None
        await self.events.event(message, event="message")


def refusing(status: int, **headers: str) -> Part:
    """Refuse a request."""

    async def refuse(incoming: Incoming) -> None:
        await incoming.respond(status, b'{"error": {"message": "no"}}', **headers)

    return refuse


async def hang(incoming: Incoming) -> None:
    """Say nothing."""
    await incoming.until_gone()


# -- finding out ----------------------------------------------------------------------------------


@pytest.mark.parametrize("refusal", [400, 404, 405])
@pytest.mark.parametrize("options", [{}, {"era": "legacy"}, {"revision": OLDEST}])
async def test_an_old_server_is_recognised(refusal: int, options: dict[str, Any]) -> None:
    script = OldServer(refusal=refusal)
    async with serving(script) as url:
        async with connect(url, **options) as client:
            assert (client.era, client.revision) == ("legacy", OLDEST)
            assert client.server_info is not None
            assert client.server_info.name == "old"
            assert list(client.tools) == ["echo"]
            assert (await client.call_tool("echo", {"text": "grüß\ndich"})).text == "grüß\ndich"
            await client.ping()
            assert client.stray_output == []
        first, *_ = [each for each in script.requests if each.rpc == "initialize"]
        assert first.target == "/mcp", "Streamable HTTP is tried first"
        [opened] = script.asked("GET")
        assert opened.headers["accept"] == "text/event-stream"
        told = [each.rpc for each in script.requests if each.target == MESSAGES]
        assert told[:3] == ["initialize", "notifications/initialized", "tools/list"]
        assert all(
            each.headers["content-type"] == "application/json"
            for each in script.requests
            if each.method == "POST"
        )


async def test_a_server_whose_refusal_is_a_json_rpc_error() -> None:
    script = OldServer()

    async def no(incoming: Incoming) -> None:
        await incoming.error(404, -32600, "There is no such session")

    script.on["/mcp"] = no
    script.on["GET"] = script.stream
    script.on["/mcp"] = lambda each: script.stream(each) if each.method == "GET" else no(each)
    async with serving(script) as url, connect(url) as client:
        assert client.revision == OLDEST


@pytest.mark.parametrize("status", [401, 403, 407, 409, 413, 429, 500, 503])
async def test_other_refusals_are_final(status: int) -> None:
    script = OldServer(refusal=status)
    async with serving(script) as url:
        with pytest.raises(HttpError) as raised:
            async with connect(url, era="legacy"):
                pass
        assert raised.value.status == status
        assert script.asked("GET") == []


async def test_a_forced_modern_era_is_kept_to() -> None:
    script = OldServer()
    async with serving(script) as url:
        with pytest.raises(ProtocolError, match="server/discover"):
            async with connect(url, era="modern"):
                pass
        assert script.asked("GET") == []


async def no_stream(incoming: Incoming) -> None:
    await incoming.respond(405)


async def a_page(incoming: Incoming) -> None:
    await incoming.respond(200, b"<html>", content_type="text/html")


async def an_empty_stream(incoming: Incoming) -> None:
    await incoming.start()
    await incoming.write(b": hello\n\n")
    await incoming.end()


async def another_event(incoming: Incoming) -> None:
    await incoming.start()
    await incoming.event({"jsonrpc": "2.0", "method": "notifications/message"})
    await incoming.until_gone()


async def too_much(incoming: Incoming) -> None:
    await incoming.start()
    with suppress(trio.BrokenResourceError):
        await incoming.write(b"event: endpoint\ndata: " + b"x" * 5000)
        await incoming.until_gone()


async def a_broken_stream(incoming: Incoming) -> None:
    await incoming.start()
    await incoming.write(b"event: end")
    await incoming.drop()


@pytest.mark.parametrize(
    "answer", [no_stream, a_page, an_empty_stream, another_event, too_much, a_broken_stream]
)
async def test_what_is_no_old_server_either_is_told_by_the_first_refusal(answer: Part) -> None:
    script = OldServer(refusal=404, on={"GET": answer})
    async with serving(script) as url:
        with pytest.raises(HttpError, match="answered 404") as raised:
            async with connect(url, limits=Limits(max_message_bytes=1000)):
                pass
        assert raised.value.status == 404
        assert len(script.asked("GET")) == 1


async def test_a_stream_that_says_nothing_is_given_up(autojump_clock: Any) -> None:
    """So do servers of Streamable HTTP that open a stream for anybody."""

    async def quiet(incoming: Incoming) -> None:
        await incoming.start()
        await incoming.until_gone()

    script = OldServer(refusal=400, on={"GET": quiet})
    async with in_memory(script, connect_timeout=7) as (url, http, _):
        began = trio.current_time()
        with pytest.raises(HttpError, match="answered 400"):
            async with connect(url, http=http):
                pass
        assert trio.current_time() - began == pytest.approx(7)
        with pytest.raises(HttpError, match="answered 400"):
            async with connect(url, http=http, connect_timeout=3):
                pass
        assert trio.current_time() - began == pytest.approx(10)


class Login(httpx2.Auth):
    """Asks a person, who takes a minute each time."""

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        with ExitStack() as stack:
            for pause in pauses_around():
                stack.enter_context(pause())
            await trio.sleep(60)
        yield request


async def test_a_person_who_logs_in_takes_nobodys_time(autojump_clock: Any) -> None:
    script = OldServer(takes={"resources/read": hang})
    limits = {"connect_timeout": 1.0, "tool_timeout": 1.0, "request_timeout": 1.0}
    async with in_memory(script, auth=Login(), listen=False) as (url, http, _):
        began = trio.current_time()
        async with connect(url, http=http, revision=OLDEST, **limits) as client:
            assert (await client.call_tool("echo", {"text": "hi"})).text
            asked = round(trio.current_time() - began)
            assert asked % 60 == 0
            assert asked >= 300  # refused, opened, two of the handshake, the tools and the call
            with pytest.raises(CallTimeout, match="within 1 s"):
                await client.read_resource("x:y")
            assert trio.current_time() - began == pytest.approx(asked + 61)


@pytest.mark.parametrize(
    ("status", "error"), [(401, Unauthorized), (403, Unauthorized), (429, RateLimited)]
)
async def test_a_stream_that_wants_credentials_says_so(status: int, error: Any) -> None:
    script = OldServer(on={"GET": refusing(status)})
    async with serving(script) as url:
        with pytest.raises(error):
            async with connect(url):
                pass


# -- where to POST --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "endpoint",
    ["/messages?session_id=7", "messages?session_id=7", "{origin}/messages?session_id=7#top"],
)
async def test_endpoints_are_resolved(endpoint: str) -> None:
    script = OldServer()
    async with serving(script) as url:
        script.endpoint = endpoint.format(origin=url.removesuffix("/mcp"))
        async with connect(url) as client:
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"


ELSEWHERE = [
    "http://127.0.0.1:1/messages",
    "https://{host}/messages",
    "//evil.example/messages",
    "http://evil.example/messages",
    "http://{host}.evil.example/messages",
    "http://{host}@evil.example/messages",
]


@pytest.mark.parametrize("endpoint", ELSEWHERE)
async def test_endpoints_of_other_servers_are_refused(endpoint: str) -> None:
    script = OldServer()
    async with serving(script) as url:
        script.endpoint = endpoint.format(host=url.split("/")[2])
        with pytest.raises(
            ProtocolError, match=r"an endpoint (of another server|that is not a URL)"
        ):
            async with connect(url, http=HttpOptions(headers={"Authorization": "Bearer secret1"})):
                pass
        assert all(each.target == "/mcp" for each in script.requests), "nobody was told anything"


@pytest.mark.parametrize("endpoint", ["ftp://x/", "http://[::1/", "http://h:port/"])
async def test_endpoints_that_are_no_urls_are_refused(endpoint: str) -> None:
    script = OldServer(endpoint=endpoint)
    async with serving(script) as url:
        with pytest.raises(ProtocolError, match="an endpoint that is not a URL"):
            async with connect(url):
                pass


async def test_headers_and_credentials_go_with_all_requests() -> None:
    script = OldServer()
    async with serving(script) as url:
        url = url.replace("http://", "http://user:word@")
        async with connect(url, http=HttpOptions(headers={"X-Tenant": "blue"})) as client:
            await client.call_tool("echo", {"text": "x"})
        assert {each.headers.get("x-tenant") for each in script.requests} == {"blue"}
        assert {each.headers["authorization"] for each in script.requests} == {"Basic dXNlcjp3b3Jk"}


async def test_redirects_within_the_server_are_followed() -> None:
    script = OldServer()
    moved = "/old/messages"

    async def move(incoming: Incoming) -> None:
        await incoming.respond(307, location=MESSAGES)

    script.endpoint = moved
    script.on[moved] = move
    async with serving(script) as url, connect(url) as client:
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


async def test_a_redirect_elsewhere_fails_the_request() -> None:
    script = OldServer()

    async def move(incoming: Incoming) -> None:
        await incoming.respond(307, location="http://evil.example/messages")

    script.takes["tools/call"] = move
    async with serving(script) as url, connect(url) as client:
        with pytest.raises(HttpError, match="redirects"):
            await client.call_tool("echo", {"text": "x"})
        await client.ping()


async def test_a_single_connection_is_too_few() -> None:
    async with serving(OldServer()) as url:
        with pytest.raises(ValueError, match="max_connections=2"):
            async with connect(url, http=HttpOptions(max_connections=1)):
                pass
        async with connect(url, http=HttpOptions(max_connections=2)) as client:
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(client.call_tool, "echo", {"text": "x"})


# -- conversations --------------------------------------------------------------------------------


async def test_answers_come_in_any_order_and_events_in_any_pieces() -> None:
    script = OldServer()
    held: list[Incoming] = []

    async def hold(incoming: Incoming) -> None:
        await incoming.respond(202)
        held.append(incoming)
        if len(held) == 3:
            data = b"".join(
                b"event: message\r\ndata: %s\r\n\r\n" % json.dumps(each.answer(said(each))).encode()
                for each in reversed(held)
            )
            assert script.events is not None
            for number in range(len(data)):
                await script.events.write(data[number : number + 1])

    script.takes["tools/call"] = hold
    texts: list[str] = []
    async with serving(script) as url, connect(url) as client:

        async def call(text: str) -> None:
            assert (await client.call_tool("echo", {"text": text})).text == text
            texts.append(text)

        async with trio.open_nursery() as nursery:
            for text in ("a", "b", "c"):
                nursery.start_soon(call, text)
        assert sorted(texts) == ["a", "b", "c"]


async def test_other_events_and_noise_are_skipped() -> None:
    script = OldServer()

    async def call(incoming: Incoming) -> None:
        await incoming.respond(202)
        assert script.events is not None
        await script.events.write(b": comment\n\nevent: ping\ndata: 1\n\nevent: message\ndata:\n\n")
        await script.events.event(b"no JSON", event="message")
        pretty = json.dumps(incoming.answer(said(incoming)), indent=2).encode()
        await script.events.event(pretty)

    script.takes["tools/call"] = call
    async with serving(script) as url, connect(url) as client:
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        assert client.stray_output == [b"no JSON"]


async def test_a_request_that_is_given_up_is_called_off(mock_clock: trio.testing.MockClock) -> None:
    mock_clock.rate = 1  # so that what hangs is noticed
    script = OldServer()

    async def take(incoming: Incoming) -> None:
        await incoming.respond(202)

    script.takes["tools/call"] = take
    async with serving(script) as url, connect(url) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(script.let_time_pass, "tools/call", mock_clock)
            with pytest.raises(CallTimeout):
                await client.call_tool("echo", timeout=60)
        told = await script.wait_asked("notifications/cancelled")
        assert told.params == {"requestId": script.asked("tools/call")[0].message["id"]}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "echo")
            await script.wait_asked("tools/call", 2)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await script.wait_asked("notifications/cancelled", 2)
        await client.ping()


REFUSALS: list[tuple[int, dict[str, str], type[ClientError]]] = [
    (400, {}, HttpError),
    (401, {"www_authenticate": "Bearer"}, Unauthorized),
    (404, {}, SessionExpired),
    (413, {}, RequestTooLarge),
    (429, {"retry_after": "3"}, RateLimited),
    (500, {}, HttpError),
    (503, {}, HttpError),
]


@pytest.mark.parametrize(("status", "headers", "error"), REFUSALS)
async def test_a_post_that_is_refused_fails_its_own_request(
    status: int, headers: dict[str, str], error: type[ClientError]
) -> None:
    script = OldServer()
    script.takes["tools/call"] = refusing(status, **headers)
    async with serving(script) as url, connect(url) as client:
        with pytest.raises(error) as raised:
            await client.call_tool("echo", {"text": "x"})
        assert getattr(raised.value, "status", None) == status
        await client.ping()


async def test_a_post_that_breaks_off_fails_its_own_request() -> None:
    script = OldServer()

    async def drop(incoming: Incoming) -> None:
        await incoming.drop()

    script.takes["tools/call"] = drop
    async with serving(script) as url, connect(url) as client:
        with pytest.raises(ConnectionLost):
            await client.call_tool("echo", {"text": "x"})
        await client.ping()


async def test_a_handshake_that_is_refused() -> None:
    script = OldServer()
    script.takes["initialize"] = refusing(403)
    async with serving(script) as url:
        with pytest.raises(Unauthorized):
            async with connect(url):
                pass


async def test_what_nobody_waits_for_and_is_refused_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = OldServer()
    script.takes["notifications/initialized"] = refusing(500)
    secret = HttpOptions(headers={"Authorization": "Bearer hush-hush"})
    async with serving(script) as url, connect(url, http=secret) as client:
        await client.ping()
    assert "A message could not be sent to the server" in caplog.text
    assert "hush-hush" not in caplog.text
    assert "session_id=7" not in "".join(
        each.getMessage() for each in caplog.records if each.levelno >= logging.INFO
    )


async def test_the_bodies_of_refusals_are_bounded() -> None:
    script = OldServer()

    async def flood(incoming: Incoming) -> None:
        await incoming.respond(400, b"x" * 1_000_000)

    script.takes["tools/call"] = flood
    async with serving(script) as url, connect(url) as client:
        with pytest.raises(HttpError, match="answered 400"):
            await client.call_tool("echo")


# -- the end --------------------------------------------------------------------------------------


async def end_it(events: Incoming) -> None:
    await events.end()


async def break_it(events: Incoming) -> None:
    await events.write(b"data: {")
    events.gone = True
    await trio.aclose_forcefully(events.stream)


async def say_too_much(events: Incoming) -> None:
    with suppress(trio.BrokenResourceError):
        await events.event(b"x" * 200_000)


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        (end_it, ConnectionLost, "ended the stream of events"),
        (break_it, ConnectionLost, "broke"),
        (say_too_much, ResponseTooLarge, "more than 100000 bytes"),
    ],
)
async def test_the_end_of_the_stream_wakes_everybody(how: Part, error: Any, words: str) -> None:
    script = OldServer()

    async def take(incoming: Incoming) -> None:
        await incoming.respond(202)

    script.takes["tools/call"] = take
    failures: list[Exception] = []
    limits = Limits(max_message_bytes=100_000)
    async with serving(script) as url, connect(url, limits=limits) as client:
        states = client.states()

        async def call() -> None:
            with pytest.raises(error, match=words) as raised:
                await client.call_tool("echo")
            failures.append(raised.value)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(call)
            await script.wait_asked("tools/call", 3)
            assert script.events is not None
            await how(script.events)
        assert len(failures) == 3
        with pytest.raises(error, match=words):
            await client.ping()
        last = [each async for each in states][-1]
        assert isinstance(last.error, error)  # type: ignore[union-attr]


async def test_the_server_ends_the_stream_before_the_handshake_is_done() -> None:
    script = OldServer()

    async def leave(incoming: Incoming) -> None:
        await incoming.respond(202)
        assert script.events is not None
        await script.events.end()

    script.takes["initialize"] = leave
    async with serving(script) as url:
        with pytest.raises(ConnectionLost):
            async with connect(url):
                pass


async def accept_only(incoming: Incoming) -> None:
    await incoming.respond(202)


@pytest.mark.parametrize("rpc", ["initialize", "notifications/initialized", "tools/list"])
@pytest.mark.parametrize("part", [hang, accept_only])
@pytest.mark.parametrize("how", ["cancelled", "timed out"])
async def test_connecting_can_be_given_up_at_any_point(
    rpc: str, part: Part, how: str, mock_clock: trio.testing.MockClock
) -> None:
    """`serving` sees to it that no connection is left."""
    mock_clock.rate = 1  # so that what hangs is noticed
    script = OldServer(takes={rpc: part})
    if rpc == "notifications/initialized":
        script.takes["tools/list"] = accept_only
    async with serving(script) as url:
        async with trio.open_nursery() as nursery:

            async def reach() -> None:
                with pytest.raises(CallTimeout) if how == "timed out" else nullcontext():
                    async with connect(url, connect_timeout=60):
                        raise AssertionError("connected")

            nursery.start_soon(reach)
            await script.wait_for(
                lambda: any(each.rpc == rpc and each.target == MESSAGES for each in script.requests)
            )
            await wait_all_tasks_blocked()
            if how == "timed out":
                mock_clock.jump(60)
            else:
                nursery.cancel_scope.cancel()


async def test_cancelled_while_the_stream_is_being_opened() -> None:
    script = OldServer(on={"GET": hang})
    async with serving(script) as url:
        async with trio.open_nursery() as nursery:

            async def reach() -> None:
                async with connect(url):
                    raise AssertionError("connected")

            nursery.start_soon(reach)
            await script.wait_asked("GET")
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()


@pytest.mark.long
async def test_every_checkpoint_of_a_session() -> None:
    """Cancelled at its nth step, whatever that is, it leaves nothing (`serving` sees to it)."""
    script = OldServer()
    done = trio.Event()

    async def session(url: str) -> None:
        async with connect(url) as client:
            await client.call_tool("echo", {"text": "x"})
        done.set()

    steps = 1
    while not done.is_set():
        async with serving(script) as url:
            counter = _CancelAt(steps)
            trio.lowlevel.add_instrument(counter)
            try:
                async with trio.open_nursery() as inner:
                    counter.cancel = inner.cancel_scope.cancel
                    inner.start_soon(session, url)
            finally:
                trio.lowlevel.remove_instrument(counter)
        steps += 3
    assert steps > 100


class _CancelAt(trio.abc.Instrument):
    """Cancels something after so many steps of all tasks together."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.cancel: Callable[[], None] = lambda: None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0:
            self.cancel()


@pytest.mark.parametrize("open_calls", [0, 3])
async def test_leaving_the_block_ends_all(open_calls: int) -> None:
    script = OldServer(takes={"tools/call": accept_only})
    failures: list[Exception] = []

    async def call(client: Client) -> None:
        try:
            await client.call_tool("echo")
        except NotConnected as error:
            failures.append(error)

    async with serving(script) as url:
        async with trio.open_nursery() as nursery:
            async with connect(url) as client:
                for _ in range(open_calls):
                    nursery.start_soon(call, client)
                await script.wait_for(lambda: len(script.asked("tools/call")) == open_calls)
        assert len(failures) == open_calls
        with pytest.raises(NotConnected):
            await client.ping()


async def test_leaving_does_not_wait_for_a_post_that_hangs(autojump_clock: Any) -> None:
    script = OldServer(takes={"tools/call": hang})
    async with in_memory(script) as (url, http, _):
        async with trio.open_nursery() as nursery:
            async with connect(url, http=http) as client:
                nursery.start_soon(_ignoring, client)
                await script.wait_asked("tools/call")
                began = trio.current_time()
            assert trio.current_time() == began


async def test_what_is_left_unsaid_at_the_end_is_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The end of the session cancels what a last notification would have."""
    script = OldServer(takes={"tools/call": accept_only})
    async with serving(script) as url, connect(url) as client:
        with pytest.raises(CallTimeout):
            await client.call_tool("echo", timeout=0.01)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def _ignoring(client: Client) -> None:
    with suppress(ClientError):
        await client.call_tool("echo", timeout=60)


async def test_what_the_body_raises_comes_out_as_it_is() -> None:
    async with serving(OldServer()) as url:
        with pytest.raises(LookupError, match="mine"):
            async with connect(url):
                raise LookupError("mine")


# -- both of ours ---------------------------------------------------------------------------------


async def steps(context: Context, count: int) -> str:
    """Report progress."""
    for number in range(1, count + 1):
        await context.progress(number, count)
    return "done"


async def ask(context: Context) -> str:
    """Ask the client."""
    return ", ".join(str(each.uri) for each in await context.roots())


async def clock() -> str:
    return "noon"


def shop() -> Registry:
    registry = registry_of(steps, ask)
    registry.add_resource("clock://now", clock)

    async def touch() -> None:
        registry.notify_resource_updated("clock://now")

    registry.add_tool(touch)
    return registry


@pytest.mark.parametrize("revision", [OLDEST, "2025-11-25"])
async def test_our_client_and_our_server(revision: str) -> None:
    policy = HttpPolicy(tokens={"a-token": "alice"})
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            start = partial(serve_http, shop(), "127.0.0.1", 0, sse_path="/sse", policy=policy)
            handle: Any = await nursery.start(start)
            url = f"http://127.0.0.1:{handle.port}/sse"
            with pytest.raises(Unauthorized):
                async with connect(url):
                    pass
            options = HttpOptions(headers={"Authorization": "Bearer a-token"})
            async with connect(
                url, revision=revision, http=options, handlers=Handlers(roots=["file:///srv"])
            ) as client:
                assert client.revision == revision
                heard: list[float] = []
                result = await client.call_tool(
                    "steps", {"count": 3}, on_progress=lambda done, *_: heard.append(done)
                )
                assert (result.text, heard) == ("done", [1, 2, 3])
                assert (await client.call_tool("ask")).text == "file:///srv"
                async with client.subscribe(resources=["clock://now"]) as changes:
                    await client.call_tool("touch")
                    assert await anext(changes) == ResourceUpdated("clock://now")
                with pytest.raises(ResourceNotFound):
                    await client.read_resource("nowhere://at/all")
                handle.stop()
                assert [type(each) async for each in client.states()][-1] is Disconnected
                with pytest.raises(ConnectionLost):
                    await client.ping()
