"""Sessions that several instances share: each request reaches another one."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.store.contents import items_of, lose_all, values_of
from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.fleet import Unsteady, fleet
from tests.transports.http.support import (
    CANCELS,
    TIME_LIMIT,
    Host,
    LegacyClient,
    ModernClient,
    Response,
    Worker,
    progress_meta,
    sessions_of,
)
from trio_mcp import Context, HttpPolicy, Registry, SessionOptions, http_app
from trio_mcp.middleware import McpRequest
from trio_mcp.store.changes import Append, Change, Entry, Put
from trio_mcp.store.errors import StoreUnavailable
from trio_mcp.store.memory import MemoryStore
from trio_mcp.transports.http.sharing import session

pytestmark = pytest.mark.requirement("M3")

TOKENS = HttpPolicy(tokens={"a-token": "alice", "b-token": "bob"})


def echoing() -> Registry:
    return registry_of(echo)


async def test_every_instance_serves_the_session() -> None:
    async with fleet(echoing) as those:
        client = those.client()
        await client.initialize()
        for number in range(9):
            assert text_of(await client.call("echo", text=str(number))) == str(number)
        assert await client.delete() == 200
        await wait_all_tasks_blocked()
        for _ in range(3):
            assert (await client.begin("ping").end()).status == 404


async def test_a_session_belongs_to_whoever_began_it_everywhere() -> None:
    async with fleet(echoing, TOKENS) as those:
        alice = those.client(headers={"authorization": "Bearer a-token"})
        await alice.initialize()
        bob = those.client(headers={"authorization": "Bearer b-token"})
        bob.session = alice.session
        for _ in range(3):
            assert (await bob.begin("ping").end()).status == 404
        for _ in range(3):
            assert (await alice.begin("ping").end()).status == 200


async def test_what_nobody_should_have_to_read_again_is_not_remembered() -> None:
    async with fleet(echoing) as those:
        client = those.client(capabilities={"experimental": {str(n): {} for n in range(5000)}})
        refused = await client.begin("initialize", client.initialize_request()["params"]).end()
        assert refused.status == 400
        assert "the capabilities of the client take more than" in refused.error["message"]
        assert client.session is None


@pytest.mark.parametrize("id", ["x", "a" * 43, "a:b", "../" * 14 + "a"])
async def test_what_is_no_session(id: str) -> None:
    async with fleet(echoing) as those:
        client = those.client()
        client.session = id
        assert (await client.begin("ping").end()).status == 404


async def test_a_call_is_cancelled_by_way_of_another_instance() -> None:
    worker = Worker()
    async with fleet(lambda: worker.registry) as those:
        client = those.client()
        await client.initialize()
        call = client.begin_call("work", progress_meta(), say=1)
        await worker.until(1)
        while call.status == 0:
            await trio.lowlevel.checkpoint()
        assert await client.notify("notifications/cancelled", {"requestId": 2}) == 202
        await worker.until(0)
        assert worker.cancelled == 1
        assert [each["method"] for each in await call.messages()] == ["notifications/progress"]


async def test_an_answer_finds_the_call_that_has_asked() -> None:
    async def ask(context: Context) -> str:
        answers = [(await context.elicit(f"{number}?", int)).value for number in range(3)]
        return str(answers)

    async with fleet(lambda: registry_of(ask)) as those:
        client = those.client(capabilities={"elicitation": {}})
        await client.initialize()
        call = client.begin_call("ask")
        for number in range(3):
            question = await call.message()
            assert (
                await client.reply(question, {"action": "accept", "content": {"value": number}})
                == 202
            )
        assert text_of(await call.message()) == "[0, 1, 2]"


async def interrupted(client: LegacyClient, worker: Worker, say: int = 2) -> tuple[Response, str]:
    """A call whose client has left after its events, and the id of the last one."""
    call = client.begin_call("work", progress_meta(), say=say)
    await worker.until(1)
    for _ in range(say):
        assert (await call.message())["method"] == "notifications/progress"
    last = call.events[-1].id
    assert last is not None
    call.disconnect()
    await wait_all_tasks_blocked()
    return call, last


async def test_a_stream_is_taken_up_at_another_instance() -> None:
    worker = Worker()
    async with fleet(lambda: worker.registry) as those:
        client = those.client()
        await client.initialize()
        _, last = await interrupted(client, worker)
        first = last.rpartition("-")[0]
        for after, expected in ((last, []), (f"{first}-1", [2]), (f"{first}-0", [1, 2])):
            stream = client.get(after=after)
            for progress in expected:
                assert (await stream.message())["params"]["progress"] == progress
            stream.disconnect()
        waiting = client.get(after=last)
        await waiting.started()
        await wait_all_tasks_blocked()
        worker.go_on.set()
        assert text_of(await waiting.message()) == "done"
        assert await waiting.event() is None
        late = client.get(after=last)
        assert text_of((await late.messages())[-1]) == "done"


async def test_what_there_is_not_to_take_up() -> None:
    async with fleet(echoing) as those:
        client = those.client()
        await client.initialize()
        for event in ("5-1", f"{'0' * 12}.1-0", f"{'0' * 12}.1-1", "x-1", f"{'0' * 12}.1-x"):
            assert (await client.get(after=event).end()).status == 400


async def test_a_stream_whose_instance_died_is_ended_with_an_error(
    autojump_clock: MockClock,
) -> None:
    worker = Worker()
    async with fleet(lambda: worker.registry, size=2) as those:
        client = those.client()
        await client.initialize()
        _, last = await interrupted(client, worker)
        # Its sign is not renewed any more, as if killed.
        those.views[0].is_cut_off = True
        stream = client.get(after=last)
        message = await stream.message()
        assert message["id"] == 2
        assert "gone" in message["error"]["message"]
        assert await stream.event() is None


async def test_nobody_waits_elsewhere_for_what_could_not_be_kept(
    autojump_clock: MockClock,
) -> None:
    """The store was away for the last events: they are where they were made, and only there."""
    worker, store = Worker(), Unsteady()
    async with fleet(lambda: worker.registry, size=2, store=store) as those:
        client, other = (LegacyClient(host) for host in those.hosts)
        await client.initialize()
        _, last = await interrupted(client, worker)
        other.session = client.session
        waiting = other.get(after=last)
        await waiting.event()  # which has nothing but an id
        store.away = True
        worker.go_on.set()
        await trio.sleep(10)
        store.away = False
        assert await waiting.event() is None
        await trio.sleep(10)
        assert (await other.get(after=last).end()).status == 400
        assert text_of((await client.get(after=last).messages())[-1]) == "done"


async def test_settings_hold_everywhere() -> None:
    async def talk(context: Context) -> str:
        await context.log("info", "quiet")
        await context.log("error", "loud")
        return "said"

    async with fleet(lambda: registry_of(talk)) as those:
        client = those.client()
        await client.initialize()
        for _ in range(3):
            assert len(await client.begin_call("talk").messages()) == 3
        await client.request("logging/setLevel", {"level": "error"})
        await wait_all_tasks_blocked()
        for _ in range(3):
            assert len(await client.begin_call("talk").messages()) == 2


async def test_settings_in_a_batch_hold_everywhere() -> None:
    async def talk(context: Context) -> str:
        await context.log("info", "quiet")
        return "said"

    async with fleet(lambda: registry_of(talk)) as those:
        client = those.client(revision="2025-03-26")
        await client.initialize()
        setting = client.request_of("logging/setLevel", {"level": "error"})
        assert (await client.post([setting])).status == 200
        await wait_all_tasks_blocked()
        for _ in range(3):
            assert len(await client.begin_call("talk").messages()) == 1


async def test_integers_of_any_length_pass_between_instances() -> None:
    worker = Worker()
    async with fleet(lambda: worker.registry) as those:
        client = those.client(capabilities={"experimental": {"long": {"number": 2**70}}})
        await client.initialize()
        assert await client.notify("notifications/cancelled", {"requestId": 2**70}) == 202
        request = client.request_of("tools/call", {"name": "work", "_meta": progress_meta()})
        request["params"]["arguments"] = {"say": 1}
        call = client.send({**request, "id": 2**70})
        await worker.until(1)
        assert (await client.begin("ping").end()).status == 200
        worker.go_on.set()
        assert len(await call.messages()) == 2


@pytest.mark.parametrize("name", ["films/", "Film\xa0Club", "a\nb", "x" * 600])
async def test_a_registry_of_any_name_may_share_a_store(name: str) -> None:
    async with fleet(lambda: Registry(name)) as those:
        client = those.client()
        await client.initialize()
        for _ in range(3):
            assert (await client.begin("ping").end()).status == 200


def news(made: list[Registry]) -> Registry:
    """Make the registry of another instance, and note it."""
    registry = registry_of(echo)
    made.append(registry)
    registry.add_resource("news://today", lambda: "news", name="today")
    registry.add_resource("news://other", lambda: "news", name="other")
    return registry


async def test_changes_are_told_wherever_the_stream_is() -> None:
    registries: list[Registry] = []
    async with fleet(partial(news, registries)) as those:
        client = those.client()
        await client.initialize()
        await client.request("resources/subscribe", {"uri": "news://today"})
        stream = client.get()
        await stream.started()
        await wait_all_tasks_blocked()
        for registry in registries:
            registry.notify_resource_updated("news://other")
            registry.notify_resource_updated("news://today")
            message = await stream.message()
            assert message["params"]["uri"] == "news://today"
            await wait_all_tasks_blocked()
        registries[1].remove_resource("news://other")
        assert (await stream.message())["method"] == "notifications/resources/list_changed"
        await client.request("resources/unsubscribe", {"uri": "news://today"})
        await wait_all_tasks_blocked()
        registries[0].notify_resource_updated("news://today")
        registries[2].remove_resource("news://other")
        assert (await stream.message())["method"] == "notifications/resources/list_changed"


@pytest.mark.parametrize("turns", range(10))
async def test_an_instance_may_end_while_it_hears_of_a_change(turns: int) -> None:
    """In whichever turn of the scheduler: its sessions start no task any more."""
    registries: list[Registry] = []
    async with fleet(partial(news, registries), size=2) as those:
        client = those.client()
        await client.initialize()
        await client.request("resources/subscribe", {"uri": "news://today"})
        await wait_all_tasks_blocked()
        registries[1].notify_resource_updated("news://today")
        for _ in range(turns):
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("changing", range(3))
@pytest.mark.parametrize("is_open", [True, False], ids=["open stream", "later stream"])
async def test_a_change_right_after_subscribing_is_told(is_open: bool, changing: int) -> None:
    """Wherever it happens, and however late the instance with the stream hears of the session."""
    registries: list[Registry] = []
    with trio.fail_after(TIME_LIMIT):
        async with fleet(partial(news, registries)) as those:
            client = those.client()
            await client.initialize()  # by way of the first instance and the second
            if is_open:
                stream = client.get()  # at the third
                await stream.started()
            else:
                await client.request("ping")  # likewise
            await wait_all_tasks_blocked()
            those.views[2].hears_of_sessions = trio.Event()
            await client.request("resources/subscribe", {"uri": "news://today"})
            registries[changing].notify_resource_updated("news://today")
            await wait_all_tasks_blocked()
            if not is_open:
                await client.request("ping")
                stream = client.get()  # at the third
                await wait_all_tasks_blocked()
            those.views[2].hears_of_sessions.set()
            message = await stream.message()
            assert message["params"]["uri"] == "news://today"


class Late(MemoryStore):
    """A store in memory that keeps back what it has read of a session."""

    def __init__(self) -> None:
        super().__init__()
        self.hands_over = trio.Event()

    async def get(self, key: str) -> Entry | None:
        entry = await super().get(key)
        if key.endswith(":about"):
            await self.hands_over.wait()
        return entry


async def test_what_was_read_before_a_subscription_does_not_undo_it() -> None:
    registries: list[Registry] = []
    store = Late()
    async with fleet(partial(news, registries), size=1, store=store) as those:
        client = those.client()
        await client.initialize()
        await wait_all_tasks_blocked()  # the instance looks at the session
        await client.request("resources/subscribe", {"uri": "news://today"})
        store.hands_over.set()
        stream = client.get()
        await stream.started()
        await wait_all_tasks_blocked()
        registries[0].notify_resource_updated("news://today")
        with trio.fail_after(TIME_LIMIT):
            assert (await stream.message())["params"]["uri"] == "news://today"


async def test_a_change_that_was_there_before_is_not_told() -> None:
    registries: list[Registry] = []
    async with fleet(partial(news, registries)) as those:
        client = those.client()
        await client.initialize()
        stream = client.get()
        await stream.started()
        registries[1].notify_resource_updated("news://today")
        await wait_all_tasks_blocked()
        await client.request("resources/subscribe", {"uri": "news://today"})
        await wait_all_tasks_blocked()
        registries[0].remove_resource("news://other")
        assert (await stream.message())["method"] == "notifications/resources/list_changed"


@pytest.mark.parametrize("changing", range(3))
async def test_a_list_that_changes_right_after_the_handshake_is_told_of(changing: int) -> None:
    registries: list[Registry] = []
    with trio.fail_after(TIME_LIMIT):
        async with fleet(partial(news, registries)) as those:
            client = those.client()
            await client.initialize()
            registries[changing].remove_resource("news://other")
            stream = client.get()
            assert (await stream.message())["method"] == "notifications/resources/list_changed"


async def test_a_change_of_what_has_no_name_in_unicode_harms_nobody() -> None:
    registries: list[Registry] = []
    async with fleet(partial(news, registries)) as those:
        client = those.client()
        await client.initialize()
        await client.request("resources/subscribe", {"uri": "news://today"})
        stream = client.get()
        await stream.started()
        await wait_all_tasks_blocked()
        registries[0].notify_resource_updated("file:///caf\udce9")  # as `os.listdir` names it
        await wait_all_tasks_blocked()
        registries[0].notify_resource_updated("news://today")
        assert (await stream.message())["params"]["uri"] == "news://today"


async def test_a_stream_of_changes_that_goes_on_elsewhere_tells_all_that_may_have_changed() -> None:
    async with fleet(partial(news, [])) as those:
        client = those.client()
        await client.initialize()
        await client.request("resources/subscribe", {"uri": "news://today"})
        await wait_all_tasks_blocked()
        stream = client.get()
        event = await stream.event()
        assert event is not None
        stream.disconnect()
        again = client.get(after=event.id)
        told = {(await again.message())["method"] for _ in range(3)}
        assert "notifications/resources/updated" in told


async def test_subscriptions_at_two_instances_at_once_are_both_kept() -> None:
    registries: list[Registry] = []
    async with fleet(partial(news, registries)) as those:
        client = those.client()
        await client.initialize()
        await client.request("ping")
        await client.request("ping")
        both = [
            client.begin("resources/subscribe", {"uri": uri})
            for uri in ("news://today", "news://other")
        ]
        for response in both:
            assert (await response.end()).status == 200
        await wait_all_tasks_blocked()
        stream = client.get()
        await stream.started()
        for uri in ("news://today", "news://other"):
            registries[0].notify_resource_updated(uri)
            assert (await stream.message())["params"]["uri"] == uri


async def test_a_session_lasts_as_long_as_it_is_used_anywhere(autojump_clock: MockClock) -> None:
    async with fleet(echoing, sessions=SessionOptions(session_idle=100)) as those:
        client = those.client()
        await client.initialize()
        for _ in range(10):
            await trio.sleep(60)
            assert (await client.begin("ping").end()).status == 200
        await trio.sleep(120)
        for _ in range(3):
            assert (await client.begin("ping").end()).status == 404


async def test_a_session_is_begun_at_an_instance_that_stops() -> None:
    async with fleet(echoing, size=2) as those:
        those.hosts[0].app.stop()
        client, other = (LegacyClient(host) for host in those.hosts)
        await client.initialize()
        other.session = client.session
        assert text_of(await other.call("echo", text="goes on")) == "goes on"


async def test_sessions_outlive_their_instances() -> None:
    store = MemoryStore()
    session = ""
    for number in range(3):
        app = http_app(echoing(), store=store)
        async with app.running(), trio.open_nursery() as nursery:
            client = LegacyClient(Host(app, nursery, CANCELS))
            if number == 0:
                await client.initialize()
                session = client.session or ""
            client.session = session
            assert text_of(await client.call("echo", text="still here")) == "still here"


async def test_a_store_that_loses_everything_loses_no_session_that_is_in_use() -> None:
    async with fleet(echoing, size=2) as those:
        client = those.client()
        await client.initialize()
        for _ in range(2):
            await client.request("ping")
        await wait_all_tasks_blocked()
        lose_all(those.store)
        those.store.watches.notify_all()
        await wait_all_tasks_blocked()
        assert [key for key in values_of(those.store) if "about" in key]
        for _ in range(4):
            assert (await client.begin("ping").end()).status == 200


async def test_a_store_that_loses_everything_gets_the_sessions_back(
    autojump_clock: MockClock,
) -> None:
    """Nobody is told of that: instances see for themselves, before another one is asked."""
    async with fleet(echoing) as those:
        client = those.client()
        await client.initialize()
        lose_all(those.store)
        await trio.sleep(4)
        for _ in range(3):
            assert (await client.begin("ping").end()).status == 200


async def test_an_end_is_answered_once_others_will_have_heard_of_it(
    monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    news, follow = trio.Event(), session.follow

    async def hear_late(*args: Any, **options: Any) -> None:
        await news.wait()
        await follow(*args, **options)

    monkeypatch.setattr(session, "follow", hear_late)
    answers = []

    async with fleet(echoing) as those, trio.open_nursery() as nursery:
        client = those.client()
        await client.initialize()

        async def end() -> None:
            answers.append(await client.delete())

        nursery.start_soon(end)
        await wait_all_tasks_blocked()
        assert answers == []
        news.set()
        await wait_all_tasks_blocked()
        assert answers == [200]


async def test_a_session_that_was_ended_elsewhere_counts_here_no_more() -> None:
    async with fleet(echoing) as those:
        one, other, _ = (LegacyClient(host) for host in those.hosts)
        await one.initialize()
        other.session = one.session
        assert (await other.begin("ping").end()).status == 200
        assert await sessions_of(other.host) == 1
        assert await one.delete() == 200
        await wait_all_tasks_blocked()
        assert await sessions_of(other.host) == 0


async def test_an_end_holds_here_too_if_its_client_does_not_wait_for_it() -> None:
    class Late(MemoryStore):
        """Says that a session was ended long after that was done."""

        async def commit(self, *changes: Change) -> list[int]:
            versions = await super().commit(*changes)
            first = changes[0]
            if isinstance(first, Put) and first.key.endswith(":about") and not first.value:
                await trio.sleep_forever()
            return versions

    async with fleet(echoing, store=Late()) as those:
        client = LegacyClient(those.hosts[0])
        await client.initialize()
        ending = client.host.send("DELETE", headers=client.session_headers())
        await wait_all_tasks_blocked()
        ending.disconnect()
        await wait_all_tasks_blocked()
        assert (await client.begin("ping").end()).status == 404


async def test_a_stream_is_closed_with_its_session_though_its_events_were_not_written() -> None:
    class Stuck(MemoryStore):
        async def commit(self, *changes: Change) -> list[int]:
            if isinstance(changes[0], Append) and ":stream/" in changes[0].key:
                await trio.sleep_forever()
            return await super().commit(*changes)

    async def close(context: Context) -> None:
        await context.log("warning", "one")
        context.close_sse_stream()
        await trio.sleep_forever()

    async with fleet(lambda: registry_of(close), store=Stuck()) as those:
        client = LegacyClient(those.hosts[0])
        await client.initialize()
        call = client.begin_call("close")
        await wait_all_tasks_blocked()
        assert call.status == 200
        assert await client.delete() == 200
        await wait_all_tasks_blocked()
        has_ended = call.ended.is_set()
        call.disconnect()  # or this would hang where it has not
        assert has_ended


async def test_a_session_that_was_ended_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Not by an instance that has not heard of its end, either."""

    async def hear_nothing(*_: Any, **__: Any) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(session, "follow", hear_nothing)
    async with fleet(echoing) as those:
        one, deaf, other = (LegacyClient(host) for host in those.hosts)
        await one.initialize()
        deaf.session = other.session = one.session
        assert (await deaf.begin("ping").end()).status == 200
        assert await one.delete() == 200
        assert (await deaf.begin("logging/setLevel", {"level": "error"}).end()).status == 200
        assert (await other.begin("ping").end()).status == 404


