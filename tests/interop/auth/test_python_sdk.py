"""Clients of the official Python SDK get into our server, and ours into theirs."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from attrs import evolve
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc.jwk import ECKey
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from tests.interop.auth.person import Person
from tests.interop.auth.support import (
    FETCHING,
    HERE,
    SECRET,
    VERIFIER,
    connected,
    credentials_of,
    log_in_at,
    oidc_provider,
    peer,
    protected,
    whoami,
)
from tests.support.processes import TIME_LIMIT, python
from trio_mcp.auth import ClientCredentials, EnterpriseManaged, MemoryStore, OAuth
from trio_mcp.auth.client.token_endpoint import TOKEN_EXCHANGE

REDIRECT = "http://127.0.0.1:9/callback"

pytestmark = [
    pytest.mark.needs("node", "sdk-server"),
    pytest.mark.requirement("J1", "J5", "J6"),
    # This client leaves the generators that read its streams to the garbage collector.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]
both_eras = pytest.mark.parametrize("mode", ["legacy", "auto"])


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """Have what the clients leave behind collected while that is expected."""
    yield
    gc.collect()


# -- their clients, our server ---------------------------------------------------------------------


class Storage:
    """Keeps what the SDK gives it."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def log_in(url: str, person: Person, storage: Storage) -> OAuthClientProvider:
    """What gets their client in."""
    back = ""

    async def show(page: str) -> None:
        nonlocal back
        back = await person.sent_back(page)

    async def answer() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(**dict(parse_qsl(urlsplit(back).query)))

    metadata = OAuthClientMetadata(
        client_name="sdk",
        redirect_uris=[AnyUrl(REDIRECT)],
        grant_types=["authorization_code", "refresh_token"],
        token_endpoint_auth_method="none",
    )
    return OAuthClientProvider(url, metadata, storage, show, answer)


