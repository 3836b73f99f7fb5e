"""Logins when something fails in the middle: the store, the provider, or a call that is cancelled."""

import itertools
import json
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import trio
import trio.testing
from attrs import define, field

from tests.auth.proxy.world import (
    CLIENT_SECRET,
    PROVIDER,
    RESOURCE,
    SERVER,
    Browser,
    Client,
    Provider,
    registry_of_callers,
    world,
)
from trio_mcp import Context, Registry, http_app
from trio_mcp.auth import Fetching, LoginProvider, OAuthProxy, oidc
from trio_mcp.auth.proxy.keys import SigningKeys
from trio_mcp.auth.proxy.seal import Seal
from trio_mcp.errors import StoreUnavailable
from trio_mcp.store.changes import Put
from trio_mcp.store.opening import open_store
from trio_mcp.store.protocol import Store

DESCRIBED = "https://app.test/client.json"


@define(eq=False)
class FailingStore:
    """A store that fails at one of the operations on logins."""

    store: Store
    fails_at: int | None = None
    """Operations until the one that fails; `None` for none."""
    puts_fail: int = 0
    """How often the next change of an entry fails."""
    failed: int = 0
    _left: Any = field(default=None)

    def _count(self, *keys: str) -> None:
        if self.fails_at is None or not any(key.startswith("oauth-") for key in keys):
            return
        self.fails_at -= 1
        if self.fails_at < 0:
            self.fails_at = None
            self.failed += 1
            raise StoreUnavailable("the store is away")

    async def commit(self, *changes: Any) -> list[int]:
        await trio.lowlevel.checkpoint()
        self._count(*(getattr(change, "key", "") for change in changes))
        changed = [change for change in changes if isinstance(change, Put) and change.expect]
        if self.puts_fail and changed:
            self.puts_fail -= 1
            raise StoreUnavailable("the store is away")
        return await self.store.commit(*changes)

    async def get(self, key: str) -> Any:
        await trio.lowlevel.checkpoint()  # as over a network: others come in between
        self._count(key)
        return await self.store.get(key)

    async def scan(self, folder: str, cursor: str = "", *, limit: int = 100) -> Any:
        self._count(folder)
        return await self.store.scan(folder, cursor, limit=min(limit, 20))  # as of long entries

    async def claim(self, folder: str, lease: float, *, limit: int = 1) -> Any:
        return await self.store.claim(folder, lease, limit=limit)

    async def read(self, log: str, after: int = 0, **bounds: Any) -> Any:
        return await self.store.read(log, after, **bounds)

    def watch(self, *channels: str) -> Any:
        return self.store.watch(*channels)


@define(eq=False)
class SlowProvider(Provider):
    """A provider whose answers take long, once it has done what it was asked."""

    slowly: trio.Event | None = None

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        response = await Provider.answer(self, request)
        if self.slowly is not None:
            await self.slowly.wait()
        return response


@asynccontextmanager
async def failing_world(provider: Provider | None = None):
    async with open_store("memory:") as store:
        failing = FailingStore(store)
        async with world(provider, store=failing) as here:
            yield here, failing


# -- the store -------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.requirement("P2")
async def test_a_code_can_be_sent_again_wherever_the_store_has_failed():
    for number in itertools.count():
        async with failing_world() as (here, store):
            await here.client.register()
            code = (await here.client.authorize())["code"]
            store.fails_at = number
            first = await here.client.redeem(code)
            if not store.failed:
                assert number > 3
                return
            assert (first.status, first.json()["error"]) == (503, "temporarily_unavailable")
            again = await here.client.redeem(code)
            assert again.status == 200, number


async def test_a_refresh_token_can_be_sent_again_wherever_the_store_has_failed(autojump_clock):
    async with failing_world(Provider(expires_in=30)) as (here, store):
        await here.client.log_in()
        for number in itertools.count():
            store.fails_at, store.failed = number, 0
            first = await here.client.refresh()
            if store.failed and first.status != 200:  # what it no longer needs may fail
                assert (first.status, first.json()["error"]) == (503, "temporarily_unavailable")
                first = await here.client.refresh()
            assert first.status == 200, number
            here.client.tokens = first.json()
            if not store.failed:
                assert number > 3
                return


