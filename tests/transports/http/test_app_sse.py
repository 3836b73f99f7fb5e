"""HTTP+SSE, the transport of revision 2024-11-05: a stream of events, and POSTs beside it."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.client import LEGACY, MODERN, modern_meta
from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.sockets import served
from tests.transports.http.support import (
    IGNORES,
    Headers,
    Host,
    LegacyClient,
    ModernClient,
    Response,
    Worker,
    each_manner,
    hosting,
)
from trio_mcp import (
    Context,
    HttpPolicy,
    Limits,
    McpError,
    Registry,
    ServerState,
    SessionOptions,
    ToolError,
    http_app,
)

pytestmark = pytest.mark.requirement("F17")

PATH = "/sse"
OLDEST = LEGACY[0]
TOKENS = HttpPolicy(tokens={"a-token": "alice", "b-token": "bob"})
ALICE = {"authorization": "Bearer a-token"}
BOB = {"authorization": "Bearer b-token"}


class SseClient(LegacyClient):
    """A client that knows no other transport."""

    def __init__(self, host: Host, revision: str = OLDEST, **options: Any) -> None:
        super().__init__(host, revision, **options)
        self.path = PATH
        self.endpoint = ""
        self.stream: Response

    def headers_for(self, message: Any) -> dict[str, str | bytes | None]:
        """Nothing but what is needed."""
        return {"content-type": "application/json", **self.headers}

    def post_bytes(self, body: bytes | None, headers: Headers) -> Response:
        """Begin to POST to the endpoint of the session."""
        return self.host.send("POST", self.endpoint, headers, body, client=self.address)

    def open(self, **headers: Any) -> Response:
        """Begin to open the stream."""
        given = {"accept": "text/event-stream", **self.headers, **headers}
        return self.host.send(
            "GET", self.path, given, client=self.address, judge=self.judge, root_path=self.root
        )

    root = ""

    async def connect(self) -> None:
        """Open the stream, and learn where to POST."""
        self.stream = self.open()
        assert await self.stream.started() == 200, self.stream.body
        event = await self.stream.event()
        assert event is not None
        assert event.kind == "endpoint"
        assert event.id is None
        self.endpoint = event.data or ""

    async def begin_session(self) -> Any:
        """Connect, shake hands, and return the answer."""
        await self.connect()
        answer = await self.ask(self.initialize_request())
        assert answer["result"]["protocolVersion"] == self.revision
        assert await self.notify("notifications/initialized") == 202
        return answer

    async def tell(self, message: Any) -> None:
        """POST a message, which must be taken."""
        response = await self.post(message)
        assert (response.status, response.body) == (202, b"")

    async def ask(self, message: Any) -> Any:
        """POST a message, and return the next one of the stream."""
        await self.tell(message)
        return await self.stream.message()

    async def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Send a request, and return the next message of the stream."""
        return await self.ask(self.request_of(method, params))

    def call_of(self, name: str, token: Any = None, **arguments: Any) -> dict[str, Any]:
        """Make a call of a tool."""
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return self.request_of("tools/call", params)

    async def call(self, name: str, meta: Any = None, **arguments: Any) -> Any:
        """Call a tool, and return the next message of the stream."""
        return await self.ask(self.call_of(name, **arguments))


@asynccontextmanager
async def serving(registry: Registry, *args: Any, **options: Any) -> AsyncIterator[Host]:
    """Serve a registry to clients of HTTP+SSE."""
    async with hosting(registry, *args, sse_path=PATH, **options) as host:
        yield host


@asynccontextmanager
async def connected(
    registry: Registry, *args: Any, revision: str = OLDEST, **options: Any
) -> AsyncIterator[SseClient]:
    """Serve a registry to a client that has shaken hands."""
    capabilities = options.pop("capabilities", {})
    async with serving(registry, *args, **options) as host:
        client = SseClient(host, revision, capabilities=capabilities)
        await client.begin_session()
        yield client


async def sessions_of(host: Host) -> int:
    """How many sessions there are."""
    metrics = (await host.ask("GET", "/metrics")).body.decode()
    [line] = [each for each in metrics.splitlines() if each.startswith("mcp_sessions ")]
    return int(float(line.split()[1]))


# -- conversations --------------------------------------------------------------------------------


