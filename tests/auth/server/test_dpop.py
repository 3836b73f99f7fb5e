"""Tokens that are bound to a key, and the proofs that have to come with them (RFC 9449)."""

from __future__ import annotations

import time
from typing import Any

import pytest
import trio

from tests.auth.server.support import (
    RESOURCE,
    After,
    Issuer,
    call,
    ec_key,
    ed_key,
    proof,
    protected,
    rsa_key,
    unsigned,
)
from tests.support.tools import echo, registry_of
from trio_mcp.auth import DPoP
from trio_mcp.auth.server.dpop import normalized
from trio_mcp.store.used import ReplayRecord

pytestmark = pytest.mark.requirement("J4")

KEY, OTHER = ec_key(), ec_key()
NOW = int(time.time())
ISSUER = Issuer()
TOKEN = ISSUER.token(cnf={"jkt": KEY.thumbprint()}, exp=After(86400))
PRIVATE = {**KEY.as_dict(private=True)}

GOOD: dict[str, dict[str, Any]] = {
    "as it should be": {},
    "a port that goes without saying": {"htu": "https://mcp.example.com:443/mcp"},
    "host in other letters": {"htu": "HTTPS://MCP.example.com/mcp"},
    "a slash at the end": {"htu": RESOURCE + "/"},
    "a slow clock": {"iat": After(-60)},
    "a fast clock": {"iat": After(20)},
}
BAD: dict[str, dict[str, Any]] = {
    "another method": {"htm": "GET"},
    "method in small letters": {"htm": "post"},
    "no method": {"htm": None},
    "another path": {"htu": "https://mcp.example.com/other"},
    "two slashes": {"htu": RESOURCE + "//"},
    "another host": {"htu": "https://evil.example/mcp"},
    "in the clear": {"htu": "http://mcp.example.com/mcp"},
    "another port": {"htu": "https://mcp.example.com:8443/mcp"},
    "with a query": {"htu": RESOURCE + "?a"},
    "with a fragment": {"htu": RESOURCE + "#a"},
    "with a user": {"htu": "https://u@mcp.example.com/mcp"},
    "a URL that is none": {"htu": "https://["},
    "no URL": {"htu": None},
    "another token": {"ath": "x" * 43},
    "no token": {"ath": None},
    "token is a list": {"ath": ["x"]},
    "too old": {"iat": After(-200)},
    "from the future": {"iat": After(200)},
    "of no time": {"iat": None},
    "time is a text": {"iat": str(NOW)},
    "no id": {"jti": None},
    "an empty id": {"jti": ""},
    "a long id": {"jti": "x" * 1000},
    "an id that is a number": {"jti": 5},
    "no type": {"header": {"typ": None}},
    "another type": {"header": {"typ": "JWT"}},
    "no key": {"header": {"jwk": None}},
    "a private key": {"header": {"jwk": PRIVATE}},
    "another key": {"header": {"jwk": OTHER.as_dict(private=False)}, "signed_by": OTHER},
    "signed by another key": {"signed_by": OTHER},
    "critical": {"header": {"crit": ["typ"]}},
    "oversized": {"x": "x" * 9000},
}


@pytest.mark.parametrize("name", GOOD)
async def test_proofs_that_are_good(name: str) -> None:
    async with protected(ISSUER, dpop=DPoP()) as host:
        response = await call(host, TOKEN, scheme="DPoP", dpop=proof(KEY, TOKEN, **GOOD[name]))
        assert response.status == 200


@pytest.mark.parametrize("name", BAD)
async def test_proofs_that_are_not(name: str) -> None:
    async with protected(ISSUER, dpop=DPoP()) as host:
        response = await call(host, TOKEN, scheme="DPoP", dpop=proof(KEY, TOKEN, **BAD[name]))
        assert response.status == 401
        assert 'DPoP error="invalid_dpop_proof"' in response.headers["www-authenticate"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "x",
        "a.b.c",
        unsigned({"alg": "none", "typ": "dpop+jwt", "jwk": {}}, {}),
        unsigned({"alg": "ES256", "typ": "dpop+jwt", "jwk": "key"}, {}),
        f"{proof(KEY, TOKEN)}, {proof(KEY, TOKEN)}",
    ],
    ids=["none", "empty", "no token", "no JSON", "alg none", "no key", "two proofs"],
)
async def test_what_is_no_proof(value: str | None) -> None:
    async with protected(ISSUER, dpop=DPoP()) as host:
        response = await call(host, TOKEN, scheme="DPoP", dpop=value)
        assert response.status == 401
        assert 'DPoP error="invalid_dpop_proof"' in response.headers["www-authenticate"]


