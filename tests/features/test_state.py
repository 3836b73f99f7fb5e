"""State that lasts from call to call: what it belongs to, when it is kept, and what bounds it."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
import trio
from annotated_types import MinLen

import trio_mcp.aio
from tests.features import notebook
from tests.features.notebook import Gates, make
from tests.store.contents import values_of
from trio_mcp import (
    Client,
    Context,
    Depends,
    Handlers,
    Limits,
    McpError,
    Registry,
    ToolError,
    connect,
    handle_message,
)
from trio_mcp.errors import StoreError, StoreFull, StoreUnavailable
from trio_mcp.middleware import McpCall
from trio_mcp.registry import catalogue_of
from trio_mcp.registry.kept_state import StateKeeper
from trio_mcp.schema import SchemaError
from trio_mcp.store import exact
from trio_mcp.store.memory import MemoryStore
from trio_mcp.store.opening import open_store
from trio_mcp.store.protocol import Store
from trio_mcp.testing import KeptState

pytestmark = pytest.mark.requirement("Q2")

each_era = pytest.mark.parametrize("era", ["modern", "legacy"])


async def value(client: Client, name: str, **arguments: Any) -> Any:
    """The value that a tool returns."""
    result = await client.call_tool(name, arguments)
    assert result.error is None, result.error
    return json.loads(result.text) if name != "open_basket" else result.text


async def refusal(client: Client, name: str, **arguments: Any) -> str:
    """The words with which a tool fails."""
    result = await client.call_tool(name, arguments)
    assert result.error is not None
    return result.error


def keeper(store: Store, who: str = "ada", **limits: Any) -> StateKeeper:
    """What keeps the states of somebody with a token."""
    return StateKeeper("notebook", store, Limits(**limits), who, None, who)


async def note(one: StateKeeper, **values: Any) -> None:
    """Keep something for a caller."""
    found = await one.open("Tool remember", "caller", {})
    found.state.update(values)
    await found.save()


async def noted(one: StateKeeper) -> dict[str, Any]:
    """What is kept for a caller."""
    return dict((await one.open("Tool remember", "caller", {})).state)


# -- what it belongs to ---------------------------------------------------------------------------


@each_era
async def test_state_lasts_from_call_to_call(era: Any) -> None:
    async with connect(make(), era=era) as client:
        assert await value(client, "remember", note="a") == ["a"]
        assert await value(client, "remember", note="b") == ["a", "b"]
        assert [await value(client, "count") for _ in range(3)] == [1, 2, 3]


@each_era
async def test_resources_and_prompts_see_the_state_of_tools(era: Any) -> None:
    async with connect(make(), era=era) as client:
        await value(client, "remember", note="milk")
        assert (await client.read_resource("notes://all")).text == "milk"
        (message,) = (await client.get_prompt("sum_up")).messages
        assert message.content.text == "Sum up: ['milk']"  # type: ignore[union-attr]
        handle = await value(client, "open_basket")
        await value(client, "put", handle=handle, item="tea")
        assert (await client.read_resource(f"basket://{handle}")).text == "tea"


@each_era
async def test_two_connections_share_neither_sessions_nor_callers(era: Any) -> None:
    registry = make()
    async with (
        registry.running(),
        connect(registry, era=era) as here,
        connect(registry, era=era) as there,
    ):
        assert await value(here, "remember", note="a") == ["a"]
        assert await value(there, "remember", note="b") == ["b"]
        assert await value(here, "count") == 1
        assert await value(there, "count") == 1


@each_era
async def test_a_handle_leads_to_its_state_from_anywhere(era: Any) -> None:
    registry = make()
    async with registry.running(), connect(registry, era=era) as client:
        first, second = [await value(client, "open_basket") for _ in range(2)]
        assert await value(client, "put", handle=first, item="tea") == ["tea"]
        async with connect(registry, era=era) as other:
            assert await value(other, "put", handle=first, item="jam") == ["tea", "jam"]
        assert await value(client, "put", handle=second, item="oil") == ["oil"]


@pytest.mark.parametrize("handle", ["", "x", "A" * 22, "../../etc/passwd", "a" * 1_000_000])
async def test_a_forged_handle_leads_nowhere(handle: str) -> None:
    async with connect(make()) as client:
        await value(client, "open_basket")
        words = await refusal(client, "put", handle=handle, item="tea")
        assert words.startswith("There is no state with this handle")


async def test_a_handle_of_another_caller_is_none() -> None:
    store = MemoryStore()
    begun = await keeper(store).open("Tool open", "new handle", {})
    await begun.save()
    arguments = {"handle": begun.state.handle}
    assert (await keeper(store).open("Tool put", "handle", arguments)).state == {}
    with pytest.raises(ToolError, match="is not yours"):
        await keeper(store, "eve").open("Tool put", "handle", arguments)


async def test_a_handle_ends_when_its_tool_says_so() -> None:
    async with connect(make()) as client:
        handle = await value(client, "open_basket")
        await value(client, "put", handle=handle, item="tea")
        assert await value(client, "pay", handle=handle) == 1
        assert "no state with this handle" in await refusal(client, "put", handle=handle, item="x")


async def test_a_handle_that_may_be_left_out_is_made() -> None:
    registry = Registry("test")

    @registry.tool(state="handle")
    async def step(context: Context, handle: str | None = None) -> list[Any]:
        context.state["steps"] = context.state.get("steps", 0) + 1
        return [context.state.handle, context.state["steps"]]

    async with registry.running():
        handle, steps = await registry.call("step")
        assert steps == 1
        assert await registry.call("step", {"handle": handle}) == [handle, 2]


async def test_nobody_chooses_the_handle_of_a_new_state() -> None:
    """An argument may have that name, and mean something else."""
    registry = Registry("test")

    @registry.tool(state="new handle")
    async def follow(handle: str, context: Context) -> list[Any]:
        context.state["who"] = handle
        return [context.state.handle, context.state["who"]]

    async with registry.running():
        for name in ("@ada", "A" * 22):
            handle, who = await registry.call("follow", {"handle": name})
            assert who == name != handle


async def test_a_part_keeps_state_of_its_own() -> None:
    outer, part = make(), make(name="part")
    outer.mount(part, prefix="part")
    async with connect(outer) as client:
        await value(client, "remember", note="outside")
        assert await value(client, "part_remember", note="inside") == ["inside"]
        assert await value(client, "remember", note="again") == ["outside", "again"]


async def test_a_call_without_a_client_is_a_caller_too() -> None:
    registry = make()
    async with registry.running():
        await registry.call("remember", {"note": "a"})
        assert await registry.call("remember", {"note": "b"}) == ["a", "b"]


async def test_a_function_for_asyncio_has_state_as_well() -> None:
    registry = trio_mcp.aio.Registry("test")

    @registry.tool(state="caller")
    async def step(context: Context) -> int:
        await asyncio.sleep(0)
        context.state["steps"] = context.state.get("steps", 0) + 1
        await context.save_state()
        return int(context.state["steps"])

    async with connect(registry) as client:
        assert [await value(client, "step") for _ in range(3)] == [1, 2, 3]


async def test_a_plain_function_can_save_halfway() -> None:
    registry = Registry("test")

    @registry.tool(state="caller")
    def step(context: Context) -> int:
        context.state["steps"] = context.state.get("steps", 0) + 1
        trio.from_thread.run(context.save_state)
        raise ToolError(str(context.state["steps"]))

    async with connect(registry) as client:
        assert [await refusal(client, "step") for _ in range(3)] == ["1", "2", "3"]


async def test_middleware_shares_the_state_with_what_it_runs_around() -> None:
    async def greet(call: McpCall, call_next: Any) -> Any:
        assert call.context is not None
        call.context.state["greeted"] = call.context.state.get("greeted", 0) + 1
        return await call_next(call)

    registry = Registry("test", middleware=[greet])

    @registry.tool(state="caller")
    async def greeted(context: Context) -> int:
        return int(context.state["greeted"])

    async with connect(registry) as client:
        assert [await value(client, "greeted") for _ in range(2)] == [1, 2]


def preferred(context: Context) -> str:
    return str(context.state.setdefault("unit", "kelvin"))


async def test_what_fills_a_parameter_sees_the_state() -> None:
    registry = Registry("test")

    @registry.tool(state="caller")
    async def tell(unit: Annotated[str, Depends(preferred)]) -> str:
        return unit

    async with connect(registry) as client:
        assert (await client.call_tool("tell")).text == "kelvin"


async def test_a_message_by_itself_has_no_caller() -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "count"}}
    answer = await handle_message(make(), json.dumps(request).encode())
    assert answer is not None
    assert b"this request belongs to none" in answer


async def test_who_is_unknown_keeps_no_state() -> None:
    unknown = StateKeeper("notebook", MemoryStore(), Limits(), None, None, "192.0.2.1")
    for scope, said in (("caller", "does not say who calls"), ("session", "belongs to none")):
        with pytest.raises(ToolError, match=said) as caught:
            await unknown.open("Tool remember", scope, {})  # type: ignore[arg-type]
        assert 'state="handle"' in str(caught.value)


# -- when it is kept ------------------------------------------------------------------------------


@each_era
async def test_what_a_failed_call_has_changed_is_not_kept(era: Any) -> None:
    async with connect(make(), era=era) as client:
        await refusal(client, "fail", saves=False)
        assert await value(client, "remember", note="a") == ["a"]
        await refusal(client, "fail", saves=True)
        assert await value(client, "remember", note="a") == ["failed", "a"]


@each_era
async def test_a_call_that_is_run_again_for_an_answer_changes_its_state_once(era: Any) -> None:
    async def answer(params: Any) -> dict[str, Any]:
        return {"action": "accept", "content": {"value": "blue"}}

    async with connect(make(), era=era, handlers=Handlers(elicitation=answer)) as client:
        assert (await client.call_tool("ask")).text == "asked 1"
        assert (await client.call_tool("ask")).text == "asked 2"


async def test_what_a_cancelled_call_has_changed_is_not_kept(autojump_clock: Any) -> None:
    registry = Registry("test")

    @registry.tool(state="caller", timeout=1)
    async def dawdle(context: Context, seconds: float) -> int:
        context.state["calls"] = context.state.get("calls", 0) + 1
        await trio.sleep(seconds)
        return int(context.state["calls"])

    async with connect(registry) as client:
        assert "timed out" in await refusal(client, "dawdle", seconds=2)
        assert await value(client, "dawdle", seconds=0) == 1


@each_era
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_of_two_calls_at_a_time_each_keeps_what_it_has_changed(
    era: Any, kind: str, tmp_path: Path
) -> None:
    gates = Gates()
    async with open_store("memory:" if kind == "memory" else tmp_path / "store.db") as store:
        with stored(store, make(gates)) as registry:
            async with registry.running(), connect(registry, era=era) as client:
                for key in "abc":
                    await value(client, "change", key=key, value="old", waits=False)
                async with trio.open_nursery() as nursery:
                    slow = partial(value, client, "change", key="a", value="slow", waits=True)
                    nursery.start_soon(slow)
                    await gates.begun.wait()
                    await value(client, "change", key="b", value="quick", waits=False)
                    await value(client, "change", key="c", value=None, waits=False)
                    await value(client, "change", key="a", value="quick", waits=False)
                    gates.open.set()
                found = await value(client, "change", key="d", value="new", waits=False)
    assert found == {"a": "slow", "b": "quick", "d": "new"}


@contextmanager
def stored(store: Store, registry: Registry) -> Iterator[Registry]:
    """Have the states of a registry in a store, as instances that share one do."""
    from trio_mcp.store.shared import sharing

    with sharing(store):
        yield registry


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_many_calls_at_a_time_lose_nothing(kind: str, tmp_path: Path) -> None:
    async with open_store("memory:" if kind == "memory" else tmp_path / "store.db") as store:

        async def work(number: int) -> None:
            found = await keeper(store).open("Tool remember", "caller", {})
            await trio.lowlevel.checkpoint()
            found.state[f"key {number}"] = number
            await found.save()

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(work, number)
        assert await noted(keeper(store)) == {f"key {number}": number for number in range(40)}


async def test_what_is_saved_halfway_shows_what_others_have_changed() -> None:
    store = MemoryStore()
    await note(keeper(store), mine=1, gone=1)
    found = await keeper(store).open("Tool remember", "caller", {})
    other = await keeper(store).open("Tool remember", "caller", {})
    other.state["theirs"] = 2
    del other.state["gone"]
    await other.save()
    found.state["mine"] = 3
    await found.save()
    assert found.state == {"mine": 3, "theirs": 2}
    await found.save()
    assert await noted(keeper(store)) == {"mine": 3, "theirs": 2}


async def test_json_comes_back_as_it_was() -> None:
    store = MemoryStore()
    values: dict[str, Any] = {
        "text": "ä\ud800\n",
        "numbers": [1, 1.5, -(10**30), True, None],
        "": {"nested": [{"deep": []}]},
    }
    await note(keeper(store), **values)
    assert await noted(keeper(store)) == values


async def test_a_call_that_changes_nothing_writes_nothing(autojump_clock: Any) -> None:
    store = MemoryStore()
    await note(keeper(store), a=1)
    before = values_of(store)
    versions = store.tables.version
    await note(keeper(store), a=1)
    assert (values_of(store), store.tables.version) == (before, versions)


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", notebook.WRONG)
async def test_what_is_not_json_fails_the_call(how: str, caplog: pytest.LogCaptureFixture) -> None:
    async with connect(make()) as client:
        assert "internal error" in await refusal(client, "spoil", how=how)
        assert await value(client, "remember", note="a") == ["a"]
    assert "what is kept must be JSON" in caplog.text
    assert "state['spoilt'] is not" in caplog.text
    assert "failed in its layer keeping" in caplog.text


async def test_a_state_of_a_megabyte_is_refused() -> None:
    async with connect(make()) as client:
        words = await refusal(client, "fill", size=1_000_000)
        assert words.startswith("There is no room for this: what is kept would take 1,000,01")
        assert "of 16,384" in words
        assert await value(client, "remember", note="a") == ["a"]


async def test_a_state_of_many_keys_is_read_and_written_in_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here, others would wait for a third of a second."""
    threads: set[int] = set()

    def note_thread(work: Any, value: Any) -> Any:
        threads.add(threading.get_ident())
        return work(value)

    for name in ("loads", "dumps"):
        work = getattr(exact, name)
        monkeypatch.setattr(f"trio_mcp.registry.kept_state.{name}", partial(note_thread, work))
    one = keeper(MemoryStore(), max_state_bytes=10_000_000)
    many = {f"key{number}": number for number in range(20_000)}
    await note(one, **many)
    await note(one, key5=6)
    assert await noted(one) == {**many, "key5": 6}
    assert threads
    assert threading.get_ident() not in threads