async def test_nobody_brings_a_session_back_after_its_end_may_have_been_forgotten(
    autojump_clock: MockClock,
) -> None:
    store = Unsteady()
    async with fleet(
        echoing, sessions=SessionOptions(session_idle=100), size=1, store=store
    ) as those:
        client = those.client()
        await client.initialize()
        store.away = True
        for _ in range(3):
            await trio.sleep(60)
            assert (await client.begin("ping").end()).status == 200
        lose_all(store)
        store.away = False
        await trio.sleep(20)
        assert (await client.begin("ping").end()).status == 404


async def test_a_session_lasts_everywhere_as_long_as_somebody_listens(
    autojump_clock: MockClock,
) -> None:
    async with fleet(echoing, sessions=SessionOptions(session_idle=100)) as those:
        client = those.client()
        await client.initialize()
        stream = client.get()
        await stream.started()
        await trio.sleep(1000)
        for _ in range(3):
            assert (await client.begin("ping").end()).status == 200


async def test_a_store_that_cannot_be_reached_is_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreachable(*_: object) -> None:
        raise StoreUnavailable("it is away")

    async with fleet(echoing) as those:
        client = those.client()
        await client.initialize()
        monkeypatch.setattr(MemoryStore, "get", unreachable)
        stranger = those.client()
        stranger.session = client.session
        stranger.host  # noqa: B018 - the next one has not met the session
        statuses = {(await stranger.begin("ping").end()).status for _ in range(3)}
        assert statuses <= {200, 503}
        assert 503 in statuses


