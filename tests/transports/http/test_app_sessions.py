"""Sessions of legacy clients: whose they are, how long they last, and how many there may be."""

from __future__ import annotations

import time
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.client import CLIENT_INFO
from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.support import (
    IGNORES,
    Host,
    LegacyClient,
    Worker,
    each_manner,
    each_session_revision,
    hosting,
    legacy,
    progress_meta,
    sessions_of,
)
from trio_mcp import Context, HttpPolicy, Limits, Registry, SessionOptions
from trio_mcp.auth import Authorization

TOKENS = HttpPolicy(tokens={"a-token": "alice", "b-token": "bob"})


async def status_of(client: LegacyClient) -> int:
    """The status that a request of the session gets."""
    return (await client.begin("ping").end()).status


async def connected(host: Host, **options: Any) -> LegacyClient:
    client = LegacyClient(host, **options)
    await client.initialize()
    return client


# -- ids ------------------------------------------------------------------------------------------


@pytest.mark.requirement("F1")
@each_session_revision
async def test_every_client_gets_a_session(revision: str) -> None:
    async with hosting(registry_of(echo)) as host:
        clients = [LegacyClient(host, revision) for _ in range(3)]
        for client in clients:
            await client.initialize()
        assert len({client.session for client in clients}) == 3
        assert await sessions_of(host) == 3


@pytest.mark.requirement("F1")
async def test_ids_cannot_be_guessed() -> None:
    """They have visible ASCII only, and far more bits than anybody could try."""
    async with hosting(registry_of(echo), sessions=SessionOptions(max_sessions=10)) as host:
        ids = set()
        for _ in range(200):
            client = await connected(host)
            assert client.session is not None
            assert all("!" <= each <= "~" for each in client.session)
            assert len(client.session) >= 32
            ids.add(client.session)
        assert len(ids) == 200
        for place in range(16):
            assert len({id[place : place + 2] for id in ids}) > 50, "no part of them is fixed"


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("id", ["chosen", "0", "a" * 43, "é".encode()])
async def test_clients_do_not_choose_their_ids(id: Any) -> None:
    async with hosting(registry_of(echo)) as host:
        client = LegacyClient(host)
        response = await client.post(client.initialize_request(), {"mcp-session-id": id})
        assert response.status == 200
        assert response.headers["mcp-session-id"] != id
        assert (await client.begin("ping", None, **{"mcp-session-id": id}).end()).status == 404
        assert await sessions_of(host) == 1


@pytest.mark.requirement("S2")
@each_session_revision
async def test_requests_of_a_session_that_is_lost_may_be_answered_without_it(revision: str) -> None:
    async def ask(context: Context) -> bool:
        return (await context.elicit("Really?", bool)).value

    registry, options = registry_of(echo, ask), SessionOptions(answer_unknown=True)
    registry.add_resource("it:", lambda: "it")
    async with hosting(registry) as before:
        client = LegacyClient(before, revision, capabilities={"elicitation": {}})
        await client.initialize()
    async with hosting(registry, TOKENS, sessions=options) as after:
        again = LegacyClient(after, revision, {"authorization": "Bearer a-token"})
        again.session = client.session
        assert text_of(await again.call("echo", text="x")) == "x"
        assert await again.notify("notifications/cancelled", {"requestId": 2}) == 202
        assert (await again.call("ask"))["error"]["code"] == -32600
        for lost, params in (
            ("resources/subscribe", {"uri": "it:"}),
            ("logging/setLevel", {"level": "info"}),
        ):
            assert (await again.begin(lost, params).end()).status == 404
        assert await again.reply({"id": 1}, {}) == 404
        assert await again.delete() == 404
        assert (await again.get().end()).status == 404
        other = LegacyClient(after, revision, {"authorization": "Bearer wrong"})
        other.session = client.session
        assert await status_of(other) == 401


@pytest.mark.requirement("F1")
async def test_initializing_again_begins_another_session() -> None:
    async with legacy(registry_of(echo)) as client:
        response = await client.post(client.initialize_request())
        assert response.headers["mcp-session-id"] != client.session
        assert await status_of(client) == 200, "the first one goes on"


