"""Calls side by side: the bound, the order, cancellation, and back-pressure."""

import pytest
import trio
from trio.testing import lockstep_stream_pair, wait_all_tasks_blocked

from tests.support.client import serving
from tests.support.tools import (
    each_revision,
    echo,
    error_of,
    linger,
    raw,
    registry_of,
    text_of,
    wait,
)
from trio_mcp import Context, Limits

ECHO = {"name": "echo", "arguments": {"text": "x"}}
NO = {"action": "decline"}
BUSY = "Too many requests wait; try again when some have been answered"


class Gauge:
    """A registry with a tool `hold` that says how many of it were started and run."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.running = 0
        self.most = 0
        self.registry = registry_of(echo)
        self.registry.add_tool(self.hold)

    async def hold(self, number: int, seconds: float = 1, size: int = 1) -> str:
        """Wait, and return that much text."""
        self.started.append(number)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await trio.sleep(seconds)
        finally:
            self.running -= 1
        return "x" * size


@pytest.mark.requirement("B2")
@each_revision
async def test_answers_come_as_calls_finish(revision, autojump_clock):
    async with serving(registry_of(wait), revision=revision) as (client, _):
        ids = {seconds: await client.start("wait", seconds=seconds) for seconds in (3, 1, 4, 2)}
        answers = await client.receive_many(4)
        assert list(answers) == [ids[1], ids[2], ids[3], ids[4]]
        assert trio.current_time() == 4
        for seconds, id in ids.items():
            assert text_of(answers[id]) == f"waited {seconds}"


@pytest.mark.requirement("B2")
@pytest.mark.parametrize("bound", [1, 2, 7])
async def test_past_the_bound_calls_wait_in_order(bound, autojump_clock):
    gauge = Gauge()
    async with serving(gauge.registry, Limits(max_concurrent_calls=bound)) as (client, _):
        for number in range(20):
            await client.start("hold", number=number)
        await wait_all_tasks_blocked()
        assert sorted(gauge.started) == list(range(bound))
        await client.receive_many(20)
        for first in range(0, 20, bound):  # Trio shuffles what may start at the same time
            together = sorted(gauge.started[first : first + bound])
            assert together == list(range(20))[first : first + bound]
        assert gauge.most == bound
        assert trio.current_time() == -(-20 // bound)


@pytest.mark.requirement("B2", "B1")
async def test_the_deadline_of_a_waiting_call_begins_when_it_runs(autojump_clock):
    registry = registry_of(wait, tool_timeout=5)
    async with serving(registry, Limits(max_concurrent_calls=1)) as (client, _):
        for _ in range(5):
            await client.start("wait", seconds=4)
        for answer in (await client.receive_many(5)).values():
            assert text_of(answer) == "waited 4"
        assert trio.current_time() == 20


@pytest.mark.requirement("B7")
@each_revision
async def test_a_cancelled_call_ends_at_once_and_is_not_answered(revision, autojump_clock):
    gauge = Gauge()
    async with serving(gauge.registry, revision=revision) as (client, _):
        first = await client.start("hold", number=1, seconds=30)
        second = await client.start("hold", number=2, seconds=3)
        await wait_all_tasks_blocked()
        await client.cancel(first)
        await wait_all_tasks_blocked()
        assert gauge.running == 1
        assert (await client.receive())["id"] == second
        await trio.sleep(100)
        assert "result" in await client.request("tools/list")


@pytest.mark.requirement("B7", "B2")
async def test_cancellations_are_read_while_all_slots_are_taken(autojump_clock):
    gauge = Gauge()
    async with serving(gauge.registry, Limits(max_concurrent_calls=1)) as (client, _):
        running = await client.start("hold", number=1, seconds=50)
        waiting = await client.start("hold", number=2)
        third = await client.start("hold", number=3)
        await client.cancel(waiting)
        await wait_all_tasks_blocked()
        await client.cancel(running)
        assert (await client.receive())["id"] == third
        assert trio.current_time() == 1
        assert gauge.started == [1, 3]
        assert text_of(await client.call("echo", text="x")) == "x"


@pytest.mark.requirement("B7")
async def test_what_cancels_nothing(autojump_clock):
    async with serving(registry_of(wait)) as (client, _):
        request = client.request_of("tools/call", {"name": "wait", "arguments": {"seconds": 2}})
        await client.send({**request, "id": 1})
        for other in ("1", 2, None, True, 1.0, [1], {"id": 1}):
            await client.cancel(other)
        await client.notify("notifications/cancelled")
        await client.notify("notifications/cancelled", {"id": 1})
        answer = await client.receive()
        assert answer["id"] == 1
        assert text_of(answer) == "waited 2"
        await client.cancel(1)  # too late
        assert "result" in await client.request("ping")


@pytest.mark.requirement("B7")
async def test_a_tool_that_returns_after_its_cancellation_is_not_answered(autojump_clock):
    async with serving(registry_of(linger)) as (client, _):
        id = await client.start("linger", seconds=50, more=5)
        await wait_all_tasks_blocked()
        await client.cancel(id)
        await client.cancel(id)
        await trio.sleep(20)
        assert "result" in await client.request("ping")


@pytest.mark.requirement("B7")
async def test_an_id_can_be_used_again_after_its_cancellation(autojump_clock):
    async with serving(registry_of(wait)) as (client, _):
        request = client.request_of("tools/call", {"name": "wait", "arguments": {"seconds": 9}})
        await client.send(request)
        await client.cancel(request["id"])
        await wait_all_tasks_blocked()
        await client.send(request)
        assert text_of(await client.receive()) == "waited 9"


@pytest.mark.requirement("B2")
async def test_an_id_that_is_in_use_is_refused(autojump_clock):
    async with serving(registry_of(wait)) as (client, _):
        request = client.request_of("tools/call", {"name": "wait", "arguments": {"seconds": 3}})
        await client.send(request, request, {**request, "method": "ping"})
        for _ in range(2):
            code, message = error_of(await client.receive())
            assert code == -32600
            assert "already in use" in message
        assert text_of(await client.receive()) == "waited 3"
        assert trio.current_time() == 3
        await client.send(request)
        assert text_of(await client.receive()) == "waited 3"


@pytest.mark.requirement("B2")
async def test_a_string_and_a_number_are_different_ids(autojump_clock):
    async with serving(registry_of(wait)) as (client, _):
        request = client.request_of("tools/call", {"name": "wait", "arguments": {"seconds": 3}})
        await client.send({**request, "id": 7}, {**request, "id": "7"})
        assert set(await client.receive_many(2)) == {7, "7"}
        assert trio.current_time() == 3


# -- back-pressure ----------------------------------------------------------------------------


async def pour(client, line_of, count: int) -> int:
    """Send lines one by one until nothing is taken any more; return how many were taken."""
    taken = 0

    async def send() -> None:
        nonlocal taken
        for number in range(count):
            await client.send_bytes(line_of(number))
            taken = number + 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        while True:
            before = taken
            await wait_all_tasks_blocked()
            if taken == before:
                break
        nursery.cancel_scope.cancel()
    return taken


def call_line(id: int, name: str, **arguments) -> bytes:
    params = {"name": name, "arguments": arguments}
    return raw({"jsonrpc": "2.0", "id": 1000 + id, "method": "tools/call", "params": params})


@pytest.mark.requirement("B2")
@pytest.mark.parametrize("kind", ["calls", "pings", "errors"])
async def test_a_client_that_does_not_read_is_not_read_either(kind, autojump_clock):
    """What is taken in stays bounded by `max_outgoing_bytes`, however much is sent."""
    limits = Limits(max_outgoing_bytes=10_000, max_concurrent_calls=4)
    started = 0

    async def big() -> str:
        nonlocal started
        started += 1
        return "x" * 1000

    line_of = {
        "calls": lambda number: call_line(number, "big"),
        "pings": lambda number: raw({"jsonrpc": "2.0", "id": number, "method": "ping"}),
        "errors": lambda number: b"nonsense " * 10 + b"\n",
    }[kind]
    async with serving(registry_of(big), limits, pair=lockstep_stream_pair) as (client, _):
        taken = await pour(client, line_of, 5000)
        assert 5 <= taken < 600
        if kind == "calls":
            assert started <= 10 + 2 * limits.max_concurrent_calls


@pytest.mark.requirement("B2")
async def test_a_call_keeps_its_slot_until_its_answer_has_room(autojump_clock):
    """Calls that were taken in already do not pile up answers that nobody reads."""
    started = 0

    async def big() -> str:
        nonlocal started
        started += 1
        return "x" * 1000

    limits = Limits(max_outgoing_bytes=10_000, max_concurrent_calls=4)
    async with serving(registry_of(big), limits, pair=lockstep_stream_pair) as (client, _):
        await client.send_bytes(b"".join(call_line(number, "big") for number in range(300)))
        await wait_all_tasks_blocked()
        assert 4 <= started <= 10 + 2 * limits.max_concurrent_calls
        assert len(await client.receive_many(300)) == 300
    assert started == 300


@pytest.mark.requirement("B2")
async def test_calls_that_wait_are_bounded_in_bytes(autojump_clock):
    gauge = Gauge()
    limits = Limits(max_concurrent_calls=2, max_waiting_bytes=50 * 1024)
    async with serving(gauge.registry, limits, pair=lockstep_stream_pair) as (client, _):
        taken = 0

        async def send() -> None:
            nonlocal taken
            for number in range(1000):
                await client.send_bytes(call_line(number, "hold", number=number))
                taken = number + 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await wait_all_tasks_blocked()
            assert 2 + 50 <= taken <= 2 + 50 + 3  # each counts as 1 KiB
            await client.receive_many(1000)
        assert sorted(gauge.started) == list(range(1000))
        assert gauge.most == 2


async def ask(context: Context) -> str:
    """Ask the caller, and return what was chosen."""
    return (await context.elicit("Go on?", bool)).action


async def ask_later(context: Context) -> str:
    """Do the same after a while."""
    await trio.sleep(30)
    return await ask(context)


@pytest.mark.requirement("B2", "H8")
@pytest.mark.parametrize("tool", [ask, ask_later])
async def test_an_answer_is_read_behind_more_calls_than_may_wait(tool, autojump_clock):
    """What a running call waits for may come last: so the calls before it are read, or refused."""
    limits = Limits(max_concurrent_calls=2, max_waiting_bytes=5 * 1024)
    can = {"elicitation": {}}
    async with serving(
        registry_of(tool, echo), limits, pair=lockstep_stream_pair, capabilities=can
    ) as (client, _):
        asking = [await client.start(tool.__name__) for _ in range(2)]
        calls = [client.request_of("tools/call", ECHO) for _ in range(20)]
        if tool is ask:  # else they ask while it has stopped to read
            questions = [await client.receive() for _ in asking]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send_bytes, b"".join(map(raw, calls)))
            await wait_all_tasks_blocked()
            if tool is ask_later:
                questions = [await client.receive() for _ in asking]
            assert trio.current_time() == (30 if tool is ask_later else 0)
            refused = [await client.receive() for _ in range(20 - 6)]
            assert {error_of(each) for each in refused} == {(-32000, BUSY)}
            assert trio.current_time() < 32
        answers = [{"jsonrpc": "2.0", "id": each["id"], "result": NO} for each in questions]
        await client.send(*answers)
        served = await client.receive_many(2 + 6)
        assert [text_of(served[id]) for id in asking] == ["decline"] * 2
        assert not {each["id"] for each in refused} & set(served)
        assert trio.current_time() < 32


@pytest.mark.requirement("B2", "B7")
async def test_the_reader_pauses_and_goes_on(autojump_clock):
    """Once the client reads again, everything that it sent is answered."""
    limits = Limits(max_outgoing_bytes=5000)
    async with serving(registry_of(echo), limits, pair=lockstep_stream_pair) as (client, _):
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                for number in range(300):
                    await client.send_bytes(call_line(number, "echo", text="x" * 500))

            nursery.start_soon(send)
            await wait_all_tasks_blocked()
            answers = await client.receive_many(300)
        assert sorted(answers) == list(range(1000, 1300))


@pytest.mark.requirement("B1", "B2")
async def test_a_full_output_does_not_turn_results_into_time_outs(autojump_clock):
    """The time that a client takes to read does not count against the tool."""
    limits = Limits(max_outgoing_bytes=1, tool_timeout=5)
    async with serving(registry_of(echo), limits, pair=lockstep_stream_pair) as (client, _):
        async with trio.open_nursery() as nursery:
            lines = [call_line(number, "echo", text="x") for number in range(5)]
            nursery.start_soon(client.send_bytes, b"".join(lines))
            await trio.sleep(100)
            for answer in (await client.receive_many(5)).values():
                assert text_of(answer) == "x"
