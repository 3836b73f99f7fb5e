"""Getting in as a person: the way there, and all that must be refused on it."""

from __future__ import annotations

import logging
from base64 import b64encode
from typing import Any

import httpx2
import pytest
import trio
import trio.testing

from tests.auth.client.world import ISSUER, SERVER, TIME_LIMIT, World, basic
from trio_mcp.auth import MemoryStore
from trio_mcp.errors import AuthorizationError, LoginRequired

pytestmark = pytest.mark.requirement("J5")


async def test_a_person_gets_in_in_the_prescribed_order() -> None:
    world = World()
    async with world.client(world.oauth()) as client:
        response = await client.post(SERVER, json={})
    assert response.text == "Bearer in"
    assert world.requests == [
        f"POST {SERVER}",
        "GET https://mcp.test/meta",
        f"GET {ISSUER}/.well-known/oauth-authorization-server",
        f"POST {ISSUER}/register",
        f"POST {ISSUER}/token",
        f"POST {SERVER}",
    ]
    (page,) = world.pages
    (form,) = world.forms
    assert page["resource"] == form["resource"] == SERVER
    assert page["scope"] == "read"
    assert page["client_id"] == form["client_id"] == "client-1"
    assert page["redirect_uri"].startswith("http://127.0.0.1:")
    assert len(form["code_verifier"]) >= 43
    (registered,) = world.registrations
    assert registered["application_type"] == "native"
    assert registered["redirect_uris"] == [page["redirect_uri"]]
    assert "refresh_token" in registered["grant_types"]


async def test_the_next_request_has_the_token_at_once() -> None:
    world = World()
    async with world.client(world.oauth()) as client:
        await client.get(SERVER)
        del world.requests[:]
        assert (await client.get(SERVER)).text == "Bearer in"
    assert world.requests == [f"GET {SERVER}"]


def _server(**changes: Any) -> Any:
    def change(world: World) -> None:
        assert world.server is not None
        world.server = {k: v for k, v in (world.server | changes).items() if v is not None}

    return change


def _resource(**changes: Any) -> Any:
    def change(world: World) -> None:
        assert world.resource is not None
        world.resource |= changes

    return change


def _redirect(**changes: str | None) -> Any:
    def change(world: World) -> None:
        world.redirect = changes

    return change


def _both(*changes: Any) -> Any:
    def change(world: World) -> None:
        for each in changes:
            each(world)

    return change


def _says(challenge: str) -> Any:
    def change(world: World) -> None:
        world.challenge = f'Bearer resource_metadata="https://mcp.test/meta"{challenge}'

    return change


BEFORE_THE_PERSON = {
    "a scope of two": (_both(_says(""), _resource(scopes_supported=["a b"])), "a scope that"),
    "a scope that is none": (_says(', scope="a\\\\b"'), "a scope that"),
    "many scopes": (
        _both(_says(""), _resource(scopes_supported=[f"s{each}" for each in range(50_000)])),
        "over 4096",
    ),
    "another resource": (_resource(resource="https://other.test/mcp"), "another resource"),
    "a sibling resource": (_resource(resource="https://mcp.test/mc"), "another resource"),
    "no resource": (_resource(resource=None), "no resource"),
    "no authorization server": (_resource(authorization_servers=[]), "no authorization server"),
    "plain http": (_resource(authorization_servers=["http://as.test"]), "plain http"),
    "no list of servers": (_resource(authorization_servers="https://as.test"), "not a list"),
    "another issuer": (_server(issuer="https://honest.test"), "another issuer"),
    "an issuer with a slash": (_server(issuer=f"{ISSUER}/"), "another issuer .* a slash"),
    "no issuer": (_server(issuer=None), "no issuer"),
    "no PKCE": (_server(code_challenge_methods_supported=None), r"OAuth\(assume_pkce=True\)"),
    "plain PKCE": (_server(code_challenge_methods_supported=["plain"]), "PKCE"),
    "a plain token endpoint": (_server(token_endpoint="http://as.test/token"), "plain http"),
    "a page on this machine": (
        _server(authorization_endpoint="http://127.0.0.1:8080/reboot"),
        r"plain http, where https://as\.test must not send anybody",
    ),
    "a script for a page": (_server(authorization_endpoint="javascript:alert(1)"), "not a URL"),
    "no token endpoint": (_server(token_endpoint=None), "no token_endpoint"),
    "no registration": (_server(registration_endpoint=None), "client_id"),
}


