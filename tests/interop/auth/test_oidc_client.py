"""Our client and our server, with a certified authorization server between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from joserfc.jwk import JWKRegistry

from tests.interop.auth.person import Person
from tests.interop.auth.support import (
    FETCHING,
    SECRET,
    VERIFIER,
    connected,
    credentials_of,
    introspection,
    oidc_provider,
    protected,
    whoami,
)
from trio_mcp.auth import ClientCredentials, DPoP, FileStore, MemoryStore, OAuth
from trio_mcp.errors import AuthorizationError

pytestmark = [pytest.mark.needs("node"), pytest.mark.requirement("J4", "J5", "J6")]

REDIRECT = "http://127.0.0.1/callback"
DOCUMENT = "https://client.example.com/about.json"


def oauth(person: Person, **options: Any) -> OAuth:
    return OAuth(open_browser=person, fetching=FETCHING, **options)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_it_registers_and_gets_in(npm: Path, era: Any) -> None:
    person = Person()
    async with oidc_provider(npm) as issuer, protected(issuer) as url:
        async with connected(url, oauth(person), era=era) as client:
            found = await whoami(client)
    (asked,) = person.asked
    assert asked["resource"] == url
    assert asked["code_challenge_method"] == "S256"
    assert asked["scope"] == "mcp offline_access"
    assert found == {
        "subject": "alice",
        "client_id": asked["client_id"],
        "scopes": ["mcp"],
        "issuer": issuer,
        "tenant": "acme",
        "bound": False,
    }


async def test_it_is_known_by_a_document(npm: Path) -> None:
    about = {
        "client_id": DOCUMENT,
        "client_name": "trio-mcp",
        "redirect_uris": [REDIRECT],
        "application_type": "native",
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
    }
    auth = oauth(Person(), client_metadata_url=DOCUMENT)
    async with (
        oidc_provider(npm, documents={DOCUMENT: about}) as issuer,
        protected(issuer) as url,
        connected(url, auth) as client,
    ):
        assert (await whoami(client))["client_id"] == DOCUMENT


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_it_was_registered_before(npm: Path, method: str) -> None:
    known = {
        "client_id": "cli:1",
        "client_secret": SECRET,
        "redirect_uris": [REDIRECT],
        "application_type": "native",
        "token_endpoint_auth_method": method,
        "grant_types": ["authorization_code", "refresh_token"],
    }
    async with oidc_provider(npm, clients=[known], methods=[method]) as issuer:
        auth = oauth(Person(), client_id="cli:1", client_secret=SECRET, issuer=issuer)
        async with protected(issuer) as url, connected(url, auth) as client:
            assert (await whoami(client))["client_id"] == "cli:1"


async def test_a_token_that_is_over_is_renewed(npm: Path, tmp_path: Path) -> None:
    """Also by the next program, which finds it in the file."""
    person, store = Person(), FileStore(tmp_path / "tokens.json")
    async with oidc_provider(npm) as issuer, protected(issuer) as url:
        async with connected(url, oauth(person, store=store)) as client:
            await whoami(client)
        (first,) = await store.load()
        assert first.token is not None
        over = evolve(first, token=evolve(first.token, expires_at=1.0))
        async with store.locked():
            await store.save(over)
        async with connected(url, oauth(person, store=store)) as client:
            assert (await whoami(client))["subject"] == "alice"
        (second,) = await store.load()
        assert second.token is not None
        assert second.token.access_token != first.token.access_token
        assert second.token.refresh_token not in (None, first.token.refresh_token)
        assert len(person.asked) == 1

        # The server has seen the first refresh token. Whoever brings it again may be a thief, so
        # nobody's is good any more, and a person is asked anew.
        async with store.locked():
            await store.save(over)
        async with connected(url, oauth(person, store=store)) as client:
            assert (await whoami(client))["subject"] == "alice"
    assert len(person.asked) == 2
    assert person.asked[1]["client_id"] == person.asked[0]["client_id"]


async def test_it_steps_up_when_a_tool_needs_more(npm: Path) -> None:
    person = Person()
    async with (
        oidc_provider(npm) as issuer,
        protected(issuer) as url,
        connected(url, oauth(person)) as client,
    ):
        assert (await whoami(client))["scopes"] == ["mcp"]
        assert (await client.call_tool("write")).text == "written"
        assert (await whoami(client))["scopes"] == ["files:write", "mcp"]
    first, second = person.asked
    assert set(second["scope"].split()) == {*first["scope"].split(), "files:write"}
    assert second["client_id"] == first["client_id"]


async def test_a_person_says_no(npm: Path) -> None:
    auth = oauth(Person(agrees=False))
    async with oidc_provider(npm) as issuer, protected(issuer) as url:
        with pytest.raises(AuthorizationError, match="did not let us in") as refused:
            async with connected(url, auth):
                raise AssertionError
    assert refused.value.error == "access_denied"


@pytest.mark.parametrize("form", ["jwt", "opaque"])
@pytest.mark.parametrize("nonces", [False, True])
async def test_its_tokens_are_bound_to_its_key(npm: Path, nonces: bool, form: str) -> None:
    person, store = Person(), MemoryStore()
    async with oidc_provider(npm, nonces=nonces, format=form, clients=[VERIFIER]) as issuer:
        verifier = introspection(issuer) if form == "opaque" else None
        dpop = DPoP(required=True, nonces=nonces)
        async with protected(issuer, dpop=dpop, verifier=verifier) as url:
            auth = oauth(person, store=store)
            async with connected(url, auth) as client:
                found = await whoami(client)
                assert (found["subject"], found["bound"]) == ("alice", True)
                (login,) = await store.load()
                assert login.token is not None
                assert login.token.scheme == "DPoP"
                over = evolve(login, token=evolve(login.token, expires_at=1.0))
                async with store.locked():
                    await store.save(over)
            async with connected(url, oauth(person, store=store)) as client:
                assert (await whoami(client))["bound"]
    assert len(person.asked) == 1


async def test_opaque_tokens_get_in(npm: Path) -> None:
    async with oidc_provider(npm, format="opaque", clients=[VERIFIER]) as issuer:
        async with (
            protected(issuer, verifier=introspection(issuer)) as url,
            connected(url, oauth(Person("bob"))) as client,
        ):
            found = await whoami(client)
    assert (found["subject"], found["tenant"], found["scopes"]) == ("bob", "acme", ["mcp"])


# -- machines --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dpop", [None, False])
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_program_with_a_secret(npm: Path, method: str, dpop: bool | None) -> None:
    """Where a server offers DPoP, it is used, unless the program does not want it."""
    known = credentials_of("nightly", token_endpoint_auth_method=method)
    async with oidc_provider(npm, clients=[known], methods=[method]) as issuer:
        auth = ClientCredentials(
            client_id="nightly", client_secret=SECRET, issuer=issuer, dpop=dpop, fetching=FETCHING
        )
        async with protected(issuer, dpop=DPoP()) as url, connected(url, auth) as client:
            found = await whoami(client)
            assert (found["client_id"], found["bound"]) == ("nightly", dpop is None)
            assert (await client.call_tool("write")).text == "written"


KEYS: dict[str, Any] = {
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "PS256": lambda: rsa.generate_private_key(65537, 2048),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}


@pytest.mark.parametrize("algorithm", KEYS)
async def test_a_program_with_a_key(npm: Path, algorithm: str) -> None:
    pem = KEYS[algorithm]().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    kind = {"E": "EC", "R": "RSA", "P": "RSA"}[algorithm[0]] if algorithm != "Ed25519" else "OKP"
    public = JWKRegistry.import_key(pem, kind).as_dict(private=False)
    known = credentials_of(
        "nightly",
        client_secret=None,
        token_endpoint_auth_method="private_key_jwt",
        token_endpoint_auth_signing_alg=algorithm,
        jwks={"keys": [public]},
    )
    auth = ClientCredentials(
        client_id="nightly", private_key=pem, algorithm=algorithm, fetching=FETCHING
    )
    async with (
        oidc_provider(npm, clients=[known]) as issuer,
        protected(issuer) as url,
        connected(url, auth) as client,
    ):
        found = await whoami(client)
    assert found["client_id"] == "nightly"


async def test_a_wrong_secret_is_said_and_not_repeated(npm: Path) -> None:
    async with oidc_provider(npm, clients=[credentials_of("nightly")]) as issuer:
        wrong = "wr0ng-" * 8
        auth = ClientCredentials(
            client_id="nightly", client_secret=wrong, issuer=issuer, fetching=FETCHING
        )
        async with protected(issuer) as url:
            with pytest.raises(AuthorizationError, match="invalid_client") as refused:
                async with connected(url, auth):
                    raise AssertionError
    assert wrong not in str(refused.value)
