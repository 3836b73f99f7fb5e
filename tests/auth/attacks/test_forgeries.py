"""Tokens that nobody issued, in every form that has worked somewhere: 401, and nothing is told."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from joserfc import jwe
from joserfc.jwk import OctKey, RSAKey

from tests.auth.server.support import (
    ISSUER,
    After,
    Issuer,
    by_hmac,
    call,
    ec_key,
    protected,
    rsa_key,
    sign,
    unsigned,
)
from trio_mcp.auth import DPoP

EC, RSA, EVIL = ec_key("ec"), rsa_key("rsa"), ec_key("ec")
ISSUED = Issuer(ISSUER, EC, RSA)
CLAIMS = ISSUED.claims(exp=After(86400))
TYPED = {"typ": "at+jwt", "kid": "ec"}
URL = "https://evil.example/keys"


def spellings_of(key: Any) -> dict[str, bytes]:
    """A public key in all the forms that a library might take for the secret of an HMAC."""
    public = key.raw_value.public_key() if key.is_private else key.raw_value
    encodings, formats = serialization.Encoding, serialization.PublicFormat
    pem = public.public_bytes(encodings.PEM, formats.SubjectPublicKeyInfo)
    jwk = key.as_dict(private=False)
    return {
        "PEM": pem,
        "PEM without its end": pem.rstrip(),
        "DER": public.public_bytes(encodings.DER, formats.SubjectPublicKeyInfo),
        "JWK": json.dumps(jwk).encode(),
        "JWK without spaces": json.dumps(jwk, separators=(",", ":")).encode(),
        "nothing": b"",
        "its id": str(key.kid).encode(),
    }


def tampered(**header: Any) -> str:
    """Signed by somebody else, with something in the header that is to make that right."""
    return sign(CLAIMS, EVIL, **{"alg": "ES256", **TYPED, **header})


def well_signed(**header: Any) -> str:
    """Signed by the issuer itself, with something in the header that is not to be let pass."""
    signed = unsigned({"alg": "ES256", **TYPED, **header}, CLAIMS).removesuffix(".")
    der = EC.raw_value.sign(signed.encode(), ec.ECDSA(hashes.SHA256()))
    raw = b"".join(each.to_bytes(32) for each in decode_dss_signature(der))
    return f"{signed}.{base64.urlsafe_b64encode(raw).rstrip(b'=').decode()}"


def _other_ends() -> dict[str, str]:
    good = sign(CLAIMS, EC, alg="ES256", **TYPED)
    head, body, tail = good.split(".")
    raw = base64.urlsafe_b64decode(tail + "==")
    as_der = EC.raw_value.sign(f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256()))

    def ending(signature: bytes) -> str:
        return f"{head}.{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"

    return {
        "in DER": ending(as_der),
        "both numbers 0": ending(b"\0" * 64),
        "both numbers 1": ending((b"\0" * 31 + b"\1") * 2),
        "both numbers all ones": ending(b"\xff" * 64),
        "longer": ending(raw + b"\0"),
        "shorter": ending(raw[:-1]),
        "halves changed about": ending(raw[32:] + raw[:32]),
        "with a newline": f"{good}%0A",
        "with padding": f"{good}==",
        "with a dot": f"{good}.",
        "with bits that do not count": good[:-1] + ("h" if good[-1] == "g" else "B"),
        "in the other alphabet": f"{head}.{body}.{tail[:-2]}+/",
        "with something between": f"{head}~.{body}.{tail}",
        "twice": f"{good}.{good}",
    }


def _pss() -> str:
    signed = unsigned({"alg": "PS256", **TYPED, "kid": "rsa"}, CLAIMS).removesuffix(".")
    signature = RSAKey.generate_key(2048).raw_value.sign(
        signed.encode(), padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256()
    )
    return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def _by_nobody(jwk: dict[str, Any]) -> str:
    return unsigned({"alg": "ES256", **TYPED, "jwk": jwk}, CLAIMS, b"\0" * 64)


FORGED: dict[str, str] = {
    **{
        f"{alg} by the {kind} key as {form}": by_hmac(
            {"alg": alg, "typ": "at+jwt", "kid": kind}, CLAIMS, secret
        )
        for kind, key in (("ec", EC), ("rsa", RSA))
        for form, secret in spellings_of(key).items()
        for alg in ("HS256", "ES256" if kind == "ec" else "RS256")
    },
    **{
        f"alg {alg!r}": unsigned({"alg": alg, **TYPED}, CLAIMS, tail)
        for alg in ("none", "None", "nOnE", "NONE", "", " none", "none ", None, 0, [], {}, True)
        for tail in (b"", b"\0" * 64)
    },
    **{
        f"alg {alg}": unsigned({"alg": alg, **TYPED}, CLAIMS, b"\0" * 64)
        for alg in (
            "es256",
            "ES256K",
            "ES512",
            "HS512",
            "RS1",
            "A128KW",
            "dir",
            "Ed448",
            "x" * 4000,
        )
    },
    "jku": tampered(jku=URL),
    "jku of the issuer's": tampered(jku=f"{ISSUER}/keys#@evil.example"),
    "x5u": tampered(x5u=URL),
    "x5c": tampered(x5c=[base64.b64encode(EVIL.as_der(private=False)).decode()]),
    "x5t": tampered(x5t="AAAA"),
    "jwk": tampered(jwk=EVIL.as_dict(private=False)),
    "jwk with its secret": tampered(jwk=EVIL.as_dict(private=True)),
    "jwk of the infinite point": _by_nobody({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}),
    "jwk that is an HMAC's": _by_nobody({"kty": "oct", "k": "AA"}),
    "crit": well_signed(crit=["exp"], exp=0),
    "crit, empty": well_signed(crit=[]),
    "crit, of no kind": well_signed(crit="exp"),
    "b64": well_signed(b64=False),
    "b64 that is critical": well_signed(b64=False, crit=["b64"]),
    "zip": tampered(zip="DEF"),
    **{
        f"kid {kid!r:.20}": tampered(kid=kid)
        for kid in ("../../dev/null", "ec' OR '1'='1", "x" * 6000, "", "\0", "ec\0", " ec", "EC")
    },
    **{
        f"kid of no kind: {kid}": unsigned({"alg": "ES256", "kid": kid}, CLAIMS, b"\0" * 64)
        for kid in ([], {}, ["ec"], {"ec": 1}, True, 1.5)
    },
    "two algorithms, the last good": unsigned(
        b'{"alg":"none","alg":"ES256","kid":"ec"}', CLAIMS, b"\0" * 64
    ),
    "two algorithms, the first good": unsigned(b'{"alg":"ES256","alg":"none","kid":"ec"}', CLAIMS),
    "another curve by the same id": sign(CLAIMS, ec_key("ec", "P-384"), alg="ES384", **TYPED),
    "PSS by another key": _pss(),
    "a token within a token": unsigned(
        {"alg": "none", "cty": "JWT"}, sign(CLAIMS, EC, alg="ES256", **TYPED).encode()
    ),
    "a token within a token, well signed": sign(
        {"token": sign(CLAIMS, EC, alg="ES256", **TYPED)}, EC, alg="ES256", cty="JWT", kid="ec"
    ),
    "encrypted": jwe.encrypt_compact(
        {"alg": "dir", "enc": "A128GCM", "kid": "ec"},
        json.dumps(CLAIMS),
        OctKey.import_key(b"\0" * 16),
        algorithms=["dir", "A128GCM"],
    ),
    "encrypted, with a header of signatures": "e30.e30.e30.e30.e30",
    **{f"a signature {how}": token for how, token in _other_ends().items()},
}


async def test_what_is_tampered_with_below_is_sound_as_it_is() -> None:
    async with protected(ISSUED) as host:
        assert (await call(host, well_signed())).status == 200


@pytest.mark.parametrize("what", FORGED)
async def test_a_forgery(what: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    issuer = Issuer(ISSUER, EC, RSA)
    async with protected(issuer, dpop=DPoP()) as host:
        response = await call(host, FORGED[what])
        assert response.status == 401
        assert 'Bearer error="invalid_token", scope="mcp"' in response.headers["www-authenticate"]
        assert response.error["message"] == "The access token is not valid."
        assert (await call(host, issuer.token())).status == 200, "nobody else is disturbed"
    assert not any("evil.example" in url for url in issuer.asked)
    parts = [part for part in FORGED[what].split(".") if len(part) > 10]
    assert not any(part in caplog.text for part in parts)


def _claims_of_no_kind() -> dict[str, Any]:
    strange: list[Any] = [[], {}, True, 1.5, -1, [[]], {"a": {}}, ""]
    found: dict[str, Any] = {}
    for name in ("aud", "exp", "cnf"):
        found |= {f"{name} {value!r}": {name: value} for value in strange if value != -1}
    for name in ("nbf", "iat"):
        found |= {f"{name} {value!r}": {name: value} for value in ([], {}, True, "1", 1e300)}
    return found


STRANGE = _claims_of_no_kind()


@pytest.mark.parametrize("what", STRANGE)
async def test_claims_of_no_kind(what: str) -> None:
    async with protected(ISSUED) as host:
        assert (await call(host, ISSUED.token(**STRANGE[what]))).status == 401


@pytest.mark.parametrize(
    "scopes",
    [
        "s " * 4000 + "mcp",
        "mcp " + "x" * 8000,
        [*(f"s{each}" for each in range(1200)), "mcp"],
        [["mcp"], {"mcp": 1}, None, 5, "mcp"],
    ],
    ids=["thousands", "a long one", "a long list", "of all kinds"],
)
async def test_scopes_in_numbers(scopes: Any) -> None:
    async with protected(ISSUED) as host:
        assert (await call(host, ISSUED.token(scope=scopes))).status == 200


@pytest.mark.parametrize(
    "scope", [None, "", [], {"mcp": 1}, 5, True, "MCP", "mcp2", "m c p", ["mc"]]
)
async def test_scopes_that_are_none(scope: Any) -> None:
    async with protected(ISSUED) as host:
        assert (await call(host, ISSUED.token(scope=scope))).status == 403


async def test_claims_that_are_deep() -> None:
    deep: Any = {}
    arrays: Any = []
    for _ in range(200):
        deep, arrays = {"a": deep}, [arrays]
    async with protected(ISSUED) as host:
        assert (await call(host, ISSUED.token(deep=deep))).status == 200
        assert (await call(host, ISSUED.token(deep=arrays))).status == 401
        for opening in (b'{"a":', b"["):
            token = unsigned({"alg": "ES256", **TYPED}, opening * 1500, b"\0" * 64)
            assert (await call(host, token)).status == 401