@pytest.mark.parametrize("what", BEFORE_THE_PERSON)
async def test_what_is_not_in_order_is_refused_before_the_person_is_asked(what: str) -> None:
    change, words = BEFORE_THE_PERSON[what]
    world = World()
    change(world)
    async with world.client(world.oauth()) as client:
        with pytest.raises(AuthorizationError, match=words):
            await client.get(SERVER)
    assert world.pages == []
    assert world.forms == []


AFTER_THE_PERSON = {
    "another's redirect": (_redirect(iss="https://evil.test"), "not from"),
    "a redirect with a slash more": (_redirect(iss=f"{ISSUER}/"), "not from"),
    "a redirect from nobody": (_redirect(iss=None), "does not say"),
    "no code": (_redirect(code=None), "no code"),
    "a no": (_redirect(error="access_denied", code=None), "access_denied"),
    "another's no, which is not shown": (
        _redirect(iss="https://evil.test", error="call-me", error_description="call me"),
        r"^the redirect is not from https://as\.test: refused$",
    ),
    "one that was not announced": (
        _both(
            _server(authorization_response_iss_parameter_supported=None), _redirect(iss="https://e")
        ),
        "not from",
    ),
}


@pytest.mark.parametrize("what", AFTER_THE_PERSON)
async def test_a_redirect_that_is_not_in_order_brings_no_code_to_anybody(what: str) -> None:
    change, words = AFTER_THE_PERSON[what]
    world = World()
    change(world)
    async with world.client(world.oauth()) as client:
        with pytest.raises(AuthorizationError, match=words):
            await client.get(SERVER)
    assert len(world.pages) == 1
    assert world.forms == []


async def test_an_issuer_that_says_nothing_about_iss_may_leave_it_out() -> None:
    world = World()
    _server(authorization_response_iss_parameter_supported=None)(world)
    world.redirect = {"iss": None}
    async with world.client(world.oauth()) as client:
        assert (await client.get(SERVER)).status_code == 200


async def test_a_redirect_of_a_strangers_disturbs_nothing() -> None:
    world = World()
    answers: list[int] = []

    async def meddle(url: str) -> None:
        uri, right = world.page(url)
        for wrong in ({"state": "x"}, {"state": ""}, {"code": "stolen"}):
            response = await world.browse(uri, {**right, **wrong, "state": wrong.get("state", "y")})
            answers.append(response.status_code)
        answers.append((await world.browse(uri, {"code": "stolen"})).status_code)
        answers.append((await world.browse(f"{uri}/x", right)).status_code)
        answers.append((await world.browse(uri, right)).status_code)

    async with world.client(world.oauth(open_browser=meddle)) as client:
        assert (await client.get(SERVER)).status_code == 200
    assert answers == [400, 400, 400, 400, 404, 200]
    assert [each["code"] for each in world.forms] == ["code-1"]


async def test_nobody_who_logs_in_is_waited_for_so_long_and_no_longer(autojump_clock: Any) -> None:
    world = World()

    async def look_away(url: str) -> None:
        pass

    async with world.client(world.oauth(open_browser=look_away, timeout=60)) as client:
        with pytest.raises(AuthorizationError, match="no login within 60 s"):
            await client.get(SERVER)
    assert trio.current_time() >= 60


async def test_without_anybody_to_ask_it_says_so() -> None:
    world = World()
    async with world.client(world.oauth(open_browser=None)) as client:
        with pytest.raises(LoginRequired, match=r"https://mcp\.test wants a person"):
            await client.get(SERVER)
    assert world.registrations == []


# -- who we are ------------------------------------------------------------------------------------


