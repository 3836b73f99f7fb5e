"""A person with a real browser, whom our client sends to a certified authorization server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.interop.auth.support import FETCHING, beside, connected, oidc_provider, protected, whoami
from tests.support.processes import run
from trio_mcp.auth import OAuth

pytestmark = [pytest.mark.needs("node", "chromium"), pytest.mark.requirement("J5")]


async def test_a_person_logs_in_with_chromium(npm: Path) -> None:
    script, chromium = beside(npm, "chromium.mjs"), str(shutil.which("chromium"))
    pages: list[str] = []

    async def browse(url: str) -> None:
        done = await run(["node", script, chromium, url])
        assert done.returncode == 0, done.stderr.decode()
        pages.append(done.stdout.decode())

    async with (
        oidc_provider(npm) as issuer,
        protected(issuer) as url,
        connected(url, OAuth(open_browser=browse, fetching=FETCHING), connect_timeout=30) as client,
    ):
        assert (await whoami(client))["subject"] == "alice"
    (page,) = pages
    assert "You can close this page" in page
