"""What probes learn: that the process lives, and whether requests should come here."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.support.tools import echo, registry_of
from tests.transports.http.support import Host, hosting
from trio_mcp import HttpPolicy, Registry, Remote
from trio_mcp.store.errors import StoreUnavailable
from trio_mcp.store.memory import MemoryStore

pytestmark = pytest.mark.requirement("R4")

DEAD = "http://127.0.0.1:9/mcp"
"""Nothing listens at the port for discarding."""


async def readiness(host: Host) -> tuple[int, Any]:
    live = await host.ask("GET", "/health/live")
    assert (live.status, live.json()) == (200, {"status": "alive"})
    ready = await host.ask("GET", "/health/ready")
    return ready.status, ready.json()


async def test_a_server_that_serves_is_ready() -> None:
    async with hosting(registry_of(echo)) as host:
        assert await readiness(host) == (200, {"status": "ready", "reasons": []})


async def test_one_that_stops_lives_and_is_not_ready() -> None:
    async with hosting(registry_of(echo)) as host:
        host.app.stop()
        assert await readiness(host) == (503, {"status": "unavailable", "reasons": ["stopping"]})


class Failing(MemoryStore):
    """A store that may be gone, or hang; it counts how often it is looked at."""

    state = "there"
    asked = 0

    async def get(self, key: str) -> Any:
        if key == "health:probe":
            self.asked += 1
        if self.state == "hangs":
            await trio.sleep_forever()
        if self.state == "gone":
            raise StoreUnavailable("it is gone")
        return await super().get(key)


async def test_one_whose_store_is_gone_is_not_ready_until_it_is_back(autojump_clock: Any) -> None:
    store = Failing()
    async with hosting(registry_of(echo), store=store) as host:
        for state in ("there", "gone", "there", "hangs", "there"):
            store.state = state
            await trio.sleep(2)
            status, said = await readiness(host)
            expected = [] if state == "there" else ["store"]
            assert (status, said["reasons"]) == (503 if expected else 200, expected)


async def test_probes_ask_the_store_once_a_second_however_many_there_are(
    autojump_clock: Any,
) -> None:
    """They need no token, so anyone may send them."""
    store = Failing()
    async with hosting(
        registry_of(echo), HttpPolicy(max_concurrent_each=1000), store=store
    ) as host:
        await trio.sleep(2)
        before = store.asked
        async with trio.open_nursery() as nursery:
            for _ in range(500):
                nursery.start_soon(host.ask, "GET", "/health/ready")
        assert store.asked == before + 1


@pytest.mark.parametrize(
    ("own", "remotes", "status", "reasons"),
    [
        (False, {"calc": "there"}, "ready", []),
        (False, {"calc": "gone"}, "unavailable", ["servers"]),
        (False, {"calc": "there", "lost": "gone"}, "degraded", []),
        (True, {"lost": "gone"}, "degraded", []),
    ],
)
async def test_what_a_server_elsewhere_means_for_it(
    own: bool, remotes: dict[str, str], status: str, reasons: list[str]
) -> None:
    """One of many that is gone is no reason to send nothing here; it is told of."""
    registry = registry_of(echo) if own else Registry("front")
    for name, state in remotes.items():
        target: Any = registry_of(echo) if state == "there" else DEAD
        registry.mount(Remote(target, name=name, wait=0.1), prefix=name)
    async with hosting(registry) as host:
        code, said = await readiness(host)
        while status == "ready" and said["status"] != "ready":  # it may still be connecting
            await trio.sleep(0.01)
            code, said = await readiness(host)
        gone = [name for name, state in remotes.items() if state == "gone"]
        assert code == (503 if reasons else 200)
        assert (said["status"], said["reasons"], said.get("servers_gone", [])) == (
            status,
            reasons,
            gone,
        )


async def test_probes_need_no_token_but_a_host_that_is_ours() -> None:
    policy = HttpPolicy(tokens={"secret": "alice"}, rate=0.001, burst=1)
    async with hosting(registry_of(echo), policy) as host:
        for path in ("/health/live", "/health/ready"):
            for _ in range(3):
                answer = await host.ask("GET", path, headers={"host": "10.1.2.3"})
                assert answer.status == 200
            refused = await host.ask("GET", path, headers={"host": "evil.test"})
            assert refused.status == 403