@pytest.mark.parametrize(
    "key", [rsa_key(), ed_key(), ec_key(curve="P-521")], ids=["RSA", "Ed25519", "P-521"]
)
async def test_keys_of_any_kind(key: Any) -> None:
    token = ISSUER.token(cnf={"jkt": key.thumbprint()})
    async with protected(ISSUER, dpop=DPoP()) as host:
        assert (await call(host, token, scheme="DPoP", dpop=proof(key, token))).status == 200


async def test_a_proof_is_good_once(autojump_clock: Any) -> None:
    async with protected(ISSUER, dpop=DPoP()) as host:
        once = proof(KEY, TOKEN)
        assert (await call(host, TOKEN, scheme="DPoP", dpop=once)).status == 200
        assert (await call(host, TOKEN, scheme="DPoP", dpop=once)).status == 401
        await trio.sleep(80)
        assert (await call(host, TOKEN, scheme="DPoP", dpop=once)).status == 401


async def test_a_bound_token_is_no_bearer_token() -> None:
    for dpop in (None, DPoP()):
        async with protected(ISSUER, dpop=dpop) as host:
            for given in (None, proof(KEY, TOKEN)):
                assert (await call(host, TOKEN, dpop=given)).status == 401


async def test_a_bound_token_without_a_scope_is_asked_for_one_that_is_bound() -> None:
    registry = registry_of()
    registry.add_tool(echo, scopes=["write"])
    async with protected(ISSUER, dpop=DPoP(), registry=registry) as host:
        response = await call(host, TOKEN, scheme="DPoP", dpop=proof(KEY, TOKEN))
        assert response.status == 403
        assert ', DPoP error="insufficient_scope"' in response.headers["www-authenticate"]


async def test_a_bearer_token_is_not_bound() -> None:
    token = ISSUER.token()
    async with protected(ISSUER, dpop=DPoP()) as host:
        assert (await call(host, token)).status == 200
        assert (await call(host, token, scheme="DPoP", dpop=proof(KEY, token))).status == 401
        challenge = (await call(host, None)).headers["www-authenticate"]
        assert challenge.startswith("Bearer scope=")
        assert ', DPoP scope="mcp"' in challenge
    async with protected(ISSUER, dpop=DPoP(required=True)) as host:
        for _ in range(2):
            assert (await call(host, token)).status == 401
        challenge = (await call(host, None)).headers["www-authenticate"]
        assert challenge.startswith("DPoP scope=")
        assert "Bearer" not in challenge
        assert "ES256" in challenge


async def test_nonces() -> None:
    async with protected(ISSUER, dpop=DPoP(nonces=True)) as host:
        response = await call(host, TOKEN, scheme="DPoP", dpop=proof(KEY, TOKEN))
        assert response.status == 401
        assert 'DPoP error="use_dpop_nonce"' in response.headers["www-authenticate"]
        nonce = response.headers["dpop-nonce"]
        for value, status in [(nonce, 200), (nonce[:-8] + "A" * 8, 401), ("x", 401), (1, 401)]:
            given = proof(KEY, TOKEN, nonce=value)
            response = await call(host, TOKEN, scheme="DPoP", dpop=given)
            assert response.status == status
            assert "dpop-nonce" in response.headers, "the next one comes along"


async def test_a_store_that_is_shared() -> None:
    class Shared:
        def __init__(self) -> None:
            self.seen: set[str] = set()

        async def add(self, owner: str, id: str, seconds: float) -> bool:
            assert owner == KEY.thumbprint()
            assert 0 < seconds < 200
            new = id not in self.seen
            self.seen.add(id)
            return new

    once, store = proof(KEY, TOKEN), Shared()
    for status in (200, 401):
        async with protected(ISSUER, dpop=DPoP(replay_store=store)) as host:
            assert (await call(host, TOKEN, scheme="DPoP", dpop=once)).status == status


async def test_the_record_is_bounded(autojump_clock: Any) -> None:
    record = ReplayRecord(100, 10)
    assert [await record.add("a", str(each), 60) for each in range(11)] == [True] * 10 + [False]
    for owner in "bcdefghij":
        assert await record.add(owner, "1", 60), "one key does not fill it"
    for number in range(200):
        await record.add(str(number), "1", 60)
    assert len(record) == 100
    assert not await record.add("b", "1", 60)
    await trio.sleep(61)
    assert await record.add("a", "1", 60)
    assert len(record) == 1


def test_urls_have_one_form() -> None:
    assert normalized("https://[::1]:443/a") == normalized("HTTPS://[::1]/a/") == "https://[::1]/a"
    for each in (
        None,
        5,
        "",
        "/a",
        "ftp://a/",
        "https://a:x/",
        "https://a/?",
        "https://" + "a" * 5000,
    ):
        assert normalized(each) is None
