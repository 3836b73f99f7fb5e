"""A store with what cannot be read: it is damaged, or a newer version has written it."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.store.contents import items_of, values_of
from tests.support.tools import echo, registry_of, text_of
from tests.transports.http.fleet import Fleet, fleet
from trio_mcp import Registry, http_app
from trio_mcp.store.changes import Append, News, Put
from trio_mcp.store.errors import Damaged
from trio_mcp.store.exact import dumps

pytestmark = pytest.mark.requirement("M4")

DAMAGED = [b"\xff", b"[1", b"7", b"[]", b"{}", b'["other"]', b'{"from":1}', b"null"]
NEWER = [
    dumps(["other", [["list", "skills"]]]),
    dumps(["other", [["resource", "news://today", "and more"]]]),
    dumps({"from": "other", "cancel": ["several"]}),
    dumps({"from": "other", "answer": {"is": "no text"}}),
]


def news(made: list[Registry]) -> Registry:
    """Make the registry of another instance, and note it."""
    registry = registry_of(echo)
    made.append(registry)
    registry.add_resource("news://today", lambda: "news", name="today")
    return registry


def keys_of(those: Fleet, end: str) -> list[str]:
    return [key for key in values_of(those.store) if key.endswith(end)]


def logs_of(those: Fleet, begin: str, end: str = "") -> list[str]:
    return [log for log in items_of(those.store) if log.startswith(begin) and log.endswith(end)]


@pytest.mark.parametrize("item", DAMAGED + NEWER)
async def test_an_item_that_cannot_be_read_ends_no_instance_and_hides_no_other(
    item: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    registries: list[Registry] = []
    async with fleet(partial(news, registries)) as those:
        client = those.client()
        await client.initialize()  # by way of the first instance and the second
        await client.request("resources/subscribe", {"uri": "news://today"})
        stream = client.get()  # at the first
        await stream.started()
        registries[1].notify_resource_updated("news://today")
        await stream.message()
        await wait_all_tasks_blocked()
        logs = [*logs_of(those, "changes:"), *logs_of(those, "session-", ":inbox")]
        assert len(logs) == 2
        for log in logs:
            await those.store.commit(Append(log, item, ttl=60, limit=1000), News(log))
        await wait_all_tasks_blocked()
        assert "damaged, or of a newer version" in caplog.text
        for _ in those.hosts:
            assert text_of(await client.call("echo", text="on")) == "on"
        for number in (2, 1):  # of which only one may have been told as what may have been missed
            registries[number].notify_resource_updated("news://today")
            while (await stream.message())["method"] != "notifications/resources/updated":
                pass
            await wait_all_tasks_blocked()


@pytest.mark.parametrize("value", DAMAGED)
async def test_a_session_that_cannot_be_read_is_served_where_it_is_known(value: bytes) -> None:
    async with fleet(lambda: registry_of(echo), size=2) as those:
        known, other = those.client(), those.client()
        await known.initialize()
        (key,) = keys_of(those, ":about")
        await other.initialize()
        await those.store.commit(Put(key, value, ttl=60), News(key), News(key[:-5] + "inbox"))
        await wait_all_tasks_blocked()
        for _ in those.hosts:
            assert text_of(await known.call("echo", text="on")) == "on"
            assert text_of(await other.call("echo", text="on")) == "on"


async def test_keys_that_cannot_be_read_end_no_instance(autojump_clock: MockClock) -> None:
    async with fleet(lambda: registry_of(echo), size=2) as those:
        client = those.client()
        await client.initialize()
        (key,) = keys_of(those, ":sealing")
        await those.store.commit(Put(key, b"7", ttl=1e6), News(key))
        await trio.sleep(10)
        for _ in those.hosts:
            assert text_of(await client.call("echo", text="on")) == "on"
        with pytest.raises(Damaged, match="what instances seal with"):
            async with http_app(registry_of(echo), store=those.store).running():
                pass
