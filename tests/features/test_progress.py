"""Progress: what a handler tells of its work while its request is open."""

from collections.abc import Callable
from contextlib import asynccontextmanager
from math import inf, nan
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import lockstep_stream_pair, wait_all_tasks_blocked

from tests.features import workroom_client
from tests.features.ways import client_of, each_quick_client, each_way
from tests.support.client import LEGACY, RawClient, serving
from tests.support.tools import (
    each_revision,
    echo,
    error_of,
    failure_of,
    registry_of,
    some_revisions,
    text_of,
)
from trio_mcp import Context, Limits, Registry

pytestmark = pytest.mark.requirement("H6")

TOKEN = "p1"


def reporting(*steps: Any) -> Registry:
    """A registry with a tool `work` that reports each of these: numbers, or all arguments."""

    async def work(context: Context) -> str:
        for step in steps:
            await context.progress(*(step if isinstance(step, tuple) else (step,)))
        return "done"

    return registry_of(work)


async def call(client: RawClient, name: str = "work", token: Any = TOKEN, **arguments: Any) -> Any:
    """Call a tool, asking for progress."""
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": token}}
    return await client.request("tools/call", params)


def told(client: RawClient) -> list[dict[str, Any]]:
    """What was told before the answer, which must be progress alone; in the order of arrival."""
    assert {each["method"] for each in client.told} <= {"notifications/progress"}
    return [each["params"] for each in client.told]


def numbers(client: RawClient) -> list[float]:
    return [each["progress"] for each in told(client)]


# -- to whom --------------------------------------------------------------------------------------


@each_revision
async def test_nothing_is_told_unless_somebody_asked(revision):
    async with serving(reporting(1, 2, 3), revision=revision) as (client, _):
        assert text_of(await client.call("work")) == "done"
        assert client.told == []


@some_revisions
@pytest.mark.parametrize("token", ["p1", "", "ünï 😀", "x" * 1024, 0, 7, -1, 2**53])
async def test_a_token_comes_back_as_it_was(revision, token):
    async with serving(reporting((0.5, 2, "half of it")), revision=revision) as (client, _):
        assert text_of(await call(client, token=token)) == "done"
        expected = {"progressToken": token, "progress": 0.5, "total": 2}
        if revision != "2024-11-05":
            expected["message"] = "half of it"
        assert told(client) == [expected]
        assert type(told(client)[0]["progressToken"]) is type(token)


@some_revisions
@pytest.mark.parametrize("token", [None, True, 1.5, [], {}, ["p1"], "x" * 1025])
async def test_a_token_that_is_none_asks_for_nothing(revision, token):
    async with serving(reporting(1), revision=revision) as (client, _):
        assert text_of(await call(client, token=token)) == "done"
        assert client.told == []


@each_revision
async def test_each_request_hears_of_itself_alone(revision):
    async def work(name: int, context: Context) -> str:
        for step in range(1, 4):
            await context.progress(name * 10 + step)
        return "done"

    async with serving(registry_of(work), revision=revision) as (client, _):
        requests = [
            client.request_of(
                "tools/call",
                {"name": "work", "arguments": {"name": name}, "_meta": {"progressToken": name}},
            )
            for name in (1, 2, 3)
        ]
        await client.send(*requests)
        heard: dict[int, list[Any]] = {1: [], 2: [], 3: []}
        open_ids = {each["id"]: name for name, each in enumerate(requests, 1)}
        while open_ids:
            message = await client.receive()
            if "id" in message:
                del open_ids[message["id"]]
            else:
                params = message["params"]
                assert params["progressToken"] in open_ids.values(), "after its answer"
                heard[params["progressToken"]].append(params["progress"])
        assert heard == {1: [11, 12, 13], 2: [21, 22, 23], 3: [31, 32, 33]}


# -- what is told ---------------------------------------------------------------------------------