@each_manner
@pytest.mark.parametrize("revision", LEGACY)
async def test_a_conversation(revision: str, manner: str) -> None:
    async with connected(registry_of(echo), revision=revision, manner=manner) as client:
        assert client.stream.headers["content-type"] == "text/event-stream"
        assert "no-cache" in client.stream.headers["cache-control"]
        [tool] = (await client.request("tools/list"))["result"]["tools"]
        assert tool["name"] == "echo"
        words = "grüß dich\r\n\u2028\x85😀"
        assert text_of(await client.call("echo", text=words)) == words
        assert (await client.request("ping"))["result"] == {}
        client.stream.disconnect()


async def test_every_message_is_one_event_of_type_message() -> None:
    async with connected(registry_of(echo)) as client:
        await client.call("echo", text="one\ntwo\rthree\r\nfour")
        first, *others = client.stream.events
        assert first.kind == "endpoint"
        assert [each.kind for each in others] == ["message"] * 2
        assert all("\n" not in (each.data or "") for each in others)


async def test_modern_requests_are_answered_as_on_any_stream() -> None:
    async with serving(registry_of(echo)) as host:
        client = SseClient(host, MODERN[0])
        await client.connect()
        params: dict[str, Any] = {"_meta": modern_meta()}
        found = await client.request("server/discover", params)
        assert found["result"]["supportedVersions"] == MODERN
        params = {"name": "echo", "arguments": {"text": "new"}, "_meta": modern_meta()}
        assert text_of(await client.request("tools/call", params)) == "new"


async def test_a_session_cannot_be_shut_down_by_request() -> None:
    async with connected(registry_of(echo)) as client:
        assert (await client.request("shutdown"))["error"]["code"] == -32601
        assert text_of(await client.call("echo", text="still there")) == "still there"


async def test_failures() -> None:
    async def fail(kind: str) -> str:
        failures: dict[str, Exception] = {
            "tool": ToolError("not today"),
            "protocol": McpError(-32050, "closed", {"opens": "tomorrow"}),
            "any": RuntimeError("secret"),
        }
        raise failures[kind]

    async with connected(registry_of(fail)) as client:
        failed = await client.call("fail", kind="tool")
        assert failed["result"]["isError"] is True
        assert failed["result"]["content"][0]["text"] == "not today"
        error = (await client.call("fail", kind="protocol"))["error"]
        assert error == {"code": -32050, "message": "closed", "data": {"opens": "tomorrow"}}
        assert "secret" not in json.dumps(await client.call("fail", kind="any"))
        assert (await client.request("no/such"))["error"]["code"] == -32601


async def test_progress_comes_before_the_answer() -> None:
    async def steps(context: Context) -> str:
        for number in range(1, 4):
            await context.progress(number, 3)
        return "done"

    async with connected(registry_of(steps)) as client:
        call = client.call_of("steps", "t")
        await client.tell(call)
        told = [await client.stream.message() for _ in range(4)]
        assert [each["params"] for each in told[:3]] == [
            {"progressToken": "t", "progress": number, "total": 3} for number in (1, 2, 3)
        ]
        assert (told[3]["id"], text_of(told[3])) == (call["id"], "done")


async def test_calls_run_side_by_side_and_can_be_cancelled() -> None:
    worker = Worker()
    async with connected(worker.registry) as client:
        calls = [client.call_of("work", words=f"{number}") for number in range(3)]
        for each in calls:
            await client.tell(each)
        await worker.until(3)
        assert await client.notify("notifications/cancelled", {"requestId": calls[1]["id"]}) == 202
        await worker.until(2)
        worker.go_on.set()
        answers = [await client.stream.message() for _ in range(2)]
        assert {each["id"]: text_of(each) for each in answers} == {
            calls[0]["id"]: "0",
            calls[2]["id"]: "2",
        }
        assert (worker.cancelled, worker.finished) == (1, 2)


async def test_a_long_message_counts_until_its_call_has_ended() -> None:
    """Its POST is answered long before, so a client could have any number of calls that wait."""
    go_on, long = trio.Event(), "x" * 100_000

    async def wait(text: str) -> int:
        await go_on.wait()
        return len(text)

    policy, limits = HttpPolicy(max_received_bytes=400_000), Limits(max_message_bytes=300_000)
    async with connected(registry_of(wait), policy=policy, limits=limits) as client:
        for _ in range(2):
            await client.tell(client.call_of("wait", text=long))
        refused = await client.post(client.call_of("wait", text=long))
        assert refused.status == 429
        go_on.set()
        for _ in range(2):
            assert text_of(await client.stream.message()) == str(len(long))
        await wait_all_tasks_blocked()
        for _ in range(5):
            assert text_of(await client.call("wait", text=long)) == str(len(long))


