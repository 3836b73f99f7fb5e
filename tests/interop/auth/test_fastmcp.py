"""FastMCP's client gets into our server, and ours into servers of FastMCP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from tests.interop.auth.person import Person
from tests.interop.auth.support import (
    FETCHING,
    HERE,
    SECRET,
    VERIFIER,
    connected,
    credentials_of,
    oidc_provider,
    peer,
    protected,
    whoami,
)
from tests.interop.packages import FASTMCP
from tests.support.processes import ENVIRONMENT, run
from trio_mcp.auth import ClientCredentials, MemoryStore, OAuth

pytestmark = [pytest.mark.needs("node", "fastmcp"), pytest.mark.requirement("J1", "J5", "J6")]


async def report_of(*arguments: str) -> Any:
    """What their client prints."""
    browser = f"{FASTMCP.python} -m tests.interop.auth.person %s &"
    done = await run(
        [str(FASTMCP.python), str(HERE / "fastmcp_client.py"), *arguments],
        env={**ENVIRONMENT, "BROWSER": browser},
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@asynccontextmanager
async def their_server(*arguments: str) -> AsyncIterator[str]:
    """Their server. Yields its URL."""
    program = str(HERE / "fastmcp_server.py")
    async with peer(str(FASTMCP.python), program, *arguments) as origin:
        yield f"{origin}/mcp"


async def test_their_client_gets_into_our_server(npm: Path) -> None:
    async with oidc_provider(npm) as issuer, protected(issuer) as url:
        report = await report_of(url)
    for mode in ("legacy", "auto"):
        assert (report[mode]["subject"], report[mode]["scopes"]) == ("alice", ["mcp"])


async def test_their_program_gets_into_our_server(npm: Path) -> None:
    async with oidc_provider(npm, clients=[credentials_of("nightly")]) as issuer:
        async with protected(issuer) as url:
            report = await report_of(url, "nightly", SECRET, issuer)
    for mode in ("legacy", "auto"):
        assert report[mode]["client_id"] == "nightly"
        assert report[f"{mode} write"] == "written"


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("way", ["jwt", "introspection"])
async def test_our_client_gets_into_their_server(npm: Path, way: str, era: Any) -> None:
    form = "jwt" if way == "jwt" else "opaque"
    clients = [VERIFIER, credentials_of("nightly")]
    async with oidc_provider(npm, format=form, clients=clients) as issuer:
        async with their_server(way, issuer, SECRET) as url:
            auth: Any = OAuth(open_browser=Person(), fetching=FETCHING)
            async with connected(url, auth, era=era) as client:
                found = await whoami(client)
                assert (found["subject"], found["scopes"]) == ("alice", ["mcp"])
            auth = ClientCredentials(client_id="nightly", client_secret=SECRET, fetching=FETCHING)
            async with connected(url, auth, era=era) as client:
                assert (await whoami(client))["client_id"] == "nightly"


async def test_our_client_gets_into_a_server_that_is_its_own_issuer() -> None:
    """Which wants to be told at the registration which scopes will be asked for."""
    person, store = Person(), MemoryStore()
    async with their_server("memory") as url:
        async with connected(
            url, OAuth(open_browser=person, fetching=FETCHING, store=store)
        ) as client:
            first = await whoami(client)
        (login,) = await store.load()
        assert login.token is not None
        async with store.locked():
            await store.save(evolve(login, token=evolve(login.token, expires_at=1.0)))
        async with connected(
            url, OAuth(open_browser=person, fetching=FETCHING, store=store)
        ) as client:
            assert await whoami(client) == first
    assert len(person.asked) == 2
    assert person.asked[0]["client_id"] != person.asked[1]["client_id"]


async def test_our_client_gets_in_by_a_proxy_of_theirs(npm: Path) -> None:
    async with (
        oidc_provider(npm) as issuer,
        their_server("proxy", issuer) as url,
        connected(url, OAuth(open_browser=Person(), fetching=FETCHING)) as client,
    ):
        assert (await whoami(client))["subject"] == "alice"