async def test_a_person_who_comes_back_while_the_store_is_away_is_told_what_to_do():
    async with failing_world() as (here, store):
        await here.client.register()
        store.fails_at = 0
        page = await here.browser.visit(here.client.authorization_url())
        assert page.status == 503
        assert "Go back to the application" in page.body.decode()
        assert "away" not in page.body.decode()
        await here.client.log_in()


@pytest.mark.requirement("P3")
async def test_registrations_and_begun_logins_are_kept_nowhere():
    async with failing_world() as (here, store):
        store.fails_at = 0  # and nothing is asked of it
        for _ in range(200):
            assert (await here.client.register())["status"] == 201
            url = here.client.authorization_url().removeprefix(SERVER)
            assert (await here.browser.send("GET", url)).status == 200
        assert store.failed == 0


# -- renewals of the provider's tokens -------------------------------------------------------------


@pytest.mark.requirement("P2")
async def test_a_call_that_is_cancelled_loses_no_token_that_the_provider_has_given():
    provider = SlowProvider(expires_in=30)
    registry, scope = registry_of_callers(), trio.CancelScope()

    @registry.tool
    async def impatient(context: Context) -> str:
        with scope:
            return await context.provider_token()
        return "cancelled"

    async with world(provider, registry=registry) as here:
        await here.client.log_in()
        provider.expires_in, provider.slowly = 3600, trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(here.client.call, "impatient")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
        provider.slowly.set()
        found = await here.client.call("upstream")
        assert found["content"][0]["text"].startswith("provider-")
        assert not found.get("isError")
        assert (await here.client.refresh()).status == 200


@pytest.mark.requirement("P2")
async def test_a_handler_s_caller_reads_that_the_login_has_ended_and_has_to_log_in():
    async with world(Provider(expires_in=30)) as here:
        await here.client.log_in()
        here.provider.refresh_tokens.clear()
        found = await here.client.call("upstream")
        assert found["isError"]
        assert found["content"][0]["text"] == "The login at the provider has ended: log in again."
        assert (await here.client.refresh()).json()["error"] == "invalid_grant"


@pytest.mark.requirement("P2")
@pytest.mark.parametrize(
    "answer", [httpx2.Response(503, text="secret"), httpx2.ConnectError("secret")]
)
async def test_a_handler_s_caller_reads_that_the_provider_gives_no_token_now(answer: Any):
    async with world(Provider(expires_in=30)) as here:
        await here.client.log_in()
        here.provider.answers[f"{PROVIDER}/token"] = lambda _: answer
        found = await here.client.call("upstream")
        assert found["isError"]
        assert found["content"][0]["text"].startswith("The provider gives no token at the moment")
        here.provider.answers.clear()
        assert not (await here.client.call("upstream")).get("isError")


@pytest.mark.requirement("P2")
async def test_a_handler_s_caller_reads_that_the_store_is_away():
    async with failing_world() as (here, store):
        await here.client.log_in()
        assert not (await here.client.call("upstream")).get("isError")
        store.fails_at = 0
        found = await here.client.call("upstream")
        assert found["content"][0]["text"].startswith("The provider gives no token at the moment")


async def test_a_server_that_stops_in_the_middle_of_a_renewal_loses_nothing(autojump_clock):
    provider = SlowProvider(expires_in=30)
    async with open_store("memory:") as store:
        async with world(provider, store=store) as here:
            await here.client.log_in()
            provider.expires_in, provider.slowly = 3600, trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(here.client.call, "upstream")
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(set_after, provider.slowly, 5)
                nursery.cancel_scope.cancel()
        async with world(provider, store=store) as after:
            provider.slowly = None
            after.client.id, after.client.tokens = here.client.id, here.client.tokens
            assert not (await after.client.call("upstream")).get("isError")


async def set_after(event: trio.Event, seconds: float) -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)
    event.set()


async def test_a_store_that_fails_for_a_moment_loses_no_token_that_the_provider_has_given():
    async with failing_world(Provider(expires_in=30)) as (here, store):
        await here.client.log_in()
        here.provider.expires_in = 3600
        store.puts_fail = 2
        found = await here.client.call("upstream")
        assert not found.get("isError")
        assert store.puts_fail == 0
        assert (await here.client.refresh()).status == 200


