"""Streamable HTTP of the legacy revisions: streams, questions, and coming back to them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.client import CLIENT_INFO, LEGACY
from tests.support.tools import echo, error_of, registry_of, text_of
from tests.transports.http.support import (
    Event,
    LegacyClient,
    Response,
    Worker,
    each_manner,
    each_session_revision,
    hosting,
    legacy,
    progress_meta,
)
from trio_mcp import Context, HttpPolicy, Limits, Registry, SessionOptions

NEWEST = LEGACY[-1]
PRIMED = {"2025-11-25"}
"""The revisions whose streams begin with an event that is nothing but an id."""


async def count(context: Context, to: int) -> str:
    """Report progress."""
    for number in range(to):
        await context.progress(number + 1, total=to)
    return "counted"


async def ask(context: Context, question: str = "Your name?") -> str:
    """Ask something."""
    return (await context.elicit(question, str)).value


async def ask_roots(context: Context) -> list[str]:
    """Ask for the roots."""
    return [each.uri for each in await context.roots()]


def progress_of(messages: list[Any]) -> list[float]:
    return [each["params"]["progress"] for each in messages]


def ids_of(response: Response) -> list[str]:
    return [each.id for each in response.events if each.id is not None]


# -- answers --------------------------------------------------------------------------------------


@pytest.mark.requirement("F1")
@each_session_revision
async def test_json_if_nothing_was_said(revision: str) -> None:
    async with legacy(registry_of(echo), revision=revision) as client:
        for response in (client.begin_call("echo", text="x"), client.begin("tools/list")):
            await response.end()
            assert response.status == 200
            assert response.headers["content-type"] == "application/json"
            assert response.headers["mcp-session-id"] == client.session
            assert "result" in await response.answer()
        assert await client.request("ping") == {"jsonrpc": "2.0", "id": 4, "result": {}}


@pytest.mark.requirement("F1", "F3")
@each_session_revision
async def test_a_stream_as_soon_as_something_is_said(revision: str) -> None:
    worker = Worker()
    async with legacy(worker.registry, revision=revision) as client:
        response = client.begin_call("work", progress_meta(), say=2)
        assert await response.started() == 200
        assert response.is_stream
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["mcp-session-id"] == client.session
        assert progress_of([await response.message(), await response.message()]) == [1, 2]
        assert worker.running == 1
        worker.go_on.set()
        assert text_of(await response.message()) == "done"
        assert await response.message() is None
        first, *events = response.events
        if revision in PRIMED:
            assert first.data == ""
            assert first.id is not None
            assert first.kind is None, "there is no message in it"
        else:
            events = response.events
        assert all(each.message is not None and each.kind == "message" for each in events)
        ids = ids_of(response)
        assert len(ids) == len(response.events) == len(set(ids))
        assert all(each.retry is None for each in response.events), "it need not come back"


@pytest.mark.requirement("F1")
@each_session_revision
async def test_errors_are_answers(revision: str) -> None:
    """In a session the status is about HTTP alone, as all clients expect."""
    async with legacy(registry_of(echo), revision=revision) as client:
        answer = await client.request("tools/fly")
        assert error_of(answer)[0] == -32601
        answer = await client.request("tools/call", {"name": "nothing"})
        assert error_of(answer)[0] == -32602


@pytest.mark.requirement("F1")
async def test_ids_are_open_once_in_a_session_and_free_in_another() -> None:
    worker = Worker()
    async with hosting(worker.registry) as host:
        clients = [LegacyClient(host), LegacyClient(host)]
        responses = []
        for number, client in enumerate(clients):
            await client.initialize()
            responses.append(client.begin_call("work", words=f"{number}"))
        await wait_all_tasks_blocked()
        assert worker.running == 2
        again = {**clients[0].request_of("ping"), "id": 2}
        refused = await (await clients[0].post(again)).answer()
        assert error_of(refused)[0] == -32600
        worker.go_on.set()
        assert [text_of(await each.answer()) for each in responses] == ["0", "1"]
        assert "result" in await (await clients[0].post(again)).answer()


@pytest.mark.requirement("F1")
async def test_what_is_no_message_is_refused() -> None:
    async with legacy(registry_of(echo)) as client:
        for body, code in ((b"nonsense", -32700), (b"", -32600), (b'{"id":1}', -32600)):
            response = await client.post(body)
            assert response.status == 400
            assert response.error["code"] == code


# -- notifications and cancellation ---------------------------------------------------------------


@pytest.mark.requirement("F1")
async def test_notifications_and_answers_are_accepted() -> None:
    async with legacy(registry_of(echo)) as client:
        assert await client.notify("notifications/unheard-of", {"x": 1}) == 202
        assert await client.reply({"id": 99}, {}) == 202
        assert text_of(await client.call("echo", text="x")) == "x"


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("say", [0, 1])
@each_session_revision
async def test_a_cancelled_call_is_not_answered(revision: str, say: int) -> None:
    worker = Worker()
    async with legacy(worker.registry, revision=revision) as client:
        response = client.begin_call("work", progress_meta(), say=say)
        await wait_all_tasks_blocked()
        other = client.begin_call("work")
        await wait_all_tasks_blocked()
        status = await client.notify("notifications/cancelled", {"requestId": 2, "reason": "no"})
        assert status == 202
        await response.end()
        assert progress_of(await response.messages()) == [1] * say
        assert worker.cancelled == 1
        worker.go_on.set()
        assert text_of(await other.answer()) == "done"


@pytest.mark.requirement("F1")
async def test_a_call_that_waits_for_its_turn_can_be_cancelled() -> None:
    worker = Worker()
    async with legacy(worker.registry, HttpPolicy(max_concurrent=1)) as client:
        first = client.begin_call("work")
        await wait_all_tasks_blocked()
        second = client.begin_call("work")
        await wait_all_tasks_blocked()
        await client.notify("notifications/cancelled", {"requestId": 3})
        await second.end()
        assert await second.messages() == []
        worker.go_on.set()
        assert text_of(await first.answer()) == "done"
        assert (worker.finished, worker.cancelled) == (1, 0)


@pytest.mark.requirement("F1")
async def test_nobody_cancels_the_calls_of_another_session() -> None:
    worker = Worker()
    async with hosting(worker.registry) as host:
        mine, other = LegacyClient(host), LegacyClient(host)
        await mine.initialize()
        await other.initialize()
        response = mine.begin_call("work")
        await wait_all_tasks_blocked()
        for id in (1, 2, "2", True, None, [2]):
            assert await other.notify("notifications/cancelled", {"requestId": id}) == 202
        await wait_all_tasks_blocked()
        assert worker.running == 1
        worker.go_on.set()
        assert text_of(await response.answer()) == "done"


# -- questions ------------------------------------------------------------------------------------

FORMS: dict[str, Any] = {"elicitation": {}, "roots": {}, "sampling": {}}


@pytest.mark.requirement("F1")
@each_session_revision
async def test_a_question_comes_on_the_stream_of_its_request(revision: str) -> None:
    registry = registry_of(ask_roots)
    async with legacy(registry, revision=revision, capabilities=FORMS) as client:
        standalone = client.get()
        await standalone.started()
        response = client.begin_call("ask_roots")
        question = await response.message()
        assert question["method"] == "roots/list"
        await wait_all_tasks_blocked()
        assert not response.ended.is_set()
        assert await client.reply(question, {"roots": [{"uri": "file:///a"}]}) == 202
        answer = await response.message()
        assert text_of(answer) == '["file:///a"]'
        assert await response.message() is None
        standalone.disconnect()
        assert [each for each in standalone.events if each.message] == []


@pytest.mark.requirement("F1")
async def test_questions_of_calls_side_by_side() -> None:
    """Each goes on the stream of its own request, and each answer to who asked."""
    async with legacy(registry_of(ask), capabilities=FORMS) as client:
        responses = [client.begin_call("ask", question=f"{n}?") for n in range(5)]
        questions = [await each.message() for each in responses]
        messages = [each["params"]["message"] for each in questions]
        assert messages == ["0?", "1?", "2?", "3?", "4?"]
        assert len({each["id"] for each in questions}) == 5
        for question in reversed(questions):
            value = question["params"]["message"]
            await client.reply(question, {"action": "accept", "content": {"value": value}})
        assert [text_of(await each.message()) for each in responses] == messages


@pytest.mark.requirement("F1")
async def test_only_its_own_session_answers_a_question() -> None:
    async with hosting(registry_of(ask)) as host:
        mine = LegacyClient(host, capabilities=FORMS)
        other = LegacyClient(host, capabilities=FORMS)
        await mine.initialize()
        await other.initialize()
        response = mine.begin_call("ask")
        question = await response.message()
        forged = {"action": "accept", "content": {"value": "forged"}}
        assert await other.reply(question, forged) == 202
        await wait_all_tasks_blocked()
        assert not response.ended.is_set()
        await mine.reply(question, {"action": "accept", "content": {"value": "mine"}})
        assert text_of(await response.message()) == "mine"


@pytest.mark.requirement("F1")
async def test_a_question_that_is_not_answered(autojump_clock: Any) -> None:
    limits = Limits(question_timeout=7)
    async with legacy(registry_of(ask), limits=limits, capabilities=FORMS) as client:
        response = client.begin_call("ask")
        question = await response.message()
        cancelled = await response.message()
        assert trio.current_time() == 7
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == question["id"]
        answer = await response.message()
        assert error_of(answer)[0] == -32603
        assert await client.reply(question, {"action": "decline"}) == 202


@pytest.mark.requirement("F1", "F3")
@each_manner
async def test_a_question_waits_for_a_client_that_comes_back(manner: str) -> None:
    async with legacy(registry_of(ask), manner=manner, capabilities=FORMS) as client:
        response = client.begin_call("ask")
        question = await response.message()
        response.disconnect()
        await response.end()
        assert question is not None
        again = client.get(ids_of(response)[0])
        assert await again.message() == question, "it is asked again, on the same stream"
        await client.reply(question, {"action": "accept", "content": {"value": "Bob"}})
        assert text_of(await again.message()) == "Bob"
        assert await again.message() is None


# -- the stream of what concerns no request -------------------------------------------------------


async def other_tool() -> str:
    return "other"


def library() -> Registry:
    registry = registry_of(echo, count)

    @registry.resource("text://{name}")
    async def any_text(name: str) -> str:
        return name

    return registry


@pytest.mark.requirement("F1")
@each_session_revision
async def test_changes_come_on_the_stream_of_the_session(revision: str) -> None:
    registry = library()
    async with legacy(registry, revision=revision) as client:
        stream = client.get()
        assert await stream.started() == 200
        assert stream.is_stream
        assert stream.headers["x-accel-buffering"] == "no"
        assert stream.headers["mcp-session-id"] == client.session
        registry.add_tool(other_tool)
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        registry.notify_resource_updated("text://a")
        assert "result" in await client.request("resources/subscribe", {"uri": "text://a"})
        registry.notify_resource_updated("text://b")
        registry.notify_resource_updated("text://a")
        told = await stream.message()
        assert told["method"] == "notifications/resources/updated"
        assert told["params"] == {"uri": "text://a"}
        stream.disconnect()


@pytest.mark.requirement("F1")
async def test_what_concerns_no_request_is_not_told_on_its_stream() -> None:
    """And nothing is told twice, whatever streams there are."""
    registry = library()
    worker = Worker()
    registry.add_tool(worker.work)
    async with legacy(registry) as client:
        stream = client.get()
        await stream.started()
        response = client.begin_call("work", progress_meta(), say=1)
        await response.message()
        registry.add_tool(other_tool)
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        worker.go_on.set()
        assert len(await response.messages()) == 1
        assert len([each for each in stream.events if each.message]) == 1
        stream.disconnect()


@pytest.mark.requirement("F1")
@each_manner
async def test_there_is_one_reader_of_a_stream(manner: str) -> None:
    registry = library()
    async with legacy(registry, manner=manner) as client:
        stream = client.get()
        await stream.started()
        refused = await client.get().end()
        assert refused.status == 409
        registry.add_tool(other_tool)
        assert await stream.message() is not None, "the first one is not disturbed"
        stream.disconnect()
        await stream.end()
        again = client.get()
        assert await again.started() == 200
        registry.remove_tool("other_tool")
        assert (await again.message())["method"] == "notifications/tools/list_changed"
        again.disconnect()


@pytest.mark.requirement("F1")
async def test_each_session_has_its_own_stream() -> None:
    registry = library()
    async with hosting(registry) as host:
        streams = []
        for uri in ("text://a", "text://b"):
            client = LegacyClient(host)
            await client.initialize()
            await client.request("resources/subscribe", {"uri": uri})
            streams.append(client.get())
            await streams[-1].started()
        registry.notify_resource_updated("text://b")
        registry.notify_resource_updated("text://a")
        uris = [(await each.message())["params"]["uri"] for each in streams]
        assert uris == ["text://a", "text://b"]
        for stream in streams:
            stream.disconnect()


@pytest.mark.requirement("F1")
@each_manner
async def test_what_was_missed_comes_with_the_next_reader(manner: str) -> None:
    registry = library()
    async with legacy(registry, manner=manner) as client:
        for uri in ("text://a", "text://b"):
            await client.request("resources/subscribe", {"uri": uri})
        registry.notify_resource_updated("text://a")
        await wait_all_tasks_blocked()
        stream = client.get()
        assert (await stream.message())["params"]["uri"] == "text://a"
        stream.disconnect()
        await stream.end()
        registry.notify_resource_updated("text://b")
        await wait_all_tasks_blocked()
        for after in (None, ids_of(stream)[-1]):
            again = client.get(after)
            assert (await again.message())["params"]["uri"] == "text://b"
            again.disconnect()
            await again.end()


@pytest.mark.requirement("F1", "F3")
async def test_a_quiet_stream_is_kept_alive(autojump_clock: Any) -> None:
    worker = Worker()
    async with legacy(worker.registry, HttpPolicy(keep_alive=10)) as client:
        streams = [client.get(), client.begin_call("work", progress_meta(), say=1)]
        comments: list[tuple[int, float]] = []

        async def read(number: int) -> None:
            seen = 0
            while seen < 2:
                event = await streams[number].event()
                assert isinstance(event, Event)
                if event.comment is not None:
                    comments.append((number, trio.current_time()))
                    seen += 1
            streams[number].disconnect()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, 0)
            nursery.start_soon(read, 1)
        assert sorted(comments) == [(0, 10), (0, 20), (1, 10), (1, 20)]


@pytest.mark.requirement("F1")
async def test_what_a_get_has_to_say() -> None:
    async with legacy(library()) as client:
        for accept in (None, "application/json", "text/html"):
            assert (await client.get(accept=accept).end()).status == 406
        for accept in ("*/*", "text/*", "application/json, text/event-stream;q=0.5"):
            stream = client.get(accept=accept)
            assert await stream.started() == 200
            stream.disconnect()
            await stream.end()
        version = {"mcp-protocol-version": "2024-01-01"}
        assert (await client.get(**version).end()).status == 400
        nobody = LegacyClient(client.host)
        refused = await nobody.get().end()
        assert refused.status == 405, "nothing says that this is MCP"
        assert "POST" in refused.headers["allow"]
        refused = await nobody.get(**{"mcp-protocol-version": NEWEST}).end()
        assert refused.status == 400


# -- disconnects and coming back ------------------------------------------------------------------


@pytest.mark.requirement("F3")
@each_manner
@pytest.mark.parametrize("say", [0, 1, 3])
@each_session_revision
async def test_a_client_that_leaves_does_not_cancel(revision: str, say: int, manner: str) -> None:
    worker = Worker()
    async with legacy(worker.registry, revision=revision, manner=manner) as client:
        response = client.begin_call("work", progress_meta(), say=say)
        await wait_all_tasks_blocked()
        response.disconnect()
        await response.end()
        assert worker.running == 1
        worker.go_on.set()
        await wait_all_tasks_blocked()
        assert (worker.finished, worker.cancelled) == (1, 0)


@pytest.mark.requirement("F3")
@each_manner
@pytest.mark.parametrize("finished", [False, True])
@each_session_revision
async def test_a_client_fetches_the_rest(revision: str, finished: bool, manner: str) -> None:
    """Whether it comes back before the call has ended, or after."""
    worker = Worker()
    async with legacy(worker.registry, revision=revision, manner=manner) as client:
        response = client.begin_call("work", progress_meta(), say=3)
        assert progress_of([await response.message()]) == [1]
        response.disconnect()
        await response.end()
        if finished:
            worker.go_on.set()
            await wait_all_tasks_blocked()
        again = client.get(ids_of(response)[-1])
        assert await again.started() == 200
        assert progress_of([await again.message(), await again.message()]) == [2, 3]
        worker.go_on.set()
        assert text_of(await again.message()) == "done"
        assert await again.message() is None


@pytest.mark.requirement("F3")
@each_manner
async def test_what_was_sent_but_never_arrived_is_sent_again(manner: str) -> None:
    """A client knows best what it got: the server cannot see what is lost on the way."""
    async with legacy(registry_of(count), manner=manner) as client:
        response = await client.begin_call("count", progress_meta(), to=3).end()
        assert progress_of((await response.messages())[:3]) == [1, 2, 3]
        prime, first, second, third, last = ids_of(response)
        for after, left in ((prime, 3), (first, 2), (second, 1), (third, 0), (first, 2)):
            again = await client.get(after).end()
            assert again.status == 200
            *told, answer = await again.messages()
            assert progress_of(told) == [1, 2, 3][3 - left :]
            assert text_of(answer) == "counted"
        assert await (await client.get(last).end()).messages() == []


@pytest.mark.requirement("F3")
async def test_coming_back_brings_events_of_that_stream_alone() -> None:
    worker = Worker()
    registry = worker.registry
    async with legacy(registry) as client:
        standalone = client.get()
        await standalone.started()
        streams = [
            client.begin_call("work", progress_meta(f"{n}"), words=f"{n}", say=2) for n in range(3)
        ]
        for stream in streams:
            await stream.message()
        registry.add_tool(other_tool)
        await standalone.message()
        for stream in (*streams, standalone):
            stream.disconnect()
            await stream.end()
        registry.remove_tool("other_tool")
        worker.go_on.set()
        await wait_all_tasks_blocked()
        for number, stream in enumerate(streams):
            *told, answer = await (await client.get(ids_of(stream)[-1]).end()).messages()
            assert [each["params"]["progressToken"] for each in told] == [f"{number}"]
            assert progress_of(told) == [2]
            assert text_of(answer) == f"{number}"
        again = client.get(ids_of(standalone)[-1])
        assert (await again.message())["method"] == "notifications/tools/list_changed"
        again.disconnect()


@pytest.mark.requirement("F3")
async def test_one_reader_of_an_interrupted_stream() -> None:
    worker = Worker()
    async with legacy(worker.registry) as client:
        response = client.begin_call("work", progress_meta(), say=1)
        await response.message()
        refused = await client.get(ids_of(response)[0]).end()
        assert refused.status == 409
        worker.go_on.set()
        assert text_of(await response.message()) == "done"


@pytest.mark.requirement("F3")
@pytest.mark.parametrize(
    "id", ["", "x", "1", "-", "1-", "-1", "7-0", "1-x", "1--1", "٣-٣", "0-" + "9" * 5000, "é-1"]
)
async def test_events_that_there_never_were(id: str) -> None:
    async with legacy(registry_of(count)) as client:
        await client.begin_call("count", progress_meta(), to=1).end()
        response = client.get(id)
        await wait_all_tasks_blocked()
        if response.ended.is_set():
            assert response.status == 400
        else:
            assert id.startswith("0-"), "the session's own stream goes on from its end"
            response.disconnect()


@pytest.mark.requirement("F3")
async def test_events_of_another_session() -> None:
    """The same name of an event means something else there, or nothing."""
    async with hosting(registry_of(count)) as host:
        mine, other = LegacyClient(host), LegacyClient(host)
        await mine.initialize()
        await other.initialize()
        response = await mine.begin_call("count", progress_meta(), to=3).end()
        await response.messages()
        refused = await other.get(ids_of(response)[0]).end()
        assert refused.status == 400


@pytest.mark.requirement("F3")
async def test_kept_events_are_bounded() -> None:
    """The last ones are kept, and the answer is one of them."""
    async with legacy(registry_of(count), sessions=SessionOptions(max_events=10)) as client:
        response = await client.begin_call("count", progress_meta(), to=50).end()
        *told, answer = await response.messages()
        assert text_of(answer) == "counted"
        assert progress_of(told)[-1] == 50
        again = await client.get(ids_of(response)[0]).end()
        *told, answer = await again.messages()
        assert len(told) == 9
        assert progress_of(told)[-1] == 50
        assert text_of(answer) == "counted"


@pytest.mark.requirement("F3")
async def test_a_reader_that_keeps_up_loses_nothing_however_little_is_kept() -> None:
    async def chat(context: Context, to: int) -> str:
        for number in range(to):
            await context.info(number)
        return "said"

    async with legacy(registry_of(chat), sessions=SessionOptions(max_events=2)) as client:
        responses = [client.begin_call("chat", to=150) for _ in range(3)]
        for response in responses:
            *told, answer = await response.messages()
            assert [each["params"]["data"] for each in told] == list(range(150))
            assert text_of(answer) == "said"


@pytest.mark.requirement("F2", "F3")
async def test_a_reader_that_stalls_loses_nothing_by_what_others_say() -> None:
    worker = Worker()
    registry = worker.registry
    registry.add_tool(count)
    async with legacy(registry, sessions=SessionOptions(max_events=5)) as client:
        response = client.begin_call("work", progress_meta(), say=2)
        response.stall()
        worker.go_on.set()
        await wait_all_tasks_blocked()
        for _ in range(5):
            await client.begin_call("count", progress_meta(), to=3).end()
        response.resume()
        *told, answer = await response.messages()
        assert progress_of(told) == [1, 2]
        assert text_of(answer) == "done"


@pytest.mark.requirement("F2")
async def test_a_reader_that_stalls_stops_its_own_speaker_only() -> None:
    said: list[int] = []

    async def pour(context: Context) -> str:
        for number in range(300):
            await context.info("x" * 1000)
            said.append(number)
        return "poured"

    async with legacy(registry_of(pour, echo), sessions=SessionOptions(max_events=50)) as client:
        response = client.begin_call("pour")
        await wait_all_tasks_blocked()
        await response.started()
        assert said == list(range(300)), "it waits for nobody while its reader reads"
        said.clear()
        await response.messages()
        response = client.begin_call("pour")
        response.stall()
        await wait_all_tasks_blocked()
        assert len(said) < 150, "it waits for its reader"
        assert text_of(await client.call("echo", text="x")) == "x"
        response.resume()
        *told, answer = await response.messages()
        assert len(told) == 300
        assert text_of(answer) == "poured"


@pytest.mark.requirement("F2")
@each_manner
async def test_a_reader_that_stalls_and_leaves_stops_nobody(manner: str) -> None:
    async def pour(context: Context) -> str:
        for _ in range(1000):
            await context.info("x" * 1000)
        poured.set()
        return "poured"

    poured = trio.Event()
    async with legacy(registry_of(pour), manner=manner) as client:
        response = client.begin_call("pour")
        response.stall()
        await wait_all_tasks_blocked()
        assert not poured.is_set()
        response.disconnect()
        await response.end()
        await poured.wait()


# -- polling --------------------------------------------------------------------------------------


class Poller:
    """A tool that closes the response and works on."""

    def __init__(self) -> None:
        self.go_on = trio.Event()

    async def long(self, context: Context, say: int = 0, times: int = 1) -> str:
        """Work for long."""
        for number in range(say):
            await context.progress(number + 1)
        for _ in range(times):
            context.close_sse_stream()
        await self.go_on.wait()
        await context.progress(100)
        return "done"


@pytest.mark.requirement("F3")
@pytest.mark.parametrize("say", [0, 1])
@pytest.mark.parametrize("times", [1, 3])
async def test_a_client_is_sent_away_and_comes_back(say: int, times: int) -> None:
    poller = Poller()
    async with legacy(registry_of(poller.long), sessions=SessionOptions(retry=0.25)) as client:
        response = await client.begin_call("long", progress_meta(), say=say, times=times).end()
        assert response.status == 200
        assert progress_of(await response.messages()) == [1] * say
        assert response.events[0].id is not None
        assert [each.retry for each in response.events] == [None] * (1 + say) + [250]
        again = client.get(ids_of(response)[-1])
        assert await again.started() == 200
        await wait_all_tasks_blocked()
        assert not again.ended.is_set()
        poller.go_on.set()
        assert progress_of([await again.message()]) == [100]
        assert text_of(await again.message()) == "done"
        assert await again.message() is None


@pytest.mark.requirement("F3")
async def test_a_client_that_was_sent_away_finds_its_answer_later() -> None:
    poller = Poller()
    async with legacy(registry_of(poller.long)) as client:
        response = await client.begin_call("long").end()
        await response.messages()
        poller.go_on.set()
        await wait_all_tasks_blocked()
        assert text_of(await (await client.get(ids_of(response)[-1]).end()).answer()) == "done"


@pytest.mark.requirement("F3")
@pytest.mark.parametrize("revision", LEGACY[1:-1])
@pytest.mark.parametrize("say", [0, 1])
async def test_older_clients_are_not_sent_away(revision: str, say: int) -> None:
    """They do not know that they would have to come back."""
    poller = Poller()
    async with legacy(registry_of(poller.long), revision=revision) as client:
        response = client.begin_call("long", progress_meta(), say=say)
        await wait_all_tasks_blocked()
        assert not response.ended.is_set()
        poller.go_on.set()
        assert text_of(await response.answer()) == "done"


# -- batches --------------------------------------------------------------------------------------

BATCHES = "2025-03-26"


@pytest.mark.requirement("F1")
async def test_a_batch_is_answered_with_an_array() -> None:
    worker = Worker()
    worker.go_on.set()
    async with legacy(worker.registry, revision=BATCHES) as client:
        requests = [
            client.request_of("tools/call", {"name": "work", "arguments": {"words": "a"}}),
            client.request_of("ping"),
            client.request_of("tools/fly"),
            {"jsonrpc": "2.0", "method": "notifications/x"},
            {"jsonrpc": "2.0", "id": "bad", "method": 5},
        ]
        response = await client.post(requests)
        assert response.status == 200
        assert response.headers["content-type"] == "application/json"
        [answers] = await response.messages()
        by_id = {each["id"]: each for each in answers}
        assert len(by_id) == len(answers) == 4
        assert text_of(by_id[requests[0]["id"]]) == "a"
        assert by_id[requests[1]["id"]]["result"] == {}
        assert by_id[requests[2]["id"]]["error"]["code"] == -32601
        assert by_id["bad"]["error"]["code"] == -32600
        [[only]] = await (await client.post([client.request_of("ping")])).messages()
        assert only["result"] == {}


@pytest.mark.requirement("F1", "A15")
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_batch_is_refused_in_revisions_without_them(revision: str) -> None:
    async with legacy(registry_of(echo), revision=revision) as client:
        for nobody in ({}, {"mcp-session-id": None}):
            response = await client.post([client.request_of("ping")], nobody)
            assert response.status == 400
            assert (response.error["code"], response.json()["id"]) == (-32600, "")
            assert "no batches" in response.error["message"]
        assert "result" in await client.request("ping")


@pytest.mark.requirement("F1")
async def test_a_batch_without_requests_is_accepted() -> None:
    async with legacy(registry_of(ask), revision=BATCHES, capabilities=FORMS) as client:
        note = {"jsonrpc": "2.0", "method": "notifications/x"}
        response = await client.post([note, note])
        assert (response.status, response.body) == (202, b"")


@pytest.mark.requirement("F1")
async def test_a_batch_of_answers_reaches_who_asked() -> None:
    registry = registry_of(ask_roots)
    async with legacy(registry, revision=BATCHES, capabilities=FORMS) as client:
        responses = [client.begin_call("ask_roots") for _ in range(2)]
        questions = [await each.message() for each in responses]
        batch = [
            {"jsonrpc": "2.0", "id": each["id"], "result": {"roots": [{"uri": f"file:///{n}"}]}}
            for n, each in enumerate(questions)
        ]
        response = await client.post(batch)
        assert (response.status, response.body) == (202, b"")
        texts = [text_of(await each.message()) for each in responses]
        assert texts == ['["file:///0"]', '["file:///1"]']


@pytest.mark.requirement("F1")
async def test_a_cancellation_in_a_batch() -> None:
    worker = Worker()
    async with legacy(worker.registry, revision=BATCHES) as client:
        response = client.begin_call("work")
        await wait_all_tasks_blocked()
        params = {"requestId": 2}
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assert (await client.post([note])).status == 202
        await response.end()
        assert worker.cancelled == 1


@pytest.mark.requirement("F1")
async def test_batches_are_bounded() -> None:
    async with legacy(registry_of(echo), limits=Limits(max_batch=2), revision=BATCHES) as client:
        response = await client.post([client.request_of("ping") for _ in range(3)])
        assert response.status == 400
        assert response.error["code"] == -32600
        response = await client.post([])
        assert response.status == 400


@pytest.mark.requirement("F1")
async def test_what_may_not_be_part_of_a_batch() -> None:
    async with legacy(registry_of(echo), revision=BATCHES) as client:
        response = await client.post([client.initialize_request()])
        [[answer]] = await response.messages()
        assert answer["error"]["code"] == -32600


@pytest.mark.requirement("F2")
async def test_calls_in_batches_are_bounded_with_all_others() -> None:
    worker = Worker()
    policy = HttpPolicy(max_concurrent=2)
    async with legacy(worker.registry, policy, revision=BATCHES) as client:
        call = {"name": "work_quietly", "arguments": {}}
        batch = client.send([client.request_of("tools/call", call) for _ in range(5)])
        await wait_all_tasks_blocked()
        assert worker.running == 2
        worker.go_on.set()
        [answers] = await batch.messages()
        assert [text_of(each) for each in answers] == ["done"] * 5
        assert worker.most == 2


# -- versions -------------------------------------------------------------------------------------


@pytest.mark.requirement("F1")
@each_session_revision
async def test_the_version_header_may_be_left_out(revision: str) -> None:
    """The session knows what was agreed on."""
    async with legacy(registry_of(echo), revision=revision) as client:
        for header in (None, revision):
            response = await client.begin(
                "tools/list", None, **{"mcp-protocol-version": header}
            ).end()
            assert response.status == 200


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("version", ["2099-01-01", "", "1.0", "2025-06-18, 2025-06-18", "é"])
async def test_a_version_that_is_not_served(version: str) -> None:
    async with legacy(registry_of(echo)) as client:
        response = await client.begin("tools/list", None, **{"mcp-protocol-version": version}).end()
        assert response.status == 400
        assert "2025-11-25" in response.error["message"]


# -- without sessions -----------------------------------------------------------------------------

STATELESS = SessionOptions(stateless=True)


@pytest.mark.requirement("F1")
@each_session_revision
async def test_without_sessions_every_request_stands_for_itself(revision: str) -> None:
    async with hosting(registry_of(echo, count), sessions=STATELESS) as host:
        client = LegacyClient(host, revision)
        await client.initialize()
        assert client.session is None
        client.headers["mcp-protocol-version"] = revision
        response = await client.begin_call("echo", text="x").end()
        assert text_of(await response.answer()) == "x"
        assert "mcp-session-id" not in response.headers
        client.headers["mcp-session-id"] = "whatever"
        assert text_of(await client.call("echo", text="x")) == "x"
        response = await client.begin_call("count", progress_meta(), to=2).end()
        *told, answer = await response.messages()
        assert progress_of(told) == [1, 2]
        assert text_of(answer) == "counted"
        assert ids_of(response) == [], "there is nothing to come back to"
        assert error_of(await client.request("tools/fly"))[0] == -32601


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_without_sessions_there_is_nothing_to_get_or_delete(method: str) -> None:
    async with hosting(registry_of(echo), sessions=STATELESS) as host:
        headers = {"accept": "text/event-stream", "mcp-session-id": "x"}
        response = await host.ask(method, headers=headers)
        assert response.status == 405
        assert response.headers["allow"]


@pytest.mark.requirement("F1")
async def test_without_session_and_version_it_is_assumed() -> None:
    """2025-03-26 is what has no such header; it has no structured content either."""

    async def measure() -> dict[str, int]:
        return {"size": 5}

    async with hosting(registry_of(measure), sessions=STATELESS) as host:
        client = LegacyClient(host, "2025-03-26")
        assert "structuredContent" not in (await client.call("measure"))["result"]
        client = LegacyClient(host, "2025-06-18", {"mcp-protocol-version": "2025-06-18"})
        assert (await client.call("measure"))["result"]["structuredContent"] == {"size": 5}


@pytest.mark.requirement("F1")
async def test_without_sessions_nobody_can_be_asked() -> None:
    async with hosting(registry_of(ask), sessions=STATELESS) as host:
        client = LegacyClient(host, NEWEST, {"mcp-protocol-version": NEWEST})
        client.capabilities = FORMS
        await client.initialize()
        answer = await client.call("ask")
        assert error_of(answer) == (
            -32600,
            "The client cannot be asked anything: "
            "its request is served without a session, or in a batch",
        )


@pytest.mark.requirement("F1")
async def test_without_sessions_batches_and_notifications() -> None:
    async with hosting(registry_of(echo), sessions=STATELESS) as host:
        client = LegacyClient(host, BATCHES)
        assert await client.notify("notifications/initialized") == 202
        [answers] = await (await client.post([client.request_of("ping")])).messages()
        assert answers[0]["result"] == {}
        note = {"jsonrpc": "2.0", "method": "notifications/x"}
        assert (await client.post([note])).status == 202


@pytest.mark.requirement("F3")
@each_manner
async def test_without_sessions_leaving_cancels(manner: str) -> None:
    """Nobody could come back for the answer."""
    worker = Worker()
    async with hosting(worker.registry, sessions=STATELESS, manner=manner) as host:
        client = LegacyClient(host, NEWEST, {"mcp-protocol-version": NEWEST})
        response = client.begin_call("work")
        await wait_all_tasks_blocked()
        response.disconnect()
        await response.end()
        assert (worker.running, worker.cancelled) == (0, 1)


# -- a plain POST -----------------------------------------------------------------------------------


@pytest.mark.requirement("F1")
async def test_a_request_without_a_session_is_served_on_its_own() -> None:
    """As `curl -d '{"jsonrpc":"2.0","id":"1","method":"tools/list"}'` has it."""
    plain = {"content-type": "application/json", "accept": None}
    async with hosting(registry_of(echo, count, ask)) as host:
        client = LegacyClient(host, BATCHES)
        list_tools = {"jsonrpc": "2.0", "id": "1", "method": "tools/list", "params": None}
        response = await client.post(list_tools, plain)
        assert "mcp-session-id" not in response.headers
        assert len((await response.answer())["result"]["tools"]) == 3
        assert text_of(await client.call("echo", text="x")) == "x"
        stream = client.begin_call("count", progress_meta(), to=2)
        *told, answer = await stream.messages()
        assert (progress_of(told), text_of(answer)) == ([1, 2], "counted")
        assert error_of(await client.call("ask"))[0] == -32600
        assert error_of(await client.request("tools/fly"))[0] == -32601
        [[answer]] = await (await client.post([client.request_of("ping")])).messages()
        assert answer["result"] == {}
        assert await client.notify("notifications/initialized") == 202
        assert b"mcp_sessions 0.0" in (await host.ask("GET", "/metrics")).body


# -- both eras ------------------------------------------------------------------------------------


@pytest.mark.requirement("F1")
async def test_a_modern_request_stays_modern_beside_a_session() -> None:
    """A session changes nothing about a request that says that it is modern."""
    from tests.transports.http.support import ModernClient

    async with legacy(registry_of(echo)) as client:
        modern = ModernClient(client.host)
        modern.headers["mcp-session-id"] = client.session
        answer = await modern.call("echo", text="x")
        assert answer["result"]["resultType"] == "complete"
        request = modern.request_of("tools/list")
        response = await client.post(request)
        assert response.status == 400
        assert response.error["code"] == -32020, "the headers say that it is legacy"


@pytest.mark.requirement("F1")
async def test_an_unknown_version_is_answered_with_the_newest() -> None:
    async with hosting(registry_of(echo)) as host:
        client = LegacyClient(host)
        for version in ("2024-01-01", "2026-07-28", "2099-01-01"):
            params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT_INFO}
            answer = await client.request("initialize", params)
            assert answer["result"]["protocolVersion"] == NEWEST