async def test_a_given_client_comes_first() -> None:
    world = World()
    _server(client_id_metadata_document_supported=True)(world)
    auth = world.oauth(
        client_id="given",
        client_secret="s e:cret",
        client_metadata_url="https://c.test/client.json",
    )
    async with world.client(auth) as client:
        await client.get(SERVER)
    assert world.pages[0]["client_id"] == "given"
    assert world.registrations == []
    assert basic(world.token_headers[0]) == "given:s%20e%3Acret"
    assert "client_secret" not in world.forms[0]
    assert world.forms[0]["client_id"] == "given", "servers of the SDK look for it there"


async def test_scopes_are_registered_where_a_client_may_ask_for_no_others() -> None:
    world, shown = World(), []

    async def agree(url: str) -> None:
        uri, answer = world.page(url)
        may_ask = world.registrations[-1].get("scope", "").split()
        refused = not set(world.pages[-1]["scope"].split()) <= set(may_ask)
        shown.append("refused" if refused else "asked")
        if refused:
            answer = {"error": "invalid_scope", "state": answer["state"], "iss": ISSUER}
        await world.browse(uri, answer)

    async with world.client(world.oauth(open_browser=agree)) as client:
        assert (await client.get(SERVER)).status_code == 200
        world.needed["POST"] = "write"
        assert (await client.post(SERVER)).status_code == 200
    assert shown == ["refused", "asked", "refused", "asked"]
    assert [each.get("scope") for each in world.registrations] == [None, "read", "read write"]


async def test_scopes_that_are_refused_all_the_same_are_not_asked_for_again() -> None:
    world = World(redirect={"code": None, "error": "invalid_scope"})
    async with world.client(world.oauth()) as client:
        with pytest.raises(AuthorizationError, match="invalid_scope"):
            await client.get(SERVER)
    assert [each.get("scope") for each in world.registrations] == [None, "read"]
    assert len(world.pages) == 2


@pytest.mark.parametrize(
    ("supported", "id"), [(True, "https://c.test/client.json"), (False, "client-1")]
)
async def test_a_document_comes_before_registration_where_it_is_taken(
    supported: bool, id: str
) -> None:
    world = World()
    _server(client_id_metadata_document_supported=supported)(world)
    auth = world.oauth(client_metadata_url="https://c.test/client.json")
    async with world.client(auth) as client:
        await client.get(SERVER)
    assert world.pages[0]["client_id"] == id


@pytest.mark.parametrize("url", ["http://c.test/a", "https://c.test", "https://c.test/a#b"])
async def test_a_document_must_have_a_proper_url(url: str) -> None:
    with pytest.raises(ValueError, match="client_metadata_url"):
        World().oauth(client_metadata_url=url)


async def test_a_registration_is_good_for_one_issuer_only() -> None:
    store = MemoryStore()
    world, other = World(), World(issuer="https://as2.test")
    auth = world.oauth(store=store)
    async with world.client(auth) as client:
        await client.get(SERVER)
        world.resource = other.resource
        world.tokens.clear()
        world.on = {
            f"{other.issuer}{path}": answer
            for path, answer in {
                "/.well-known/oauth-authorization-server": other.about_server,
                "/token": other.token,
                "/register": other.register,
            }.items()
        }
        auth.open_browser = other.agree
        other.tokens = world.tokens
        assert (await client.get(SERVER)).status_code == 200
    assert len(other.registrations) == 1
    assert {each.issuer for each in await store.load()} == {ISSUER, other.issuer}


async def test_a_given_client_is_not_shown_to_another_issuer() -> None:
    world = World()
    auth = world.oauth(client_id="given", client_secret="secret-of-as")
    async with world.client(auth) as client:
        await client.get(SERVER)
        del world.pages[:]
        world.tokens.clear()
        new = World(issuer="https://as2.test")
        world.resource = new.resource
        world.on["https://as2.test/.well-known/oauth-authorization-server"] = new.about_server
        with pytest.raises(AuthorizationError, match=r"not from the issuer https://as\.test"):
            await client.get(SERVER)
    assert new.pages == new.forms == world.pages == []


