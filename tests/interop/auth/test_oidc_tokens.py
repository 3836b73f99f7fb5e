"""Which tokens of a certified authorization server our server takes, and which it refuses."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from tests.interop.auth.support import (
    TIME_LIMIT,
    VERIFIER,
    credentials_of,
    introspection,
    log_in_at,
    oidc_provider,
    protected,
    token_request,
)
from trio_mcp.auth import DPoP, Introspection
from trio_mcp.auth.client.dpop import DpopKey
from trio_mcp.auth.server import issuer_keys

pytestmark = [pytest.mark.needs("node"), pytest.mark.requirement("J2", "J4")]

REDIRECT = "https://site.example.com/callback"
CLIENTS = [
    credentials_of("nightly"),
    VERIFIER,
    credentials_of(
        "site",
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        redirect_uris=[REDIRECT],
    ),
]
both_formats = pytest.mark.parametrize("form", ["jwt", "opaque"])


async def token_for(
    issuer: str, resource: str, scope: str = "mcp", key: DpopKey | None = None
) -> str:
    """Have the authorization server give a program a token."""
    headers = {} if key is None else {"DPoP": key.proof("POST", f"{issuer}/token")}
    answer = await token_request(
        issuer, grant_type="client_credentials", resource=resource, scope=scope, headers=headers
    )
    return str(answer["access_token"])


async def call(url: str, token: str, scheme: str = "Bearer", **headers: str) -> httpx2.Response:
    """Ask our server for something."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    sent = {
        "Authorization": f"{scheme} {token}",
        "Accept": "application/json, text/event-stream",
        **headers,
    }
    async with httpx2.AsyncClient(timeout=TIME_LIMIT, trust_env=False) as client:
        return await client.post(url, json=body, headers=sent)


def verifier_for(form: str, issuer: str) -> Introspection | None:
    return None if form == "jwt" else introspection(issuer)


@both_formats
async def test_only_those_for_this_resource(npm: Path, form: str) -> None:
    async with oidc_provider(npm, format=form, clients=CLIENTS) as issuer:
        async with protected(issuer, verifier=verifier_for(form, issuer)) as url:
            assert (await call(url, await token_for(issuer, url))).status_code == 200
            for other in ("https://other.example.com/mcp", f"{url}/more", url.removesuffix("/mcp")):
                refused = await call(url, await token_for(issuer, other))
                assert refused.status_code == 401
                assert 'error="invalid_token"' in refused.headers["www-authenticate"]


@both_formats
async def test_only_those_with_the_scope(npm: Path, form: str) -> None:
    async with oidc_provider(npm, format=form, clients=CLIENTS) as issuer:
        async with protected(issuer, verifier=verifier_for(form, issuer)) as url:
            refused = await call(url, await token_for(issuer, url, "files:read"))
    assert refused.status_code == 403
    challenge = refused.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="mcp"' in challenge


async def test_only_those_of_this_issuer(npm: Path) -> None:
    """Another of the same make, which has a key by the same name."""
    async with (
        oidc_provider(npm) as issuer,
        oidc_provider(npm, clients=CLIENTS) as other,
        protected(issuer) as url,
    ):
        assert (await call(url, await token_for(other, url))).status_code == 401


async def test_new_keys_are_found_and_old_ones_forgotten(
    npm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        issuer_keys, "MIN_INTERVAL", 0
    )  # seconds, before it looks for new ones again
    async with oidc_provider(npm, clients=CLIENTS) as issuer, protected(issuer) as url:
        before = await token_for(issuer, url)
        assert (await call(url, before)).status_code == 200
        async with httpx2.AsyncClient(timeout=TIME_LIMIT, trust_env=False) as client:
            (await client.post(f"{issuer}/rotate")).raise_for_status()
        assert (await call(url, await token_for(issuer, url))).status_code == 200
        assert (await call(url, before)).status_code == 401


async def test_a_revoked_token_is_refused_once_the_issuer_is_asked_again(npm: Path) -> None:
    async with oidc_provider(npm, format="opaque", clients=CLIENTS) as issuer:
        forgetful = introspection(issuer, cache_ttl=1e-9)
        async with protected(issuer, verifier=forgetful) as url:
            token = await token_for(issuer, url)
            assert (await call(url, token)).status_code == 200
            await token_request(issuer, "/token/revocation", token=token)
            assert (await call(url, token)).status_code == 401


@both_formats
async def test_other_kinds_of_tokens_are_no_access_tokens(npm: Path, form: str) -> None:
    """The issuer has signed them, or knows them; and they belong to the same login."""
    async with oidc_provider(npm, format=form, clients=CLIENTS) as issuer:
        async with protected(issuer, verifier=verifier_for(form, issuer)) as url:
            tokens = await log_in_at(issuer, "site", REDIRECT, resource=url)
            assert (await call(url, tokens["access_token"])).status_code == 200
            for kind in ("id_token", "refresh_token"):
                assert (await call(url, tokens[kind])).status_code == 401


@both_formats
async def test_a_bound_token_is_good_with_its_key_only(npm: Path, form: str) -> None:
    key, stranger = DpopKey(), DpopKey()
    async with oidc_provider(npm, format=form, clients=CLIENTS) as issuer:
        async with protected(
            issuer, verifier=verifier_for(form, issuer), dpop=DPoP(nonces=False)
        ) as url:
            token = await token_for(issuer, url, key=key)
            proof = key.proof("POST", url, token)
            assert (await call(url, token, "DPoP", DPoP=proof)).status_code == 200
            refused: list[tuple[str, dict[str, str]]] = [
                ("Bearer", {}),
                ("Bearer", {"DPoP": key.proof("POST", url, token)}),
                ("DPoP", {}),
                ("DPoP", {"DPoP": proof}),  # used before
                ("DPoP", {"DPoP": stranger.proof("POST", url, token)}),
                ("DPoP", {"DPoP": key.proof("GET", url, token)}),
                ("DPoP", {"DPoP": key.proof("POST", f"{url}/more", token)}),
                ("DPoP", {"DPoP": key.proof("POST", url, "another")}),
            ]
            for scheme, headers in refused:
                assert (await call(url, token, scheme, **headers)).status_code == 401
