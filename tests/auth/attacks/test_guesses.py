"""Whoever guesses tokens, at an issuer that has to be asked about each: others are not disturbed."""

from __future__ import annotations

import logging
from typing import Any

import httpx2
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.auth.server.support import ISSUER, OTHER, Issuer, call, ec_key, protected
from trio_mcp.auth import Introspection

HOW = Introspection(endpoint=f"{ISSUER}/introspect", client_id="we", client_secret="secret-0")


def issuer_of(*good: str, **claims: Any) -> Issuer:
    """An issuer that has given some opaque tokens."""
    issuer = Issuer(ISSUER, ec_key())
    issuer.introspected = {each: {**issuer.claims(**claims), "active": True} for each in good}
    return issuer


async def test_guesses_push_out_no_token_that_is_good() -> None:
    issuer = issuer_of("good-0", "good-1")
    async with protected(issuer, verifier=HOW, max_cached_tokens=10) as host:
        for number in range(2):
            assert (await call(host, f"good-{number}")).status == 200
        for number in range(100):
            assert (await call(host, f"guess-{number}")).status == 401
        asked = len(issuer.asked)
        for number in range(2):
            assert (await call(host, f"good-{number}")).status == 200
        assert len(issuer.asked) == asked, "they are still known"
        assert (await call(host, "guess-0")).status == 401
        assert len(issuer.asked) == asked + 1, "of guesses the last are known"


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.long)])
async def test_the_issuer_is_asked_about_so_many_at_a_time(count: int, autojump_clock: Any) -> None:
    issuer, asked, most = issuer_of("good"), 0, 0
    gate = trio.Event()

    async def slow(_: httpx2.Request) -> httpx2.Response:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await gate.wait()
        asked -= 1
        return httpx2.Response(200, json={"active": False})

    async with protected(issuer, verifier=HOW) as host:
        assert (await call(host, "good")).status == 200
        issuer.answers[HOW.endpoint] = slow
        statuses: list[int] = []

        async def guess(number: int) -> None:
            statuses.append((await call(host, f"guess-{number}")).status)

        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(guess, number)
            await wait_all_tasks_blocked()
            assert (await call(host, "good")).status == 200, "it waits for nobody"
            gate.set()
    assert most <= 64
    assert statuses == [401] * count


STRANGE: dict[str, Any] = {
    "not active": {"active": False},
    "active as a text": {"active": "true"},
    "active as a number": {"active": 1},
    "silent": {"active": None},
    "for another": {"aud": "https://other.example/mcp"},
    "for nobody": {"aud": None},
    "of another issuer": {"iss": OTHER},
    "of no kind of issuer": {"iss": [ISSUER]},
    "over": {"exp": 1},
    "over at a text": {"exp": "9999999999"},
    "not yet": {"nbf": 10**11},
    "nobody's": {"sub": None, "client_id": None, "azp": None},
    "bound to a certificate": {"cnf": {"x5t#S256": "x"}},
}


@pytest.mark.parametrize("what", STRANGE)
async def test_answers_that_let_nobody_in(what: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    issuer = issuer_of("good", "opaque-secret")
    issuer.introspected["opaque-secret"] |= STRANGE[what]
    async with protected(issuer, verifier=HOW) as host:
        response = await call(host, "opaque-secret")
        assert response.status == 401
        assert 'Bearer error="invalid_token"' in response.headers["www-authenticate"]
        assert (await call(host, "good")).status == 200
    assert "opaque-secret" not in caplog.text
    assert "secret-0" not in caplog.text


@pytest.mark.parametrize(
    "scope", [" ".join(f"s{each}" for each in range(100_000)) + " mcp", "mcp " + "x" * 900_000]
)
async def test_scopes_without_end(scope: str) -> None:
    issuer = issuer_of("much", scope=scope)
    async with protected(issuer, verifier=HOW, implied_scopes={"s5": ["s6"]}) as host:
        assert (await call(host, "much")).status == 200
