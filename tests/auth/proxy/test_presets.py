"""What is special about each provider, played by stand-ins."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest

from tests.auth.proxy.world import CLIENT_SECRET, RESOURCE, SERVER, Provider, world
from trio_mcp.auth import (
    Fetching,
    LoginProvider,
    auth0,
    cognito,
    domain,
    entra,
    github,
    google,
    group,
    keycloak,
    okta,
    organization,
)

GITHUB = "https://github.com"
API = "https://api.github.com"
OURS: dict[str, Any] = {
    "client_id": "mcp-server",
    "client_secret": CLIENT_SECRET,
    "resource": RESOURCE,
}


def on(provider: Provider) -> dict[str, Any]:
    """Return the options that make requests reach a stand-in."""
    return {**OURS, "fetching": Fetching(client_factory=provider.client, timeout=10)}


async def logged_in(here: Any, url: str) -> dict[str, str]:
    """Have a person log in at a provider whose login page is at a URL."""
    client = here.client
    await client.register()
    page = await here.browser.send("GET", client.authorization_url().removeprefix(SERVER))
    there = (await here.browser.consent(page)).headers["location"]
    assert there.startswith(url)
    end = await here.browser.visit(here.provider.log_in(there))
    assert isinstance(end, str), end.body.decode()
    return dict(parse_qsl(urlsplit(end).query))


# -- GitHub ----------------------------------------------------------------------------------------


def github_standin(**user: Any) -> Provider:
    """GitHub: no discovery, opaque tokens, and answers as forms."""
    provider = Provider(GITHUB)

    def token(request: httpx2.Request) -> httpx2.Response:
        assert request.headers["accept"] == "application/json"
        form = dict(parse_qsl(request.content.decode()))
        if provider.codes.pop(form["code"], None) is None:  # with status 200, as GitHub has it
            return httpx2.Response(200, json={"error": "bad_verification_code"})
        body = "access_token=gho_16C7&scope=read%3Auser&token_type=bearer"
        kind = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
        return httpx2.Response(200, text=body, headers=kind)

    def as_user(value: Any) -> Any:
        def answer(request: httpx2.Request) -> httpx2.Response:
            assert request.headers["authorization"] == "Bearer gho_16C7"
            return httpx2.Response(200, json=value)

        return answer

    address = {"email": "octo@acme.test", "primary": True, "verified": True}
    provider.answers = {
        f"{GITHUB}/login/oauth/access_token": token,
        f"{API}/user": as_user({"id": 583231, "login": "octocat", "name": None, **user}),
        f"{API}/user/emails": as_user([{"email": "x@evil.test", "verified": True}, address]),
        f"{API}/user/orgs?per_page=100": as_user([{"login": "Acme"}, {"login": "other"}]),
    }
    return provider


@pytest.mark.requirement("P4")
async def test_people_log_in_with_github():
    provider = github_standin()
    async with world(provider, proxy=github(**on(provider))) as here:
        answer = await logged_in(here, f"{GITHUB}/login/oauth/authorize?")
        here.client.tokens = (await here.client.redeem(answer["code"])).json()
        found = (await here.client.call("who"))["structuredContent"]
        assert (found["subject"], found["name"]) == ("583231", "octocat")
        assert found["email"] == "octo@acme.test"
        token = await here.client.call("upstream")
        assert token["content"][0]["text"] == "gho_16C7"
        assert not [url for url in provider.asked if "orgs" in url]


@pytest.mark.requirement("P4")
@pytest.mark.parametrize(("name", "may"), [("acme", True), ("evil", False)])
async def test_members_of_an_organization_come_in(name, may):
    provider = github_standin()
    proxy = github(**on(provider), allow=organization(name))
    assert "read:org" in proxy.provider.scopes
    async with world(provider, proxy=proxy) as here:
        answer = await logged_in(here, GITHUB)
        assert ("code" in answer) is may


async def test_github_may_know_no_address():
    provider = github_standin()
    provider.answers[f"{API}/user/emails"] = lambda _: httpx2.Response(404)
    async with world(provider, proxy=github(**on(provider), allow=domain("acme.test"))) as here:
        assert (await logged_in(here, GITHUB))["error"] == "access_denied"


@pytest.mark.parametrize("user", [{"id": None}, {"id": "1"}, {"login": 7}])
async def test_a_user_that_is_none_is_refused(user):
    provider = github_standin(**user)
    async with world(provider, proxy=github(**on(provider))) as here:
        await here.client.register()
        url = here.client.authorization_url().removeprefix(SERVER)
        page = await here.browser.send("GET", url)
        there = (await here.browser.consent(page)).headers["location"]
        assert (await here.browser.visit(provider.log_in(there))).status == 502


# -- Google ----------------------------------------------------------------------------------------


@pytest.mark.requirement("P4")
async def test_people_log_in_with_google():
    provider = Provider("https://accounts.google.com")
    provider.claims["hd"] = "acme.test"
    proxy = google(**on(provider), allow=domain("acme.test"))
    assert proxy.provider.parameters == {
        "access_type": "offline",
        "prompt": "consent",
        "hd": "acme.test",
    }
    async with world(provider, proxy=proxy) as here:
        assert "code" in await logged_in(here, "https://accounts.google.com/authorize?")


async def test_a_private_account_with_an_address_of_a_domain_is_not_of_that_domain():
    provider = Provider("https://accounts.google.com")
    assert provider.claims["email"] == "alice@acme.test"
    async with world(provider, proxy=google(**on(provider), allow=domain("acme.test"))) as here:
        answer = await logged_in(here, "https://accounts.google.com")
        assert answer["error"] == "access_denied"


# -- Entra -----------------------------------------------------------------------------------------

TENANT = "11111111-2222-3333-4444-555555555555"
MICROSOFT = "https://login.microsoftonline.com"
GRAPH = (
    "https://graph.microsoft.com/v1.0/me/transitiveMemberOf/microsoft.graph.group"
    "?$select=id&$top=999"
)


def entra_standin(tenant: str, issuer: str) -> Provider:
    """Entra: its metadata may name a pattern as issuer, and tokens the tenant's."""
    base = f"{MICROSOFT}/{tenant}"
    provider = Provider(base, metadata={"issuer": issuer})
    provider.claims |= {
        "iss": f"{MICROSOFT}/{TENANT}/v2.0",
        "tid": TENANT,
        "oid": "alice-oid",
        "sub": "for-this-application-only",
    }
    provider.answers[f"{base}/v2.0/.well-known/openid-configuration"] = provider.about
    return provider


