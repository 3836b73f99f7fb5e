"""Authorization servers that drip, and what comes of those who wait for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.auth.client.world import ISSUER as CLIENTS_ISSUER
from tests.auth.client.world import SERVER, World
from tests.auth.server.support import ISSUER, OTHER, Issuer, call, ec_key, protected
from trio_mcp.auth import ClientCredentials, Introspection
from trio_mcp.auth.server.single_flight import SingleFlight
from trio_mcp.errors import AuthorizationError

METADATA = "/.well-known/oauth-authorization-server"


class Dripping(httpx2.AsyncByteStream):
    """A body that comes byte by byte, each a second after the one before."""

    def __init__(self) -> None:
        self.sent = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            await trio.sleep(1)
            self.sent += 1
            yield b" "

    async def aclose(self) -> None:
        """Note that nobody reads any more."""
        self.closed = True


@pytest.mark.parametrize("where", [f"{ISSUER}{METADATA}", f"{ISSUER}/keys"])
async def test_a_server_gives_up_an_issuer_that_drips(where: str, autojump_clock: Any) -> None:
    slow, other, body = Issuer(ISSUER, ec_key()), Issuer(OTHER, ec_key()), Dripping()
    slow.answers[where] = lambda _: httpx2.Response(200, stream=body)
    async with protected(slow, other) as host:
        assert (await call(host, other.token())).status == 200, "the others are known"
        started = trio.current_time()
        assert (await call(host, slow.token())).status == 503
        assert trio.current_time() - started <= 10
        assert (await call(host, other.token())).status == 200
    assert body.closed
    assert body.sent <= 10


async def test_it_gives_up_one_that_drips_what_it_says_of_a_token(autojump_clock: Any) -> None:
    issuer, body = Issuer(ISSUER, ec_key()), Dripping()
    how = Introspection(endpoint=f"{ISSUER}/introspect", client_id="we", client_secret="secret")
    issuer.answers[how.endpoint] = lambda _: httpx2.Response(200, stream=body)
    async with protected(issuer, verifier=how) as host:
        assert (await call(host, "opaque")).status == 503
    assert body.closed
    assert body.sent <= 10


@pytest.mark.parametrize(
    "where", ["https://mcp.test/meta", f"{CLIENTS_ISSUER}{METADATA}", f"{CLIENTS_ISSUER}/token"]
)
async def test_a_client_gives_up_whoever_drips(where: str, autojump_clock: Any) -> None:
    world, body = World(), Dripping()

    async def drip(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=body)

    world.on[where] = drip
    auth = ClientCredentials(client_id="c", client_secret="secret", fetching=world.fetching)
    async with world.client(auth) as client:
        with pytest.raises(AuthorizationError, match=r"within \d+ s"):
            await client.get(SERVER)
    assert body.closed
    assert body.sent <= 30


async def test_of_a_crowd_some_go_on_at_a_time() -> None:
    """A thousand who go on in one round of the loop would hold it together."""
    rounds: list[int] = []
    current = 0
    gate = trio.Event()

    async def work() -> str:
        await gate.wait()
        return "done"

    async with trio.open_nursery() as nursery:
        flights: SingleFlight[str] = SingleFlight(nursery)

        async def wait() -> None:
            assert await flights.run("key", work) == "done"
            rounds.append(current)

        async with trio.open_nursery() as crowd:
            for _ in range(200):
                crowd.start_soon(wait)
            await wait_all_tasks_blocked()
            gate.set()
            while len(rounds) < 200:
                current += 1
                await trio.lowlevel.checkpoint()
    # Tasks of a round run in any order, so the counter may be one behind.
    assert max(Counter(rounds).values()) <= 32