async def test_an_issuer_that_was_named_is_the_only_one() -> None:
    world = World()
    async with world.client(world.oauth(issuer="https://mine.test")) as client:
        with pytest.raises(AuthorizationError, match=r"https://mine\.test"):
            await client.get(SERVER)


async def test_what_was_registered_is_used_again() -> None:
    world, store = World(), MemoryStore()
    async with world.client(world.oauth(store=store)) as client:
        await client.get(SERVER)
    world.tokens.clear()
    async with world.client(world.oauth(store=store)) as client:
        await client.get(SERVER)
    assert len(world.registrations) == 1
    first, second = world.pages
    assert first["redirect_uri"] == second["redirect_uri"]  # many servers compare it whole
    assert first["state"] != second["state"]
    assert first["code_challenge"] != second["code_challenge"]


# -- where things are ------------------------------------------------------------------------------


async def test_metadata_is_looked_for_where_the_server_does_not_point() -> None:
    world = World(challenge="Bearer")
    world.on["https://mcp.test/.well-known/oauth-protected-resource"] = world.about_resource
    async with world.client(world.oauth()) as client:
        assert (await client.get(SERVER)).status_code == 200
    assert world.requests[1:3] == [
        "GET https://mcp.test/.well-known/oauth-protected-resource/mcp",
        "GET https://mcp.test/.well-known/oauth-protected-resource",
    ]
    assert world.pages[0]["scope"] == "basic"


async def test_a_server_of_2025_03_26_is_its_own_authorization_server() -> None:
    world = World(challenge=None, issuer="https://mcp.test")
    world.server = None
    world.redirect = {"iss": None}
    async with world.client(world.oauth()) as client:
        assert (await client.get(SERVER)).status_code == 200
    assert "scope" not in world.pages[0]
    assert world.count("https://mcp.test/register") == 1


async def test_it_is_told_which_version_we_speak() -> None:
    world = World(challenge=None)
    versions: list[str | None] = []
    world.resource = None

    async def about(request: httpx2.Request) -> httpx2.Response:
        versions.append(request.headers.get("mcp-protocol-version"))
        return httpx2.Response(404)

    world.on["https://mcp.test/.well-known/oauth-authorization-server"] = about
    async with world.client(world.oauth(open_browser=None)) as client:
        with pytest.raises(LoginRequired):
            await client.get(SERVER)
    assert versions == ["2026-07-28"]


async def test_offline_access_is_asked_for_where_it_is_offered() -> None:
    world = World()
    _server(scopes_supported=["offline_access"])(world)
    async with world.client(world.oauth()) as client:
        await client.get(SERVER)
    assert world.pages[0]["scope"] == "read offline_access"
    assert world.pages[0]["prompt"] == "consent"


# -- many calls ------------------------------------------------------------------------------------


async def test_many_calls_wait_for_one_login_and_all_go_on() -> None:
    world = World()
    answers: list[int] = []

    async def late(url: str) -> None:
        await trio.testing.wait_all_tasks_blocked()
        await world.agree(url)

    async with world.client(world.oauth(open_browser=late)) as client:

        async def call() -> None:
            answers.append((await client.get(SERVER)).status_code)

        with trio.fail_after(TIME_LIMIT):
            async with trio.open_nursery() as nursery:
                for _ in range(50):
                    nursery.start_soon(call)
    assert answers == [200] * 50
    assert len(world.pages) == len(world.registrations) == 1


async def test_if_the_one_who_logs_in_is_cancelled_another_takes_over() -> None:
    world = World()
    answers: list[int] = []
    first = trio.CancelScope()
    shown = trio.Event()

    async def show(url: str) -> None:
        if not shown.is_set():
            world.page(url)
            shown.set()
            await trio.sleep_forever()
        await world.agree(url)

    async with world.client(world.oauth(open_browser=show)) as client:

        async def call(scope: trio.CancelScope) -> None:
            with scope:
                answers.append((await client.get(SERVER)).status_code)

        with trio.fail_after(TIME_LIMIT):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, first)
                await shown.wait()
                for _ in range(5):
                    nursery.start_soon(call, trio.CancelScope())
                await trio.testing.wait_all_tasks_blocked()
                first.cancel()
    assert answers == [200] * 5
    assert len(world.pages) == 2


