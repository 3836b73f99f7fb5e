"""Authorization servers that are slow, down, too chatty or not who they say; and introspection."""

from __future__ import annotations

import base64
from typing import Any

import httpx2
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.auth.server.support import (
    ISSUER,
    OTHER,
    RESOURCE,
    Issuer,
    call,
    ec_key,
    protected,
    rsa_key,
)
from trio_mcp.auth import Introspection

pytestmark = pytest.mark.requirement("J2")

KEY = ec_key()
OAUTH = f"{ISSUER}/.well-known/oauth-authorization-server"
OPENID = f"{ISSUER}/.well-known/openid-configuration"


async def test_openid_metadata_will_do() -> None:
    issuer = Issuer(ISSUER, KEY)
    issuer.answers[OAUTH] = lambda _: httpx2.Response(404)
    issuer.answers[OPENID] = lambda _: httpx2.Response(200, json=issuer.metadata)
    async with protected(issuer) as host:
        assert (await call(host, issuer.token())).status == 200
    assert issuer.asked == [OAUTH, OPENID, f"{ISSUER}/keys"]


async def test_keys_are_fetched_once_however_many_wait(autojump_clock: Any) -> None:
    issuer, gate = Issuer(ISSUER, KEY), trio.Event()

    async def slow(_: Any) -> httpx2.Response:
        await gate.wait()
        return httpx2.Response(200, json={"keys": [KEY.as_dict(private=False)]})

    issuer.answers[f"{ISSUER}/keys"] = slow
    statuses = []
    async with protected(issuer) as host, trio.open_nursery() as nursery:

        async def one(number: int) -> None:
            statuses.append((await call(host, issuer.token(jti=str(number)))).status)

        with trio.CancelScope() as first:
            nursery.start_soon(one, 0)
            for number in range(20):
                nursery.start_soon(one, number)
            await wait_all_tasks_blocked()
            first.cancel()
        gate.set()
    assert statuses == [200] * 21
    assert len(issuer.asked) == 2


async def test_who_leaves_does_not_take_the_fetch_along(autojump_clock: Any) -> None:
    issuer, gate = Issuer(ISSUER, KEY), trio.Event()

    async def slow(_: Any) -> httpx2.Response:
        await gate.wait()
        return httpx2.Response(200, json={"keys": [KEY.as_dict(private=False)]})

    issuer.answers[f"{ISSUER}/keys"] = slow
    async with protected(issuer) as host, trio.open_nursery() as nursery:
        headers = {"authorization": f"Bearer {issuer.token()}"}
        leaving = host.send("POST", headers=headers)
        await wait_all_tasks_blocked()

        async def stay() -> None:
            assert (await call(host, issuer.token())).status == 200

        nursery.start_soon(stay)
        await wait_all_tasks_blocked()
        leaving.disconnect()
        await leaving.end()
        gate.set()
    assert issuer.asked.count(f"{ISSUER}/keys") == 1


def never_ending() -> Any:
    async def body() -> Any:
        while True:
            await trio.sleep(0.001)
            yield b" " * 65536

    return httpx2.Response(200, content=body())


async def silent(_: Any) -> httpx2.Response:
    await trio.sleep_forever()
    raise AssertionError


def keys_of(count: int) -> Any:
    one = {**KEY.as_dict(private=False), "use": "sig"}
    return {"keys": [one, *({**one, "kid": f"k{each}"} for each in range(count - 1))]}