@pytest.mark.requirement("P4")
@pytest.mark.parametrize("tenant", [TENANT, "acme.test"])
async def test_people_of_a_tenant_log_in_with_microsoft(tenant):
    provider = entra_standin(tenant, f"{MICROSOFT}/{TENANT}/v2.0")
    async with world(provider, proxy=entra(tenant, **on(provider))) as here:
        answer = await logged_in(here, f"{MICROSOFT}/{tenant}/authorize?")
        here.client.tokens = (await here.client.redeem(answer["code"])).json()
        found = (await here.client.call("who"))["structuredContent"]
        assert found["subject"] == f"{TENANT}:alice-oid"


@pytest.mark.requirement("P4")
async def test_people_of_any_tenant_are_looked_at_one_by_one():
    with pytest.raises(ValueError, match="allow="):
        entra("organizations", **OURS)

    def allow(identity: Any) -> bool:
        return identity.claims["tid"] == TENANT

    provider = entra_standin("organizations", f"{MICROSOFT}/{{tenantid}}/v2.0")
    proxy = entra("organizations", **on(provider), allow=allow)
    async with world(provider, proxy=proxy) as here:
        assert "code" in await logged_in(here, MICROSOFT)
        provider.claims["iss"] = f"{MICROSOFT}/another/v2.0"  # which is not that of its `tid`
        url = here.client.authorization_url().removeprefix(SERVER)
        there = (await here.browser.send("GET", url)).headers["location"]
        assert (await here.browser.visit(provider.log_in(there))).status == 502


async def test_groups_that_are_too_many_for_a_token_are_asked_for():
    provider = entra_standin(TENANT, f"{MICROSOFT}/{TENANT}/v2.0")
    provider.claims |= {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {}}}
    provider.answers[GRAPH] = lambda _: httpx2.Response(200, json={"value": [{"id": "g-42"}]})
    proxy = entra(TENANT, **on(provider), allow=group("g-42"))
    assert "GroupMember.Read.All" in proxy.provider.scopes
    async with world(provider, proxy=proxy) as here:
        assert "code" in await logged_in(here, MICROSOFT)
        assert GRAPH in provider.asked


async def test_an_address_that_entra_does_not_vouch_for_is_no_domain():
    provider = entra_standin(TENANT, f"{MICROSOFT}/{TENANT}/v2.0")
    proxy = entra(TENANT, **on(provider), allow=domain("acme.test"))
    async with world(provider, proxy=proxy) as here:
        assert (await logged_in(here, MICROSOFT))["error"] == "access_denied"


# -- the others ------------------------------------------------------------------------------------


@pytest.mark.requirement("P4")
@pytest.mark.parametrize(
    ("proxy", "issuer", "claims"),
    [
        (
            lambda on: auth0("acme.eu.auth0.com", **on, allow=organization("org_1")),
            "https://acme.eu.auth0.com/",
            {"org_id": "org_1"},
        ),
        (
            lambda on: okta("acme.okta.com", **on, allow=group("Staff")),
            "https://acme.okta.com",
            {"groups": ["Everyone", "Staff"]},
        ),
        (
            lambda on: okta("acme.okta.com", authorization_server="default", **on),
            "https://acme.okta.com/oauth2/default",
            {},
        ),
        (
            lambda on: keycloak("https://kc.test/", "acme", **on, allow=group("/staff")),
            "https://kc.test/realms/acme",
            {"groups": ["/staff"]},
        ),
        (
            lambda on: cognito("eu-central-1", "pool", **on, allow=group("staff")),
            "https://cognito-idp.eu-central-1.amazonaws.com/pool",
            {"cognito:groups": ["staff"]},
        ),
    ],
    ids=["auth0", "okta", "okta-custom", "keycloak", "cognito"],
)
async def test_people_log_in_at_the_others(proxy, issuer, claims):
    base = issuer.rstrip("/")
    provider = Provider(base, metadata={"issuer": issuer})
    provider.claims |= {"iss": issuer, **claims}
    async with world(provider, proxy=proxy(on(provider))) as here:
        assert proxy(OURS).provider.issuer == issuer
        assert "code" in await logged_in(here, f"{base}/authorize?")


def test_auth0_and_okta_ask_for_what_they_need():
    assert auth0("a.auth0.com", **OURS, audience="https://api").provider.parameters == {
        "audience": "https://api"
    }
    assert "groups" in okta("a.okta.com", **OURS, allow=group("x")).provider.scopes


def test_a_provider_without_endpoints_is_refused():
    with pytest.raises(ValueError, match="needs an issuer"):
        LoginProvider(title="x", client_id="a", client_secret="b")
    with pytest.raises(ValueError, match="domain: name at least one"):
        domain()
