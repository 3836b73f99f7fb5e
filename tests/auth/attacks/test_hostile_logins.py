"""Servers and authorization servers that lie, repeat themselves and never end; and crowds that wait."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx2
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.auth.client.world import ISSUER, SERVER, TIME_LIMIT, World
from trio_mcp.auth import ClientCredentials, MemoryStore
from trio_mcp.errors import AuthorizationError

META = "https://mcp.test/meta"
SAID = f'Bearer resource_metadata="{META}"'


def program(world: World, **options: Any) -> ClientCredentials:
    """A way in without a person."""
    given = {"client_id": "c", "client_secret": "client-secret-0", "fetching": world.fetching}
    return ClientCredentials(**{**given, **options})


# -- challenges -----------------------------------------------------------------------------------

LONG = {
    "a megabyte": SAID + ', x="' + "x" * 1_000_000 + '"',
    "a megabyte before": 'Bearer x="' + "x" * 1_000_000 + '", ' + SAID,
    "a hundred thousand parameters": SAID + "".join(f", p{each}=1" for each in range(100_000)),
    "a hundred thousand challenges": SAID + ", Basic" * 100_000,
    "a megabyte of commas": SAID + "," * 1_000_000,
    "a megabyte of quotes": SAID + ', x="' + '\\"' * 500_000,
    "a megabyte of spaces": SAID + " " * 1_000_000,
    "a hundred thousand scopes": SAID + ', scope="' + "s " * 100_000 + '"',
}


@pytest.mark.parametrize("what", LONG)
async def test_a_challenge_without_end(what: str) -> None:
    """It is read as far as it goes; then there is a login, or a word."""
    world = World(challenge=LONG[what])
    world.on["https://mcp.test/.well-known/oauth-protected-resource/mcp"] = world.about_resource
    async with world.client(program(world)) as client:
        try:
            said = str((await client.get(SERVER)).status_code)
        except AuthorizationError as error:
            said = str(error)
    assert len(said) < 500
    assert len(world.requests) <= 6
    assert all(len(form.get("scope", "")) <= 4096 for form in world.forms)


@pytest.mark.parametrize(
    "challenge",
    [
        f'Bearer resource_metadata="{META}", resource_metadata="https://evil.test/"',
        'Bearer RESOURCE_METADATA="https://evil.test/", resource_metadata="https://evil.test/"',
        'Basic resource_metadata="https://evil.test/"',
        'Bearer realm="\\", resource_metadata=\\"https://evil.test/"',
    ],
)
async def test_what_a_challenge_only_seems_to_say(challenge: str) -> None:
    world = World(challenge=challenge)
    async with world.client(program(world)) as client:
        try:
            await client.get(SERVER)
        except AuthorizationError:
            pass
    assert not any("evil.test" in each for each in world.requests)


# -- tokens ---------------------------------------------------------------------------------------

BAD_TOKENS: dict[str, dict[str, Any]] = {
    **{
        f"{name} {value!r:.20}": {name: value}
        for name in ("access_token", "refresh_token")
        for value in (
            "",
            "a b",
            "a\r\nHost: evil",
            "a\x00",
            "\xe9",
            "x" * 1_000_000,
            5,
            [],
            {},
            True,
        )
    },
    **{
        f"token_type {value!r:.20}": {"token_type": value}
        for value in (None, "", "Basic", "MAC", "Bearer\r\nX: y", 5, ["Bearer"], "x" * 1_000_000)
    },
    **{
        f"expires_in {value!r:.20}": {"expires_in": value}
        for value in (-1, float("nan"), float("inf"), "1e400", "nan", 10**400, [], {}, True, "soon")
    },
    **{f"scope {value!r}": {"scope": value} for value in (5, [], {}, ["read"], True)},
    "no token": {"access_token": None},
    "an error in a success": {"access_token": None, "error": "invalid_grant"},
    "bound to a key of nobody's": {"token_type": "DPoP"},
}


@pytest.mark.parametrize("what", BAD_TOKENS)
async def test_a_token_that_is_none(what: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    world, store = World(), MemoryStore()

    async def give(request: httpx2.Request) -> httpx2.Response:
        given = json.loads((await world.token(request)).content)
        return world.json({**given, **BAD_TOKENS[what]})

    world.on[f"{ISSUER}/token"] = give
    async with world.client(program(world, store=store)) as client:
        with pytest.raises(AuthorizationError) as caught:
            await client.get(SERVER)
    assert world.count(SERVER) == 1, "it is not sent"
    assert await store.load() == [], "and not kept"
    assert "-secret-" not in str(caught.value) + caplog.text


ANSWERS = {
    "a page": httpx2.Response(200, html="<html>access_token</html>"),
    "nothing": httpx2.Response(200),
    "a page that says no": httpx2.Response(403, html="<html>" + "no" * 100_000),
    "an error of no kind": httpx2.Response(400, json={"error": ["invalid_grant"]}),
    "an error with a line": httpx2.Response(400, json={"error": "x\nLOG: let in"}),
    "an error of a megabyte": httpx2.Response(
        400, json={"error": "temporarily_unavailable", "error_description": "x" * 900_000}
    ),
    "a way elsewhere": httpx2.Response(307, headers={"location": "https://evil.test/token"}),
    "a way back": httpx2.Response(302, headers={"location": f"{ISSUER}/token"}),
    "too many": httpx2.Response(429, headers={"retry-after": "1000000"}),
    "failure": httpx2.Response(500),
    "nothing new": httpx2.Response(304),
}


@pytest.mark.parametrize("what", ANSWERS)
async def test_a_refresh_that_fails_spends_nothing(what: str) -> None:
    world = World(extra={"refresh_token": True})
    async with world.client(world.oauth()) as client:
        await client.get(SERVER)
        world.tokens.clear()

        async def answer(request: httpx2.Request) -> httpx2.Response:
            world.requests.append("refresh")
            return ANSWERS[what]

        world.on[f"{ISSUER}/token"] = answer
        with pytest.raises(AuthorizationError) as caught:
            await client.get(SERVER)
        assert world.count("refresh") == 1
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500
        world.on.clear()
        assert (await client.get(SERVER)).status_code == 200
        assert world.forms[-1]["grant_type"] == "refresh_token"
    assert not any("evil.test" in each for each in world.requests)


async def test_who_gives_a_token_that_never_works_is_left_alone() -> None:
    world = World()

    async def forget(request: httpx2.Request) -> httpx2.Response:
        world.tokens.clear()
        return await world.call(request)

    world.on[SERVER] = forget
    async with world.client(program(world)) as client:
        for count in range(1, 4):
            assert (await client.get(SERVER)).status_code == 401
            assert len(world.forms) <= 3 * count


# -- two authorization servers ---------------------------------------------------------------------


@pytest.mark.parametrize("announced", [True, False])
async def test_a_server_that_shows_the_page_of_another(announced: bool) -> None:
    """The mix-up: the person logs in at an honest server, and the code would go to another."""
    honest, evil = World(issuer="https://honest.test"), World(issuer="https://evil.test")
    assert evil.server is not None
    evil.server["authorization_endpoint"] = "https://honest.test/authorize"
    evil.server["authorization_response_iss_parameter_supported"] = announced
    auth = evil.oauth(open_browser=honest.agree)
    async with evil.client(auth) as client:
        with pytest.raises(AuthorizationError, match=r"not from https://evil\.test"):
            await client.get(SERVER)
    assert len(honest.pages) == 1
    assert evil.forms == [], "it gets no code"


async def test_a_code_that_comes_twice_is_used_once() -> None:
    world = World()
    answers = []

    async def twice(url: str) -> None:
        uri, answer = world.page(url)
        for _ in range(2):
            answers.append((await world.browse(uri, answer)).status_code)

    async with world.client(world.oauth(open_browser=twice)) as client:
        assert (await client.get(SERVER)).status_code == 200
    assert answers[0] == 200
    assert len(world.forms) == 1


async def test_a_redirect_of_another_login_is_none() -> None:
    """A code of the attacker's own, with a state that was good for the login before."""
    world = World()
    old: list[dict[str, str]] = []
    statuses = []

    async def replay(url: str) -> None:
        uri, answer = world.page(url)
        if old:
            statuses.append((await world.browse(uri, old[0])).status_code)
        old.append(answer)
        await world.browse(uri, answer)

    async with world.client(world.oauth(open_browser=replay)) as client:
        await client.get(SERVER)
        world.tokens.clear()
        assert (await client.get(SERVER)).status_code == 200
    assert statuses == [400]
    assert [each["code"] for each in world.forms] == ["code-1", "code-2"]