async def test_if_the_login_fails_those_who_waited_fail_with_it() -> None:
    world = World()
    errors: list[str] = []

    async def refuse(url: str) -> None:
        await trio.testing.wait_all_tasks_blocked()
        await world.agree(url)

    world.redirect = {"error": "access_denied"}
    async with world.client(world.oauth(open_browser=refuse)) as client:

        async def call() -> None:
            with pytest.raises(AuthorizationError) as caught:
                await client.get(SERVER)
            errors.append(caught.value.error or "")

        with trio.fail_after(TIME_LIMIT):
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(call)
        assert errors == ["access_denied"] * 10
        assert len(world.pages) == 1
        world.redirect = {}
        assert (await client.get(SERVER)).status_code == 200  # later on, it may be tried again


# -- secrets ---------------------------------------------------------------------------------------


async def test_a_token_goes_nowhere_else() -> None:
    world = World()
    for url in ("https://other.test/mcp", "https://mcp.test/other", "https://mcp.test:8443/mcp"):
        world.on[url] = world.call
    async with world.client(world.oauth()) as client:
        await client.get(SERVER)
        for url in (
            "https://other.test/mcp",
            "https://mcp.test/other",
            "https://mcp.test:8443/mcp",
        ):
            del world.seen[:]
            with pytest.raises(AuthorizationError, match="another resource"):
                await client.get(url)  # it says that it is the other: no
            assert "authorization" not in world.seen[0]


async def test_what_is_below_the_resource_shares_its_token() -> None:
    world = World()
    world.on[f"{SERVER}/below"] = world.call
    async with world.client(world.oauth()) as client:
        await client.get(SERVER)
        assert (await client.get(f"{SERVER}/below")).status_code == 200
    assert len(world.pages) == 1


@pytest.mark.requirement("J7")
async def test_no_secret_is_shown_anywhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    world = World(extra={"refresh_token": True})
    store = MemoryStore()
    auth = world.oauth(client_id="given", client_secret="client-secret-0", store=store)
    async with world.client(auth) as client:
        await client.get(SERVER)
        (login,) = await store.load()
        world.tokens.clear()

        async def tell(request: httpx2.Request) -> httpx2.Response:
            text = request.content.decode() + request.headers["authorization"]
            said = {"error": "server_error", "error_description": text}
            return world.json(said, 500)

        world.on[f"{ISSUER}/token"] = tell
        with pytest.raises(AuthorizationError) as caught:
            await client.get(SERVER)
    shown = [repr(auth), repr(login), repr(store), caplog.text, str(caught.value), *world.requests]
    assert "server_error" in str(caught.value)
    for text in shown:
        assert "-secret-" not in text
        assert b64encode(b"given:client-secret-0").decode() not in text


@pytest.mark.requirement("P5")
async def test_a_server_that_does_not_announce_pkce_is_used_if_the_user_says_so() -> None:
    world = World()
    assert world.server is not None
    del world.server["code_challenge_methods_supported"]
    async with world.client(world.oauth(assume_pkce=True)) as client:
        assert (await client.get(SERVER)).status_code == 200
    assert world.pages[0]["code_challenge_method"] == "S256"


@pytest.mark.requirement("P5")
async def test_a_server_that_announces_another_pkce_is_refused_all_the_same() -> None:
    world = World()
    assert world.server is not None
    world.server["code_challenge_methods_supported"] = ["plain"]
    async with world.client(world.oauth(assume_pkce=True)) as client:
        with pytest.raises(AuthorizationError, match="PKCE"):
            await client.get(SERVER)
    assert world.pages == []


async def test_an_issuer_that_differs_by_a_slash_is_called_that() -> None:
    world = World()
    async with world.client(world.oauth(issuer=f"{ISSUER}/")) as client:
        with pytest.raises(AuthorizationError, match="differ by a slash at the end"):
            await client.get(SERVER)