async def test_short_calls_that_wait_count_as_well_and_answers_to_them_do_not() -> None:
    async def places(context: Context) -> int:
        return len(await context.roots())

    policy, limits = HttpPolicy(max_received_bytes=70_000), Limits(max_message_bytes=10_000)
    async with connected(
        registry_of(places), policy=policy, limits=limits, capabilities={"roots": {}}
    ) as client:
        questions = [await client.ask(client.call_of("places")) for _ in range(3)]
        assert (await client.post(client.call_of("places"))).status == 429
        assert await client.notify("notifications/roots/list_changed") == 202
        assert await client.reply(questions[0], {"roots": []}) == 202
        assert text_of(await client.stream.message()) == "0"
        await wait_all_tasks_blocked()
        await client.ask(client.call_of("places"))


async def test_questions_are_answered_with_a_post() -> None:
    async def places(context: Context) -> list[str]:
        return [str(each.uri) for each in await context.roots()]

    async with connected(registry_of(places), capabilities={"roots": {}}) as client:
        await client.tell(client.call_of("places"))
        question = await client.stream.message()
        assert question["method"] == "roots/list"
        assert await client.reply(question, {"roots": [{"uri": "file:///srv"}]}) == 202
        assert "file:///srv" in text_of(await client.stream.message())


async def test_resources_are_subscribed_to() -> None:
    registry = registry_of(echo)

    async def clock() -> str:
        return "noon"

    registry.add_resource("clock://now", clock)
    async with connected(registry) as client:
        assert (await client.request("resources/subscribe", {"uri": "clock://now"}))["result"] == {}
        registry.notify_resource_updated("clock://now")
        told = await client.stream.message()
        assert told["method"] == "notifications/resources/updated"
        assert told["params"] == {"uri": "clock://now"}


async def test_lists_that_change_are_told_of() -> None:
    registry = registry_of(echo)

    async def another() -> str:
        return "other"

    async with connected(registry) as client:
        registry.add_tool(another)
        assert (await client.stream.message())["method"] == "notifications/tools/list_changed"


async def test_a_batch_is_answered_with_an_array() -> None:
    async with connected(registry_of(echo), revision="2025-03-26") as client:
        batch = [
            client.request_of("ping"),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            client.call_of("echo", text="two"),
            5,
        ]
        answers = {each["id"]: each for each in await client.ask(batch)}
        assert set(answers) == {batch[0]["id"], batch[2]["id"], ""}  # type: ignore[index]
        refused = await client.post([client.request_of("ping") for _ in range(1001)])
        assert (refused.status, refused.error["code"]) == (400, -32600)


async def test_a_message_may_be_written_on_many_lines() -> None:
    async with connected(registry_of(echo)) as client:
        call = client.call_of("echo", text="x")
        body = json.dumps(call, indent=4).replace("\n", "\r\n").encode()
        assert text_of(await client.ask(b"\r\n" + body + b"\n\n")) == "x"


async def test_handlers_know_whose_it_is_and_what_the_lifespan_opened() -> None:
    @asynccontextmanager
    async def lifespan(registry: Registry) -> AsyncIterator[str]:
        yield "till"

    async def look(context: Context) -> str:
        return f"{context.principal}: {context.lifespan}"

    async with serving(registry_of(look, lifespan=lifespan), TOKENS) as host:
        for headers, name in ((ALICE, "alice"), (BOB, "bob")):
            client = SseClient(host, headers=headers)
            await client.begin_session()
            assert text_of(await client.call("look")) == f"{name}: till"


async def test_calls_are_counted() -> None:
    async with connected(registry_of(echo)) as client:
        await client.call("echo", text="x")
        metrics = (await client.host.ask("GET", "/metrics")).body.decode()
        assert 'mcp_requests_total{kind="tool",name="echo",outcome="ok"} 1.0' in metrics


# -- where it is ----------------------------------------------------------------------------------


async def test_it_is_off_unless_a_path_is_given() -> None:
    async with hosting(registry_of(echo)) as host:
        for method in ("GET", "POST"):
            assert (await host.ask(method, PATH)).status == 404
    async with connected(registry_of(echo)) as client:
        response = await client.host.ask("GET", "/mcp", headers={"accept": "text/event-stream"})
        assert response.status == 405, "the MCP endpoint is another one"