async def pass_on(request: McpRequest, call_next: Any) -> Any:
    return await call_next(request)


@pytest.mark.parametrize("middleware", [[], [pass_on]], ids=["at once", "by a call"])
async def test_a_setting_that_the_others_cannot_be_told_of_is_refused(middleware: Any) -> None:
    store = Unsteady()
    make = partial(Registry, "settings", middleware=middleware)
    async with fleet(make, size=1, store=store) as those:
        client = those.client()
        await client.initialize()
        store.away = True
        response = await client.begin("logging/setLevel", {"level": "error"}).complete()
        assert b"try again" in response.body
        store.away = False
        await client.request("logging/setLevel", {"level": "error"})


async def test_nothing_is_left_in_the_store(autojump_clock: MockClock) -> None:
    worker = Worker()
    async with fleet(lambda: worker.registry, sessions=SessionOptions(session_idle=100)) as those:
        for _ in range(20):
            client = those.client()
            await client.initialize()
            _, _ = await interrupted(client, worker)
            await client.notify("notifications/cancelled", {"requestId": 2})
            await worker.until(0)
        store = those.store
        assert values_of(store)
    await trio.sleep(10_000)
    for _ in range(100):  # each sweeps one log
        await store.commit()
    assert not [key for key in values_of(store) if not key.startswith("keys-")]
    assert not items_of(store)


