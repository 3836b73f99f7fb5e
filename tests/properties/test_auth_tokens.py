"""Access tokens: no bytes in the header are one, and no change of one is overlooked."""

import base64
import json
from typing import Any

import httpx2
import pytest
import trio
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.auth.server.support import ISSUER, METADATA, Issuer, call, ec_key, protected, unsigned
from trio_mcp.auth import DPoP

fewer = settings(max_examples=settings().max_examples // 3)
"""Each example starts a server, or logs in."""
KEY = ec_key("ec")
LOGIN = Issuer(ISSUER, KEY)
ALPHABET = 'ABab01-_.~+/= ,\t"\\\x7f\xff'
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def statuses(*headers: bytes) -> list[int]:
    """What a server answers to requests with these headers, and to a good one after each."""

    async def main() -> list[int]:
        found = []
        good = LOGIN.token()
        async with protected(LOGIN, dpop=DPoP()) as host:
            for each in headers:
                found.append((await call(host, None, authorization=each)).status)
                assert (await call(host, good)).status == 200
        return found

    return trio.run(main)


@fewer
@given(
    st.lists(st.binary(max_size=50) | st.text(ALPHABET, max_size=50).map(str.encode), max_size=5)
)
def test_no_bytes_are_a_token(values: list[bytes]) -> None:
    begun = [b"Bearer " + each for each in values] + [b"DPoP " + each for each in values]
    assert set(statuses(*values, *begun)) <= {400, 401}


@fewer
@given(st.data())
def test_no_change_is_overlooked(data: st.DataObject) -> None:
    token = LOGIN.token()
    start = data.draw(st.integers(0, len(token) - 1))
    end = data.draw(st.integers(start, min(len(token), start + 4)))
    put = data.draw(st.text(ALPHABET, max_size=4))
    altered = token[:start] + put + token[end:]
    if altered.rstrip(" ") != token:
        assert statuses(f"Bearer {altered}".encode("latin-1"))[0] in (400, 401)


HEADER = st.dictionaries(
    st.sampled_from(["alg", "typ", "kid", "jwk", "crit", "b64", "x5c", "jku", "cty", "zip"]),
    st.sampled_from(["ES256", "none", "HS256", "ec", "at+jwt", True, 0, [], ["kid"], {}]) | JSON,
)


@fewer
@given(HEADER | JSON, JSON, st.binary(max_size=70))
def test_whatever_stands_in_an_unsigned_token(header: Any, claims: Any, signature: bytes) -> None:
    if isinstance(claims, dict):
        claims = {**LOGIN.claims(), **claims}
    token = unsigned(header, claims, signature)
    assert statuses(f"Bearer {token}".encode()) == [401]


CLAIM = st.dictionaries(
    st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "scope", "scp", "cnf", "client_id"]),
    JSON,
    max_size=3,
)


@fewer
@given(CLAIM)
def test_whatever_an_issuer_signs_is_answered(changes: dict[str, Any]) -> None:
    """With a status that belongs to it; nothing that is signed makes us fail."""
    claims = {**LOGIN.claims(), **changes}
    signed = unsigned({"alg": "ES256", "kid": "ec", "typ": "at+jwt"}, claims).removesuffix(".")
    numbers = decode_dss_signature(KEY.raw_value.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    raw = b"".join(each.to_bytes(32) for each in numbers)
    token = f"{signed}.{base64.urlsafe_b64encode(raw).rstrip(b'=').decode()}"
    assert statuses(f"Bearer {token}".encode())[0] in (200, 401, 403)


@fewer
@given(st.binary(max_size=100) | JSON.map(lambda value: json.dumps(value).encode()), st.booleans())
def test_whatever_an_issuer_answers_is_survived(body: bytes, keys: bool) -> None:
    async def main() -> None:
        issuer = Issuer(ISSUER, KEY)
        where = f"{ISSUER}/keys" if keys else f"{ISSUER}/.well-known/oauth-authorization-server"
        issuer.answers[where] = lambda _: httpx2.Response(200, content=body)
        async with protected(issuer) as host:
            assert (await call(host, issuer.token())).status == 503
            assert (await host.ask("GET", METADATA)).status == 200

    trio.run(main)


@pytest.mark.parametrize("claims", [{"exp": 10**30}, {"nbf": 10**30}, {"iat": -(10**30)}])
def test_times_beyond_all_numbers(claims: dict[str, Any]) -> None:
    token = LOGIN.token(**claims)
    assert statuses(f"Bearer {token}".encode()) == [401]