async def test_both_transports_beside_each_other() -> None:
    async with connected(registry_of(echo)) as client:
        other = LegacyClient(client.host)
        await other.initialize()
        assert text_of(await other.call("echo", text="new")) == "new"
        assert text_of(await ModernClient(client.host).call("echo", text="newest")) == "newest"
        assert text_of(await client.call("echo", text="old")) == "old"
        assert await sessions_of(client.host) == 2


@pytest.mark.parametrize("path", ["sse", "", "/mcp", "/health", "/tools", "/metrics"])
def test_paths_that_cannot_be(path: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be the path for HTTP\+SSE; take one like '/sse'"):
        http_app(registry_of(echo), sse_path=path)


@pytest.mark.parametrize(
    ("root", "path", "endpoint"),
    [
        ("", "/sse", "/sse?session_id="),
        ("/api", "/api/sse", "/api/sse?session_id="),
        ("/api/", "/sse", "/api/sse?session_id="),
        ("/ä b", "/ä b/sse", "/%C3%A4%20b/sse?session_id="),
    ],
)
async def test_the_endpoint_is_where_the_app_is_mounted(
    root: str, path: str, endpoint: str
) -> None:
    async with serving(registry_of(echo)) as host:
        client = SseClient(host)
        client.root, client.path = root, path
        await client.connect()
        assert client.endpoint.startswith(endpoint)


async def test_ids_cannot_be_guessed() -> None:
    async with serving(registry_of(echo)) as host:
        ids = set()
        for _ in range(50):
            client = SseClient(host)
            await client.connect()
            ids.add(client.endpoint.partition("=")[2])
        assert len(ids) == 50
        assert all(len(each) >= 32 for each in ids)


async def test_ids_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with connected(registry_of(echo), manner=IGNORES) as client:
        await client.call("echo", text="x")
        client.stream.disconnect()
        await client.stream.end()
        await wait_all_tasks_blocked()
        assert "POST /sse: 202" in caplog.text
        assert "GET /sse: 200" in caplog.text
        assert client.endpoint.partition("=")[2] not in caplog.text


# -- what is refused ------------------------------------------------------------------------------

REFUSED: list[tuple[dict[str, Any], int]] = [
    ({"host": "evil.example"}, 403),
    ({"host": None}, 403),
    ({"origin": "https://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({"authorization": None}, 401),
    ({"authorization": "Bearer wrong"}, 401),
]


@pytest.mark.parametrize(("headers", "status"), REFUSED)
async def test_who_may_not_use_it(headers: dict[str, Any], status: int) -> None:
    async with serving(registry_of(echo), TOKENS) as host:
        client = SseClient(host, headers=ALICE)
        refused = await client.open(**headers).end()
        assert refused.status == status
        assert "endpoint" not in refused.body.decode()
        assert ("www-authenticate" in refused.headers) == (status == 401)
        assert await sessions_of_alice(host) == 0
        await client.begin_session()
        refused = await client.post(client.request_of("ping"), headers)
        assert refused.status == status
        assert (await client.request("ping"))["result"] == {}


async def sessions_of_alice(host: Host) -> int:
    metrics = (await host.ask("GET", "/metrics", headers=ALICE)).body.decode()
    return int(float(metrics.partition("\nmcp_sessions ")[2].split()[0]))


async def test_pages_that_may_use_it_are_told_so() -> None:
    policy = HttpPolicy(allowed_origins=["https://app.example"])
    origin = {"origin": "https://app.example"}
    async with serving(registry_of(echo), policy) as host:
        asked = {**origin, "access-control-request-method": "POST"}
        assert (await host.ask("OPTIONS", PATH, headers=asked)).status == 200
        client = SseClient(host, headers=origin)
        await client.begin_session()
        assert client.stream.headers["access-control-allow-origin"] == "https://app.example"
        response = await client.post(client.request_of("ping"))
        assert response.headers["access-control-allow-origin"] == "https://app.example"


async def test_rates_count_posts() -> None:
    async with serving(registry_of(echo), HttpPolicy(rate=1.0, burst=4)) as host:
        client = SseClient(host)
        await client.begin_session()
        await client.tell(client.request_of("ping"))
        refused = await client.post(client.request_of("ping"))
        assert refused.status == 429
        assert refused.headers["retry-after"] == "1"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD", "PATCH"])
async def test_other_methods(method: str) -> None:
    async with serving(registry_of(echo)) as host:
        response = await host.ask(method, PATH)
        assert (response.status, response.headers["allow"]) == (405, "GET, POST")


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("text/event-stream", 200),
        ("*/*", 200),
        ("text/*;q=0.1, application/json", 200),
        (None, 200),
        ("application/json", 406),
        ("", 406),
    ],
)
async def test_what_the_client_accepts(accept: str | None, status: int) -> None:
    async with serving(registry_of(echo)) as host:
        assert await SseClient(host).open(accept=accept).started() == status


FOREIGN = ["", "?", "?session_id=", "?session_id=A", "?session_id=%00", "?other={id}", "?{id}"]


@pytest.mark.parametrize("query", FOREIGN)
async def test_there_is_no_such_session(query: str) -> None:
    async with connected(registry_of(echo)) as client:
        own = client.endpoint
        client.endpoint = PATH + query.format(id=own.partition("=")[2])
        refused = await client.post(client.request_of("ping"))
        assert refused.status == 404
        assert "GET another stream" in refused.error["message"]
        client.endpoint = own
        assert (await client.request("ping"))["result"] == {}


async def test_a_session_belongs_to_a_principal() -> None:
    async with serving(registry_of(echo), TOKENS) as host:
        alice, bob = SseClient(host, headers=ALICE), SseClient(host, headers=BOB)
        await alice.begin_session()
        await bob.begin_session()
        refused = await bob.host.ask(
            "POST",
            alice.endpoint,
            headers=bob.headers_for({}),
            body=json.dumps(alice.request_of("ping")).encode(),
        )
        assert refused.status == 404, "as if there were none"
        assert text_of(await alice.call("echo", text="a")) == "a"
        assert text_of(await bob.call("echo", text="b")) == "b"


async def test_a_session_of_the_other_transport_is_none_here() -> None:
    async with connected(registry_of(echo)) as client:
        other = LegacyClient(client.host)
        await other.initialize()
        client.endpoint = f"{PATH}?session_id={other.session}"
        assert (await client.post(client.request_of("ping"))).status == 404
        other.session = client.endpoint.partition("=")[2]


@pytest.mark.parametrize("kind", [None, "", "text/plain", "application/jsonx", "text/json"])
async def test_other_media_types(kind: str | None) -> None:
    async with connected(registry_of(echo)) as client:
        message = client.request_of("ping")
        assert (await client.post(message, {"content-type": kind})).status == 415
        await client.post(message, {"content-type": "Application/JSON; charset=utf-8"})
        assert (await client.stream.message())["result"] == {}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32600),
        (b" \n ", -32600),
        (b"{", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"} {}', -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "pi\nng"}', -32700),
        (b"\xff\xfe", -32700),
        (b"5", -32600),
        (b"[]", -32600),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
    ],
)
async def test_malformed_messages(body: bytes, code: int) -> None:
    async with connected(registry_of(echo)) as client:
        refused = await client.post(body)
        assert (refused.status, refused.error["code"]) == (400, code)
        assert (await client.request("ping"))["result"] == {}, "and nothing came on the stream"