@pytest.mark.requirement("F1")
async def test_a_handshake_that_fails_begins_no_session() -> None:
    async with hosting(registry_of(echo), sessions=SessionOptions(max_sessions=1)) as host:
        client = await connected(host)
        for params in ({"protocolVersion": None}, {"protocolVersion": 5}):
            stranger = LegacyClient(host)
            response = await stranger.post(stranger.request_of("initialize", params))
            assert response.status == 400
            assert response.error["code"] == -32602
            assert "mcp-session-id" not in response.headers
        assert await status_of(client) == 200
        assert await sessions_of(host) == 1


# -- whose they are -------------------------------------------------------------------------------


@pytest.mark.requirement("F1")
async def test_what_is_about_a_session_names_it() -> None:
    async with legacy(registry_of(echo)) as client:
        nobody = {"mcp-session-id": None}
        for response in (
            client.send({"jsonrpc": "2.0", "id": 1, "result": {}}, nobody),
            client.get(**nobody),
        ):
            await response.end()
            assert response.status == 400
            assert "Mcp-Session-Id" in response.error["message"]
        unknown = {"mcp-session-id": "A" * 43}
        for response in (
            client.begin("ping", None, **unknown),
            client.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, unknown),
            client.send({"jsonrpc": "2.0", "id": 1, "result": {}}, unknown),
            client.get(**unknown),
            client.begin("ping", None, **{"mcp-session-id": f"{client.session}, x"}),
            client.begin("ping", None, **{"mcp-session-id": (client.session or "").lower()}),
            client.begin("ping", None, **{"mcp-session-id": ""}),
        ):
            await response.end()
            assert response.status == 404
        assert await status_of(client) == 200


@pytest.mark.requirement("F1")
async def test_a_session_belongs_to_who_began_it() -> None:
    """Whoever has got hold of its id, and even has a token of their own."""
    worker = Worker()
    async with hosting(worker.registry, TOKENS) as host:
        alice = await connected(host, headers={"authorization": "Bearer a-token"})
        response = alice.begin_call("work", progress_meta(), say=1)
        await response.message()
        bob = LegacyClient(host, headers={"authorization": "Bearer b-token"})
        bob.session = alice.session
        assert await status_of(bob) == 404
        assert await bob.notify("notifications/cancelled", {"requestId": 2}) == 404
        assert await bob.reply({"id": 1}, {}) == 404
        assert await bob.delete() == 404
        for after in (None, response.events[0].id):
            assert (await bob.get(after).end()).status == 404
        nobody = LegacyClient(host)
        nobody.session = alice.session
        assert await status_of(nobody) == 401
        worker.go_on.set()
        assert text_of(await response.message()) == "done"


# -- their end ------------------------------------------------------------------------------------


@pytest.mark.requirement("F1")
@each_manner
async def test_a_client_ends_its_session(manner: str) -> None:
    worker = Worker()
    async with hosting(worker.registry, manner=manner) as host:
        client, other = await connected(host), await connected(host)
        stream = client.get()
        await stream.started()
        spoken = client.begin_call("work", progress_meta(), say=1)
        silent = client.begin_call("work")
        await wait_all_tasks_blocked()
        assert worker.running == 2
        assert 200 <= await client.delete() < 300
        assert await stream.message() is None
        assert [each["method"] for each in await spoken.messages()] == ["notifications/progress"]
        assert (await silent.end()).status == 404
        await wait_all_tasks_blocked()
        assert (worker.running, worker.finished, worker.cancelled) == (0, 0, 2)
        assert await status_of(client) == 404
        assert await client.delete() == 404
        assert await status_of(other) == 200
        assert await sessions_of(host) == 1


@pytest.mark.requirement("F1")
async def test_an_end_is_told_to_who_waits_for_an_answer() -> None:
    ends: list[BaseException] = []

    async def ask(context: Context) -> str:
        try:
            return str(await context.roots())
        except BaseException as error:
            ends.append(error)
            raise

    async with legacy(registry_of(ask), capabilities={"roots": {}}) as client:
        response = client.begin_call("ask")
        await response.message()
        await client.delete()
        await response.end()
        await wait_all_tasks_blocked()
        assert len(ends) == 1


