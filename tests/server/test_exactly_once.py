"""Every request is answered exactly once, or never if its sender cancelled it.

A seeded client does what clients do, to tools that do what tools do, on a clock that jumps; then
the books are checked: its own, and those of the connection.
"""

import random
from collections import Counter

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from tests.support.client import RawClient
from tests.support.tools import registry_of
from trio_mcp import Limits, McpError, ToolError
from trio_mcp.peer.connection import Connection
from trio_mcp.peer.inbound import Slots
from trio_mcp.peer.lines import StreamLines
from trio_mcp.server.dispatcher import Dispatcher
from trio_mcp.server.server import Server
from trio_mcp.server.session import Session

pytestmark = pytest.mark.requirement("B1", "B2", "B6", "B7", "B8", "A15")

LIMITS = Limits(
    tool_timeout=5,
    cancel_timeout=1,
    max_concurrent_calls=6,
    max_outgoing_bytes=2000,
    max_waiting_bytes=20_000,
)


async def obey(seconds: float) -> str:
    await trio.sleep(seconds)
    return "done"


async def swallow(seconds: float) -> str:
    try:
        await trio.sleep(seconds)
    except trio.Cancelled:
        return "swallowed"
    return "done"


async def shield(seconds: float) -> str:
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)
    return "done"


async def insist(seconds: float) -> str:
    """Go on until the time is over, however often it is cancelled."""
    end = trio.current_time() + seconds
    for _ in range(20):
        try:
            await trio.sleep_until(end)
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.5)
    return "done"


async def tidy(seconds: float) -> str:
    try:
        await trio.sleep(seconds)
    finally:
        raise ValueError("while tidying up")


async def refuse(seconds: float) -> str:
    await trio.sleep(seconds)
    raise McpError(-5, "no")


async def crowd(seconds: float) -> str:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, seconds * 2)
        await trio.sleep(seconds)
        raise ToolError("no")


async def nonsense(seconds: float) -> str:
    await trio.sleep(seconds)
    return object()  # type: ignore[return-value]


TOOLS = [obey, swallow, shield, insist, tidy, refuse, crowd, nonsense]


class Client:
    """Acts at random, and keeps book."""

    def __init__(self, stream: trio.abc.Stream, seed: int) -> None:
        self.raw = RawClient(stream)
        self.raw.judging = False  # an id may stand for several methods
        self.random = random.Random(seed)
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.cancelled: set[str] = set()

    def request(self) -> dict:
        choose = self.random
        if self.asked and choose.random() < 0.1:
            id = choose.choice(list(self.asked))  # in flight, or used before
        else:
            id = f"r{len(self.asked)}"
        self.asked[id] += 1
        if choose.random() < 0.2:
            return {
                "jsonrpc": "2.0",
                "id": id,
                "method": choose.choice(["ping", "x", "tools/list"]),
            }
        seconds = choose.choice([0, 0, 0.3, 1, 4.999, 5, 5.001, 6, 8])
        name = choose.choice(TOOLS).__name__
        params = {"name": name, "arguments": {"seconds": seconds}}
        return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}

    def cancellation(self) -> dict:
        id = self.random.choice([*self.asked, "unknown"])
        self.cancelled.add(id)
        params = {"requestId": id}
        return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}

    def message(self) -> dict:
        return self.cancellation() if self.random.random() < 0.25 else self.request()

    async def act(self) -> None:
        for _ in range(40):
            if self.random.random() < 0.2:
                await self.raw.send([self.message() for _ in range(self.random.randrange(1, 6))])
            else:
                await self.raw.send(*[self.message() for _ in range(self.random.randrange(1, 4))])
            await trio.sleep(self.random.choice([0, 0, 0.1, 1, 2.5]))

    async def read(self) -> None:
        while (message := await self.raw.receive()) is not None:
            for each in message if isinstance(message, list) else [message]:
                self.answered[each["id"]] += 1
            if self.random.random() < 0.05:
                await trio.sleep(1)


class Chaos:
    """Middleware that does at random what middleware should not do."""

    def __init__(self, seed: int, around: str) -> None:
        self.random = random.Random(seed)
        self.around = around

    async def __call__(self, given, call_next):
        await trio.sleep(self.random.choice([0, 0, 0, 1]))
        match self.random.randrange(8):
            case 0:
                return {}
            case 1:
                raise ValueError("of the middleware")
            case 2:
                await call_next(given)
                return await call_next(given)
            case 3:
                try:
                    return await call_next(given)
                except trio.Cancelled:
                    return "swallowed"
            case 4:
                try:
                    return await call_next(given)
                finally:
                    with trio.CancelScope(shield=True):
                        await trio.sleep(self.random.choice([0.5, 3]))
            case 5:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(call_next, given)
                return None
        result = await call_next(given)
        await trio.sleep(self.random.choice([0, 0, 1]))
        return result


async def scenario(seed: int, chaos: bool = False) -> None:
    ours, theirs = memory_stream_pair()
    client = Client(ours, seed)
    around = [Chaos(seed, "requests"), Chaos(seed, "calls")] if chaos else []
    dispatcher = Dispatcher(Server(registry_of(*TOOLS, middleware=around), LIMITS), Session())
    slots = Slots(LIMITS.max_concurrent_calls)
    connection = Connection(StreamLines(theirs, 10_000_000), dispatcher, LIMITS, shared_slots=slots)

    async def run() -> None:
        async with theirs:
            await connection.run()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        nursery.start_soon(client.read)
        await client.act()
        if seed % 2:
            await client.raw.send_eof()
        else:
            await trio.sleep(30)  # everything was read: the books must be right before the end too
            check(client)
            connection.stop()
    check(client)
    assert slots.free == LIMITS.max_concurrent_calls


def check(client: Client) -> None:
    assert client.answered.keys() <= client.asked.keys()
    for id, asked in client.asked.items():
        if id in client.cancelled:
            assert client.answered[id] <= asked
        else:
            assert client.answered[id] == asked, id


@pytest.mark.parametrize(
    "seeds",
    [range(10), range(10, 20), pytest.param(range(20, 100), marks=pytest.mark.long)],
)
def test_every_request_is_answered_exactly_once(seeds):
    for seed in seeds:
        try:
            trio.run(scenario, seed, clock=MockClock(autojump_threshold=0))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.long
@pytest.mark.requirement("L5")
@pytest.mark.parametrize("seeds", [range(10), range(10, 20)])
def test_so_is_it_through_middleware_that_behaves_badly(seeds):
    for seed in seeds:
        try:
            trio.run(scenario, seed, True, clock=MockClock(autojump_threshold=0))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_the_scenarios_are_worth_something():
    """They do cancel, repeat ids, and leave some requests unanswered."""
    ours, _ = memory_stream_pair()
    cancelled = repeated = 0
    for seed in range(10):
        client = Client(ours, seed)
        for _ in range(100):
            client.message()
        cancelled += len(client.cancelled & client.asked.keys())
        repeated += max(client.asked.values()) > 1
    assert cancelled > 50
    assert repeated == 10