@some_revisions
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((1, 2, 3), [1, 2, 3]),
        ((1, 1, 2), [1, 2]),
        ((3, 2, 1, 4), [3, 4]),
        ((0,), [0]),
        ((-5, -4.5, 0, 1e300), [-5, -4.5, 0, 1e300]),
        ((1, 1.0, 1.0000001), [1, 1.0000001]),
        ((), []),
    ],
)
async def test_the_numbers_increase(revision, steps, expected):
    async with serving(reporting(*steps), revision=revision) as (client, _):
        await call(client)
        assert numbers(client) == expected


@given(st.lists(st.integers(-5, 5) | st.floats(-5, 5), max_size=19))
def test_of_any_numbers_those_that_are_more_than_all_before_are_told(steps):
    async def main() -> list[float]:
        async with serving(reporting(*steps)) as (client, _):
            await call(client)
            return numbers(client)

    heard = trio.run(main)
    assert heard == sorted(set(heard))
    assert heard == [step for at, step in enumerate(steps) if all(step > b for b in steps[:at])]


@each_revision
async def test_a_total_may_come_late_or_change(revision):
    steps = [(1,), (2, 10), (3, None, "three"), (4, 4)]
    async with serving(reporting(*steps), revision=revision) as (client, _):
        await call(client)
        assert [each.get("total") for each in told(client)] == [None, 10, None, 4]
        wanted = None if revision == "2024-11-05" else "three"
        assert [each.get("message") for each in told(client)] == [None, None, wanted, None]


@some_revisions
@pytest.mark.parametrize(
    "bad", [(nan,), (inf,), (-inf,), (1, nan), (1, inf), (10**400,), (1, 10**400)]
)
async def test_what_is_not_finite_is_refused(revision, bad):
    async def work(context: Context) -> str:
        with pytest.raises(ValueError, match="finite"):
            await context.progress(*bad)
        await context.progress(2)
        return "done"

    async with serving(registry_of(work), revision=revision) as (client, _):
        assert text_of(await client.call("work")) == "done"  # whether or not anybody listens
        assert text_of(await call(client)) == "done"
        assert numbers(client) == [2]


# -- how much -------------------------------------------------------------------------------------


@some_revisions
async def test_a_tight_loop_does_not_flood_and_its_end_is_told(revision, autojump_clock):
    async with serving(reporting(*range(1, 2_001)), revision=revision) as (client, _):
        assert text_of(await call(client)) == "done"
        assert 2 <= len(told(client)) <= 50
        assert numbers(client)[0] == 1
        assert numbers(client)[-1] == 2_000
        assert numbers(client) == sorted(set(numbers(client)))


async def test_the_rate_is_a_limit(autojump_clock):
    """In the long run; the first few go out at once."""

    async def work(context: Context) -> str:
        for step in range(1, 1001):
            await trio.sleep(0.01)
            await context.progress(step)
        return "done"

    async with serving(registry_of(work), Limits(progress_rate=5)) as (client, _):
        await call(client)
        assert 50 <= len(told(client)) <= 75  # in ten seconds
        assert numbers(client)[-1] == 1000


async def test_slow_work_is_told_step_by_step(autojump_clock):
    async def work(context: Context) -> str:
        for step in range(1, 31):
            await trio.sleep(1)
            await context.progress(step)
        return "done"

    async with serving(registry_of(work)) as (client, _):
        await call(client)
        assert numbers(client) == list(range(1, 31))


async def test_a_loop_that_reports_can_be_cancelled(autojump_clock):
    """Also where nobody listens: each report is a checkpoint."""

    async def work(context: Context) -> str:
        while True:
            await context.progress(1)

    async with serving(registry_of(work)) as (client, _):
        id = await client.start("work")
        await client.cancel(id)
        await client.request("ping")


async def test_progress_without_any_client_is_fine():
    async def work(context: Context) -> str:
        await context.progress(1, 2, "x")
        return "done"

    assert await registry_of(work).call("work") == "done"


# -- until when -----------------------------------------------------------------------------------


