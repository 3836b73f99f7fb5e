"""`trio-mcp doctor`: how it judges the way in that a server at a URL names."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from math import inf
from typing import ClassVar

import httpx2
import pytest
import trio

from tests.auth.client.test_fetching import listening
from tests.client.http_support import Incoming, Script
from trio_mcp.cli.doctor.examination import Times, check_challenge, examine_url
from trio_mcp.cli.doctor.report import Report
from trio_mcp.cli.failures import Failure
from trio_mcp.cli.probing.base import Timeouts
from trio_mcp.cli.probing.http import check_access, open_http_probe
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.peer.time_limits import pauses_around

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
        with trio.fail_after(120):
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


class Slow(httpx2.Auth):
    """Asks a person, who takes their time."""

    deadlines: ClassVar[list[float]] = []

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        with ExitStack() as asking:
            for each in pauses_around():
                asking.enter_context(each())
            self.deadlines.append(trio.current_effective_deadline())
        yield request


async def test_a_person_who_logs_in_is_not_hurried() -> None:
    script = Script()
    async with listening(script) as origin:
        options = HttpOptions(auth=Slow(), trust_env=False)
        async with open_http_probe(f"{origin}/mcp", options, "modern", Timeouts()) as probe:
            await check_access(probe)
    assert Slow.deadlines == [inf]
