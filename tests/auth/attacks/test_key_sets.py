"""Key sets with keys of unsound sizes and kinds: they are passed over, and the others are good."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import httpx2
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.auth.server.support import ISSUER, Issuer, call, ec_key, protected, rsa_key, unsigned

EC, RSA = ec_key("ec"), rsa_key("rsa")
ONE, TWO = EC.as_dict(private=False), RSA.as_dict(private=False)


def number(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


ODD: dict[str, list[Any]] = {
    "that are none": [None, 5, "key", [], [ONE], {}],
    "of other kinds": [{**ONE, "kty": each} for each in (None, 5, [], {}, "oct", "ec", "AKP")],
    "of HMACs": [{"kty": "oct", "k": number(b"x" * 64), "kid": "odd"}] * 50,
    "of other curves": [
        {**ONE, "crv": each} for each in (None, 5, [], {}, "", "P-999", "Ed25519", "x" * 90_000)
    ],
    "off the curve": [{**ONE, "x": number(b"\xff" * 32)}, {**ONE, "y": number(b"\1" * 32)}],
    "at the origin": [{**ONE, "x": number(b"\0" * 32), "y": number(b"\0" * 32)}],
    "with a large point": [{**ONE, "x": "A" * 300_000}, {**ONE, "y": "A" * 300_000}],
    "with a point of no kind": [
        {**ONE, "x": each} for each in (None, 5, [], "", "\xe9", "=", "A A", "A\n", "+" * 43)
    ],
    "with their secrets": [EC.as_dict(private=True), RSA.as_dict(private=True)],
    "weak": [{**TWO, "n": number(b"\xff" * 128)}, {**TWO, "n": number(b"\xff")}],
    "of a million bits": [{**TWO, "n": number(b"\xff" * 131_072)}],
    "with a long exponent": [{**TWO, "e": number(b"\xff" * each)} for each in (5, 256, 100_000)],
    "with no exponent": [{**TWO, "e": each} for each in (None, 5, [], "", "AA", "AQ", "Ag", "BA")],
    "for encryption": [{**ONE, "use": "enc"}, {**TWO, "use": "enc"}],
    "of Edwards": [
        {"kty": "OKP", "crv": curve, "x": x}
        for curve in (None, 5, "X25519", "Ed448", "Ed25519")
        for x in (None, 5, "", "AA", "A" * 300, "A" * 90_000)
    ],
    "with certificates": [{**ONE, "kid": "odd", "x5c": ["A" * 300_000], "x5u": "https://evil"}],
}


@pytest.mark.parametrize("what", ODD)
async def test_keys(what: str) -> None:
    issuer = Issuer(ISSUER, EC)
    odd = [{**each, "kid": "odd"} if isinstance(each, dict) else each for each in ODD[what]]
    issuer.jwks = {"keys": [*odd, ONE]}
    async with protected(issuer) as host:
        assert (await call(host, issuer.token())).status == 200
        for algorithm, size in (("ES256", 64), ("RS256", 256), ("EdDSA", 64)):
            for signature in (b"\0" * size, b"\1" * size, b"\xff" * size):
                header = {"alg": algorithm, "kid": "odd"}
                token = unsigned(header, issuer.claims(), signature)
                assert (await call(host, token)).status == 401


async def test_whoever_has_an_exponent_of_one_signs_nothing() -> None:
    """With it, a signature is what anybody can write down: the padded hash itself."""
    issuer = Issuer(ISSUER, EC)
    issuer.jwks = {"keys": [ONE, {**TWO, "e": number(b"\1")}]}
    signed = unsigned({"alg": "RS256", "kid": "rsa"}, issuer.claims()).removesuffix(".")
    digest = hashlib.sha256(signed.encode()).digest()
    info = bytes.fromhex("3031300d060960864801650304020105000420") + digest
    padded = b"\0\1" + b"\xff" * (256 - 3 - len(info)) + b"\0" + info
    async with protected(issuer) as host:
        assert (await call(host, f"{signed}.{number(padded)}")).status == 401


@pytest.mark.parametrize(
    "keys",
    [
        [{**ONE, "kid": f"k{each}"} for each in range(101)],
        [{}] * 100_000,
        "keys",
        {"ec": ONE},
        None,
    ],
    ids=["too many", "far too many", "a text", "an object", "none"],
)
async def test_what_is_no_set(keys: Any) -> None:
    issuer = Issuer(ISSUER, EC)
    issuer.jwks = {"keys": keys}
    async with protected(issuer) as host:
        assert (await call(host, issuer.token())).status == 503


async def test_two_keys_of_one_name(autojump_clock: Any) -> None:
    issuer = Issuer(ISSUER, EC)
    issuer.jwks = {"keys": [{**TWO, "kid": "ec"}, ONE]}
    async with protected(issuer) as host:
        assert (await call(host, issuer.token())).status == 200, "they are of different kinds"


# -- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.long)])
async def test_keys_that_are_made_up(count: int) -> None:
    issuer = Issuer(ISSUER, EC)
    async with protected(issuer) as host:
        for each in range(count):
            header = {"alg": "ES256", "kid": f"made-up-{each}"}
            token = unsigned(header, issuer.claims(), b"\0" * 64)
            assert (await call(host, token)).status == 401
        assert (await call(host, issuer.token())).status == 200
    assert len(issuer.asked) == 2, "metadata and keys, once"


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.long)])
async def test_a_crowd_with_one_unknown_key(count: int, autojump_clock: Any) -> None:
    issuer, gate = Issuer(ISSUER, EC), trio.Event()

    async def slow(_: Any) -> httpx2.Response:
        await gate.wait()
        return httpx2.Response(200, json={"keys": [ONE]})

    statuses: list[int] = []
    async with protected(issuer) as host:
        assert (await call(host, issuer.token())).status == 200
        await trio.sleep(31)
        issuer.answers[f"{ISSUER}/keys"] = slow
        unknown = issuer.token(ec_key("unknown"))

        async def one() -> None:
            statuses.append((await call(host, unknown)).status)

        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(one)
            await wait_all_tasks_blocked()
            assert (await call(host, issuer.token(jti="2"))).status == 200, "others need not wait"
            gate.set()
    assert statuses == [401] * count
    assert issuer.asked.count(f"{ISSUER}/keys") == 2
