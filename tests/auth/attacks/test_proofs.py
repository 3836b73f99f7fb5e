"""DPoP proofs in numbers, and by keys that are none."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio

from tests.auth.server.support import (
    After,
    Issuer,
    algorithm_of,
    call,
    ec_key,
    ed_key,
    proof,
    protected,
    rsa_key,
    unsigned,
)
from trio_mcp.auth import DPoP
from trio_mcp.store.used import ReplayRecord

KEY = ec_key(None)
ISSUER = Issuer()
TOKEN = ISSUER.token(cnf={"jkt": KEY.thumbprint()}, exp=After(86400))
PUBLIC = KEY.as_dict(private=False)
INVALID = 'DPoP error="invalid_dpop_proof"'

JWKS: dict[str, Any] = {
    "none": None,
    "empty": {},
    "a list": [PUBLIC],
    "its thumbprint": KEY.thumbprint(),
    "an HMAC's": {"kty": "oct", "k": "AAAA"},
    "its numbers as an HMAC's": {**PUBLIC, "kty": "oct", "k": PUBLIC["x"]},
    "its numbers as an RSA key's": {**PUBLIC, "kty": "RSA", "n": PUBLIC["x"], "e": "AQAB"},
    "with its secret": KEY.as_dict(private=True),
    "with a large number": {**PUBLIC, "x": "A" * 5000},
    "with another number": {**PUBLIC, "x": "A" * 43},
    "on another curve": {**PUBLIC, "crv": "P-384"},
    "on no curve": {**PUBLIC, "crv": "P-257"},
    "for encryption": {**PUBLIC, "use": "enc"},
    "for another algorithm": {**PUBLIC, "alg": "ES384"},
    "for other work": {**PUBLIC, "key_ops": ["sign"]},
}


@pytest.mark.parametrize("what", JWKS)
async def test_a_key(what: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with protected(ISSUER, dpop=DPoP()) as host:
        header = {"alg": "ES256", "typ": "dpop+jwt", "jwk": JWKS[what]}
        if isinstance(JWKS[what], dict):
            given = proof(KEY, TOKEN, header=header)
        else:
            given = unsigned(header, {}, b"\1" * 64)
        response = await call(host, TOKEN, scheme="DPoP", dpop=given)
        assert response.status == 401
        assert INVALID in response.headers["www-authenticate"]
        assert (await call(host, TOKEN, scheme="DPoP", dpop=proof(KEY, TOKEN))).status == 200
    assert not any(part in caplog.text for part in given.split("."))


@pytest.mark.parametrize("key", [rsa_key(), ed_key(), ec_key(curve="P-521")], ids=algorithm_of)
async def test_an_algorithm_that_is_not_its_keys(key: Any) -> None:
    token = ISSUER.token(cnf={"jkt": key.thumbprint()})
    public = key.as_dict(private=False)
    async with protected(ISSUER, dpop=DPoP()) as host:
        for algorithm in ("ES256", "ES384", "RS256", "PS512", "EdDSA", "HS256", "none"):
            if algorithm == "EdDSA" and public["kty"] == "OKP":
                continue
            given = unsigned({"alg": algorithm, "typ": "dpop+jwt", "jwk": public}, {}, b"\1" * 64)
            response = await call(host, token, scheme="DPoP", dpop=given)
            assert response.status == 401
            assert INVALID in response.headers["www-authenticate"]


async def test_a_proof_for_one_token_is_none_for_another() -> None:
    other = ISSUER.token(cnf={"jkt": KEY.thumbprint()}, jti="other")
    async with protected(ISSUER, dpop=DPoP()) as host:
        given = proof(KEY, TOKEN)
        assert (await call(host, other, scheme="DPoP", dpop=given)).status == 401
        assert (await call(host, TOKEN, scheme="DPoP", dpop=given)).status == 200


async def test_a_proof_that_is_refused_is_not_remembered() -> None:
    """Or whoever guesses ids fills the record, or uses up those of others."""
    async with protected(ISSUER, dpop=DPoP(max_proofs=10)) as host:
        for _ in range(20):
            wrong = proof(KEY, TOKEN, htu="https://evil.example/mcp", jti="mine")
            assert (await call(host, TOKEN, scheme="DPoP", dpop=wrong)).status == 401
        right = proof(KEY, TOKEN, jti="mine")
        assert (await call(host, TOKEN, scheme="DPoP", dpop=right)).status == 200


async def test_two_at_once_are_one_too_many() -> None:
    statuses: list[int] = []
    async with protected(ISSUER, dpop=DPoP()) as host:
        once = proof(KEY, TOKEN)

        async def use() -> None:
            statuses.append((await call(host, TOKEN, scheme="DPoP", dpop=once)).status)

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(use)
    assert sorted(statuses) == [200] + [401] * 19


async def test_another_method() -> None:
    async with protected(ISSUER, dpop=DPoP()) as host:
        for htm, status in [("POST", 401), ("get", 401), ("GET", 200)]:
            given = proof(KEY, TOKEN, htm=htm, htu="https://mcp.example.com/tools")
            headers = {"authorization": f"DPoP {TOKEN}", "dpop": given}
            assert (await host.ask("GET", "/tools", headers=headers)).status == status


# -- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1000, pytest.param(100_000, marks=pytest.mark.long)])
async def test_as_many_proofs_as_there_may_be(most: int, autojump_clock: Any) -> None:
    record = ReplayRecord(most, most // 10)
    for each in range(most):
        assert await record.add(f"owner {each % 10}", f"proof {each}", 60)
    assert not await record.add("newcomer", "proof", 60), "it is full"
    assert not await record.add("owner 1", "proof 1", 60)
    await trio.sleep(80)
    assert await record.add("newcomer", "proof", 60)
    assert len(record) == 1


async def test_proofs_that_end_soon_do_not_cut_time_into_small_pieces(autojump_clock: Any) -> None:
    record = ReplayRecord(100_000, 10_000)
    assert await record.add("owner", "long", 120)
    for each in range(500):
        assert await record.add(f"owner {each}", "short", 0.01)
        assert await record.add(f"owner {each}", "long", 120)
        await trio.sleep(0.02)
    assert len(record.windows) < 10
    assert not await record.add("owner", "long", 120)


async def test_proofs_are_remembered_for_their_whole_time(autojump_clock: Any) -> None:
    record = ReplayRecord(1000, 100)
    for each in range(300):
        assert await record.add(f"owner {each}", "proof", 60)
        await trio.sleep(0.5)
        for age in (1, 50, 100, 118):
            if each >= age:
                assert not await record.add(f"owner {each - age}", "proof", 60)
    assert len(record) < 140