# -- crowds ---------------------------------------------------------------------------------------


class Crowd:
    """Calls that all need the same login, and whoever of them is just logging in."""

    def __init__(self, world: World, size: int) -> None:
        self.world = world
        self.answers: list[int] = []
        self.size = size
        self.people: dict[trio.lowlevel.Task, trio.CancelScope] = {}
        self.at_the_page: trio.CancelScope | None = None
        self.is_patient = True
        """Nobody says yes on the page yet."""
        self._shown = trio.lowlevel.ParkingLot()
        self.auth = world.oauth(client_id="given", open_browser=self.show)

    async def show(self, url: str) -> None:
        """Show the page to one of them."""
        self.at_the_page = self.people[trio.lowlevel.current_task()]
        self._shown.unpark_all()
        if self.is_patient:
            await trio.sleep_forever()
        await self.world.agree(url)

    async def somebody_at_the_page(self) -> trio.CancelScope:
        """Wait until the page is shown to the next one."""
        while self.at_the_page is None:
            await self._shown.park()
        found, self.at_the_page = self.at_the_page, None
        return found

    async def begin(self, client: httpx2.AsyncClient, nursery: trio.Nursery) -> None:
        """Begin all calls."""

        async def one() -> None:
            with trio.CancelScope() as scope:
                self.people[trio.lowlevel.current_task()] = scope
                self.answers.append((await client.get(SERVER)).status_code)

        for _ in range(self.size):
            nursery.start_soon(one)
        await wait_all_tasks_blocked()


