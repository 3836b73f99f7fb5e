"""A person logs in at a provider, and a client gets tokens of the server's own."""

import base64
import json
from contextlib import AsyncExitStack

import pytest
import trio
import trio.testing

from tests.auth.proxy.world import (
    CLIENT_SECRET,
    PROVIDER,
    RESOURCE,
    SERVER,
    Client,
    Provider,
    world,
)
from trio_mcp.auth import Identity, OAuthProxy, domain, oidc
from trio_mcp.store.opening import open_store


def claims_of(token: str) -> dict[str, object]:
    """Read the claims of a JWT."""
    part = token.split(".")[1]
    found: dict[str, object] = json.loads(base64.urlsafe_b64decode(part + "=="))
    return found


@pytest.mark.requirement("P1", "P2", "P4")
async def test_a_client_gets_in_by_the_provider():
    async with world() as here:
        await here.client.log_in()
        found = await here.client.call("who")
        assert found["structuredContent"] == {
            "subject": "alice-1",
            "name": "Alice",
            "email": "alice@acme.test",
            "client": here.client.id,
            "scopes": ["files:write"],
        }


@pytest.mark.requirement("P1")
async def test_the_server_describes_itself_as_an_authorization_server():
    async with world() as here:
        for path in (
            "/.well-known/oauth-authorization-server",
            "/.well-known/oauth-authorization-server/mcp",
            "/.well-known/openid-configuration",
        ):
            response = await here.browser.send("GET", path, origin="https://anywhere.test")
            about = response.json()
            assert response.headers["access-control-allow-origin"] == "*"
            assert about["issuer"] == SERVER
            assert about["token_endpoint"] == f"{SERVER}/token"
            assert about["code_challenge_methods_supported"] == ["S256"]
            assert about["scopes_supported"] == ["files:write"]
        resource = await here.browser.send("GET", "/.well-known/oauth-protected-resource/mcp")
        assert resource.json()["authorization_servers"] == [SERVER]


async def test_the_keys_of_tokens_are_published():
    async with world() as here:
        await here.client.log_in()
        keys = (await here.browser.send("GET", "/.well-known/jwks.json")).json()["keys"]
        header = here.client.tokens["access_token"].split(".")[0]
        kid = json.loads(base64.urlsafe_b64decode(header + "=="))["kid"]
        assert [key["kid"] for key in keys] == [kid]
        assert not {"d", "k"} & keys[0].keys()
        claims = claims_of(here.client.tokens["access_token"])
        assert (claims["iss"], claims["aud"]) == (SERVER, RESOURCE)


@pytest.mark.requirement("P2")
async def test_a_handler_gets_the_provider_s_token_and_the_client_does_not():
    async with world() as here:
        await here.client.log_in()
        found = await here.client.call("upstream")
        token = found["content"][0]["text"]
        assert token.startswith("provider-")
        assert token not in json.dumps(here.client.tokens)
        assert token not in "".join(here.browser.visited + here.browser.pages)


@pytest.mark.requirement("P2")
async def test_the_provider_s_token_is_renewed_once_however_many_calls_wait():
    provider = Provider(expires_in=30)  # which is to expire within the minute
    async with world(provider) as here:
        await here.client.log_in()
        provider.expires_in, provider.lasting = 3600, trio.Event()
        before = len(provider.forms)
        tokens: list[str] = []

        async def call() -> None:
            tokens.append((await here.client.call("upstream"))["content"][0]["text"])

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            provider.lasting.set()
        assert len(set(tokens)) == 1
        assert [form["grant_type"] for form in provider.forms[before:]] == ["refresh_token"]


async def test_a_provider_may_give_out_tokens_that_do_not_expire():
    provider = Provider(expires_in=None)
    async with world(provider) as here:
        await here.client.log_in()
        await here.client.call("upstream")
        assert [form["grant_type"] for form in provider.forms] == ["authorization_code"]


# -- refreshing ------------------------------------------------------------------------------------


@pytest.mark.requirement("P1")
async def test_a_refresh_token_is_replaced():
    async with world() as here:
        first = await here.client.log_in()
        second = (await here.client.refresh()).json()
        assert second["refresh_token"] != first["refresh_token"]
        assert (await here.client.call("who", second["access_token"]))["structuredContent"]
        third = await here.client.refresh(second["refresh_token"])
        assert third.status == 200