# -- at the same time ------------------------------------------------------------------------------


@pytest.mark.requirement("P3")
async def test_of_two_redemptions_of_a_code_at_once_one_succeeds_and_the_login_ends():
    async with failing_world() as (here, _):
        await here.client.register()
        code = (await here.client.authorize())["code"]
        found = await at_once(2, lambda: here.client.redeem(code))
        good, bad = sorted(found, key=lambda response: response.status)
        assert (good.status, bad.status, bad.json()["error"]) == (200, 400, "invalid_grant")
        assert await here.client.call("who", good.json()["access_token"]) == 401


async def test_refreshes_at_once_are_all_answered():
    async with failing_world() as (here, _):
        await here.client.log_in()
        found = await at_once(5, here.client.refresh)
        assert [response.status for response in found] == [200] * 5
        assert len({response.json()["refresh_token"] for response in found}) == 1


async def at_once(number: int, work: Any) -> list[Any]:
    found: list[Any] = []

    async def run() -> None:
        found.append(await work())

    async with trio.open_nursery() as nursery:
        for _ in range(number):
            nursery.start_soon(run)
    return found


# -- clients with a document -----------------------------------------------------------------------


def document(_: httpx2.Request) -> httpx2.Response:
    redirects = ["https://app.test/callback"]
    return httpx2.Response(200, json={"client_id": DESCRIBED, "redirect_uris": redirects})


@pytest.mark.requirement("P1")
async def test_a_client_stays_logged_in_while_its_document_is_away():
    async with world() as here:
        here.provider.answers[DESCRIBED] = document
        here.client.id = DESCRIBED
        code = (await here.client.authorize())["code"]
        async with world(here.provider, store=None) as other:  # which has not seen the document
            other.provider.answers[DESCRIBED] = lambda _: httpx2.Response(500)
            other.client.id = DESCRIBED
            assert (await other.client.redeem(code)).json()["error"] == "invalid_grant"
            assert here.provider.asked.count(DESCRIBED) == 1
        here.client.tokens = (await here.client.redeem(code)).json()
        assert (await here.client.refresh()).status == 200


async def test_many_people_at_once_with_the_same_client_are_all_served():
    async with world() as here:
        here.provider.answers[DESCRIBED] = document

        async def begin() -> int:
            client = Client(here.host, Browser(here.host, here.provider))
            client.id = DESCRIBED
            url = client.authorization_url().removeprefix(SERVER)
            status: int = (await client.browser.send("GET", url)).status
            return status

        assert await at_once(40, begin) == [200] * 40
        assert here.provider.asked.count(DESCRIBED) == 1


# -- what the provider says ------------------------------------------------------------------------


@pytest.mark.requirement("P4")
async def test_claims_that_are_nested_too_deeply_to_be_kept_are_left_out(caplog):
    provider = Provider()
    provider.claims["odd"] = json.loads("[" * 300 + "]" * 300)
    async with world(provider) as here:
        await here.client.log_in()
        assert (await here.client.call("who"))["structuredContent"]["subject"] == "alice-1"
    assert "too long to be kept, or no JSON: odd" in caplog.text


async def test_an_endless_form_of_the_provider_is_a_clear_page():
    async with world() as here:
        await here.client.register()
        kind = {"content-type": "application/x-www-form-urlencoded"}
        body = "&".join(f"a{number}=1" for number in range(5000))
        answer = httpx2.Response(200, headers=kind, content=body.encode())
        here.provider.answers[f"{PROVIDER}/token"] = lambda _: answer
        page = await here.browser.visit(here.client.authorization_url())
        assert page.status == 502


async def test_very_many_claims_are_kept_as_far_as_there_is_room(caplog):
    claims = {f"claim{number}": "x" for number in range(1200)}
    async with world(Provider(claims={"sub": "alice-1", "long": "x" * 2000, **claims})) as here:
        await here.client.log_in()
        assert (await here.client.call("who"))["structuredContent"]["subject"] == "alice-1"
    said = [record for record in caplog.records if "claims are too long" in record.message]
    assert len(said) == 1