BROKEN: dict[str, Any] = {
    "not there": (OAUTH, lambda _: httpx2.Response(404)),
    "down": (OAUTH, lambda _: httpx2.Response(500)),
    "moved elsewhere": (OAUTH, lambda _: httpx2.Response(302, headers={"location": "https://x"})),
    "no JSON": (OAUTH, lambda _: httpx2.Response(200, content=b"<html>")),
    "an array": (OAUTH, lambda _: httpx2.Response(200, json=[])),
    "megabytes": (OAUTH, lambda _: httpx2.Response(200, content=b" " * 2_000_000)),
    "deep": (OAUTH, lambda _: httpx2.Response(200, content=b'{"a":' * 100_000)),
    "endless": (OAUTH, lambda _: never_ending()),
    "silent": (OAUTH, silent),
    "compressed": (
        OAUTH,
        lambda _: httpx2.Response(
            200, stream=httpx2.ByteStream(b"x"), headers={"content-encoding": "br"}
        ),
    ),
    "another issuer's": (OAUTH, lambda _: httpx2.Response(200, json={"issuer": OTHER})),
    "keys in the clear": (
        OAUTH,
        lambda _: httpx2.Response(200, json={"issuer": ISSUER, "jwks_uri": "http://a.example/k"}),
    ),
    "keys on loopback": (
        OAUTH,
        lambda _: httpx2.Response(200, json={"issuer": ISSUER, "jwks_uri": "http://127.0.0.1/k"}),
    ),
    "keys in a file": (
        OAUTH,
        lambda _: httpx2.Response(200, json={"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"}),
    ),
    **{
        f"keys at {uri!r}": (
            OAUTH,
            lambda _, uri=uri: httpx2.Response(200, json={"issuer": ISSUER, "jwks_uri": uri}),
        )
        for uri in [
            None,
            5,
            "",
            "https://",
            "https://[",
            "https://a b/",
            "https://\x00/",
            "https://a:x",
        ]
    },
    **{
        f"keys at {uri!r:.20}": (
            OAUTH,
            lambda _, uri=uri: httpx2.Response(200, json={"issuer": ISSUER, "jwks_uri": uri}),
        )
        for uri in ["https://\ud83d\ude00/", "https://" + "a." * 40000, "https://a/" + "b" * 70000]
    },
    "no keys": (f"{ISSUER}/keys", lambda _: httpx2.Response(200, json={"keys": []})),
    "keys are none": (f"{ISSUER}/keys", lambda _: httpx2.Response(200, json={"keys": [1, {}]})),
    "a thousand keys": (f"{ISSUER}/keys", lambda _: httpx2.Response(200, json=keys_of(1000))),
    "endless keys": (f"{ISSUER}/keys", lambda _: never_ending()),
    "keys that nobody sends": (f"{ISSUER}/keys", silent),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_an_issuer_that_is_broken(name: str, autojump_clock: Any) -> None:
    broken, other = Issuer(ISSUER, KEY), Issuer(OTHER, ec_key())
    other.metadata["jwks_uri"] = f"{OTHER}/keys"
    where, answer = BROKEN[name]
    broken.answers[where] = answer
    async with protected(broken, other) as host:
        statuses = []
        async with trio.open_nursery() as nursery:

            async def one() -> None:
                response = await call(host, broken.token())
                assert response.headers["retry-after"] == "10"
                statuses.append(response.status)

            for _ in range(3):
                nursery.start_soon(one)
            started = trio.current_time()
            assert (await call(host, other.token())).status == 200
            assert trio.current_time() - started < 1, "the others are not held up"
        assert statuses == [503] * 3, "nobody is let in"
        asked = len(broken.asked)
        assert (await call(host, broken.token())).status == 503
        assert len(broken.asked) == asked, "it is left alone for a while"
        del broken.answers[where]
        await trio.sleep(120)
        assert (await call(host, broken.token())).status == 200


async def test_a_hundred_keys() -> None:
    issuer = Issuer(ISSUER, KEY)
    issuer.jwks = keys_of(100)
    async with protected(issuer) as host:
        assert (await call(host, issuer.token())).status == 200


async def test_unknown_keys_make_nobody_ask_all_the_time(autojump_clock: Any) -> None:
    issuer = Issuer(ISSUER, KEY)
    async with protected(issuer) as host:
        assert (await call(host, issuer.token())).status == 200
        await trio.sleep(31)
        for number in range(50):
            assert (await call(host, issuer.token(ec_key(f"made-up-{number}")))).status == 401
        assert issuer.asked.count(f"{ISSUER}/keys") == 2


async def test_keys_that_are_rotated(autojump_clock: Any) -> None:
    issuer = Issuer(ISSUER, ec_key("one"))
    async with protected(issuer) as host:
        assert (await call(host, issuer.token())).status == 200
        issuer.keys = [ec_key("two"), issuer.keys[0]]
        assert (await call(host, issuer.token())).status == 401, "we have just looked"
        await trio.sleep(30)
        assert (await call(host, issuer.token())).status == 200


async def test_keys_are_kept_for_their_time_and_a_little_more(autojump_clock: Any) -> None:
    issuer = Issuer(ISSUER, KEY)
    issuer.headers = {"cache-control": "public, max-age=120"}
    async with protected(issuer) as host:

        async def status() -> int:
            return (await call(host, issuer.token(jti=str(trio.current_time())))).status

        assert await status() == 200
        await trio.sleep(119)
        assert await status() == 200
        assert len(issuer.asked) == 2
        issuer.answers[OAUTH] = lambda _: httpx2.Response(500)
        await trio.sleep(2)
        assert await status() == 200, "the old ones will do"
        await trio.sleep(1)
        assert issuer.asked.count(OAUTH) == 2
        await trio.sleep(3700)
        assert await status() == 503, "but not for ever"


async def test_keys_that_are_not_for_this() -> None:
    weak = {"kty": "RSA", "n": "u" * 171, "e": "AQAB", "kid": "weak"}
    slow = {"kty": "RSA", "n": "u" * 5000, "e": "AQAB", "kid": "slow"}
    good = rsa_key("good")
    issuer = Issuer(ISSUER, good)
    encrypts = {**KEY.as_dict(private=False), "use": "enc"}
    secret = {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0", "kid": "oct"}
    private = ec_key("private").as_dict(private=True)
    odd = {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "odd"}
    others = [weak, slow, encrypts, secret, private, odd, {"kty": "AKP", "kid": "new"}]
    issuer.jwks = {"keys": [*others, good.as_dict(private=False)]}
    async with protected(issuer) as host:
        assert (await call(host, issuer.token())).status == 200
        assert (await call(host, issuer.token(KEY))).status == 401


# -- introspection --------------------------------------------------------------------------------

HOW = Introspection(endpoint=f"{ISSUER}/introspect", client_id="we:", client_secret="p w")


async def test_introspection(autojump_clock: Any) -> None:
    issuer = Issuer(ISSUER)
    active = issuer.claims(active=True)
    issuer.introspected = {
        "good": active,
        "revoked": {"active": False},
        "active as text": {**active, "active": "true"},
        "foreign": {**active, "aud": "https://other.example"},
        "nobody-knows-for-whom": {k: v for k, v in active.items() if k != "aud"},
        "other-issuer": {**active, "iss": OTHER},
        "old": {**active, "exp": 1},
    }
    seen = []

    def answer(request: httpx2.Request) -> Any:
        seen.append(request.headers["authorization"])
        token = dict(each.split("=") for each in request.content.decode().split("&"))["token"]
        return httpx2.Response(200, json=issuer.introspected.get(token, {"active": False}))

    issuer.answers[HOW.endpoint] = answer
    async with protected(issuer, verifier=HOW) as host:
        for _ in range(2):
            for token in issuer.introspected:
                if " " not in token:
                    expected = 200 if token == "good" else 401
                    assert (await call(host, token)).status == expected, token
        assert len(seen) == 6, "each is asked about once"
        assert set(seen) == {"Basic " + base64.b64encode(b"we%3A:p%20w").decode()}
        issuer.introspected["good"] = {"active": False}
        await trio.sleep(59)
        assert (await call(host, "good")).status == 200
        await trio.sleep(2)
        assert (await call(host, "good")).status == 401
        issuer.answers[HOW.endpoint] = lambda _: httpx2.Response(500)
        assert (await call(host, "another")).status == 503
        issuer.answers[HOW.endpoint] = lambda _: httpx2.Response(400)
        assert (await call(host, "no-token-of-theirs")).status == 401


async def test_the_same_opaque_token_at_the_same_time(autojump_clock: Any) -> None:
    issuer, gate = Issuer(ISSUER), trio.Event()

    async def slow(_: Any) -> httpx2.Response:
        await gate.wait()
        return httpx2.Response(200, json=issuer.claims(active=True, aud=[RESOURCE]))

    issuer.answers[HOW.endpoint] = slow
    async with protected(issuer, verifier=HOW) as host, trio.open_nursery() as nursery:

        async def one() -> None:
            assert (await call(host, "good")).status == 200

        for _ in range(10):
            nursery.start_soon(one)
        await wait_all_tasks_blocked()
        gate.set()
    assert len(issuer.asked) == 1