@some_revisions
@pytest.mark.parametrize("ending", ["answer", "error", "failure"])
async def test_it_comes_before_the_answer_and_never_after_it(revision, ending):
    """The task that reports outlives the request, in a nursery of the lifespan's."""
    answered = trio.Event()
    reported = trio.Event()

    @asynccontextmanager
    async def lifespan(registry):
        async with trio.open_nursery() as nursery:
            yield nursery

    async def late(context: Context) -> None:
        await context.progress(2)
        await answered.wait()
        await context.progress(3)
        await context.info("too late")
        reported.set()

    async def work(context: Context) -> str:
        await context.progress(1)
        context.lifespan.start_soon(late, context)
        await wait_all_tasks_blocked()
        if ending == "error":
            raise RuntimeError
        return object() if ending == "failure" else "done"  # type: ignore[return-value]

    async with serving(registry_of(work, echo, lifespan=lifespan), revision=revision) as (
        client,
        _,
    ):
        await call(client)
        assert numbers(client) == [1, 2]
        answered.set()
        await reported.wait()
        assert text_of(await client.call("echo", text="x")) == "x"
        assert numbers(client) == [1, 2]


@each_revision
async def test_what_was_held_back_is_told_before_an_error(revision, autojump_clock):
    async def work(context: Context) -> str:
        for step in range(1, 1001):
            await context.progress(step)
        raise RuntimeError

    async with serving(registry_of(work), revision=revision) as (client, _):
        failure_of(await call(client))
        assert numbers(client)[-1] == 1000


@pytest.mark.requirement("B7")
@each_revision
async def test_none_after_a_cancellation(revision):
    async def work(context: Context) -> str:
        await context.progress(1)
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await context.progress(2)
                await context.info("cleaning up")
        return "done"

    async with serving(registry_of(work, echo), revision=revision) as (client, _):
        params = {"name": "work", "_meta": {"progressToken": TOKEN}}
        request = client.request_of("tools/call", params)
        await client.send(request)
        assert (await client.receive())["params"]["progress"] == 1
        await client.cancel(request["id"])
        assert text_of(await client.call("echo", text="x")) == "x"
        await wait_all_tasks_blocked()
        assert text_of(await client.call("echo", text="y")) == "y"
        assert client.told == []


@each_revision
async def test_none_after_a_time_out(revision, autojump_clock):
    async def work(context: Context) -> str:
        await context.progress(1)
        with trio.CancelScope(shield=True):
            await trio.sleep(100)
            await context.progress(2)
        return "done"

    async with serving(registry_of(work, echo), revision=revision) as (client, _):
        assert "timed out" in failure_of(await call(client))
        assert numbers(client) == [1]
        await trio.sleep(100)
        assert text_of(await client.call("echo", text="x")) == "x"
        assert numbers(client) == [1]


@each_quick_client
async def test_a_client_s_callback_is_not_called_after_the_answer(way, era):
    contexts: list[Context] = []

    async def work(context: Context) -> str:
        contexts.append(context)
        await context.progress(1, 3, "x")
        await context.info("now")
        return "done"

    heard: list[Any] = []
    logs: list[Any] = []
    async with client_of(
        registry_of(work), way, era, on_log=lambda *each: logs.append(each), log_level="debug"
    ) as client:
        await client.call_tool("work", on_progress=lambda *each: heard.append(each))
        await contexts[0].progress(2)
        await contexts[0].info("later")
        await client.call_tool("work")
        assert heard == [(1, 3, "x")]
        assert [each[1] for each in logs] == ["now", "now"]


# -- from where -----------------------------------------------------------------------------------


@each_revision
async def test_plain_functions_report_through_the_trio_thread(revision):
    def work(context: Context) -> str:
        for step in range(1, 6):
            trio.from_thread.run(context.progress, step, 5)
        return "done"

    async with serving(registry_of(work), revision=revision) as (client, _):
        assert text_of(await call(client)) == "done"
        assert numbers(client) == [1, 2, 3, 4, 5]


