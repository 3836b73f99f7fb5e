"""Clients of the official TypeScript SDK get into our server, and ours into theirs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.auth.person import Person
from tests.interop.auth.support import (
    FETCHING,
    VERIFIER,
    beside,
    connected,
    credentials_of,
    introspection,
    oidc_provider,
    peer,
    protected,
    whoami,
)
from tests.support.processes import ENVIRONMENT, run
from trio_mcp.auth import DPoP, OAuth

SDK = credentials_of(
    "sdk",
    client_secret=None,
    application_type="native",
    token_endpoint_auth_method="none",
    grant_types=["authorization_code", "refresh_token"],
    response_types=["code"],
    redirect_uris=["http://127.0.0.1:9/callback"],
)

pytestmark = [pytest.mark.needs("node"), pytest.mark.requirement("J1", "J4", "J5")]
both_eras = pytest.mark.parametrize("mode", ["legacy", "auto"])


async def report_of(npm: Path, **options: Any) -> Any:
    """What their client prints."""
    person = f"{sys.executable} -m tests.interop.auth.person --print"
    done = await run(
        ["node", beside(npm, "typescript_client.mjs"), json.dumps(options)],
        env={**ENVIRONMENT, "PERSON": person},
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@both_eras
async def test_their_client_gets_in_and_steps_up(npm: Path, mode: str) -> None:
    async with oidc_provider(npm, clients=[SDK]) as issuer, protected(issuer) as url:
        report = await report_of(npm, url=url, mode=mode, client={"client_id": "sdk"})
    assert report["written"] == "written"
    for when, scopes in (("before", ["mcp"]), ("after", ["files:write", "mcp"])):
        found = report[when]
        assert (found["subject"], found["client_id"]) == ("alice", "sdk")
        assert (found["scopes"], found["bound"]) == (scopes, False)


@both_eras
@pytest.mark.parametrize("form", ["jwt", "opaque"])
async def test_their_tokens_are_bound_to_their_key(npm: Path, form: str, mode: str) -> None:
    """Our server wants nonces, and so does the authorization server."""
    clients = [SDK, VERIFIER]
    async with oidc_provider(npm, clients=clients, format=form, nonces=True) as issuer:
        verifier = introspection(issuer) if form == "opaque" else None
        dpop = DPoP(required=True, nonces=True)
        async with protected(issuer, dpop=dpop, verifier=verifier) as url:
            report = await report_of(
                npm, url=url, mode=mode, client={"client_id": "sdk"}, dpop=True
            )
    assert report["after"]["bound"]
    assert report["after"]["scopes"] == ["files:write", "mcp"]


async def test_their_program_gets_in(npm: Path) -> None:
    secret = "nothing-in-it-has-to-be-encoded"  # which they do not do
    known = credentials_of("nightly", client_secret=secret)
    async with oidc_provider(npm, clients=[known]) as issuer:
        known = {"clientId": "nightly", "clientSecret": secret, "expectedIssuer": issuer}
        async with protected(issuer) as url:
            report = await report_of(npm, url=url, mode="auto", credentials=known)
    assert report["written"] == "written"
    assert report["before"]["client_id"] == "nightly"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_our_client_gets_into_their_server_and_steps_up(npm: Path, era: Any) -> None:
    person = Person()
    auth = OAuth(open_browser=person, fetching=FETCHING)
    async with (
        oidc_provider(npm) as issuer,
        peer("node", beside(npm, "typescript_server.mjs"), issuer) as origin,
        connected(f"{origin}/mcp", auth, era=era) as client,
    ):
        found = await whoami(client)
        assert (found["subject"], found["scopes"]) == ("alice", ["mcp"])
        assert (await client.call_tool("write")).text == "written"
        assert set((await whoami(client))["scopes"]) == {"mcp", "files:write"}
    assert len(person.asked) == 2