@pytest.mark.requirement("F2")
async def test_a_session_that_nobody_uses_ends(autojump_clock: Any) -> None:
    async with hosting(registry_of(echo), sessions=SessionOptions(session_idle=100)) as host:
        client, other = await connected(host), await connected(host)
        for _ in range(5):
            await trio.sleep(60)
            assert await status_of(client) == 200
        assert await status_of(other) == 404
        assert await sessions_of(host) == 1
        await trio.sleep(120)
        assert await status_of(client) == 404
        assert await sessions_of(host) == 0


@pytest.mark.requirement("F2")
@each_manner
async def test_a_session_is_in_use_while_somebody_waits(autojump_clock: Any, manner: str) -> None:
    """For a call, or at its stream; and for a while after that."""
    worker = Worker()
    sessions = SessionOptions(session_idle=100)
    async with hosting(worker.registry, sessions=sessions, manner=manner) as host:
        calling, listening = await connected(host), await connected(host)
        left = await connected(host)
        response = calling.begin_call("work_quietly")
        stream = listening.get()
        await stream.started()
        alone = left.begin_call("work_quietly")
        await wait_all_tasks_blocked()
        alone.disconnect()
        await trio.sleep(50)  # less than a call may take
        worker.go_on.set()
        await response.end()
        await trio.sleep(90)
        assert await status_of(calling) == 200
        assert await status_of(left) == 200
        await trio.sleep(1000)
        stream.disconnect()
        await stream.end()
        await trio.sleep(50)
        assert await status_of(listening) == 200
        assert await status_of(calling) == 404
        await trio.sleep(150)
        assert await sessions_of(host) == 0


# -- how many -------------------------------------------------------------------------------------


@pytest.mark.requirement("F2")
async def test_the_session_that_was_idle_for_longest_makes_room() -> None:
    async with hosting(registry_of(echo), sessions=SessionOptions(max_sessions=3)) as host:
        clients = [await connected(host) for _ in range(3)]
        assert await status_of(clients[0]) == 200
        newcomer = await connected(host)
        assert await sessions_of(host) == 3
        assert await status_of(clients[1]) == 404
        for client in (clients[0], clients[2], newcomer):
            assert await status_of(client) == 200


async def of(host: Host, owner: str) -> LegacyClient:
    """Begin a session in the name of somebody: a principal, or an address."""
    client = LegacyClient(host)
    if owner[0].isalpha():
        client.headers["authorization"] = f"Bearer {owner[0]}-token"
    else:
        client.address = (owner, 5000)
    await client.initialize()
    return client


@pytest.mark.requirement("F2")
@pytest.mark.parametrize(
    ("tokens", "one", "other"),
    [
        ({"a-token": "alice", "b-token": "bob"}, "alice", "bob"),
        ({}, "192.0.2.1", "192.0.2.2"),
        ({}, "2001:db8::1", "2001:db8:0:1::1"),
    ],
)
async def test_nobody_pushes_the_sessions_of_others_out(
    tokens: dict[str, str], one: str, other: str
) -> None:
    async with hosting(
        registry_of(echo), HttpPolicy(tokens=tokens), sessions=SessionOptions(max_sessions=4)
    ) as host:
        quiet = await of(host, one)
        many = [await of(host, other) for _ in range(20)]
        assert await status_of(quiet) == 200
        assert [await status_of(each) for each in many] == [404] * 17 + [200] * 3

        second = await of(host, one)  # the other one has more, so it makes room
        assert [await status_of(each) for each in many[-3:]] == [404, 200, 200]
        third = await of(host, one)  # now both have two
        assert [await status_of(each) for each in (quiet, second, third)] == [404, 200, 200]
        assert [await status_of(each) for each in many[-2:]] == [200, 200]