async def test_the_second_change_is_told_though_the_first_was_forgotten(
    autojump_clock: MockClock,
) -> None:
    """Each is the first one in the log of its time."""
    registries: list[Registry] = []
    async with fleet(lambda: news(registries), size=2) as those:
        client = ModernClient(those.hosts[1])
        stream = client.begin(
            "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["news://today"]}}
        )
        await stream.message()
        for seconds in (0, 7200):  # for longer than changes are kept
            await trio.sleep(seconds)
            registries[0].notify_resource_updated("news://today")
            with trio.fail_after(60):
                told = await stream.message()
            assert told is not None
            assert told["method"] == "notifications/resources/updated"
        stream.disconnect()
        await stream.end()


async def test_a_second_cancellation_finds_its_call_though_the_first_was_forgotten(
    autojump_clock: MockClock,
) -> None:
    worker = Worker()
    options = SessionOptions(session_idle=1000)
    async with fleet(lambda: worker.registry, size=2, sessions=options) as those:
        client, other = (LegacyClient(host) for host in those.hosts)
        await client.initialize()
        other.session = client.session
        for number in range(3):
            call = client.begin_call("work", progress_meta(), say=1)
            await worker.until(1)
            id = max(id for id in client.methods if isinstance(id, int))
            await other.notify("notifications/cancelled", {"requestId": id})
            with trio.fail_after(60):
                await worker.until(0)
            await call.end()
            for _ in range(15):
                await trio.sleep(100)  # in which the session is used, and nothing is passed on
                assert (await client.begin("ping").end()).status == 200, number
                assert (await other.begin("ping").end()).status == 200, number