@pytest.mark.parametrize("announced", [True, False])
async def test_bodies_are_bounded(announced: bool) -> None:
    async with connected(registry_of(echo), limits=Limits(max_message_bytes=1000)) as client:
        body = json.dumps(client.call_of("echo", text="x" * 1000)).encode()
        headers: dict[str, str] = {"content-length": str(len(body))} if announced else {}
        assert (await client.post(body, headers)).status == 413
        within = client.call_of("echo", text="x" * 500)
        assert text_of(await client.ask(within)) == "x" * 500


async def test_a_body_that_comes_in_pieces() -> None:
    async with connected(registry_of(echo)) as client:
        message = client.call_of("echo", text="y" * 200_000)
        body = json.dumps(message).encode()
        response = client.post_bytes(None, client.headers_for(message))
        for start in range(0, len(body), 10_000):
            response.upload(body[start : start + 10_000], more=True)
        response.upload(b"")
        assert (await response.end()).status == 202
        client.judging = False
        assert text_of(await client.stream.message()) == "y" * 200_000


# -- how many, and how much -----------------------------------------------------------------------


@each_manner
async def test_sessions_are_counted_with_the_others(manner: str) -> None:
    sessions = SessionOptions(max_sessions=2)
    async with serving(registry_of(echo), sessions=sessions, manner=manner) as host:
        first, second = SseClient(host), SseClient(host)
        await first.begin_session()
        idle = LegacyClient(host)
        await idle.initialize()
        assert await sessions_of(host) == 2
        await second.begin_session()  # for which the one that is idle makes room
        assert (await idle.begin("ping").end()).status == 404
        refused = await SseClient(host).open().end()
        assert (refused.status, refused.headers["retry-after"]) == (503, "10")
        late = LegacyClient(host)
        assert (await late.post(late.initialize_request())).status == 503
        first.stream.disconnect()
        await first.stream.end()
        await late.initialize()
        assert await sessions_of(host) == 2
        assert (await second.request("ping"))["result"] == {}


