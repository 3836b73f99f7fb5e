"""The methods of tasks, as any client may send them, and what they answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import evolve
from trio.testing import wait_all_tasks_blocked

from tests.extensions.tasks.jobs import Gate, make
from tests.extensions.tasks.support import client_of, raw_client, until
from tests.transports.http.sockets import served
from trio_mcp import Client, Context, McpError, Registry, connect
from trio_mcp.extending import ExtensionMethod, ExtensionRequest
from trio_mcp.extensions.tasks import Tasks, TasksClient
from trio_mcp.store.memory import MemoryStore
from trio_mcp.store.watching import Watch

pytestmark = pytest.mark.requirement("K2")

UNKNOWN = "0" * 32
BLUE = {"action": "accept", "content": {"value": "blue"}}


async def error_of(client: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
    error: dict[str, Any] = (await client.request(method, params))["error"]
    return error


# -- what travels -------------------------------------------------------------------------------


async def test_a_task_from_its_creation_to_its_result() -> None:
    gate = Gate()
    async with raw_client(make(gate, ttl=60, poll_interval=2)) as client:
        call = {"name": "wait", "arguments": {}}
        created = (await client.request("tools/call", call))["result"]
        assert created["resultType"] == "task"
        assert (created["status"], created["ttlMs"], created["pollIntervalMs"]) == (
            "working",
            60_000,
            2000,
        )
        assert len(bytes.fromhex(created["taskId"])) * 8 == 128
        about = {"taskId": created["taskId"]}
        working = (await client.request("tasks/get", about))["result"]
        assert working["resultType"] == "complete"
        assert not working.keys() & {"result", "error", "inputRequests", "requestState"}
        gate.open.set()
        await gate.has_ended(1)
        while (ended := (await client.request("tasks/get", about))["result"])[
            "status"
        ] == "working":
            await trio.sleep(0.01)
        assert ended["status"] == "completed"
        assert ended["result"]["content"] == [{"type": "text", "text": "waited"}]
        assert (ended["createdAt"], ended["ttlMs"]) == (created["createdAt"], 60_000)
        cancelled = (await client.request("tasks/cancel", about))["result"]
        assert cancelled.keys() == {"resultType", "_meta"}  # and nothing happens
        assert (await client.request("tasks/get", about))["result"]["status"] == "completed"


async def test_questions_are_answered_one_by_one() -> None:
    gate, ours = Gate(), TasksClient()
    gate.open.set()
    async with client_of(make(gate), ours) as client:
        id = (await ours.start("ask_all")).id
        task = await until(ours, id, "input_required")
        while len(task.questions) < 3:
            task = await ours.get(id)
        methods = {key: question["method"] for key, question in task.questions.items()}
        assert sorted(methods.values()) == [
            "elicitation/create",
            "roots/list",
            "sampling/createMessage",
        ]
        others = {key: method for key, method in methods.items() if key != "colour"}
        # One, with another that was never asked; then it again, with another answer.
        for colour in ("blue", "red"):
            answer = {"action": "accept", "content": {"value": colour}}
            given = {"colour": answer, "never": answer}
            params = {"taskId": id, "inputResponses": given}
            assert "taskId" not in await client.request("tasks/update", params)
            task = await ours.get(id)
            assert (task.status, task.questions.keys()) == ("input_required", others.keys())
        answers = await client.answer(task.questions)
        await client.request("tasks/update", {"taskId": id, "inputResponses": answers})
        assert (await ours.result(id)).text == "blue file:///home hello"
        # It is over; whatever comes now is ignored.
        await client.request("tasks/update", {"taskId": id, "inputResponses": answers})
        assert (await ours.get(id)).status == "completed"


async def test_a_question_that_is_taken_back_is_shown_no_more(autojump_clock: object) -> None:
    gate, ours = Gate(), TasksClient()
    async with client_of(make(gate), ours):
        id = (await ours.start("impatient")).id
        await until(ours, id, "input_required")
        await gate.has_begun(1)
        assert (await ours.get(id)).status == "working"
        gate.open.set()
        assert (await ours.result(id)).text == "never mind"


async def test_what_a_tool_reports_is_the_status_message(autojump_clock: object) -> None:
    """Now and then; the last one in any case."""
    gate, ours = Gate(), TasksClient()
    async with client_of(make(gate), ours):
        id = (await ours.start("report")).id
        await gate.has_begun(1)
        await trio.sleep(3)
        task = await ours.get(id)
        assert task.message == "step 1000"
        await trio.sleep(100)
        assert (await ours.get(id)).updated_at == task.updated_at
        gate.open.set()
        assert (await ours.result(id)).text == "reported"


async def test_cancelling_is_the_cancel_scope_of_the_tool() -> None:
    gate, ours = Gate(), TasksClient()
    async with client_of(make(gate), ours):
        id = (await ours.start("wait")).id
        await gate.has_begun(1)
        await ours.cancel(id)
        await gate.has_ended(1)
        assert gate.ended == ["cancelled"]
        assert (await ours.get(id)).status == "cancelled"
        with pytest.raises(McpError, match="cancelled"):
            await ours.result(id)
        asking = (await ours.start("paint", {"thing": "door"})).id
        await until(ours, asking, "input_required")
        await ours.cancel(asking)
        assert (await ours.get(asking)).questions == {}


# -- who may --------------------------------------------------------------------------------------


def as_said(request: ExtensionRequest) -> ExtensionRequest:
    """As if the caller that `_meta` names were logged in."""
    return evolve(request, principal=request.meta.get("com.example/who"))


class Owned(Tasks):
    """Tasks of the caller that `_meta` names."""

    async def around(self, request: ExtensionRequest, proceed: Any) -> Any:
        return await super().around(as_said(request), proceed)

    def methods(self) -> list[ExtensionMethod]:
        return [evolve(method, handler=self.owned(method.handler)) for method in super().methods()]

    def owned(self, handler: Any) -> Any:
        async def answer(request: ExtensionRequest) -> Any:
            return await handler(as_said(request))

        return answer


@asynccontextmanager
async def a_task_of(who: str) -> AsyncIterator[tuple[Client, str]]:
    registry, ours = Registry("owned", extensions=[Owned()]), TasksClient()

    @registry.tool(task=True)
    async def sleep() -> None:
        """Sleep."""
        await trio.sleep_forever()

    async with client_of(registry, ours) as client:
        yield client, (await ours.start("sleep", meta={"com.example/who": who})).id


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_unknown_foreign_and_expired_ids_get_the_same_answer(method: str) -> None:
    async with a_task_of("alice") as (client, id):

        async def answer(id: str, who: str) -> Any:
            params = {"taskId": id, "inputResponses": {}, "_meta": {"com.example/who": who}}
            try:
                return await client.request(method, params)
            except McpError as error:
                return error.code, error.message, error.data

        assert not isinstance(await answer(id, "alice"), tuple)
        refused = await answer(UNKNOWN, "alice")
        assert refused[0] == -32602
        assert await answer(id, "bob") == refused
        for odd in ("", "x", id.upper(), id + "\n", id[:-1], "../" + id, "x" * 1_000_000, "é" * 32):
            assert await answer(odd, "alice") == refused


async def test_what_has_expired_is_not_there(autojump_clock: object) -> None:
    gate, ours = Gate(), TasksClient()
    async with client_of(make(gate, ttl=10), ours):
        unknown = await refusal(ours, UNKNOWN)
        ended = (await ours.start("add", {"a": 1, "b": 2})).id
        running = (await ours.start("wait")).id
        await trio.sleep(9)
        assert (await ours.get(ended)).status == "completed"
        await trio.sleep(2)
        assert await refusal(ours, ended) == unknown
        assert await refusal(ours, running) == unknown
        await gate.has_ended(1)
        assert gate.ended == ["cancelled"]


async def refusal(ours: TasksClient, id: str) -> Any:
    with pytest.raises(McpError) as caught:
        await ours.get(id)
    return caught.value.code, caught.value.message, caught.value.data


@pytest.mark.parametrize(
    ("method", "params", "word"),
    [
        ("tasks/get", {}, "taskId"),
        ("tasks/get", {"taskId": 5}, "taskId"),
        ("tasks/get", {"taskId": ["x"]}, "taskId"),
        ("tasks/cancel", {"taskId": None}, "taskId"),
        ("tasks/update", {"taskId": UNKNOWN}, "inputResponses"),
        ("tasks/update", {"taskId": UNKNOWN, "inputResponses": []}, "inputResponses"),
    ],
)
async def test_parameters_are_checked(method: str, params: dict[str, Any], word: str) -> None:
    async with raw_client(make()) as client:
        error = await error_of(client, method, params)
        assert error["code"] == -32602
        assert word in error["message"]


async def test_clients_that_have_not_declared_it_are_refused() -> None:
    gate = Gate()
    async with raw_client(make(gate)) as client:
        client.capabilities = {}
        about = {"taskId": UNKNOWN, "inputResponses": {}}
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            assert (await error_of(client, method, about))["code"] == -32021
        listen = {"notifications": {"taskIds": [UNKNOWN]}}
        assert (await error_of(client, "subscriptions/listen", listen))["code"] == -32021
        for method in ("tasks/list", "tasks/result"):
            assert (await error_of(client, method, about))["code"] == -32601


@pytest.mark.long
async def test_answers_have_a_bound_however_they_are_made_up() -> None:
    ours = TasksClient()
    async with client_of(make(), ours) as client:
        id = (await ours.start("paint", {"thing": "door"})).id
        (key,) = (await until(ours, id, "input_required")).questions
        longs: list[Any] = [
            "x" * 3_000_000,
            [["long enough"]] * 300_000,
            {str(n): n for n in range(300_000)},
        ]
        for long in longs:
            for name in (key, "never"):
                params: dict[str, Any] = {"taskId": id, "inputResponses": {name: long}}
                with pytest.raises(McpError, match="more than 2,097,152 bytes") as caught:
                    await client.request("tasks/update", params)
                assert caught.value.code == -32602
        given = {**{str(n): BLUE for n in range(30_000)}, key: BLUE}
        await client.request("tasks/update", {"taskId": id, "inputResponses": given})
        assert (await ours.result(id)).text == "door is blue"


# -- news ---------------------------------------------------------------------------------------


async def test_clients_are_told_of_their_tasks_and_of_no_others() -> None:
    gate = Gate()
    async with raw_client(make(gate)) as client:
        created = await client.request("tools/call", {"name": "wait", "arguments": {}})
        id = created["result"]["taskId"]
        listen = client.request_of(
            "subscriptions/listen", {"notifications": {"taskIds": [id, UNKNOWN]}}
        )
        await client.send(listen)
        agreed = await client.receive()
        assert agreed["method"] == "notifications/subscriptions/acknowledged"
        assert agreed["params"]["notifications"] == {"taskIds": [id]}
        gate.open.set()
        told = await client.receive()
        assert told["method"] == "notifications/tasks"
        assert (told["params"]["taskId"], told["params"]["status"]) == (id, "completed")
        assert told["params"]["result"]["content"][0]["text"] == "waited"


async def test_a_client_is_woken_by_news(autojump_clock: object) -> None:
    gate, ours = Gate(), TasksClient()
    async with client_of(make(gate, poll_interval=60), ours) as client:
        async with trio.open_nursery() as nursery:
            began = trio.current_time()

            async def call() -> None:
                await client.call_tool("wait")
                assert trio.current_time() < began + 15

            nursery.start_soon(call)
            await gate.has_begun(1)
            await trio.sleep(10)
            gate.open.set()


async def test_many_wait_at_once_and_all_get_their_results() -> None:
    """More than are subscribed to: the others poll."""
    gate, ours, got = Gate(), TasksClient(), []
    async with client_of(make(gate, poll_interval=0.05), ours) as client:

        async def call(number: int) -> None:
            got.append(await client.call_tool("add", {"a": number, "b": 1}, returns=int))

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(call, number)
    assert sorted(got) == list(range(1, 51))


# -- a handle -----------------------------------------------------------------------------------


async def test_a_task_is_found_again_by_another_client() -> None:
    gate = Gate()
    async with served(make(gate)) as server:
        first = TasksClient()
        async with connect(server.handle.url, extensions=[first]):
            id = (await first.start("wait")).id
        second = TasksClient()
        async with connect(server.handle.url, extensions=[second]):
            assert (await second.get(id)).status == "working"
            gate.open.set()
            assert (await second.result(id)).text == "waited"


async def test_waiting_for_a_result_may_end_before_the_task(autojump_clock: object) -> None:
    gate, ours = Gate(), TasksClient()
    async with client_of(make(gate), ours):
        id = (await ours.start("wait")).id
        with trio.move_on_after(5):
            await ours.result(id)
        assert gate.ended == []
        assert (await ours.get(id)).status == "working"


async def test_what_is_no_task_has_its_result_at_once() -> None:
    ours = TasksClient()
    async with client_of(make(), ours):
        done = await ours.start("plain", meta={"com.example/x": 1})
        assert (done.id, done.status) == ("", "completed")
        assert done.final()["content"][0]["text"] == "plain"


# -- bounds ---------------------------------------------------------------------------------------


async def test_so_many_run_at_once_and_the_others_wait() -> None:
    gate, ours = Gate(), TasksClient()
    async with client_of(make(gate, max_running=3), ours):
        ids = [(await ours.start("wait")).id for _ in range(20)]
        await gate.has_begun(3)
        assert {(await ours.get(id)).status for id in ids} == {"working"}
        gate.open.set()
        for id in ids:
            assert (await ours.result(id)).text == "waited"
    assert (gate.begun, gate.most) == (20, 3)


async def test_those_that_wait_for_answers_are_in_nobodys_way() -> None:
    ours = TasksClient()
    async with client_of(make(max_running=1), ours) as client:
        asking = [(await ours.start("paint", {"thing": "door"})).id for _ in range(3)]
        for id in asking:
            await until(ours, id, "input_required")
        assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
        for id in asking:
            assert (await ours.result(id)).text == "door is blue"


@pytest.mark.parametrize("second_is_answered", ["while all slots are taken", "after the others"])
async def test_a_task_has_one_slot_however_many_ask_in_it(
    second_is_answered: str, autojump_clock: object
) -> None:
    gate, ours = Gate(), TasksClient()
    registry = make(gate, max_running=1)
    first_waits = trio.Event()

    @registry.tool(task=True)
    async def ask_twice(context: Context) -> str:
        async def ask_second() -> None:
            await first_waits.wait()
            await context.elicit("Second?", str, key="second")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_second)
            await context.elicit("First?", str, key="first")
        return "asked"

    async with client_of(registry, ours) as client:
        id = (await ours.start("ask_twice")).id

        async def answer(key: str) -> None:
            await client.request("tasks/update", {"taskId": id, "inputResponses": {key: BLUE}})
            await wait_all_tasks_blocked()

        with trio.fail_after(3600):
            await until(ours, id, "input_required")
            waits = (await ours.start("wait")).id
            await gate.has_begun(1)
            await answer("first")  # which waits for the slot, so it does not ask any more
            first_waits.set()
            await until(ours, id, "input_required")
            if second_is_answered == "while all slots are taken":
                await answer("second")
            gate.open.set()
            assert (await ours.result(waits)).text == "waited"
            if second_is_answered == "after the others":
                assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
                await answer("second")
            assert (await ours.result(id)).text == "asked"
            assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3


async def test_too_many_are_refused_until_some_have_ended() -> None:
    gate, ours = Gate(), TasksClient()
    async with client_of(make(gate, max_running=1, max_queued=5), ours) as client:
        ids = [(await ours.start("wait")).id for _ in range(5)]
        with pytest.raises(McpError, match="5 unfinished tasks already; try again later") as caught:
            await client.call_tool("wait")
        assert caught.value.code == -32000
        assert await client.call_tool("plain", returns=str) == "plain"
        gate.open.set()
        for id in ids:
            await ours.result(id)
        for _ in range(5):
            assert (await ours.start("wait")).status == "working"


async def test_what_was_cancelled_while_it_waited_does_not_run() -> None:
    gate, ours = Gate(), TasksClient()
    async with client_of(make(gate, max_running=1, max_queued=2), ours) as client:
        first = (await ours.start("wait")).id
        second = (await ours.start("wait")).id
        await gate.has_begun(1)
        await ours.cancel(second)
        gate.open.set()
        await ours.result(first)
        assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
        assert (await ours.get(second)).status == "cancelled"
        assert gate.begun == 1


async def test_a_megabyte_is_kept_and_more_than_the_bound_is_told() -> None:
    ours = TasksClient()
    async with client_of(make(max_result_bytes=2_000_000), ours) as client:
        assert len(await client.call_tool("big", {"size": 1_000_000}, returns=str)) == 1_000_000
        with pytest.raises(McpError, match=r"3,000,\d+ bytes; at most 2,000,000 can be kept"):
            await client.call_tool("big", {"size": 3_000_000})


async def test_nothing_is_left_of_tasks_that_have_expired(autojump_clock: object) -> None:
    store = MemoryStore()
    gate, ours = Gate(), TasksClient()
    async with client_of(make(gate, store=store, ttl=10, max_running=2, max_queued=9), ours):
        for _ in range(9):
            await ours.start("wait")
        await trio.sleep(11)
        await gate.has_ended(2)
        await trio.sleep(60)
        for _ in range(9):  # the count of those that are unfinished has been corrected
            await ours.start("add", {"a": 1, "b": 2})


class Watched(MemoryStore):
    """A store that knows what is watched."""

    def __init__(self) -> None:
        super().__init__()
        self.channels: Counter[str] = Counter()

    @asynccontextmanager
    async def watch(self, *channels: str) -> AsyncIterator[Watch]:
        async with super().watch(*channels) as watch:
            self.channels.update(channels)
            try:
                yield watch
            finally:
                self.channels.subtract(channels)


class Hearing(TasksClient):
    """A client that leaves notifications to a test."""

    def __init__(self, hear: Callable[[dict[str, Any]], object]) -> None:
        super().__init__()
        self._take = hear

    def notifications(self) -> Any:
        return {"notifications/tasks": self._take}


async def test_a_task_is_followed_as_long_as_there_are_subscribers(autojump_clock: object) -> None:
    heard: list[dict[str, Any]] = []
    store, gate, ours = Watched(), Gate(), Hearing(heard.append)
    registry = make(gate, store=store, max_running=1)
    async with connect(registry, extensions=[ours]) as client:
        await ours.start("wait")
        id = (await ours.start("wait")).id  # it waits for a slot, so it is not watched by its run
        ids = {"taskIds": [id]}
        for _ in range(2):
            async with client.subscribe(extensions=ids) as changes:
                assert changes.extensions == ids
                await trio.sleep(1000)
                assert [store.channels[channel] for channel in store.channels if id in channel] == [
                    1
                ]
            await trio.sleep(100)
            assert not [name for name, count in store.channels.items() if id in name and count]
        async with client.subscribe(extensions=ids):
            await ours.cancel(id)
            await trio.sleep(1)
            assert [told["status"] for told in heard] == ["cancelled"]