async def test_the_author_may_name_endpoints_of_an_openid_provider():
    provider = Provider()
    provider.metadata["token_endpoint"] = f"{PROVIDER}/nowhere"
    there = LoginProvider(
        title="Login Ltd.",
        client_id="mcp-server",
        client_secret=CLIENT_SECRET,
        issuer=PROVIDER,
        authorization_endpoint=f"{PROVIDER}/authorize",
        token_endpoint=f"{PROVIDER}/token",
    )
    fetching = Fetching(client_factory=provider.client)
    proxy = OAuthProxy(provider=there, resource=RESOURCE, fetching=fetching)
    async with world(provider, proxy=proxy) as here:
        await here.client.log_in()
        assert (await here.client.call("who"))["structuredContent"]["name"] == "Alice"


# -- bounds ----------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_person_about_whom_much_is_kept_has_no_more_logins_than_others():
    async with failing_world() as (here, _):
        first = (await here.client.log_in())["refresh_token"]
        for _ in range(54):
            await here.client.log_in()
        assert (await here.client.refresh(first)).status == 400
        assert (await here.client.refresh()).status == 200


@pytest.mark.long
async def test_logins_that_are_only_begun_push_out_none_that_are_used():
    async with world() as here:
        await here.client.log_in()
        for _ in range(60):
            await here.client.authorize()
        assert (await here.client.refresh()).status == 200


# -- clocks, redirects, paths ----------------------------------------------------------------------


async def test_instances_whose_clocks_differ_know_each_other_s_keys():
    def keys_at(seconds: float) -> SigningKeys:
        seal = Seal(["a secret that is long enough"], "keys", lambda: seconds)
        return SigningKeys(store, "oauth:keys", seal, 900, lambda: seconds)

    async with open_store("memory:") as store:
        ahead, behind = keys_at(1e9 + 120), keys_at(1e9)
        token = await ahead.sign({"sub": "alice-1"})
        assert (await behind.verify(token))["sub"] == "alice-1"
        assert (await ahead.verify(await behind.sign({"sub": "bob-1"})))["sub"] == "bob-1"


@pytest.mark.parametrize("uri", ["notes:///callback", "notes:callback?", "https://app.test/?a=b"])
async def test_a_redirect_uri_goes_on_exactly_as_it_was_registered(uri):
    async with world() as here:
        here.client.redirect = uri
        await here.client.register()
        end = await here.browser.visit(here.client.authorization_url())
        assert end.startswith(f"{uri}code=" if uri.endswith("?") else f"{uri}{'&' * ('?' in uri)}")


@pytest.mark.parametrize(
    "path",
    [
        "/authorize",
        "/consent",
        "/token",
        "/register",
        "/revoke",
        "/auth/callback",
        "/.well-known/jwks.json",
        "/.well-known/openid-configuration",
        "/.well-known/oauth-authorization-server/mcp",
    ],
)
def test_an_endpoint_cannot_have_the_path_of_a_page_of_the_logins(path):
    auth = oidc(PROVIDER, client_id="x", client_secret=CLIENT_SECRET, resource=RESOURCE)
    with pytest.raises(ValueError, match=f"{path} is a page of the logins"):
        http_app(Registry("one"), path=path, auth=auth)
    with pytest.raises(ValueError, match=f"{path} is a page of the logins"):
        http_app(Registry("one"), sse_path=path, auth=auth)


@pytest.mark.parametrize("path", ["/token", "/authorize", "/.well-known/jwks.json", "/a?b", "/a b"])
def test_a_callback_has_a_path_of_its_own(path):
    with pytest.raises(ValueError, match="callback_path"):
        oidc(PROVIDER, client_id="x", client_secret=CLIENT_SECRET, callback_path=path)
    for taken in ("/health", "/mcp", "/explorer"):
        auth = oidc(PROVIDER, client_id="x", client_secret=CLIENT_SECRET, callback_path=taken)
        with pytest.raises(ValueError, match="page of the logins"):
            http_app(Registry("one"), auth=auth, explorer=True)