@each_revision
async def test_prompts_and_resources_report_too(revision):
    registry = Registry("test")

    @registry.prompt
    async def letter(context: Context) -> str:
        await context.progress(1, message="writing")
        return "Dear"

    @registry.resource("config://app")
    async def config(context: Context) -> str:
        await context.progress(2)
        return "x"

    @registry.resource("users://{id}")
    def user(id: int, context: Context) -> str:
        trio.from_thread.run(context.progress, id)
        return "x"

    async with serving(registry, revision=revision) as (client, _):
        for method, params in [
            ("prompts/get", {"name": "letter"}),
            ("resources/read", {"uri": "config://app"}),
            ("resources/read", {"uri": "users://3"}),
        ]:
            await client.request(method, {**params, "_meta": {"progressToken": method}})
        assert [(each["progressToken"], each["progress"]) for each in told(client)] == [
            ("prompts/get", 1),
            ("resources/read", 2),
            ("resources/read", 3),
        ]


@each_revision
async def test_tasks_of_the_handler_share_one_progress(revision):
    async def work(context: Context) -> str:
        async with trio.open_nursery() as nursery:
            for step in range(1, 11):
                nursery.start_soon(context.progress, step)
        return "done"

    async with serving(registry_of(work), revision=revision) as (client, _):
        await call(client)
        assert numbers(client) == sorted(set(numbers(client)))
        assert numbers(client)[-1] == 10


async def test_a_client_that_does_not_read_makes_the_work_wait():
    steps = 0

    async def work(context: Context) -> str:
        nonlocal steps
        for step in range(1, 100_001):
            await context.progress(step, message="x" * 10_000)
            steps = step
        return "done"

    limits = Limits(max_outgoing_bytes=100_000, progress_rate=1e9)

    async with serving(registry_of(work), limits, pair=lockstep_stream_pair) as (client, _):
        params = {"name": "work", "_meta": {"progressToken": TOKEN}}
        request = client.request_of("tools/call", params)
        await client.send(request)
        await wait_all_tasks_blocked()
        assert steps < 100
        await client.cancel(request["id"])
        message = await client.receive()
        while message.get("params", {}).get("progress", 0) < steps:
            message = await client.receive()
        await client.send(client.request_of("ping"))


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("revision", LEGACY[:2])  # later ones have no batches
async def test_it_comes_before_the_answer_to_a_batch(revision):
    async with serving(reporting(1, 2), revision=revision) as (client, _):
        params = {"name": "work", "_meta": {"progressToken": TOKEN}}
        await client.send([client.request_of("tools/call", params), client.request_of("ping")])
        received = [await client.receive() for _ in range(3)]
        assert [each["params"]["progress"] for each in received[:2]] == [1, 2]
        assert len(received[2]) == 2


# -- every way ------------------------------------------------------------------------------------


@each_way
@pytest.mark.parametrize("name", ["count", "count_in_a_thread"])
async def test_progress_is_the_same_on_every_way(way, revision, name):
    async with workroom_client.reaching(way, revision) as client:
        assert text_of(await call(client, name, to=10)) == "10"
        assert numbers(client) == list(range(1, 11))
        assert {each["total"] for each in told(client)} == {10}
        with_words = name == "count" and revision != "2024-11-05"
        assert ("message" in told(client)[0]) is with_words
        assert error_of(await client.request("prompts/get", {"name": "no"}))[0] == -32602


@each_quick_client
async def test_the_client_hears_of_it(way, era):
    async def work(to: int, context: Context) -> str:
        for step in range(1, to + 1):
            await context.progress(step, to, f"step {step}")
        return "done"

    registry = registry_of(work)

    @registry.prompt
    async def letter(context: Context) -> str:
        await context.progress(5)
        return "Dear"

    async with client_of(registry, way, era) as client:

        def into(heard: list[Any]) -> Callable[..., None]:
            return lambda *each: heard.append(each)

        first: list[Any] = []
        second: list[Any] = []
        third: list[Any] = []
        async with trio.open_nursery() as nursery:
            for to, heard in ((2, first), (3, second)):
                nursery.start_soon(
                    lambda to=to, heard=heard: client.call_tool(
                        "work", {"to": to}, on_progress=into(heard)
                    )
                )
        await client.get_prompt("letter", on_progress=into(third))
        assert first == [(1, 2, "step 1"), (2, 2, "step 2")]
        assert second == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
        assert third == [(5, None, None)]
