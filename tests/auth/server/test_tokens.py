"""Which access tokens let in, and which of all that one may try do not."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import pytest
import trio

from tests.auth.server.support import (
    ISSUER,
    METADATA,
    OTHER,
    RESOURCE,
    After,
    Issuer,
    by_hmac,
    call,
    ec_key,
    ed_key,
    protected,
    rsa_key,
    sign,
    unsigned,
)
from tests.support.tools import echo, registry_of
from trio_mcp import Context, HttpPolicy, SchemaError
from trio_mcp.auth import Authorization, ResourceServer

pytestmark = pytest.mark.requirement("J2")

KEY = ec_key()
NOW = int(time.time())
CHALLENGE = f'scope="mcp", resource_metadata="https://mcp.example.com{METADATA}/mcp"'
INVALID = f'Bearer error="invalid_token", {CHALLENGE}'


async def whoami(context: Context) -> dict[str, Any]:
    """Say who calls."""
    found = context.authorization
    assert found is not None
    assert context.principal == found.principal
    return {
        "subject": found.subject,
        "client": found.client_id,
        "scopes": sorted(found.scopes),
        "issuer": found.issuer,
        "jti": found.claims["jti"],
    }


@pytest.mark.parametrize(
    "key",
    [KEY, ec_key(curve="P-384"), rsa_key(), ed_key()],
    ids=["P-256", "P-384", "RSA", "Ed25519"],
)
async def test_a_token_lets_in(key: Any) -> None:
    issuer = Issuer(ISSUER, key, ec_key("unused"))
    async with protected(issuer, registry=registry_of(whoami)) as host:
        for _ in range(3):
            response = await call(host, issuer.token(scope="mcp more"), "whoami")
            assert response.status == 200
            assert response.json()["result"]["structuredContent"] == {
                "subject": "alice",
                "client": "app",
                "scopes": ["mcp", "more"],
                "issuer": ISSUER,
                "jti": "1",
            }
    assert len(issuer.asked) == 2, "metadata and keys are fetched once"


GOOD: dict[str, dict[str, Any]] = {
    "several audiences": {"aud": ["https://x.example", RESOURCE]},
    "expired within the leeway": {"exp": After(-10)},
    "begins within the leeway": {"nbf": After(10), "iat": After(10)},
    "times with fractions": {"exp": After(60.5)},
    "scopes as a list": {"scope": None, "scp": ["mcp"]},
    "claims that nobody knows": {"x": {"y": [1]}},
}
LAX: dict[str, dict[str, Any]] = {
    "no client": {"client_id": None},
    "client as in OpenID": {"client_id": None, "azp": "app"},
    "a client that is not text": {"client_id": 5},
    "no subject": {"sub": None},
    "an empty subject": {"sub": ""},
    "no time of issue": {"iat": None},
    "no id": {"jti": None},
    "an id that is not text": {"jti": 7},
}
"""What RFC 9068 forbids, and many issuers write."""
BAD: dict[str, dict[str, Any]] = {
    "expired": {"exp": After(-100)},
    "never expires": {"exp": None},
    "expires at infinity": {"exp": float("inf")},
    "expires at a text": {"exp": str(NOW + 100)},
    "expires at true": {"exp": True},
    "expires in a million years": {"exp": 1e15},
    "expires at a huge number": {"exp": 10**400},
    "premature": {"nbf": After(100)},
    "nbf is a list": {"nbf": [NOW]},
    "issued tomorrow": {"iat": After(86400)},
    "other audience": {"aud": "https://other.example/mcp"},
    "audience with a slash": {"aud": RESOURCE + "/"},
    "audience in other letters": {"aud": RESOURCE.upper()},
    "audience is a prefix": {"aud": "https://mcp.example.com"},
    "no audience": {"aud": None},
    "audience is an object": {"aud": {RESOURCE: RESOURCE}},
    "audience within a list": {"aud": [[RESOURCE]]},
    "audience of the client": {"aud": "app"},
    "other issuer": {"iss": "https://evil.example"},
    "issuer with a slash": {"iss": ISSUER + "/"},
    "no issuer": {"iss": None},
    "issuer is a list": {"iss": [ISSUER]},
    "nobody's": {"sub": None, "client_id": None},
    "subject is an object": {"sub": {"a": 1}},
    "bound to a certificate": {"cnf": {"x5t#S256": "abc"}},
    "bound to a key": {"cnf": {"jkt": "abc"}},
    "bound to nothing": {"cnf": {}},
    "bound to a text": {"cnf": "jkt"},
}


@pytest.mark.parametrize("name", GOOD)
async def test_claims_that_are_good(name: str) -> None:
    issuer = Issuer(ISSUER, KEY)
    async with protected(issuer) as host:
        assert (await call(host, issuer.token(**GOOD[name]))).status == 200


@pytest.mark.requirement("J2")
@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("name", LAX)
async def test_claims_that_are_good_where_that_is_said(
    name: str, lenient: bool, caplog: pytest.LogCaptureFixture
) -> None:
    issuer = Issuer(ISSUER, KEY)
    async with protected(issuer, lenient_tokens=lenient) as host:
        assert (await call(host, issuer.token(**LAX[name]))).status == (200 if lenient else 401)
        (claim, *_) = LAX[name]
        told = f"it has no {claim}, which RFC 9068 requires; ResourceServer(lenient_tokens=True)"
        assert (told in caplog.text) is not lenient


@pytest.mark.requirement("J2")
@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("kind", ["at+jwt", "application/AT+JWT", "JWT", "application/jwt", None])
async def test_types_of_tokens(kind: str | None, lenient: bool) -> None:
    issuer = Issuer(ISSUER, KEY)
    token = sign(issuer.claims(), KEY, alg="ES256", kid="ec", typ=kind)
    is_good = lenient or kind in ("at+jwt", "application/AT+JWT")
    async with protected(issuer, lenient_tokens=lenient) as host:
        assert (await call(host, token)).status == (200 if is_good else 401)


@pytest.mark.requirement("J2")
@pytest.mark.parametrize("kind", ["dpop+jwt", "logout+jwt", "secevent+jwt", "id_token+jwt"])
async def test_leniency_takes_no_other_kind_of_jwt(kind: str) -> None:
    issuer = Issuer(ISSUER, KEY)
    token = sign(issuer.claims(), KEY, alg="ES256", kid="ec", typ=kind)
    async with protected(issuer, lenient_tokens=True) as host:
        assert (await call(host, token)).status == 401


@pytest.mark.parametrize("name", BAD)
async def test_claims_that_are_not(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    issuer = Issuer(ISSUER, KEY)
    async with protected(issuer) as host:
        token = issuer.token(**BAD[name])
        for _ in range(2):
            response = await call(host, token)
            assert response.status == 401
            assert response.headers["www-authenticate"] == INVALID
            assert response.error["message"] == "The access token is not valid."
        assert (await call(host, issuer.token())).status == 200
    said = [each.getMessage() for each in caplog.records if each.name == "trio_mcp.auth"]
    assert len(said) == 2, "the rule is named"
    assert all(part not in caplog.text for part in token.split("."))


def forged() -> dict[str, str]:
    """Tokens whose form or signature is wrong."""
    issuer = Issuer(ISSUER, KEY)
    claims, good = issuer.claims(), issuer.token()
    head, body, tail = good.split(".")
    public = json.dumps(KEY.as_dict(private=False)).encode()
    other = ec_key()
    usual = {"alg": "ES256", "typ": "at+jwt", "kid": "ec"}
    return {
        "signed by another": sign(claims, other, **usual),
        "its own key in the header": sign(claims, other, jwk=other.as_dict(False), **usual),
        "none": unsigned({**usual, "alg": "none"}, claims),
        "None": unsigned({**usual, "alg": "None"}, claims),
        "no algorithm": unsigned({"kid": "ec"}, claims),
        "algorithm is a list": unsigned({**usual, "alg": ["ES256"]}, claims),
        "HMAC by the public key": by_hmac({**usual, "alg": "HS256"}, claims, public),
        "HMAC by its PEM": by_hmac({**usual, "alg": "HS256"}, claims, KEY.as_pem(private=False)),
        "HMAC that says ES256": by_hmac(usual, claims, public),
        "of another curve": sign(claims, ec_key("ec", "P-384"), alg="ES384", kid="ec"),
        "RSA by the same id": sign(claims, rsa_key("ec"), alg="RS256", kid="ec"),
        "unknown key": sign(claims, KEY, alg="ES256", kid="nobody"),
        "key id is a number": unsigned({**usual, "kid": 1}, claims),
        "no signature": f"{head}.{body}.",
        "zeros for a signature": unsigned(usual, claims, b"\0" * 64),
        "a signature cut short": good[:-4],
        "another body": f"{head}.{unsigned(usual, {**claims, 'sub': 'root'}).split('.')[1]}.{tail}",
        "critical extension": sign(claims, KEY, **usual, crit=["kid"]),
        "a proof": sign(claims, KEY, **{**usual, "typ": "dpop+jwt"}),
        "a logout token": sign(claims, KEY, **{**usual, "typ": "logout+jwt"}),
        "a type that is not text": unsigned({**usual, "typ": 5}, claims),
        "encrypted": f"{head}.{body}.{body}.{body}.{tail}",
        "two parts": f"{head}.{body}",
        "one part": "opaque",
        "no JSON": unsigned(b"\xff", b"\xff"),
        "an array": unsigned(usual, [1]),
        "header is an array": unsigned(["alg"], claims),
        "deep": unsigned(usual, b"[" * 9000),
        "deep header": unsigned(b'{"alg":' * 1500, claims),
        "dots": "...." * 100,
        "oversized": issuer.token(x="x" * 16384),
        "well signed and oversized": "a" * 16385,
        "a megabyte": "a" * 1_000_000,
    }


FORGED = forged()


@pytest.mark.parametrize("name", FORGED)
async def test_a_forged_token(name: str) -> None:
    issuer = Issuer(ISSUER, KEY)
    async with protected(issuer) as host:
        response = await call(host, FORGED[name])
        assert (response.status, response.headers["www-authenticate"]) == (401, INVALID)
        assert (await call(host, issuer.token())).status == 200, "nothing else is disturbed"


@pytest.mark.parametrize(
    ("value", "status", "error"),
    [
        (None, 401, ""),
        ("", 401, "invalid_token"),
        ("Bearer", 401, "invalid_token"),
        ("Basic YTpi", 401, "invalid_token"),
        ("TOKEN", 401, "invalid_token"),
        ("Basic TOKEN", 401, "invalid_token"),
        ("Secret TOKEN", 401, "invalid_token"),
        ("B TOKEN", 401, "invalid_token"),
        ("Bearer TOKEN x", 401, "invalid_token"),
        ("Bearer TOKEN, Bearer TOKEN", 400, "invalid_request"),
        ("Bearer TOKEN,", 400, "invalid_request"),
        ("Bearer \xe9", 401, "invalid_token"),
        ("DPoP TOKEN", 401, "invalid_token"),
        ("bearer TOKEN", 200, ""),
        ("BEARER  TOKEN", 200, ""),
    ],
)
async def test_the_header(value: str | None, status: int, error: str) -> None:
    issuer = Issuer(ISSUER, KEY)
    async with protected(issuer) as host:
        token = issuer.token()
        assert (await call(host, token)).status == 200, "and now it is known"
        given = None if value is None else value.replace("TOKEN", token)
        response = await call(host, None, authorization=given and given.encode("latin-1"))
        assert response.status == status
        if status != 200:
            start = f'Bearer error="{error}", ' if error else "Bearer "
            assert response.headers["www-authenticate"] == start + CHALLENGE


async def test_a_token_in_the_url(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    issuer = Issuer(ISSUER, KEY)
    token = issuer.token()
    async with protected(issuer) as host:
        assert (await call(host, token)).status == 200, "and now it is known"
        for given in ({}, {"authorization": f"Bearer {token}"}):
            path = f"/mcp?a=b&access_token={token}"
            response = await host.ask("POST", path, headers=given, body=b"{}")
            assert response.status == 400
            assert 'error="invalid_request"' in response.headers["www-authenticate"]
    assert token not in caplog.text


async def test_several_issuers_have_their_own_keys() -> None:
    first, second = Issuer(ISSUER, ec_key("same")), Issuer(OTHER, ec_key("same"))
    async with protected(first, second) as host:
        assert (await call(host, first.token())).status == 200
        assert (await call(host, second.token())).status == 200
        assert (await call(host, first.token(key=second.keys[0]))).status == 401
        assert (await call(host, second.token(iss=ISSUER))).status == 401


async def test_a_token_is_looked_at_again_when_a_key_is_gone(autojump_clock: Any) -> None:
    issuer = Issuer(ISSUER, ec_key("old"))
    async with protected(issuer) as host:
        old = issuer.token()
        assert (await call(host, old)).status == 200
        issuer.keys = [ec_key("new")]
        await trio.sleep(60)
        assert (await call(host, issuer.token())).status == 200
        assert (await call(host, old)).status == 401


async def test_whose_a_request_is_goes_by_its_own_token_on_a_connection_of_several() -> None:
    issuer = Issuer(ISSUER, KEY)
    async with protected(issuer, registry=registry_of(whoami)) as host:
        tokens = {jti: issuer.token(jti=jti) for jti in ("1", "2")}
        for jti in "121122":
            response = await call(host, tokens[jti], "whoami")
            assert response.json()["result"]["structuredContent"]["jti"] == jti
            assert (await call(host, f"{tokens[jti]}x", "whoami")).status == 401
        (head,) = host.kept.values()
        assert len(head.digests) == 1  # of the last token alone, however many come
        assert (await call(host, "x" * 50_000, "whoami")).status == 401
        assert len(*head.digests) < 1000  # and of none that is too long


async def test_a_page_may_read_the_answer_to_a_token_that_is_known() -> None:
    issuer, page = Issuer(ISSUER, KEY), "https://page.example"
    async with protected(issuer, policy={"allowed_origins": [page]}) as host:
        token = issuer.token()
        for origin in (page, page, None, page):
            response = await call(host, token, origin=origin)
            assert response.status == 200
            assert response.headers.get("access-control-allow-origin") == origin


async def test_a_token_lets_in_no_more_once_it_has_expired(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW + autojump_clock.current_time())
    issuer = Issuer(ISSUER, KEY)
    async with protected(issuer, leeway=0) as host:
        token = issuer.token(exp=NOW + 100)
        for _ in range(2):
            assert (await call(host, token)).status == 200
        await trio.sleep(101)
        assert (await call(host, token)).status == 401


async def test_only_algorithms_of_the_list() -> None:
    issuer = Issuer(ISSUER, KEY)
    async with protected(issuer, algorithms=["RS256"]) as host:
        assert (await call(host, issuer.token())).status == 401


async def test_other_audiences() -> None:
    issuer = Issuer(ISSUER, KEY)
    async with protected(issuer, audiences=["api://mcp"]) as host:
        assert (await call(host, issuer.token(aud="api://mcp"))).status == 200
        assert (await call(host, issuer.token(aud="api://other"))).status == 401
    async with protected(issuer, resource="https://mcp.example.com") as host:
        for audience, status in [("", 200), ("/", 200), ("/mcp", 401)]:
            token = issuer.token(aud="https://mcp.example.com" + audience)
            assert (await call(host, token)).status == status


async def test_an_author_checks_tokens() -> None:
    async def verify(token: str) -> Authorization | None:
        scopes = {"good": {"mcp"}, "less": set[str](), "late": {"mcp"}}.get(token)
        if scopes is None:
            return None
        expires = time.time() + (600 if token != "late" else -600)
        return Authorization(subject="bob", scopes=frozenset(scopes), expires_at=expires)

    async with protected(Issuer(), verifier=verify) as host:
        for token, status in [("good", 200), ("less", 403), ("late", 401), ("x", 401)]:
            assert (await call(host, token)).status == status


async def test_the_policys_own_tokens_are_a_case_of_it() -> None:
    async def show(context: Context) -> str:
        assert context.authorization is not None
        return f"{context.principal} {sorted(context.authorization.scopes)}"

    async def verify(token: str) -> str | Authorization | None:
        return Authorization(subject="eve", scopes=frozenset({"a"})) if token == "e" else token

    from tests.transports.http.support import hosting

    registry = registry_of(show)

    @registry.tool(scopes=["a"])
    async def narrow() -> str:
        return "narrow"

    async with hosting(registry, HttpPolicy(verify=verify)) as host:
        for token, said, status in [("e", "eve ['a']", 200), ("bob", "bob []", 403)]:
            response = await call(host, token, "show")
            assert response.json()["result"]["content"][0]["text"] == said
            response = await call(host, token, "narrow")
            assert response.status == status
            if status == 403:
                challenge = 'Bearer realm="mcp", error="insufficient_scope", scope="a"'
                assert response.headers["www-authenticate"] == challenge


@pytest.mark.parametrize(
    "options",
    [
        {"resource": "http://mcp.example.com/mcp"},
        {"resource": "mcp.example.com"},
        {"resource": "https://mcp.example.com/mcp#a"},
        {"resource": "https://mcp.example.com/mcp?a"},
        {"resource": "https://u:p@mcp.example.com/"},
        {"resource": 'https://mcp.example.com/"'},
        {"resource": "https://mcp.example.com:x"},
        {"issuers": []},
        {"issuers": ISSUER},
        {"issuers": ["http://login.example.com"]},
        {"scopes": "mcp"},
        {"scopes": ["a b"]},
        {"scopes": ['a"']},
        {"scopes": [""]},
        {"scopes": ["offline_access"]},
        {"algorithms": ["HS256"]},
        {"algorithms": ["none"]},
        {"algorithms": []},
        {"verifier": "x"},
        {"leeway": -1},
    ],
    ids=str,
)
def test_what_cannot_be_protected(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        ResourceServer(**{"resource": RESOURCE, "issuers": [ISSUER], **options})


async def test_guesses_do_not_shut_out_who_was_let_in_before() -> None:
    issuer = Issuer()
    policy = {"guess_rate": 0.001, "burst": 3}
    async with protected(issuer, policy=policy) as host:
        known, new = issuer.token(), issuer.token(jti="2")
        assert (await call(host, known)).status == 200
        for _ in range(5):
            assert (await call(host, None)).status == 401  # which guesses nothing
        forged = [(await call(host, issuer.token(ec_key(kid="ec")))).status for _ in range(5)]
        assert forged == [401, 401, 401, 429, 429]
        assert (await call(host, new)).status == 429
        assert (await call(host, known)).status == 200
        asked = len(issuer.asked)
    assert asked <= 4


def test_no_tool_needs_what_is_between_client_and_issuer() -> None:
    with pytest.raises(SchemaError, match="offline_access is between client"):
        registry_of().add_tool(echo, scopes=["offline_access"])


def test_owners_are_told_apart() -> None:
    names = {
        Authorization(issuer=issuer, subject=subject, client_id=client).principal
        for issuer in ("a", 'a", "b', None)
        for subject in ("b", 'b", "c', None)
        for client in ("c", None)
    }
    assert len(names) >= 3 * 3 * 2 - 1


async def test_claims_are_seen_as_they_are() -> None:
    async def claims(context: Context) -> dict[str, Any]:
        assert context.authorization is not None
        found = context.authorization.claims
        assert len(found) == len(list(found))
        assert found["deep"] == {"a": [1, None, "ü"]}
        assert "nothing" not in found
        return dict(found)

    issuer = Issuer(ISSUER, KEY)
    async with protected(issuer, registry=registry_of(claims)) as host:
        token = issuer.token(deep={"a": [1, None, "ü"]})
        for _ in range(2):
            found = (await call(host, token, "claims")).json()["result"]["structuredContent"]
            assert found == {**issuer.claims(), "deep": {"a": [1, None, "ü"]}} | {
                name: found[name] for name in ("iat", "exp")
            }