@pytest.mark.requirement("P1")
async def test_a_client_that_has_lost_the_answer_gets_the_same_refresh_token_again():
    async with world() as here:
        first = await here.client.log_in()
        lost = (await here.client.refresh()).json()
        again = (await here.client.refresh(first["refresh_token"])).json()
        assert again["refresh_token"] == lost["refresh_token"]
        assert (await here.client.refresh(again["refresh_token"])).status == 200


@pytest.mark.requirement("P1")
async def test_an_older_refresh_token_ends_the_login():
    async with world() as here:
        first = await here.client.log_in()
        second = (await here.client.refresh()).json()
        third = (await here.client.refresh(second["refresh_token"])).json()
        reused = await here.client.refresh(first["refresh_token"])
        assert (reused.status, reused.json()["error"]) == (400, "invalid_grant")
        again = await here.client.refresh(third["refresh_token"])
        assert again.json()["error"] == "invalid_grant"
        assert here.provider.revoked


async def test_many_refreshes_at_once_are_answered():
    async with world() as here:
        clients = [Client(here.host, here.browser) for _ in range(60)]
        for client in clients:
            await client.log_in()
        statuses: list[int] = []

        async def refresh(client: Client) -> None:
            statuses.append((await client.refresh()).status)

        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(refresh, client)
        # A person may have fifty logins; the oldest ones have ended.
        assert sorted(statuses) == [200] * 50 + [400] * 10


