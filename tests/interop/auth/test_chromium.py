"""A person with a real browser, whom our client sends to a certified authorization server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.auth.support import (
    FETCHING,
    Chromium,
    connected,
    oidc_provider,
    protected,
    proxied,
    whoami,
)
from trio_mcp.auth import OAuth

pytestmark = [pytest.mark.needs("node", "chromium"), pytest.mark.requirement("J5")]


async def test_a_person_logs_in_with_chromium(npm: Path) -> None:
    person = Chromium(npm)
    async with (
        oidc_provider(npm) as issuer,
        protected(issuer) as url,
        connected(url, OAuth(open_browser=person, fetching=FETCHING)) as client,
    ):
        assert (await whoami(client))["subject"] == "alice"
    (page,) = person.pages
    assert "You can close this page" in page


@pytest.mark.requirement("P1", "P3")
async def test_a_person_logs_in_by_our_proxy_with_chromium(npm: Path) -> None:
    person = Chromium(npm)
    async with (
        proxied(npm) as url,
        connected(url, OAuth(open_browser=person, fetching=FETCHING)) as client,
    ):
        assert (await whoami(client))["subject"] == "alice"
    (page,) = person.pages
    assert "You can close this page" in page
