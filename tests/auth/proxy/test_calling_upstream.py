"""APIs behind the server are called in the name of who calls."""

from typing import Any
from urllib.parse import parse_qsl

import httpx2
import pytest

from tests.auth.proxy.world import Provider, World, world
from tests.compose.openapi.support import Service, document, get
from trio_mcp import Context
from trio_mcp.auth import Fetching, OnBehalfOf, TokenExchange, provider_token
from trio_mcp.errors import ProviderTokenError

EXCHANGE = "https://login.test/exchange"
DOCUMENT = document({"/notes": get()})

pytestmark = pytest.mark.requirement("P6")


def shown(service: Service) -> list[str | None]:
    """Return what the service was shown, by request."""
    return [request.headers.get("authorization") for request in service.requests]


async def second_person(here: World) -> Any:
    """Have another person log in, in a browser of their own."""
    client = here.new_client()
    here.provider.claims |= {"sub": "bob-1", "name": "Bob"}
    await client.log_in()
    return client


async def test_each_call_shows_the_token_of_its_caller() -> None:
    service, provider = Service(), Provider()
    registry = service.registry(DOCUMENT, authenticate=provider_token)
    async with world(provider, registry=registry) as here:
        await here.client.log_in()
        bob = await second_person(here)
        for client in (here.client, bob, here.client):
            await client.call("it")
        alice_s, bob_s, again = shown(service)
        assert alice_s is not None
        assert alice_s.startswith("Bearer provider-")
        assert again == alice_s != bob_s
        assert here.client.tokens["access_token"] not in alice_s


async def test_resources_are_read_in_the_caller_s_name_as_well() -> None:
    service = Service(httpx2.Response(200, text="notes"))
    registry = service.registry(DOCUMENT, authenticate=provider_token, resources="*")
    async with world(registry=registry) as here:
        await here.client.log_in()
        (uri,) = registry.resources
        await here.client.request("resources/read", {"uri": uri})
        (header,) = shown(service)
        assert header is not None
        assert header.startswith("Bearer provider-")


async def test_a_function_may_show_nothing_or_in_another_way() -> None:
    service = Service()

    async def authenticate(context: Context) -> Any:
        assert context.caller is not None
        return None if context.caller.name == "Bob" else httpx2.BasicAuth("alice", "secret")

    registry = service.registry(DOCUMENT, authenticate=authenticate)
    async with world(registry=registry) as here:
        await here.client.log_in()
        await here.client.call("it")
        bob = await second_person(here)
        await bob.call("it")
        assert shown(service) == ["Basic YWxpY2U6c2VjcmV0", None]


async def test_without_a_login_at_a_provider_nothing_is_sent() -> None:
    service = Service()
    registry = service.registry(DOCUMENT, authenticate=provider_token)
    async with registry.running():
        with pytest.raises(RuntimeError, match="OAuthProxy"):
            await registry.call("it", {})
    assert service.requests == []


def test_two_ways_to_show_who_we_are_are_refused() -> None:
    with pytest.raises(ValueError, match="authenticate"):
        Service().registry(DOCUMENT, authenticate=provider_token, auth={})


# -- other tokens ----------------------------------------------------------------------------------


def exchanging(provider: Provider, expires_in: int | None = 3600) -> list[dict[str, str]]:
    """Have a provider exchange tokens; return the forms that it gets."""
    forms: list[dict[str, str]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        forms.append(dict(parse_qsl(request.content.decode())))
        token = {"access_token": f"exchanged-{len(forms)}", "expires_in": expires_in}
        return httpx2.Response(200, json=token)

    provider.answers[EXCHANGE] = answer
    return forms


def options(provider: Provider) -> dict[str, Any]:
    return {
        "token_endpoint": EXCHANGE,
        "client_id": "mcp-server",
        "client_secret": "hunter2hunter2",
        "scopes": ["notes:read"],
        "fetching": Fetching(client_factory=provider.client),
    }


async def test_the_provider_s_token_is_exchanged_once_for_its_time() -> None:
    provider, service = Provider(), Service()
    forms = exchanging(provider)
    exchange = TokenExchange(audience="notes", **options(provider))
    registry = service.registry(DOCUMENT, authenticate=exchange)
    async with world(provider, registry=registry) as here:
        await here.client.log_in()
        await here.client.call("it")
        await here.client.call("it")
        assert shown(service) == ["Bearer exchanged-1"] * 2
        (form,) = forms
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
        assert form["subject_token"].startswith("provider-")
        assert (form["audience"], form["scope"]) == ("notes", "notes:read")
        bob = await second_person(here)
        await bob.call("it")
        assert shown(service)[-1] == "Bearer exchanged-2"
    assert "hunter2" not in repr(exchange)


async def test_entra_gives_tokens_on_behalf_of_the_caller() -> None:
    provider, service = Provider(), Service()
    forms = exchanging(provider, None)  # it does not say how long they are good
    registry = service.registry(DOCUMENT, authenticate=OnBehalfOf(**options(provider)))
    async with world(provider, registry=registry) as here:
        await here.client.log_in()
        await here.client.call("it")
        await here.client.call("it")
        assert shown(service) == ["Bearer exchanged-1", "Bearer exchanged-2"]
        assert forms[0]["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        assert forms[0]["requested_token_use"] == "on_behalf_of"
        assert forms[0]["assertion"].startswith("provider-")


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(400, json={"error": "invalid_grant"}),
        httpx2.Response(200, json={"access_token": 7}),
        httpx2.Response(200, json=[]),
        httpx2.Response(500, text="provider-secret"),
    ],
)
async def test_an_exchange_that_is_refused_is_a_failed_call(answer: httpx2.Response) -> None:
    provider, service = Provider(), Service()
    provider.answers[EXCHANGE] = lambda _: answer
    registry = service.registry(DOCUMENT, authenticate=TokenExchange(**options(provider)))
    async with world(provider, registry=registry) as here:
        await here.client.log_in()
        result = await here.client.call("it")
        assert result["isError"]
        assert "provider-secret" not in str(result)
        assert service.requests == []


async def test_a_handler_may_exchange_as_well() -> None:
    provider = Provider()
    exchanging(provider)
    exchange = TokenExchange(**options(provider))

    class Caller:
        async def provider_token(self) -> str:
            return "provider-1"

    assert await exchange(Caller()) == "exchanged-1"
    provider.answers[EXCHANGE] = lambda _: httpx2.Response(403)
    assert await exchange(Caller()) == "exchanged-1"
    with pytest.raises(ProviderTokenError, match="no token on behalf"):
        await TokenExchange(**options(provider))(Caller())
