"""`trio-mcp doctor`: how it judges the way in that a server at a URL names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from tests.auth.client.test_fetching import listening
from tests.client.http_support import Incoming, Script
from trio_mcp.cli.doctor.access import check_challenge
from trio_mcp.cli.doctor.examination import Times, examine_url
from trio_mcp.cli.doctor.report import Report
from trio_mcp.cli.failures import Failure
from trio_mcp.cli.probing.base import Timeouts
from trio_mcp.client.http.options import HttpOptions

TOKEN = "a-token-that-is-good"
ABOUT = "/.well-known/oauth-protected-resource"


@asynccontextmanager
async def guarded(challenge: str | None, opens: str = TOKEN, about: str = "") -> AsyncIterator[str]:
    """Run a server that wants a token; its URL.

    Args:
        challenge: What it says with status 401; `None` if nothing.
        opens: With what a token that it takes begins.
        about: Where its metadata is.
    """
    script = Script()

    async def guard(incoming: Incoming) -> None:
        given = incoming.headers.get("authorization", "").removeprefix("Bearer ")
        if given.startswith(opens) and given:
            await script.modern(incoming)
        elif challenge is None:
            await incoming.respond(401)
        else:
            await incoming.respond(401, www_authenticate=challenge)

    async def metadata(incoming: Incoming) -> None:
        await incoming.json({})

    script.on["/mcp"] = guard
    if about:
        script.on[about] = metadata
    async with listening(script) as origin:
        with trio.fail_after(20):
            yield f"{origin}/mcp"


async def codes(challenge: str | None, opens: str = TOKEN, about: str = "") -> set[str]:
    """What is found about a server whose token we have."""
    report = Report("test")
    options = HttpOptions(headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False)
    async with guarded(challenge, opens, about) as url:
        await check_challenge(report, url, options, Timeouts())
    return {each.code for each in report.findings}


@pytest.mark.parametrize(
    ("challenge", "about"),
    [
        ('Bearer resource_metadata="https://x.example/meta"', ""),
        ("Bearer", f"{ABOUT}/mcp"),
        ("Bearer", ABOUT),
        ('Basic realm="x"', ""),
        ("DPoP", ABOUT),
    ],
)
async def test_what_is_good(challenge: str, about: str) -> None:
    assert await codes(challenge, about=about) == set()


async def test_what_is_not() -> None:
    assert await codes(None) == {"no-challenge", "no-resource-metadata"}
    assert await codes(None, about=ABOUT) == {"no-challenge"}
    assert await codes("Bearer") == {"no-resource-metadata"}
    assert await codes("Bearer", opens="", about=ABOUT) == {"takes-any-token"}


async def test_what_was_found_is_told_even_if_there_is_no_getting_in() -> None:
    async with guarded("Bearer", opens="", about=ABOUT) as url:
        report = await examine_url(url, HttpOptions(trust_env=False), Times())
    assert {each.code for each in report.findings} == {"takes-any-token", "no-access"}
    async with guarded("Bearer", about=ABOUT) as url:
        with pytest.raises(Failure, match="does not let us in"):
            await examine_url(url, HttpOptions(trust_env=False), Times())
