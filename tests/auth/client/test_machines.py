"""Getting in without a person who is asked."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from tests.auth.client.world import ISSUER, SERVER, World, basic
from tests.auth.server.support import private_rsa_key
from trio_mcp.auth import ClientCredentials, EnterpriseManaged, MemoryStore, WorkloadIdentity
from trio_mcp.errors import AuthorizationError

pytestmark = pytest.mark.requirement("J6")

IDP = "https://idp.test/token"


def pem_of(key: Any) -> str:
    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode()


async def get_in(world: World, auth: httpx2.Auth) -> None:
    async with world.client(auth) as client:
        for _ in range(2):
            assert (await client.get(SERVER)).status_code == 200
    assert len(world.forms) == 1
    assert world.forms[0]["resource"] == SERVER
    assert world.forms[0]["scope"] == "read"


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_program_gets_in_with_a_secret(method: str) -> None:
    world = World()
    assert world.server is not None
    world.server["token_endpoint_auth_methods_supported"] = [method]
    await get_in(
        world, ClientCredentials(client_id="c:1", client_secret="secret", fetching=world.fetching)
    )
    form = world.forms[0]
    assert form["grant_type"] == "client_credentials"
    if method == "client_secret_post":
        assert (form["client_id"], form["client_secret"]) == ("c:1", "secret")
        assert "authorization" not in world.token_headers[0]
    else:
        assert basic(world.token_headers[0]) == "c%3A1:secret"
        assert "client_secret" not in form


KEYS = {
    "ES256": (ec.generate_private_key(ec.SECP256R1()), ECKey),
    "RS256": (private_rsa_key(), RSAKey),
    "Ed25519": (ed25519.Ed25519PrivateKey.generate(), OKPKey),
}


@pytest.mark.parametrize("algorithm", KEYS)
async def test_a_program_gets_in_with_a_key(algorithm: str) -> None:
    world = World()
    key, kind = KEYS[algorithm]
    auth = ClientCredentials(
        client_id="c", private_key=pem_of(key), key_id="k1", fetching=world.fetching
    )
    await get_in(world, auth)
    form = world.forms[0]
    assert form["client_assertion_type"].endswith(":jwt-bearer")
    assert "client_id" not in form
    read = jwt.decode(form["client_assertion"], kind.import_key(pem_of(key)), [algorithm])
    assert read.header["kid"] == "k1"
    claims = read.claims
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("c", "c", ISSUER)
    assert 0 < claims["exp"] - claims["iat"] <= 300
    assert pem_of(key) not in repr(auth)


def test_what_cannot_sign_is_refused_at_once() -> None:
    other = pem_of(ed448.Ed448PrivateKey.generate())
    ours = pem_of(KEYS["ES256"][0])
    for options in (
        {},
        {"client_secret": "s", "private_key": ours},
        {"private_key": "no key"},
        {"private_key": other},
        {"private_key": ours, "algorithm": "RS256"},
        {"private_key": ours, "algorithm": "none"},
        {"private_key": ours, "algorithm": "HS256"},
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            ClientCredentials(client_id="c", **options)  # type: ignore[arg-type]
        assert "PRIVATE" not in str(caught.value)


async def test_a_machine_that_is_refused_does_not_insist() -> None:
    world = World()
    tries: list[str] = []

    async def refuse(request: httpx2.Request) -> httpx2.Response:
        tries.append(request.content.decode())
        return world.refuse("unauthorized_client")

    async def assertion(issuer: str) -> str:
        return "word-of-the-platform"

    world.on[f"{ISSUER}/token"] = refuse
    auth = WorkloadIdentity(assertion=assertion, fetching=world.fetching)
    async with world.client(auth) as client:
        with pytest.raises(AuthorizationError, match="unauthorized_client") as caught:
            await client.get(SERVER)
    assert caught.value.error == "unauthorized_client"
    assert len(tries) == 1


@pytest.mark.parametrize("id", [None, "workload"])
async def test_a_workload_gets_in_by_the_word_of_its_platform(id: str | None) -> None:
    world = World()
    asked: list[str] = []

    async def assertion(issuer: str) -> str:
        asked.append(issuer)
        return "word-of-the-platform"

    await get_in(
        world, WorkloadIdentity(assertion=assertion, client_id=id, fetching=world.fetching)
    )
    form = world.forms[0]
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert form["assertion"] == "word-of-the-platform"
    assert form.get("client_id") == id
    assert asked == [ISSUER]


def enterprise(world: World, **options: Any) -> EnterpriseManaged:
    async def identity() -> str:
        return "id-token-secret"

    given: dict[str, Any] = {
        "identity": identity,
        "token_endpoint": IDP,
        "idp_client_id": "at-idp",
        "client_id": "at-as",
        "client_secret": "secret",
        "fetching": world.fetching,
    }
    return EnterpriseManaged(**{**given, **options})


async def test_an_enterprise_lets_its_people_in() -> None:
    world = World()
    exchanged: list[dict[str, str]] = []

    async def exchange(request: httpx2.Request) -> httpx2.Response:
        exchanged.append(dict(parse_qsl(request.content.decode())))
        kind = "urn:ietf:params:oauth:token-type:id-jag"
        return world.json({"access_token": "jag", "issued_token_type": kind, "token_type": "N_A"})

    world.on[IDP] = exchange
    await get_in(world, enterprise(world))
    (form,) = exchanged
    assert form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "audience": ISSUER,
        "resource": SERVER,
        "subject_token": "id-token-secret",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "scope": "read",
        "client_id": "at-idp",
    }
    assert world.forms[0]["assertion"] == "jag"
    assert basic(world.token_headers[0]) == "at-as:secret"


@pytest.mark.parametrize(
    "answer",
    [
        {"access_token": "x", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"},
        {"issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"},
        [],
        "no",
    ],
)
async def test_a_provider_that_gives_something_else_is_not_believed(answer: Any) -> None:
    world = World()

    async def exchange(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=json.dumps(answer))

    world.on[IDP] = exchange
    async with world.client(enterprise(world)) as client:
        with pytest.raises(AuthorizationError, match=r"https://idp\.test"):
            await client.get(SERVER)
    assert world.forms == []


def test_a_provider_must_be_reached_in_secret() -> None:
    with pytest.raises(ValueError, match="plain http"):
        enterprise(World(), token_endpoint="http://idp.test/token")


async def test_two_programs_do_not_take_each_others_tokens_out_of_a_store() -> None:
    from trio_mcp.auth import MemoryStore

    world, store = World(), MemoryStore()
    for id in ("one", "two"):
        auth = ClientCredentials(
            client_id=id, client_secret="secret", store=store, fetching=world.fetching
        )
        async with world.client(auth) as client:
            await client.get(SERVER)
    assert [basic(each) for each in world.token_headers] == ["one:secret", "two:secret"]


# -- one authorization server ----------------------------------------------------------------------


def _with_secret(world: World, **options: Any) -> ClientCredentials:
    return ClientCredentials(
        client_id="c", client_secret="hush-hush", fetching=world.fetching, **options
    )


def _other_server(world: World) -> str:
    """Have another server in the world, which is with an authorization server of its own."""
    url, evil = "https://evil.test/mcp", World(issuer="https://as.evil.test")
    assert evil.resource is not None
    evil.resource["resource"] = url
    evil.challenge = 'Bearer resource_metadata="https://evil.test/meta"'
    world.on[url] = evil.call
    world.on["https://evil.test/meta"] = evil.about_resource
    world.on["https://as.evil.test/.well-known/oauth-authorization-server"] = evil.about_server
    world.on["https://as.evil.test/token"] = evil.token
    return url


async def test_a_password_goes_to_the_first_authorization_server_only() -> None:
    world = World()
    evil = _other_server(world)
    async with world.client(_with_secret(world)) as client:
        await client.get(SERVER)
        with pytest.raises(AuthorizationError, match=r"not from the issuer https://as\.test"):
            await client.get(evil)
    assert world.count("as.evil.test/token") == 0


async def test_it_goes_to_one_of_two_that_are_first_at_the_same_time() -> None:
    world = World()
    urls = [SERVER, _other_server(world)]
    errors: list[AuthorizationError] = []

    async def get(url: str) -> None:
        try:
            await client.get(url)
        except AuthorizationError as error:
            errors.append(error)

    async with world.client(_with_secret(world)) as client, trio.open_nursery() as nursery:
        for each in urls:
            nursery.start_soon(get, each)
    assert len(errors) == 1
    assert world.count("/token") == 1


async def test_the_store_tells_which_one_was_first() -> None:
    world, store = World(), MemoryStore()
    async with world.client(_with_secret(world, store=store)) as client:
        await client.get(SERVER)
    async with world.client(_with_secret(world, store=store)) as client:
        with pytest.raises(AuthorizationError, match="not from the issuer"):
            await client.get(_other_server(world))


async def test_a_server_without_metadata_is_no_way_around_the_issuer() -> None:
    world = World()
    assert world.resource is not None
    world.resource, world.challenge = None, "Bearer"
    tokens = "https://mcp.test/token"  # as servers of 2025-03-26 have it
    world.on[tokens] = world.token
    with pytest.raises(
        AuthorizationError, match=r"https://mcp\.test, not from the issuer https://as\.test"
    ):
        await get_in(world, _with_secret(world, issuer=ISSUER))
    assert world.count(tokens) == 0