@pytest.mark.requirement("J3")
async def test_sessions_end_when_their_tokens_do(autojump_clock: Any) -> None:
    """In whichever order they began, however many others have gone; later if another token came."""

    async def verify(token: str) -> Authorization:
        return Authorization(subject="alice", expires_at=time.time() + float(token))

    async def of_token(seconds: int) -> LegacyClient:
        return await connected(host, headers={"authorization": f"Bearer {seconds}"})

    began = trio.current_time()
    policy, options = HttpPolicy(verify=verify), SessionOptions(max_sessions=5)
    async with hosting(registry_of(echo), policy, sessions=options) as host:
        for _ in range(300):
            await of_token(1000)
        clients = [await of_token(seconds) for seconds in (300, 100, 200)]
        clients[2].headers = {"authorization": "Bearer 400"}
        assert await status_of(clients[2]) == 200
        left = {}
        for now in (50, 150, 250, 350, 450, 1050):
            await trio.sleep_until(began + now)
            left[now] = await sessions_of(host, {"authorization": "Bearer 1"})
        assert left == {50: 5, 150: 4, 250: 4, 350: 3, 450: 2, 1050: 0}


@pytest.mark.requirement("F2")
async def test_who_keeps_all_his_sessions_busy_gets_no_more_of_others() -> None:
    policy = HttpPolicy(tokens={"a-token": "alice", "b-token": "bob"})
    async with hosting(registry_of(echo), policy, sessions=SessionOptions(max_sessions=3)) as host:
        quiet = await of(host, "bob")
        streams = []
        for _ in range(2):
            streams.append((await of(host, "alice")).get())
            await streams[-1].started()
        stranger = LegacyClient(host)
        stranger.headers["authorization"] = "Bearer a-token"
        assert (await stranger.post(stranger.initialize_request())).status == 503
        assert await status_of(quiet) == 200
        for stream in streams:
            stream.disconnect()


@pytest.mark.requirement("F2")
async def test_nobody_keeps_others_out_with_sessions_that_are_all_busy() -> None:
    policy = HttpPolicy(tokens={"a-token": "alice", "b-token": "bob"})
    async with hosting(registry_of(echo), policy, sessions=SessionOptions(max_sessions=4)) as host:
        many = [await of(host, "alice") for _ in range(4)]
        streams, mine = [], []
        for each in many:
            streams.append(each.get())
            await streams[-1].started()
        for _ in range(2):
            mine.append(await of(host, "bob"))
            streams.append(mine[-1].get())
            await streams[-1].started()
        await streams[0].end()
        assert [await status_of(each) for each in (*many, *mine)] == [404] * 2 + [200] * 4
        third = LegacyClient(host, headers={"authorization": "Bearer b-token"})
        assert (await third.post(third.initialize_request())).status == 503, "both have two"
        for each in streams:
            each.disconnect()


@pytest.mark.requirement("F2", "F3")
async def test_what_is_kept_for_all_sessions_is_bounded_and_shared() -> None:
    async def write(context: Context, size: int) -> str:
        await context.progress(1)
        return "x" * size

    tokens = {"a-token": "alice", "b-token": "bob"}
    sessions = SessionOptions(max_event_bytes=20_000, max_total_event_bytes=30_000)
    async with hosting(registry_of(write), HttpPolicy(tokens=tokens), sessions=sessions) as host:

        async def written(client: LegacyClient) -> str:
            response = await client.begin_call("write", progress_meta(), size=9000).end()
            await response.messages()
            return response.events[0].id or ""

        quiet = await of(host, "bob")
        mine = await written(quiet)
        many = [await of(host, "alice") for _ in range(5)]
        ids = [await written(each) for each in many]
        statuses = [
            (await client.get(id).end()).status for client, id in zip(many, ids, strict=True)
        ]
        assert statuses == [400, 400, 400, 200, 200]
        assert (await quiet.get(mine).end()).status == 200
        for client in many:
            await client.delete()
        last = [await written(quiet) for _ in range(2)][-1]
        assert (await quiet.get(last).end()).status == 200


