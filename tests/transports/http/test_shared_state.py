"""State over HTTP: whose it is with tokens and without, in both eras, and at every instance."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.features.notebook import Gates, make
from tests.store.redis_server import redis_server
from tests.support.tools import failure_of, text_of
from tests.transports.http.fleet import Fleet, fleet
from tests.transports.http.support import HttpClient, LegacyClient, ModernClient, hosting
from tests.transports.http.test_app_sse import ALICE, BOB, TOKENS
from trio_mcp import Context, HttpPolicy, Registry, SessionOptions, http_app
from trio_mcp.extensions.tasks import Tasks
from trio_mcp.store.memory import MemoryStore
from trio_mcp.store.opening import open_store

pytestmark = pytest.mark.requirement("Q2")

STORES = [
    "memory",
    "sqlite",
    pytest.param("redis", marks=pytest.mark.needs("redis-server")),
]


@asynccontextmanager
async def instances(kind: str, directory: Path, gates: Gates | None = None) -> AsyncIterator[Fleet]:
    """Three instances that share a store, and know who has which token."""
    if kind == "memory":
        async with fleet(lambda: make(gates), TOKENS) as those:
            yield those
    elif kind == "sqlite":
        async with open_store(directory / "store.db") as store:
            async with fleet(lambda: make(gates), TOKENS, store=store) as those:
                yield those
    else:
        with redis_server(directory) as server:
            async with (
                open_store(server.url) as store,
                fleet(lambda: make(gates), TOKENS, store=store) as those,
            ):
                yield those


async def notes(client: HttpClient, note: str) -> list[str]:
    """What is remembered, with one note more."""
    found: list[str] = json.loads(text_of(await client.call("remember", note=note)))
    return found


@pytest.mark.parametrize("kind", STORES)
async def test_a_caller_has_the_same_state_everywhere(kind: str, tmp_path: Path) -> None:
    async with instances(kind, tmp_path) as those:
        first, second, third = those.hosts
        assert await notes(ModernClient(first, ALICE), "a") == ["a"]
        assert await notes(ModernClient(second, ALICE), "b") == ["a", "b"]
        session = LegacyClient(third, headers=ALICE)
        await session.initialize()
        assert await notes(session, "c") == ["a", "b", "c"]
        assert await notes(ModernClient(second, BOB), "x") == ["x"]


@pytest.mark.parametrize("kind", STORES)
async def test_a_session_has_a_state_of_its_own_everywhere(kind: str, tmp_path: Path) -> None:
    async with instances(kind, tmp_path) as those:
        clients = [those.client(headers=ALICE) for _ in range(2)]
        for client in clients:
            await client.initialize()
        counted = [text_of(await clients[0].call("count")) for _ in range(4)]
        assert counted == ["1", "2", "3", "4"]
        assert text_of(await clients[1].call("count")) == "1"


@pytest.mark.parametrize("kind", STORES)
async def test_two_instances_that_change_a_state_at_a_time(kind: str, tmp_path: Path) -> None:
    gates = Gates()
    async with instances(kind, tmp_path, gates) as those:
        here, there, elsewhere = [ModernClient(host, ALICE) for host in those.hosts]
        await here.call("change", key="a", value="old", waits=False)
        slow = here.begin_call("change", key="a", value="slow", waits=True)
        await gates.begun.wait()
        await there.call("change", key="b", value="quick", waits=False)
        await there.call("change", key="a", value="quick", waits=False)
        gates.open.set()
        await slow.answer()
        found = text_of(await elsewhere.call("change", key="c", value="new", waits=False))
        assert json.loads(found) == {"a": "slow", "b": "quick", "c": "new"}


async def test_a_handle_is_good_everywhere_for_whom_it_was_given(tmp_path: Path) -> None:
    async with instances("memory", tmp_path) as those:
        first, second, third = those.hosts
        handle = text_of(await ModernClient(first, ALICE).call("open_basket"))
        put = {"handle": handle, "item": "tea"}
        assert text_of(await ModernClient(second, ALICE).call("put", **put)) == '["tea"]'
        legacy = LegacyClient(third, headers=ALICE)
        await legacy.initialize()
        assert text_of(await legacy.call("put", **put)) == '["tea","tea"]'
        refused = failure_of(await ModernClient(second, BOB).call("put", **put))
        assert "no state with this handle" in refused


async def test_without_tokens_a_handle_is_all_that_leads_to_a_state() -> None:
    async with hosting(make()) as host:
        modern, other = ModernClient(host), ModernClient(host)
        refused = failure_of(await modern.call("remember", note="a"))
        assert "Tool remember keeps state for each caller" in refused
        assert 'state="handle"' in refused
        refused = failure_of(await modern.call("count"))
        assert "Tool count keeps state for each session, and this request belongs to" in refused
        handle = text_of(await modern.call("open_basket"))
        assert text_of(await other.call("put", handle=handle, item="tea")) == '["tea"]'


@pytest.mark.parametrize(
    ("scope", "policy", "warns"),
    [
        ("caller", None, True),
        ("caller", TOKENS, False),
        ("session", TOKENS, True),
        ("new handle", None, False),
    ],
)
async def test_at_the_start_the_log_says_what_will_fail_for_modern_clients(
    scope: Any, policy: HttpPolicy | None, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry("test")

    @registry.tool(state=scope)
    async def use(context: Context) -> None: ...

    async with hosting(registry, policy):
        pass
    assert ("state='handle' works for all" in caplog.text) is warns


async def test_without_tokens_a_session_says_who_calls() -> None:
    async with hosting(make()) as host:
        first, second = LegacyClient(host), LegacyClient(host)
        for client in (first, second):
            await client.initialize()
        assert await notes(first, "a") == ["a"]
        assert await notes(second, "b") == ["b"]
        assert await notes(first, "c") == ["a", "c"]


async def test_without_sessions_no_legacy_client_is_known() -> None:
    async with hosting(make(), sessions=SessionOptions(stateless=True)) as host:
        client = LegacyClient(host)
        await client.initialize()
        assert "does not say who calls" in failure_of(await client.call("remember", note="a"))


async def test_a_registry_that_runs_already_shares_no_state() -> None:
    registry = make()
    async with registry.running():
        app = http_app(registry, store=MemoryStore())
        with pytest.raises(RuntimeError, match="keeps state: leave Registry"):
            async with app.running():
                raise AssertionError("it runs")


async def test_a_task_has_the_state_of_its_caller() -> None:
    registry = Registry("test", extensions=[Tasks()])

    @registry.tool(task=True, state="caller")
    async def remember(note: str, context: Context) -> list[str]:
        context.state.setdefault("notes", []).append(note)
        found: list[str] = context.state["notes"]
        return found

    capabilities = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with hosting(registry, TOKENS) as host:
        for expected in (["a"], ["a", "a"]):
            client = ModernClient(host, ALICE, capabilities=capabilities)
            client.added = ("task",)
            task = (await client.call("remember", note="a"))["result"]["taskId"]
            client.headers["mcp-name"] = task
            found = await client.request("tasks/get", {"taskId": task})
            while found["result"]["status"] != "completed":
                await trio.lowlevel.checkpoint()
                found = await client.request("tasks/get", {"taskId": task})
            assert json.loads(found["result"]["result"]["content"][0]["text"]) == expected
        plain = ModernClient(host, ALICE)
        assert json.loads(text_of(await plain.call("remember", note="b"))) == ["a", "a", "b"]