async def test_nobody_keeps_others_out_with_streams_that_are_all_open() -> None:
    async with serving(registry_of(echo), sessions=SessionOptions(max_sessions=3)) as host:
        many = [SseClient(host) for _ in range(3)]
        for each in many:
            await each.begin_session()
        stranger = LegacyClient(host)
        stranger.address = ("192.0.2.7", 1)
        await stranger.initialize()
        await many[0].stream.end()
        assert await sessions_of(host) == 3
        for each in many[1:]:
            assert (await each.request("ping"))["result"] == {}


async def test_calls_of_all_clients_share_one_bound(autojump_clock: trio.testing.MockClock) -> None:
    """Those that wait for a place can be cancelled, and their time begins when they have one."""
    worker = Worker()
    registry = Registry("test", tool_timeout=10)
    registry.add_tool(worker.work)
    async with serving(registry, HttpPolicy(max_concurrent=2)) as host:
        old, other, modern = SseClient(host), SseClient(host), ModernClient(host)
        await old.begin_session()
        await other.begin_session()
        first = modern.begin_call("work", words="modern")
        await worker.until(1)
        await old.tell(old.call_of("work", words="old"))
        await worker.until(2)
        calls = [other.call_of("work", words=f"{number}") for number in range(3)]
        for each in calls:
            await other.tell(each)
        last = modern.begin_call("work", words="last")
        await wait_all_tasks_blocked()
        assert worker.running == 2
        await other.notify("notifications/cancelled", {"requestId": calls[1]["id"]})
        await wait_all_tasks_blocked()
        await trio.sleep(9)
        for each in (await first.answer(), await old.stream.message()):
            assert each["result"]["isError"] is True, "it took too long"
        await worker.until(2)
        await trio.sleep(9)  # which is still within the time of those who had to wait
        worker.go_on.set()
        answers = [await other.stream.message() for _ in range(2)]
        assert {each["id"]: text_of(each) for each in answers} == {
            calls[0]["id"]: "0",
            calls[2]["id"]: "2",
        }
        assert text_of(await last.answer()) == "last"
        assert worker.most == 2


async def test_a_call_that_waits_for_a_place_ends_with_its_session() -> None:
    worker = Worker()
    async with serving(worker.registry, HttpPolicy(max_concurrent=1)) as host:
        busy, waiting = SseClient(host), SseClient(host)
        await busy.begin_session()
        await waiting.begin_session()
        await busy.tell(busy.call_of("work"))
        await worker.until(1)
        await waiting.tell(waiting.call_of("work"))
        await wait_all_tasks_blocked()
        waiting.stream.disconnect()
        await waiting.stream.end()
        worker.go_on.set()
        assert text_of(await busy.stream.message()) == "done"
        assert text_of(await busy.call("work")) == "done", "no place was lost"
        assert worker.finished == 2


async def test_a_reader_that_stalls_stops_those_who_speak_to_it() -> None:
    """What waits to be read is bounded: the calls pause, and in the end the POSTs, too."""
    said = 0

    async def chat(context: Context) -> str:
        nonlocal said
        for _ in range(1000):
            await context.log("error", "z" * 1000)
            said += 1
        return "done"

    limits = Limits(max_outgoing_bytes=10_000)
    async with connected(registry_of(chat, echo), limits=limits) as client:
        client.stream.stall()
        await client.tell(client.call_of("chat"))
        await wait_all_tasks_blocked()
        assert said < 40
        posts = [client.send(client.call_of("echo", text="z" * 1000)) for _ in range(50)]
        await wait_all_tasks_blocked()
        waiting = [each for each in posts if not each.ended.is_set()]
        assert len(waiting) > 40
        client.stream.resume()
        for each in posts:
            assert (await each.end()).status == 202
        told = [await client.stream.message() for _ in range(1051)]
        assert len([each for each in told if each.get("id")]) == 51
        assert said == 1000


