"""What becomes of a token: renewed, refused, widened, bound to a key; and what is kept of it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import trio
import trio.testing

from tests.auth.client.world import ISSUER, SERVER, TIME_LIMIT, World, claims_of
from trio_mcp.auth import ClientCredentials, FileStore, MemoryStore
from trio_mcp.auth.client.dpop import DpopKey
from trio_mcp.errors import AuthorizationError

pytestmark = pytest.mark.requirement("J5")

RENEWABLE = {"refresh_token": True}


async def test_a_token_is_renewed_before_it_ends() -> None:
    world = World(extra={**RENEWABLE, "expires_in": 5})
    async with world.client(world.oauth()) as client:
        await client.get(SERVER)
        world.extra["expires_in"] = 3600
        for _ in range(3):
            await client.get(SERVER)
    kinds = [each["grant_type"] for each in world.forms]
    assert kinds == ["authorization_code", "refresh_token"]
    assert world.forms[1]["resource"] == SERVER
    sent = [each.get("authorization") for each in world.seen]
    first, second = "Bearer access-secret-1", "Bearer access-secret-2"
    assert sent == [None, first, second, second, second]


async def test_a_token_that_is_refused_is_renewed_once_for_all_calls() -> None:
    world = World(extra=dict(RENEWABLE))
    answers: list[int] = []
    async with world.client(world.oauth()) as client:
        await client.get(SERVER)
        world.tokens.clear()

        async def call() -> None:
            answers.append((await client.get(SERVER)).status_code)

        with trio.fail_after(TIME_LIMIT):
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(call)
    assert answers == [200] * 20
    assert [each["grant_type"] for each in world.forms] == ["authorization_code", "refresh_token"]
    assert len(world.pages) == 1


async def test_a_refresh_token_rotates() -> None:
    world, store = World(extra=dict(RENEWABLE)), MemoryStore()
    async with world.client(world.oauth(store=store)) as client:
        for _ in range(4):
            world.tokens.clear()
            assert (await client.get(SERVER)).status_code == 200
    used = [each.get("refresh_token") for each in world.forms]
    assert used == [None, "refresh-secret-1", "refresh-secret-2", "refresh-secret-3"]
    (login,) = await store.load()
    assert login.token is not None
    assert login.token.refresh_token == "refresh-secret-4"


async def test_without_a_new_refresh_token_the_old_one_stays() -> None:
    world, store = World(extra=dict(RENEWABLE)), MemoryStore()
    async with world.client(world.oauth(store=store)) as client:
        await client.get(SERVER)
        world.extra.clear()
        world.tokens.clear()
        await client.get(SERVER)
    (login,) = await store.load()
    assert login.token is not None
    assert login.token.refresh_token == "refresh-secret-1"


async def test_a_spent_refresh_token_leads_to_a_new_login() -> None:
    world = World(extra=dict(RENEWABLE))
    async with world.client(world.oauth()) as client:
        await client.get(SERVER)
        world.tokens.clear()
        world.refresh.clear()
        assert (await client.get(SERVER)).status_code == 200
    assert len(world.pages) == 2
    assert len(world.registrations) == 1


async def test_a_failing_authorization_server_loses_no_refresh_token() -> None:
    world = World(extra=dict(RENEWABLE))
    async with world.client(world.oauth()) as client:
        await client.get(SERVER)
        world.tokens.clear()

        async def fail(request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(503)

        world.on[f"{ISSUER}/token"] = fail
        with pytest.raises(AuthorizationError, match="503"):
            await client.get(SERVER)
        world.on.clear()
        assert (await client.get(SERVER)).status_code == 200
    assert world.forms[-1]["grant_type"] == "refresh_token"
    assert len(world.pages) == 1


async def test_who_is_cancelled_while_renewing_leaves_the_new_token_to_the_others() -> None:
    world, store = World(extra=dict(RENEWABLE)), MemoryStore()
    asked, answer = trio.Event(), trio.Event()

    async def slowly(request: httpx2.Request) -> httpx2.Response:
        asked.set()
        await answer.wait()
        return await world.token(request)

    async with world.client(world.oauth(store=store)) as client:
        await client.get(SERVER)
        world.tokens.clear()
        world.on[f"{ISSUER}/token"] = slowly
        with trio.fail_after(TIME_LIMIT):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.get, SERVER)
                await asked.wait()
                nursery.cancel_scope.cancel()
                answer.set()
            assert (await client.get(SERVER)).status_code == 200
    assert [each["grant_type"] for each in world.forms] == ["authorization_code", "refresh_token"]
    (login,) = await store.load()
    assert login.token is not None
    assert login.token.refresh_token in world.refresh


async def test_a_server_that_never_answers_keeps_nobody_who_is_cancelled(
    autojump_clock: Any,
) -> None:
    world = World()

    async def silent(request: httpx2.Request) -> httpx2.Response:
        await trio.sleep_forever()
        raise AssertionError

    world.on[f"{ISSUER}/token"] = silent
    auth = ClientCredentials(client_id="c", client_secret="hush", fetching=world.fetching)
    async with world.client(auth) as client:
        began = trio.current_time()
        with trio.move_on_after(5) as scope:
            await client.get(SERVER)
        assert scope.cancelled_caught
        assert trio.current_time() - began == 7
        del world.on[f"{ISSUER}/token"]
        assert (await client.get(SERVER)).status_code == 200


async def test_what_was_kept_opens_the_server_the_next_time(tmp_path: Any) -> None:
    world = World(extra=dict(RENEWABLE))
    for _ in range(2):
        async with world.client(world.oauth(store=FileStore(tmp_path / "tokens.json"))) as client:
            assert (await client.get(SERVER)).status_code == 200
    assert len(world.pages) == 1


async def test_what_another_process_has_renewed_is_taken_over(tmp_path: Any) -> None:
    world = World(extra=dict(RENEWABLE))
    first, second = (world.oauth(store=FileStore(tmp_path / "tokens.json")) for _ in range(2))
    async with world.client(first) as one, world.client(second) as two:
        await one.get(SERVER)
        await two.get(SERVER)
        world.tokens.clear()
        await one.get(SERVER)
        assert (await two.get(SERVER)).status_code == 200
    assert [each["grant_type"] for each in world.forms] == ["authorization_code", "refresh_token"]


# -- scopes ----------------------------------------------------------------------------------------


async def test_scopes_that_lack_are_asked_for_with_those_from_before() -> None:
    world = World(needed={"POST": "write", "PUT": "admin"})
    async with world.client(world.oauth()) as client:
        await client.get(SERVER)
        assert (await client.post(SERVER)).status_code == 200
        assert (await client.put(SERVER)).status_code == 200
        assert (await client.get(SERVER)).status_code == 200
    assert [each["scope"] for each in world.pages] == ["read", "read write", "read write admin"]


async def test_scopes_that_were_not_given_are_not_asked_for_again() -> None:
    world = World(needed={"POST": "write"}, extra={"scope": "read"})
    async with world.client(world.oauth()) as client:
        for _ in range(3):
            with pytest.raises(
                AuthorizationError, match=r"mcp\.test needs the scopes write: no lo"
            ):
                await client.post(SERVER)
        assert (await client.get(SERVER)).status_code == 200  # for which there are enough
    assert len(world.pages) == 2


async def test_a_server_that_wants_ever_more_scopes_gets_three_logins() -> None:
    world = World()

    async def greedy(request: httpx2.Request) -> httpx2.Response:
        if "authorization" not in request.headers:
            return await world.call(request)
        more = f'Bearer error="insufficient_scope", scope="s{len(world.pages)}"'
        return httpx2.Response(403, headers={"WWW-Authenticate": more})

    world.on[SERVER] = greedy
    world.on["https://mcp.test/.well-known/oauth-protected-resource/mcp"] = world.about_resource
    async with world.client(world.oauth()) as client:
        with pytest.raises(AuthorizationError, match="needs the scopes s3") as caught:
            await client.get(SERVER)
    assert caught.value.error == "insufficient_scope"
    assert len(world.pages) == 3


async def test_a_server_that_never_takes_a_token_gets_three_logins() -> None:
    world = World()

    async def deaf(request: httpx2.Request) -> httpx2.Response:
        world.tokens.clear()
        return await world.call(request)

    world.on[SERVER] = deaf
    async with world.client(world.oauth()) as client:
        assert (await client.get(SERVER)).status_code == 401
    assert len(world.pages) == 3


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (403, "Bearer"),
        (403, 'Basic error="insufficient_scope"'),
        (401, 'Basic realm="x"'),
        (500, ""),
    ],
)
async def test_what_a_token_does_not_help_with_is_left_to_the_caller(
    status: int, said: str
) -> None:
    world = World()

    async def other(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={"WWW-Authenticate": said}, text="why")

    world.on[SERVER] = other
    async with world.client(world.oauth()) as client:
        response = await client.get(SERVER)
    assert (response.status_code, response.text) == (status, "why")
    assert world.pages == []


async def test_scopes_of_the_users_are_asked_for_besides() -> None:
    world = World(challenge='Bearer resource_metadata="https://mcp.test/meta"')
    async with world.client(world.oauth(scopes=["mine"])) as client:
        await client.get(SERVER)
    assert world.pages[0]["scope"] == "mine"


# -- DPoP ------------------------------------------------------------------------------------------


@pytest.mark.requirement("J4")
async def test_a_token_is_bound_to_a_key_with_fresh_proofs_and_nonces() -> None:
    world = World(challenge='DPoP resource_metadata="https://mcp.test/meta"')
    assert world.server is not None
    world.server["dpop_signing_alg_values_supported"] = ["ES256"]
    proofs: list[dict[str, Any]] = []

    async def bind(request: httpx2.Request) -> httpx2.Response:
        header, claims = claims_of(request.headers["dpop"])
        assert header["typ"] == "dpop+jwt"
        assert "d" not in header["jwk"]
        assert (claims["htm"], claims["htu"]) == ("POST", f"{ISSUER}/token")
        proofs.append(claims)
        if claims.get("nonce") != "as-nonce":
            return world.json({"error": "use_dpop_nonce"}, 400, dpop_nonce="as-nonce")
        world.extra["token_type"] = "DPoP"
        return await world.token(request)

    async def check(request: httpx2.Request) -> httpx2.Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if not token:
            return await world.call(request)
        assert scheme == "DPoP"
        _, claims = claims_of(request.headers["dpop"])
        assert (claims["htm"], claims["htu"]) == ("GET", SERVER)
        assert claims["ath"] == world_thumb(token)
        proofs.append(claims)
        if claims.get("nonce") != "rs-nonce":
            said = {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"', "DPoP-Nonce": "rs-nonce"}
            return httpx2.Response(401, headers=said)
        return await world.call(request)

    world.on = {SERVER: check, f"{ISSUER}/token": bind}
    store = MemoryStore()
    async with world.client(world.oauth(store=store)) as client:
        assert (await client.get(f"{SERVER}")).text == "DPoP in"
        assert (await client.get(f"{SERVER}")).text == "DPoP in"
    assert len(world.pages) == 1
    assert len(proofs) == 5  # two at the token endpoint, two for the first call, one for the next
    assert len({each["jti"] for each in proofs}) == 5
    (login,) = await store.load()
    assert login.dpop_key is not None
    async with world.client(world.oauth(store=store)) as client:
        assert (await client.get(f"{SERVER}")).text == "DPoP in"  # with the key that was kept


def world_thumb(token: str) -> str:
    from tests.auth.client.world import thumb

    return thumb(token)


@pytest.mark.requirement("J4")
async def test_who_wants_a_bound_token_takes_no_other() -> None:
    world = World()
    async with world.client(world.oauth(dpop=True)) as client:
        with pytest.raises(AuthorizationError, match="bound to no key"):
            await client.get(SERVER)
    assert world.count(SERVER) == 1


@pytest.mark.requirement("J4")
async def test_a_nonce_that_changes_each_time_is_not_followed_forever() -> None:
    world = World()

    async def more(request: httpx2.Request) -> httpx2.Response:
        if "authorization" not in request.headers:
            return await world.call(request)
        nonce = f"nonce-{len(world.requests)}"
        said = {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"', "DPoP-Nonce": nonce}
        return httpx2.Response(401, headers=said)

    world.on[SERVER] = more
    world.on["https://mcp.test/.well-known/oauth-protected-resource/mcp"] = world.about_resource
    world.extra["token_type"] = "DPoP"
    async with world.client(world.oauth(dpop=True)) as client:
        assert (await client.get(SERVER)).status_code == 401
    assert world.count(SERVER) <= 8


@pytest.mark.requirement("J4")
def test_a_proof_is_of_this_moment_and_without_a_query() -> None:
    key = DpopKey()
    _, claims = claims_of(key.proof("GET", "https://mcp.test/mcp?key=secret#x"))
    assert claims["htu"] == SERVER
    assert abs(claims["iat"] - time.time()) < 60


# -- bodies ----------------------------------------------------------------------------------------


class Endless(httpx2.AsyncByteStream):
    """A body that never ends, quickly or not at all."""

    def __init__(self, piece: bytes) -> None:
        self.piece = piece
        self.sent = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            await trio.lowlevel.checkpoint()
            if not self.piece:
                await trio.sleep_forever()
            self.sent += len(self.piece)
            yield self.piece

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize("piece", [b"x" * 10000, b""])
async def test_a_refusal_without_end_is_cut_off(piece: bytes, autojump_clock: Any) -> None:
    world, body = World(), Endless(piece)

    async def refuse(request: httpx2.Request) -> httpx2.Response:
        response = await world.call(request)
        if response.status_code == 401:
            return httpx2.Response(401, headers=response.headers, stream=body)
        return response

    world.on[SERVER] = refuse
    auth = ClientCredentials(client_id="c", client_secret="secret", fetching=world.fetching)
    async with world.client(auth) as client:
        with trio.fail_after(10):
            assert (await client.get(SERVER)).status_code == 200
    assert body.closed
    assert body.sent < 200_000


@pytest.mark.parametrize(
    "where", ["/.well-known/oauth-authorization-server", "/token", "/register"]
)
@pytest.mark.parametrize("piece", [b"x" * 100_000, b""])
async def test_an_answer_without_end_is_given_up(
    where: str, piece: bytes, autojump_clock: Any
) -> None:
    world, body = World(), Endless(piece)

    async def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=body)

    world.on[f"{ISSUER}{where}"] = answer
    auth: httpx2.Auth = ClientCredentials(
        client_id="c", client_secret="secret", fetching=world.fetching
    )
    if where == "/register":
        auth = world.oauth()
    async with world.client(auth) as client:
        with trio.fail_after(60), pytest.raises(AuthorizationError, match=r"more than|within"):
            await client.get(SERVER)
    assert body.closed
    assert body.sent < 2_000_000