@pytest.mark.requirement("F2")
async def test_no_session_if_all_are_busy() -> None:
    worker = Worker()
    async with hosting(worker.registry, sessions=SessionOptions(max_sessions=2)) as host:
        clients = [await connected(host) for _ in range(2)]
        stream = clients[0].get()
        await stream.started()
        response = clients[1].begin_call("work")
        await wait_all_tasks_blocked()
        stranger = LegacyClient(host)
        refused = await stranger.post(stranger.initialize_request())
        assert refused.status == 503
        assert int(refused.headers["retry-after"]) > 0
        worker.go_on.set()
        assert text_of(await response.answer()) == "done"
        await stranger.initialize()
        assert await sessions_of(host) == 2
        assert await status_of(clients[1]) == 404
        stream.disconnect()


@pytest.mark.requirement("F2")
async def test_many_clients_at_once_get_no_more_sessions_than_there_may_be() -> None:
    async with hosting(registry_of(echo), sessions=SessionOptions(max_sessions=5)) as host:
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                client = LegacyClient(host)
                nursery.start_soon(client.post, client.initialize_request())
        assert await sessions_of(host) == 5


@pytest.mark.requirement("F2")
@each_manner
async def test_calls_that_were_left_alone_do_not_heap_up(manner: str) -> None:
    """Leaving does not cancel a call. So there is a bound on what one session leaves behind."""
    worker = Worker()
    limits = Limits(max_concurrent_calls=4)
    policy = HttpPolicy(max_concurrent=1)
    async with hosting(worker.registry, policy, limits, manner=manner) as host:
        client = await connected(host)
        for _ in range(20):
            response = client.begin_call("work_quietly")
            await wait_all_tasks_blocked()
            response.disconnect()
            await response.end()
        patient = client.begin_call("echo", text="x")
        cancelled = client.begin_call("echo", text="y")
        await wait_all_tasks_blocked()
        id = max(client.methods)
        assert (await client.begin("ping").end()).status == 200, "others need no room"
        await client.notify("notifications/cancelled", {"requestId": id})
        assert await cancelled.messages() == []
        worker.go_on.set()
        assert text_of(await patient.answer()) == "x"
        await wait_all_tasks_blocked()
        assert worker.finished == 4


@pytest.mark.requirement("F2")
async def test_a_session_that_ends_while_calls_wait_for_room() -> None:
    """Whichever ends first, those that wait or the session: Trio draws lots, so there are many."""
    worker = Worker()
    async with hosting(worker.registry, limits=Limits(max_concurrent_calls=1)) as host:
        for _ in range(50):
            client = await connected(host)
            responses = []
            for _ in range(3):
                responses.append(client.begin_call("work_quietly"))
                await wait_all_tasks_blocked()
            assert worker.running == 1
            await client.delete()
            for response in responses:
                assert (await response.end()).status == 404
            assert worker.running == 0


@pytest.mark.requirement("F2")
@each_session_revision
async def test_answers_that_nobody_fetches_are_bounded(revision: str) -> None:
    """Of calls whose client has left, the last answers are kept, within bounds of both kinds."""

    async def write(context: Context, size: int) -> str:
        await context.progress(1)
        return "x" * size

    sessions = SessionOptions(max_events=10, max_event_bytes=10_000)
    async with legacy(registry_of(write), sessions=sessions, revision=revision) as client:
        ids = []
        for _ in range(20):
            response = await client.begin_call("write", progress_meta(), size=1000).end()
            await response.messages()
            ids.append(response.events[0].id or "")
        statuses = [(await client.get(id).end()).status for id in ids]
        kept = statuses.count(200)
        assert 3 <= kept <= 6, "ten events, of which five are answers"
        assert statuses == [400] * (20 - kept) + [200] * kept

        big = await client.begin_call("write", progress_meta(), size=50_000).end()
        await big.messages()
        again = await client.get(big.events[-2].id).end()
        assert len(text_of((await again.messages())[-1])) == 50_000, "the last is always kept"
        assert (await client.get(ids[-1]).end()).status == 400, "and nothing beside it"