@asynccontextmanager
async def their_client(url: str, mode: Any, auth: httpx2.Auth) -> AsyncIterator[Client]:
    """Their client, which gets in so."""
    async with (
        httpx2.AsyncClient(auth=auth, trust_env=False, timeout=TIME_LIMIT) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def said_by(client: Client) -> Any:
    """Whom our server takes it for."""
    result = await client.call_tool("whoami")
    assert not result.is_error, result
    return result.structured_content


@both_eras
async def test_their_client_gets_into_our_server(npm: Path, mode: str) -> None:
    person, storage = Person(), Storage()
    async with oidc_provider(npm) as issuer, protected(issuer) as url:
        auth = log_in(url, person, storage)
        async with their_client(url, mode, auth) as client:
            assert storage.client is not None
            found = await said_by(client)
            assert (found["subject"], found["scopes"]) == ("alice", ["mcp"])
            assert found["client_id"] == storage.client.client_id

            # It renews its token, and goes on in the session that it began before.
            assert storage.tokens is not None
            before = storage.tokens.access_token
            auth.context.token_expiry_time = 1.0
            assert (await said_by(client))["subject"] == "alice"
            assert storage.tokens.access_token != before
    assert len(person.asked) == 1


@both_eras
async def test_their_client_steps_up(npm: Path, mode: str) -> None:
    """One that was registered before: otherwise it registers for the first scopes only."""
    person, storage = Person(), Storage()
    known = credentials_of(
        "sdk",
        client_secret=None,
        application_type="native",
        token_endpoint_auth_method="none",
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        redirect_uris=[REDIRECT],
    )
    storage.client = OAuthClientInformationFull.model_validate(known)
    async with oidc_provider(npm, clients=[known]) as issuer, protected(issuer) as url:
        async with their_client(url, mode, log_in(url, person, storage)) as client:
            assert (await said_by(client))["scopes"] == ["mcp"]
            result = await client.call_tool("write")
            assert not result.is_error, result
            assert (await said_by(client))["scopes"] == ["files:write", "mcp"]
    assert len(person.asked) == 2


@both_eras
async def test_their_program_gets_into_our_server(npm: Path, mode: str) -> None:
    async with oidc_provider(npm, clients=[credentials_of("nightly")]) as issuer:
        async with protected(issuer) as url:
            auth = ClientCredentialsOAuthProvider(url, Storage(), "nightly", SECRET, issuer=issuer)
            async with their_client(url, mode, auth) as client:
                assert (await said_by(client))["client_id"] == "nightly"


async def test_their_program_with_a_key_gets_into_our_server(npm: Path) -> None:
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    known = credentials_of(
        "nightly",
        client_secret=None,
        token_endpoint_auth_method="private_key_jwt",
        token_endpoint_auth_signing_alg="ES256",
        jwks={"keys": [ECKey.import_key(pem).as_dict(private=False)]},
    )
    signing = SignedJWTParameters(
        issuer="nightly", subject="nightly", signing_key=pem.decode(), signing_algorithm="ES256"
    )
    async with oidc_provider(npm, clients=[known]) as issuer, protected(issuer) as url:
        auth = PrivateKeyJWTOAuthProvider(
            url, Storage(), "nightly", signing.create_assertion_provider(), issuer=issuer
        )
        async with their_client(url, "auto", auth) as client:
            assert (await said_by(client))["client_id"] == "nightly"


# -- our client, their servers ---------------------------------------------------------------------


@asynccontextmanager
async def their_server(*arguments: str) -> AsyncIterator[str]:
    """Their server. Yields its URL."""
    async with peer(*python(HERE / "official_server.py", *arguments)) as origin:
        yield f"{origin}/mcp"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_our_client_gets_into_their_server(npm: Path, era: Any) -> None:
    auth = OAuth(open_browser=Person(), fetching=FETCHING)
    async with (
        oidc_provider(npm, format="opaque", clients=[VERIFIER]) as issuer,
        their_server("introspection", issuer, SECRET) as url,
        connected(url, auth, era=era) as client,
    ):
        found = await whoami(client)
    assert (found["subject"], found["scopes"]) == ("alice", ["mcp"])


async def test_our_program_gets_into_their_server(npm: Path) -> None:
    clients = [VERIFIER, credentials_of("nightly")]
    async with oidc_provider(npm, format="opaque", clients=clients) as issuer:
        auth = ClientCredentials(client_id="nightly", client_secret=SECRET, fetching=FETCHING)
        async with (
            their_server("introspection", issuer, SECRET) as url,
            connected(url, auth) as client,
        ):
            assert (await whoami(client))["client_id"] == "nightly"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_our_client_gets_into_a_server_that_is_its_own_issuer(era: Any) -> None:
    person, store = Person(), MemoryStore()
    async with their_server("own") as url:
        async with connected(
            url, OAuth(open_browser=person, fetching=FETCHING, store=store), era=era
        ) as client:
            assert (await whoami(client))["subject"] == "alice"
        (login,) = await store.load()
        assert login.token is not None
        async with store.locked():
            await store.save(evolve(login, token=evolve(login.token, expires_at=1.0)))
        async with connected(
            url, OAuth(open_browser=person, fetching=FETCHING, store=store), era=era
        ) as client:
            assert (await whoami(client))["subject"] == "alice"
    assert len(person.asked) == 1


async def test_our_client_gets_in_by_the_word_of_an_enterprise(npm: Path) -> None:
    """The identity provider knows the person, and the server's issuer knows the provider."""
    desk = credentials_of(
        "desk",
        grant_types=["authorization_code", TOKEN_EXCHANGE],
        response_types=["code"],
        redirect_uris=[REDIRECT],
    )
    async with oidc_provider(npm, clients=[desk]) as provider:
        id_token = (await log_in_at(provider, "desk", REDIRECT))["id_token"]
        asked = []

        async def identity() -> str:
            asked.append(id_token)
            return str(id_token)

        auth = EnterpriseManaged(
            identity=identity,
            token_endpoint=f"{provider}/token",
            idp_client_id="desk",
            idp_client_secret=SECRET,
            client_id="desk",
            client_secret=SECRET,
            fetching=FETCHING,
        )
        async with their_server("enterprise", provider, SECRET) as url:
            async with connected(url, auth) as client:
                found = await whoami(client)
    assert found == {"subject": "alice", "client_id": "desk", "scopes": ["mcp"]}
    assert len(asked) == 1