async def test_the_largest_state_can_be_set() -> None:
    store = MemoryStore()
    await note(keeper(store, max_state_bytes=100), text="x" * 70)
    with pytest.raises(ToolError, match="of 100"):
        await note(keeper(store, max_state_bytes=100), text="x" * 100)


@pytest.mark.parametrize("failure", [StoreUnavailable("it is away"), StoreFull("it is full")])
@pytest.mark.parametrize("when", ["get", "commit"])
async def test_a_store_that_fails(
    failure: StoreError, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> Any:
        raise failure

    registry = make()
    async with registry.running(), connect(registry) as client:
        store = catalogue_of(registry).own_store
        await value(client, "remember", note="a")
        with monkeypatch.context() as patch:
            patch.setattr(store, when, fail)
            if isinstance(failure, StoreFull) and when == "commit":
                words = await refusal(client, "remember", note="b")
                assert words == "There is no room for more state now; try again later"
            else:
                with pytest.raises(McpError, match="store of states now; try again") as caught:
                    await client.call_tool("remember", {"note": "b"})
                assert caught.value.code == -32603
        assert await value(client, "remember", note="c") == ["a", "c"]


async def test_a_store_that_is_slow_holds_up_one_call(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = make()
    registry.add_tool(hello)
    async with registry.running(), connect(registry, tool_timeout=100) as client:
        store = catalogue_of(registry).own_store

        async def wait(*_: Any) -> Any:
            await trio.sleep_forever()

        monkeypatch.setattr(store, "get", wait)
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                assert "timed out after 60 s" in await refusal(client, "remember", note="b")

            nursery.start_soon(call)
            assert (await client.call_tool("hello")).text == "hello"
            assert trio.current_time() < 1


async def hello() -> str:
    return "hello"


# -- how much, and how long -----------------------------------------------------------------------


async def test_a_state_that_nobody_uses_expires(autojump_clock: Any) -> None:
    store = MemoryStore()
    begun = await keeper(store, state_idle=100).open("Tool open", "new handle", {})
    await begun.save()
    arguments = {"handle": begun.state.handle}
    for _ in range(5):  # it is used, if only looked at
        await trio.sleep(95)
        found = await keeper(store, state_idle=100).open("Tool put", "handle", arguments)
        await found.save()
    await trio.sleep(111)
    with pytest.raises(ToolError, match="has expired"):
        await keeper(store, state_idle=100).open("Tool put", "handle", arguments)


async def test_a_handle_that_expires_during_its_call_is_not_begun_again(
    autojump_clock: Any,
) -> None:
    store = MemoryStore()
    begun = await keeper(store, state_idle=100).open("Tool open", "new handle", {})
    await begun.save()
    begun.state["late"] = True
    await trio.sleep(120)
    with pytest.raises(ToolError, match="has expired"):
        await begun.save()
    found = await keeper(store, state_idle=100).open("Tool remember", "caller", {})
    found.state["late"] = True
    await trio.sleep(120)
    await found.save()  # what belongs to a caller is begun again
    assert await noted(keeper(store)) == {"late": True}


async def test_an_owner_with_more_than_a_tenth_loses_what_was_not_used_longest(
    autojump_clock: Any,
) -> None:
    store = MemoryStore()

    async def begin(who: str) -> dict[str, Any]:
        found = await keeper(store, who, max_states=30).open("Tool open", "new handle", {})
        await found.save()
        await trio.sleep(1)
        return {"handle": found.state.handle}

    async def is_there(who: str, arguments: dict[str, Any]) -> bool:
        try:
            await keeper(store, who, max_states=30).open("Tool put", "handle", arguments)
        except ToolError:
            return False
        return True

    others = await begin("ada")
    handles = [await begin("eve") for _ in range(10)]
    assert [await is_there("eve", each) for each in handles] == [False] * 7 + [True] * 3
    assert await is_there("ada", others)


async def test_beyond_all_states_the_one_that_was_not_used_longest_goes(
    autojump_clock: Any,
) -> None:
    store = MemoryStore()
    for number in range(50):
        await note(keeper(store, f"caller {number}", max_states=30), number=number)
        await trio.sleep(1)
    found = [await noted(keeper(store, f"caller {number}")) for number in range(50)]
    assert found == [{}] * 20 + [{"number": number} for number in range(20, 50)]
    states = [key for key in values_of(store) if key.startswith("state-")]
    assert len(states) == 30


# -- how it is declared ---------------------------------------------------------------------------


def test_only_what_keeps_state_has_a_layer_for_it() -> None:
    registry = make()
    registry.add_tool(hello)
    assert repr(registry.tools["count"]) == "<Tool count: converting > keeping > thread>"
    assert repr(registry.tools["hello"]) == "<Tool hello: converting > function>"


async def function(context: Context) -> None: ...


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("user", "state must be one of 'session', 'caller', 'handle', 'new handle', not 'user'"),
        (True, "not True"),
        ("handle", 'state="new handle"'),
    ],
)
def test_a_state_that_belongs_to_nothing_is_refused(scope: Any, words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Registry("test").add_tool(function, state=scope)
    assert words in str(caught.value)


@pytest.mark.parametrize("kind", [int, UUID, list[str], bool | None])
def test_a_handle_that_is_no_text_is_refused(kind: Any) -> None:
    async def use(handle: Any, context: Context) -> str:
        raise AssertionError

    use.__annotations__["handle"] = kind
    with pytest.raises(SchemaError, match="annotate it handle: str"):
        Registry("test").add_tool(use, state="handle")


@pytest.mark.parametrize("kind", [str, str | None, Annotated[str, MinLen(1)], Any])
def test_a_handle_may_be_a_text_of_any_kind(kind: Any) -> None:
    async def use(handle: Any, context: Context) -> str:
        raise AssertionError

    use.__annotations__["handle"] = kind
    Registry("test").add_tool(use, state="handle")


def test_a_handle_that_a_function_fills_is_refused() -> None:
    async def use(handle: Annotated[str, Depends(preferred)], context: Context) -> str:
        raise AssertionError

    with pytest.raises(SchemaError, match="a parameter handle, by which callers name"):
        Registry("test").add_tool(use, state="handle")


@pytest.mark.parametrize("scope", ["caller", "session", "new handle"])
def test_a_state_that_nothing_can_read_is_refused(scope: Any) -> None:
    registry = Registry("test")
    with pytest.raises(SchemaError, match="add context: Context, or take state= away"):
        registry.add_tool(hello, state=scope)
    with pytest.raises(SchemaError, match="add context: Context"):
        registry.prompt(state=scope)(hello)
    with pytest.raises(SchemaError, match="add context: Context"):
        registry.resource("x://y", state=scope)(hello)


@pytest.mark.parametrize("is_plain", [False, True])
async def test_a_tool_that_runs_one_at_a_time_finds_what_the_call_before_has_kept(
    is_plain: bool,
) -> None:
    registry = Registry("test")

    def add(context: Context) -> int:
        context.state["count"] = context.state.get("count", 0) + 1
        return int(context.state["count"])

    async def add_later(context: Context) -> int:
        await trio.lowlevel.checkpoint()
        return add(context)

    registry.add_tool(add if is_plain else add_later, name="add", state="caller", max_concurrent=1)
    async with connect(registry, tool_timeout=60) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(client.call_tool, "add")
        assert (await client.call_tool("add", returns=int)) == 21


@pytest.mark.parametrize("is_plain", [False, True])
async def test_calls_that_ask_have_their_turns_back_afterwards(is_plain: bool) -> None:
    registry = Registry("test")

    async def ask_later(context: Context) -> str:
        return str((await context.elicit("Colour?", str)).value)

    def ask(context: Context) -> str:
        return trio.from_thread.run(ask_later, context)

    registry.add_tool(ask if is_plain else ask_later, name="ask", state="caller", max_concurrent=1)
    questions, answered = 0, trio.Event()

    async def answer(params: Any) -> dict[str, Any]:
        nonlocal questions
        questions += 1
        if questions == 3:  # each has asked while the others wait for their answers
            answered.set()
        await answered.wait()
        return {"action": "accept", "content": {"value": "blue"}}

    handlers = Handlers(elicitation=answer)
    async with connect(registry, era="legacy", handlers=handlers) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(client.call_tool, "ask")
        assert (await client.call_tool("ask")).text == "blue"


async def test_what_was_registered_without_state_is_told_how(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = Registry("test")

    @registry.tool
    async def look(context: Context) -> str:
        return str(context.state)

    with pytest.raises(RuntimeError, match="look keeps no state: register it with state='caller'"):
        await registry.call("look")


async def test_a_function_can_be_tried_out_without_a_store() -> None:
    async def remember(note: str, context: Context) -> None:
        context.state["note"] = note
        await context.save_state()

    context = Context(tool="remember", state=KeptState(note="old"))
    await remember("new", context)
    assert context.state == {"note": "new"}


async def test_the_log_tells_nothing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with connect(make()) as client:
        await value(client, "remember", note="the-secret-note")
        handle = await value(client, "open_basket")
        await value(client, "put", handle=handle, item="tea")
    mine = [record for record in caplog.records if not record.name.startswith("trio_mcp.client")]
    assert all("the-secret-note" not in record.getMessage() for record in mine)
    assert all(handle not in record.getMessage() for record in mine)