class Ledger:
    """A store of events that keeps everything, and can be looked into."""

    def __init__(self) -> None:
        self.streams: dict[str, list[bytes]] = {}

    def append(self, stream: str, line: bytes) -> int:
        events = self.streams.setdefault(stream, [])
        events.append(line)
        return len(events)

    def since(self, stream: str, number: int) -> list[tuple[int, bytes]]:
        events = self.streams.get(stream, [])
        return list(enumerate(events, 1))[number:]

    def drop(self, stream: str) -> None:
        self.streams.pop(stream, None)


@pytest.mark.requirement("F3")
async def test_events_can_be_kept_elsewhere() -> None:
    ledgers: list[Ledger] = []

    def ledger() -> Ledger:
        ledgers.append(Ledger())
        return ledgers[-1]

    async def speak(context: Context) -> str:
        await context.progress(1)
        return "said"

    sessions = SessionOptions(max_events=1, event_store=ledger)
    async with legacy(registry_of(speak), sessions=sessions) as client:
        response = await client.begin_call("speak", progress_meta()).end()
        told = await response.messages()
        again = await client.get(response.events[0].id).end()
        assert await again.messages() == told, "though memory would have kept but one"
        assert len(ledgers) == 1
        assert [len(events) for events in ledgers[0].streams.values()] == [2]
        await client.delete()
        assert ledgers[0].streams == {}, "and not for ever"


async def test_an_answer_with_nothing_before_it_is_not_kept_as_an_event() -> None:
    """It has no id, so no client can come back for it."""
    kept: list[bytes] = []

    class Listing(Ledger):
        def append(self, stream: str, line: bytes) -> int:
            kept.append(line)
            return super().append(stream, line)

    async with legacy(registry_of(echo), sessions=SessionOptions(event_store=Listing)) as client:
        response = await client.begin_call("echo", text="hello").end()
        assert response.status == 200
        assert response.headers["content-type"] == "application/json"
        [answer] = await response.messages()
        assert answer["result"]["content"][0]["text"] == "hello"
    assert kept == []


@pytest.mark.requirement("F2")
async def test_streams_that_were_sent_are_kept_for_a_while_only() -> None:
    async def speak(context: Context) -> str:
        await context.progress(1)
        return "said"

    async with legacy(registry_of(speak)) as client:
        client.judging = False
        ids = []
        for _ in range(150):
            response = await client.begin_call("speak", progress_meta()).end()
            await response.messages()
            ids.append(response.events[0].id or "")
        statuses = [(await client.get(id).end()).status for id in (ids[0], ids[49], ids[-1])]
        assert statuses == [400, 400, 200]
        stream = client.get()
        assert await stream.started() == 200, "the session's own stream is always there"
        stream.disconnect()


@pytest.mark.requirement("F2")
async def test_a_server_forgets_everything_about_a_session_that_ended() -> None:
    """The registry's changes have no listener left, and nothing runs."""
    registry = registry_of(echo)
    async with hosting(registry, manner=IGNORES) as host:
        await wait_all_tasks_blocked()
        before = trio.lowlevel.current_statistics().tasks_living
        for _ in range(10):
            client = await connected(host)
            await client.delete()
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == before
        registry.add_tool(_other)


async def _other() -> str:
    return "other"


@pytest.mark.requirement("F1")
async def test_what_a_session_declares_stays_with_it() -> None:
    """Capabilities, identity and log level are each session's own."""
    seen: list[tuple[str | None, bool]] = []

    async def look(context: Context) -> str:
        name = context.client.name if context.client else None
        seen.append((name, context.supports("roots")))
        await context.debug("looking")
        return "looked"

    registry = Registry("test")
    registry.add_tool(look)
    async with hosting(registry) as host:
        one = await connected(host, capabilities={"roots": {}})
        two = LegacyClient(host)
        request = two.initialize_request()
        request["params"]["clientInfo"] = {**CLIENT_INFO, "name": "two"}
        two.session = (await two.post(request)).headers["mcp-session-id"]
        assert (await one.request("logging/setLevel", {"level": "debug"}))["result"] == {}
        response = await one.begin_call("look").end()
        assert len(await response.messages()) == 2
        response = await two.begin_call("look").end()
        assert len(await response.messages()) == 1
    assert seen == [("test-client", True), ("two", False)]
