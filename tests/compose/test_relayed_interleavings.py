"""Calls that no task waits for, whatever happens to them in whichever order: one answer each."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import Any

import pytest
import trio
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from tests.compose.rough import CAPABILITIES, MODERN, VERSION, Message, RoughClient, Wire
from tests.compose.test_relayed import DONE, FULL, Proxy, proxying
from trio_mcp import Limits, ServerHandle, serve_stream

pytestmark = pytest.mark.requirement("L4", "B2", "N3")

SLOTS = 3
LIMITS = Limits(max_concurrent_calls=SLOTS, max_outgoing_bytes=300, eof_grace=2, shutdown_grace=2)
TIMEOUT = 5
IDS = range(6)

ANSWERS: dict[str, dict[str, Any]] = {
    "result": {"result": {**FULL, **DONE}},
    "failure": {"result": {**FULL, **DONE, "isError": True}},
    "error": {"error": {"code": 7, "message": "no"}},
    "question": {"result": {"resultType": "input_required", "requestState": "s"}},
    "task": {"result": {"resultType": "task", "taskId": "t"}},
    "odd": {"result": {"_meta": [], "resultType": None}},
    "none": {"result": 5},
}


@define(eq=False)
class Caller:
    """A client that keeps book."""

    rough: RoughClient
    life: trio.CancelScope = field(factory=trio.CancelScope)
    handle: ServerHandle | None = None
    asked: Counter[int] = field(factory=Counter)
    cancelled: set[int] = field(factory=set)
    may_read: trio.Event = field(factory=trio.Event)
    is_leaving: bool = False
    is_cut: bool = False

    @property
    def is_there(self) -> bool:
        return not (self.is_leaving or self.is_cut)

    async def read(self) -> None:
        while True:
            await self.may_read.wait()
            message = await self.rough.wire.receive()
            if message is None:
                return
            self.rough.got.append(message)

    def answers(self) -> Counter[Any]:
        return Counter(got["id"] for got in self.rough.got if "id" in got)

    def check(self) -> None:
        """See that each request was answered once, but for those that need no answer any more."""
        answers = self.answers()
        assert not any("internal error" in str(got) for got in self.rough.got)
        assert answers.keys() <= self.asked.keys()
        for id, asked in self.asked.items():
            if self.is_cut or id in self.cancelled:
                assert answers[id] <= asked, id
            else:
                assert answers[id] == asked, id


@define(eq=False)
class Play:
    """A proxy with its server and two clients, and what each of them may do."""

    front: Proxy
    nursery: trio.Nursery
    callers: list[Caller] = field(factory=list)
    calls: list[tuple[Wire, Message]] = field(factory=list)
    """Those that the server has, and has not answered."""
    numbers: Counter[int] = field(factory=Counter)
    """How often the server got each call."""
    dead: set[Wire] = field(factory=set)
    begun: int = 0
    unsent: dict[Wire, bytes] = field(factory=dict)
    """What is said without a pause, which is read at once."""

    def say(self, wire: Wire, **message: Any) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        self.unsent[wire] = self.unsent.get(wire, b"") + line

    async def send(self) -> None:
        unsent, self.unsent = self.unsent, {}
        for wire, lines in unsent.items():
            await wire.stream.send_all(lines)

    async def take(self, wire: Wire, call: Message) -> Message:
        """Have the server take a call."""
        self.numbers[call["params"]["arguments"]["number"]] += 1
        self.calls.append((wire, call))
        await trio.sleep_forever()
        raise AssertionError

    async def join(self) -> Caller:
        ours, theirs = memory_stream_pair()
        caller = Caller(RoughClient(Wire(ours), "modern", {}))
        caller.may_read.set()
        self.callers.append(caller)
        started = trio.Event()

        async def serve() -> None:
            with caller.life:
                async with trio.open_nursery() as nursery:
                    serving = partial(serve_stream, self.front.registry, theirs, limits=LIMITS)
                    caller.handle = await nursery.start(serving)
                    started.set()

        self.nursery.start_soon(serve)
        self.nursery.start_soon(caller.read)
        await started.wait()
        return caller

    # -- what a client does, with one of its ids -------------------------------------------------

    async def call(self, caller: Caller, id: int, *, hears: bool = False) -> None:
        if not caller.is_there:
            return
        meta: Message = {VERSION: MODERN, CAPABILITIES: {}}
        if hears:
            meta["progressToken"] = id
        self.begun += 1
        params = {"name": "work", "arguments": {"number": self.begun}, "_meta": meta}
        caller.asked[id] += 1
        self.say(caller.rough.wire, id=id, method="tools/call", params=params)

    async def call_and_hear(self, caller: Caller, id: int) -> None:
        await self.call(caller, id, hears=True)

    async def cancel(self, caller: Caller, id: int) -> None:
        if caller.is_there:
            caller.cancelled.add(id)
            params = {"requestId": id, "reason": "not needed"}
            self.say(caller.rough.wire, method="notifications/cancelled", params=params)

    async def look_away(self, caller: Caller, id: int) -> None:
        if caller.may_read.is_set():
            caller.may_read = trio.Event()

    async def look(self, caller: Caller, id: int) -> None:
        caller.may_read.set()

    async def leave(self, caller: Caller, id: int) -> None:
        if caller.is_there:
            caller.is_leaving = True
            await self.send()
            await end_output(caller.rough.wire)

    async def stop(self, caller: Caller, id: int) -> None:
        if caller.is_there:
            await self.send()
            await wait_all_tasks_blocked()  # what was sent has to be read
            caller.is_leaving = True
            assert caller.handle is not None
            caller.handle.stop()

    async def cut(self, caller: Caller, id: int) -> None:
        caller.is_cut = True
        self.unsent.pop(caller.rough.wire, None)
        caller.life.cancel()

    async def pass_time(self, clock: MockClock, seconds: float) -> None:
        for caller in self.callers:
            if caller.is_leaving:
                await wait_all_tasks_blocked()  # only what is not read may be dropped meanwhile
                caller.is_cut = caller.is_cut or not caller.may_read.is_set()
        await self.send()
        clock.jump(seconds)

    # -- what the server does, with one of the calls that it has ---------------------------------

    async def answer(self, place: int, how: str) -> None:
        if self.calls:
            wire, call = self.calls.pop(place % len(self.calls))
            if wire not in self.dead:
                self.say(wire, id=call["id"], **ANSWERS[how])

    async def progress(self, place: int, how: str) -> None:
        heard = [call for call in self.calls if "progressToken" in call[1]["params"]["_meta"]]
        if heard:
            wire, call = heard[place % len(heard)]
            if wire not in self.dead:
                token = call["params"]["_meta"]["progressToken"]
                params = {"progressToken": token, "progress": place}
                self.say(wire, method="notifications/progress", params=params)

    async def die(self, place: int, how: str) -> None:
        if self.calls:
            wire, _ = self.calls[place % len(self.calls)]
            self.dead.add(wire)
            await self.send()
            await end_output(wire)


async def end_output(wire: Wire) -> None:
    stream: Any = wire.stream
    await stream.send_eof()


ids, places = st.sampled_from(IDS), st.integers(0, 5)
of_clients = st.tuples(
    st.sampled_from(["call", "call_and_hear"] * 2 + ["cancel", "look_away", "look"]),
    st.integers(0, 1),
    ids,
)
ends = st.tuples(st.sampled_from(["leave", "stop", "cut"]), st.integers(0, 1), ids)
of_servers = st.tuples(
    st.sampled_from(["answer", "progress"] * 3 + ["die"]),
    places,
    st.sampled_from(list(ANSWERS)),
)
time = st.tuples(st.just("jump"), st.sampled_from([1.0, 2.0, 2.5, TIMEOUT]), st.none())
turns = st.sampled_from([0, 0, 0, 1, 2, 3, 5, 8, 40, 40])
steps = st.one_of(of_clients, of_clients, of_servers, of_servers, time, ends)
scripts = st.lists(st.tuples(steps, turns), min_size=10, max_size=40)


@settings(max_examples=2 * settings().max_examples)
@given(script=scripts)
def test_each_call_is_answered_once(script: list[Any]) -> None:
    clock = MockClock()
    with pytest.MonkeyPatch.context() as monkeypatch:
        trio.run(play, script, clock, monkeypatch, clock=clock)


async def play(script: list[Any], clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying(monkeypatch, timeout=TIMEOUT) as front, trio.open_nursery() as nursery:
        it = Play(front, nursery)
        front.server.answers["tools/call"] = it.take
        for _ in range(2):
            await it.join()
        for (what, which, how), turns in script:
            if what == "jump":
                await it.pass_time(clock, which)
            elif what in ("answer", "progress", "die"):
                await getattr(it, what)(which, how)
            else:
                await getattr(it, what)(it.callers[which], how)
            if turns:
                await it.send()
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
        await it.send()
        for caller in it.callers:
            caller.may_read.set()
        for _ in range(30):
            await wait_all_tasks_blocked()
            clock.jump(1)
        await wait_all_tasks_blocked()
        for caller in it.callers:
            caller.check()
        assert not it.numbers or max(it.numbers.values()) == 1
        check_withdrawn(it)
        await check_slots(it)
        nursery.cancel_scope.cancel()


def check_withdrawn(it: Play) -> None:
    """See that the server was told of each call that it need not answer, and once."""
    told = Counter(
        heard["params"]["requestId"]
        for heard in it.front.server.heard
        if heard.get("method") == "notifications/cancelled"
    )
    if not it.dead:  # or ids of one connection are those of another one as well
        assert all(times == 1 for times in told.values())
        assert {call["id"] for _, call in it.calls} <= told.keys()


async def check_slots(it: Play) -> None:
    """See that clients that are still there, and a new one, may have as many calls as before."""
    for caller in (*it.callers, await it.join()):
        if not caller.is_there:
            continue
        it.calls.clear()
        before = len(caller.rough.got)
        for id in range(100, 100 + SLOTS):
            await it.call(caller, id)
        await it.send()
        await wait_all_tasks_blocked()
        assert len(it.calls) == SLOTS
        for _ in range(SLOTS):
            await it.answer(0, "result")
        await it.send()
        await wait_all_tasks_blocked()
        assert len(caller.rough.got) == before + SLOTS