@each_manner
async def test_a_post_that_waits_and_whose_client_leaves_is_not_delivered(manner: str) -> None:
    taken: list[str] = []

    async def take(letter: str) -> str:
        taken.append(letter)
        return "z" * 2000

    limits = Limits(max_outgoing_bytes=1000)
    async with connected(registry_of(take), limits=limits, manner=manner) as client:
        client.stream.stall()
        posts = {name: client.send(client.call_of("take", letter=name)) for name in "abcdefgh"}
        await wait_all_tasks_blocked()
        name, waiting = [item for item in posts.items() if not item[1].ended.is_set()][-1]
        waiting.disconnect()
        await waiting.end()
        client.stream.resume()
        for _ in range(len(posts) - 1):
            await client.stream.message()
        assert sorted(taken) == sorted(set(posts) - {name})


@pytest.mark.long
async def test_thousands_of_posts_leave_nothing_behind() -> None:
    async with connected(registry_of(echo)) as client:
        client.judging = False
        await client.call("echo", text="first")  # its task stands by for the next call
        before = trio.lowlevel.current_statistics().tasks_living
        for number in range(2000):
            assert text_of(await client.call("echo", text=f"{number}")) == f"{number}"
            client.stream.events.clear()
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == before
        assert await sessions_of(client.host) == 1


async def test_a_quiet_stream_is_kept_open(autojump_clock: trio.testing.MockClock) -> None:
    async with connected(registry_of(echo), HttpPolicy(keep_alive=15)) as client:
        began = trio.current_time()
        for number in (1, 2, 3):
            event = await client.stream.event()
            assert event is not None
            assert event.comment is not None
            assert trio.current_time() - began == pytest.approx(15 * number)
        assert (await client.request("ping"))["result"] == {}


# -- the end --------------------------------------------------------------------------------------


@each_manner
@pytest.mark.parametrize("stalled", [False, True])
async def test_a_client_that_leaves_ends_its_session(stalled: bool, manner: str) -> None:
    worker = Worker()
    async with connected(worker.registry, manner=manner) as client:
        for _ in range(3):
            await client.tell(client.call_of("work", "t", say=1))
        await worker.until(3)
        if stalled:
            client.stream.stall()
            await client.tell(client.request_of("ping"))
            await wait_all_tasks_blocked()
        client.stream.disconnect()
        await client.stream.end()
        assert (worker.running, worker.cancelled) == (0, 3)
        assert (await client.post(client.request_of("ping"))).status == 404
        assert await sessions_of(client.host) == 0


@each_manner
async def test_a_client_that_leaves_before_it_has_the_endpoint(manner: str) -> None:
    async with serving(registry_of(echo), manner=manner) as host:
        stream = SseClient(host).open()
        stream.stall()
        await stream.started()
        await wait_all_tasks_blocked()
        stream.disconnect()
        await stream.end()
        assert await sessions_of(host) == 0


@each_manner
async def test_a_client_that_leaves_without_a_word_of_its_own(manner: str) -> None:
    async with serving(registry_of(echo), manner=manner) as host:
        client = SseClient(host)
        await client.connect()
        client.stream.disconnect()
        await client.stream.end()
        assert await sessions_of(host) == 0


async def test_posts_that_wait_end_with_the_session() -> None:
    limits = Limits(max_outgoing_bytes=1000)
    async with connected(registry_of(echo), limits=limits) as client:
        client.stream.stall()
        posts = [client.send(client.call_of("echo", text="z" * 2000)) for _ in range(8)]
        await wait_all_tasks_blocked()
        client.stream.disconnect()
        statuses = [(await each.end()).status for each in posts]
        assert set(statuses) == {202, 404}