async def test_two_refreshes_at_once_get_the_same_refresh_token():
    async with world() as here:
        await here.client.log_in()
        found: list[str | None] = []

        async def refresh() -> None:
            response = await here.client.refresh()
            found.append(response.json().get("refresh_token"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(refresh)
            nursery.start_soon(refresh)
        assert len({token for token in found if token is not None}) == 1


@pytest.mark.requirement("P2")
async def test_a_login_ends_when_the_provider_ends_it():
    provider = Provider(expires_in=30)
    async with world(provider) as here:
        await here.client.log_in()
        provider.refresh_tokens.clear()
        refused = await here.client.refresh()
        assert (refused.status, refused.json()["error"]) == (400, "invalid_grant")
        assert "log in again" in refused.json()["error_description"]
        assert await here.client.call("upstream") == 401


async def test_a_provider_that_is_away_does_not_end_a_login():
    provider = Provider(expires_in=30)
    async with world(provider) as here:
        await here.client.log_in()
        url = f"{PROVIDER}/token"
        provider.answers[url] = lambda _: OSError("no network")
        away = await here.client.refresh()
        assert (away.status, away.json()["error"]) == (503, "temporarily_unavailable")
        del provider.answers[url]
        assert (await here.client.refresh()).status == 200


# -- the end ---------------------------------------------------------------------------------------


@pytest.mark.requirement("P1")
@pytest.mark.parametrize("kind", ["refresh_token", "access_token"])
async def test_a_revoked_login_is_over_here_and_at_the_provider(kind):
    async with world() as here:
        tokens = await here.client.log_in()
        assert (await here.client.post("/revoke", {"token": tokens[kind]})).status == 200
        assert len(here.provider.revoked) == 1
        assert (await here.client.refresh()).json()["error"] == "invalid_grant"
        assert await here.client.call("who") == 401


async def test_nothing_is_revoked_for_another_client():
    async with world() as here:
        tokens = await here.client.log_in()
        other = here.new_client()
        await other.register()
        assert (await other.post("/revoke", {"token": tokens["refresh_token"]})).status == 200
        assert (await here.client.refresh()).status == 200


# -- scopes ----------------------------------------------------------------------------------------


@pytest.mark.requirement("P1", "J3")
async def test_a_client_steps_up():
    async with world() as here:
        await here.client.log_in(scope="unknown")
        assert here.client.tokens["scope"] == ""
        assert await here.client.call("write") == 403
        await here.client.log_in(scope="files:write")
        assert here.client.tokens["scope"] == "files:write"
        assert (await here.client.call("write"))["content"][0]["text"] == "written"


async def test_a_refresh_takes_no_scope_beyond_those_of_the_login():
    async with world() as here:
        await here.client.log_in(scope="unknown")
        refused = await here.client.refresh(scope="files:write")
        assert refused.json()["error"] == "invalid_scope"


async def test_a_person_has_the_scopes_that_the_author_grants():
    def granted(identity: Identity) -> list[str]:
        return ["files:write"] if identity.name == "Bob" else []

    async with world(grant_scopes=granted) as here:
        await here.client.log_in()
        assert here.client.tokens["scope"] == ""


# -- who may come in -------------------------------------------------------------------------------


@pytest.mark.requirement("P4")
async def test_only_people_of_a_domain_may_come_in():
    async with world(allow=domain("ACME.test")) as here:
        await here.client.log_in()
        here.provider.claims["email"] = "mallory@evil.test"
        answer = await here.client.authorize()
        assert (answer["error"], answer["iss"]) == ("access_denied", SERVER)
        assert "may not use" in answer["error_description"]


async def test_an_address_that_is_not_verified_counts_for_nothing():
    provider = Provider()
    provider.claims["email_verified"] = False
    async with world(provider, allow=domain("acme.test")) as here:
        await here.client.register()
        assert (await here.client.authorize())["error"] == "access_denied"


async def test_a_function_may_decide_and_may_wait():
    async def allow(identity: Identity) -> bool:
        await trio.lowlevel.checkpoint()
        return identity.subject == "alice-1"

    async with world(allow=allow) as here:
        await here.client.log_in()
        here.provider.claims["sub"] = "bob-1"
        assert (await here.client.authorize())["error"] == "access_denied"


# -- several instances -----------------------------------------------------------------------------


@pytest.mark.requirement("P1", "P2", "M3")
async def test_each_step_of_a_login_may_reach_another_instance():
    provider = Provider()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store("memory:"))
        one = await stack.enter_async_context(world(provider, store=store))
        two = await stack.enter_async_context(world(provider, store=store))
        client = one.client
        client.hosts = client.browser.hosts = [one.host, two.host]
        await client.log_in()
        for _ in range(2):
            assert (await client.call("who"))["structuredContent"]["name"] == "Alice"
        assert (await client.refresh()).status == 200
        assert one.host.requests > 3
        assert two.host.requests > 3


async def test_another_server_with_the_same_store_takes_no_tokens_of_this_one():
    provider = Provider()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store("memory:"))
        one = await stack.enter_async_context(world(provider, store=store))
        other = await stack.enter_async_context(
            world(provider, store=store, resource=f"{SERVER}/other")
        )
        tokens = await one.client.log_in()
        assert await other.client.call("who", tokens["access_token"]) == 401


async def test_a_secret_can_be_replaced_without_ending_logins():
    provider = Provider()
    old, new = "an old secret, long enough", "a new secret, long enough"
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store("memory:"))
        before = await stack.enter_async_context(world(provider, store=store, secrets=old))
        tokens = await before.client.log_in()
        after = await stack.enter_async_context(world(provider, store=store, secrets=[new, old]))
        after.client.id, after.client.tokens = before.client.id, tokens
        assert (await after.client.call("who"))["structuredContent"]
        assert (await after.client.refresh()).status == 200


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"resource": "http://mcp.example.com/mcp"}, "plain http"),
        ({"resource": RESOURCE, "secrets": "short"}, "16 characters"),
        ({"resource": RESOURCE, "callback_path": "callback"}, "slash"),
        ({"resource": RESOURCE, "token_ttl": 0}, "token_ttl"),
        ({"resource": RESOURCE, "allow": "acme"}, "allow"),
    ],
)
def test_options_that_cannot_work_are_refused(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        oidc(PROVIDER, client_id="mcp-server", client_secret=CLIENT_SECRET, **options)


def test_no_secret_is_shown():
    proxy = oidc(PROVIDER, client_id="mcp-server", client_secret=CLIENT_SECRET, resource=RESOURCE)
    assert isinstance(proxy, OAuthProxy)
    assert CLIENT_SECRET not in repr(proxy)