@pytest.mark.parametrize("size", [50, pytest.param(1000, marks=pytest.mark.long)])
async def test_a_crowd_that_waits_for_one_login(size: int) -> None:
    """Half of those who wait leave, and then the one who logs in: the others get in."""
    world = World()
    crowd = Crowd(world, size)
    with trio.fail_after(TIME_LIMIT):
        async with world.client(crowd.auth) as client, trio.open_nursery() as nursery:
            await crowd.begin(client, nursery)
            first = await crowd.somebody_at_the_page()
            assert world.count("oauth-authorization-server") == 1, "one of them looks for the way"
            waiting = [each for each in crowd.people.values() if each is not first]
            for scope in waiting[: size // 2]:
                scope.cancel()
            await wait_all_tasks_blocked()
            crowd.is_patient = False
            first.cancel()
    assert crowd.answers == [200] * (size - 1 - size // 2)
    assert len(world.forms) == 1


@pytest.mark.parametrize("size", [20, pytest.param(300, marks=pytest.mark.long)])
async def test_each_is_cancelled_when_it_is_its_turn(size: int) -> None:
    world = World()
    crowd = Crowd(world, size)
    with trio.fail_after(TIME_LIMIT):
        async with world.client(crowd.auth) as client:
            async with trio.open_nursery() as nursery:
                await crowd.begin(client, nursery)
                for _ in range(size):
                    (await crowd.somebody_at_the_page()).cancel()
            assert crowd.answers == []
            crowd.is_patient = False
            async with trio.open_nursery() as nursery:
                crowd.size = 3
                await crowd.begin(client, nursery)
    assert crowd.answers == [200] * 3
    assert len(world.forms) == 1