async def test_stop_lets_calls_finish(autojump_clock: trio.testing.MockClock) -> None:
    worker = Worker()
    async with connected(worker.registry, limits=Limits(shutdown_grace=5)) as client:
        call = client.call_of("work")
        await client.tell(call)
        await worker.until(1)
        client.host.app.stop()
        await wait_all_tasks_blocked()
        assert (await client.post(client.request_of("ping"))).status == 404
        assert (await SseClient(client.host).open().end()).status == 503
        assert not client.stream.ended.is_set()
        await trio.sleep(4)
        worker.go_on.set()
        answer = await client.stream.message()
        assert (answer["id"], text_of(answer)) == (call["id"], "done")
        assert await client.stream.message() is None
        await client.stream.end()


async def test_stop_cancels_what_takes_too_long(autojump_clock: trio.testing.MockClock) -> None:
    worker = Worker()
    async with connected(worker.registry, limits=Limits(shutdown_grace=5)) as client:
        await client.tell(client.call_of("work"))
        await worker.until(1)
        client.host.app.stop()
        assert (await client.stream.message())["error"]["message"] == "Request cancelled"
        assert await client.stream.message() is None
        assert trio.current_time() == pytest.approx(5)
        assert worker.cancelled == 1


async def test_stop_does_not_wait_for_a_call_that_ignores_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stubborn = trio.Event()

    async def stay() -> str:
        with trio.CancelScope(shield=True):
            await stubborn.wait()
        return "late"

    limits = Limits(shutdown_grace=5, cancel_timeout=1)
    async with connected(registry_of(stay), limits=limits) as client:
        await client.tell(client.call_of("stay"))
        await wait_all_tasks_blocked()
        client.host.app.stop()
        assert (await client.stream.message())["error"]["message"] == "Request cancelled"
        await client.stream.complete()
        assert trio.current_time() == pytest.approx(6)
        stubborn.set()


async def test_stop_while_the_reader_stalls(autojump_clock: trio.testing.MockClock) -> None:
    """What it has not read it still gets, if it reads at last."""
    async with connected(registry_of(echo)) as client:
        client.stream.stall()
        for number in range(3):
            await client.tell(client.call_of("echo", text=f"{number}"))
        await wait_all_tasks_blocked()
        client.host.app.stop()
        await trio.sleep(60)
        assert not client.stream.ended.is_set()
        client.stream.resume()
        assert text_of(await client.stream.message()) == "0"
        await client.stream.end()


async def test_on_sockets() -> None:
    """The embedded server: a disconnect cancels, and `stop` ends streams in good order."""
    worker = Worker()
    async with served(worker.registry, sse_path=PATH) as server:
        client = SseClient(None)  # type: ignore[arg-type]  # it makes messages only
        async with server.connect() as stream, server.connect() as posts:
            events = await stream.send("GET", PATH, {"accept": "text/event-stream"})
            assert await events.head() == 200
            first = await events.event()
            assert first is not None
            endpoint = first.data or ""

            async def post(message: Any) -> int:
                body = json.dumps(message).encode()
                reply = await posts.send("POST", endpoint, client.headers_for(message), body)
                return (await reply.whole()).status

            assert await post(client.initialize_request()) == 202
            assert (await events.message())["result"]["protocolVersion"] == OLDEST
            assert await post(client.call_of("work", words="one")) == 202
            await worker.until(1)
            await trio.aclose_forcefully(stream.stream)
            await worker.until(0)
            while (status := await post(client.request_of("ping"))) == 202:
                await wait_all_tasks_blocked()
            assert (status, worker.cancelled) == (404, 1)
        async with server.connect() as stream:
            events = await stream.send("GET", PATH, {"accept": "text/event-stream"})
            assert await events.head() == 200
            server.handle.stop()
            assert await events.message() is None
            await server.handle.wait_for(ServerState.STOPPED)


async def test_the_grace_of_the_limits_counts() -> None:
    worker = Worker()
    limits = Limits(shutdown_grace=0.0)
    async with served(worker.registry, sse_path=PATH, limits=limits) as server:
        client = SseClient(None)  # type: ignore[arg-type]  # it makes messages only
        async with server.connect() as stream, server.connect() as posts:
            events = await stream.send("GET", PATH, {"accept": "text/event-stream"})
            await events.head()
            first = await events.event()
            assert first is not None
            call = client.call_of("work")
            body = json.dumps(call).encode()
            reply = await posts.send("POST", first.data or "", client.headers_for(call), body)
            assert (await reply.whole()).status == 202
            await worker.until(1)
            server.handle.stop()
            assert (await events.message())["error"]["message"] == "Request cancelled"
            assert await events.message() is None
