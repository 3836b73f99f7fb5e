"""Getting in by `connect`, over the client's real HTTP."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
import trio

from tests.auth.client.test_fetching import listening
from tests.auth.client.world import TIME_LIMIT, World
from tests.client.http_support import Incoming, Script
from trio_mcp import HttpOptions, connect
from trio_mcp.auth import ClientCredentials
from trio_mcp.errors import AuthorizationError, LoginRequired, Unauthorized

pytestmark = pytest.mark.requirement("J5")

KEY = "k" * 40
"""A part of the path that is kept out of logs, and still is part of the resource."""


@asynccontextmanager
async def protected(world: World, script: Script) -> AsyncIterator[str]:
    """A server of MCP on loopback, which wants a token of the world's."""

    async def guard(incoming: Incoming) -> None:
        token = incoming.headers.get("authorization", "").removeprefix("Bearer ")
        if token in world.tokens:
            del script.on[incoming.target]
            await script.handle(incoming)
            script.on[incoming.target] = guard
        else:
            await incoming.respond(401, b"x" * 1000, www_authenticate="Bearer")

    async with listening(script) as origin:
        url = f"{origin}/{KEY}/mcp"
        script.on[f"/{KEY}/mcp"] = guard
        assert world.resource is not None
        world.resource["resource"] = url
        about = f"{origin}/.well-known/oauth-protected-resource/{KEY}/mcp"
        world.on[about] = world.about_resource
        yield url


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_connect_gets_in_and_calls(era: str) -> None:
    world, script = World(), Script(era=era)
    async with protected(world, script) as url:
        http = HttpOptions(auth=world.oauth(), trust_env=False, listen=False)
        with trio.fail_after(TIME_LIMIT):
            async with connect(url, http=http) as client:
                result = await client.call_tool("echo", {"text": "hi"})
    assert result.text
    assert len(world.pages) == 1
    assert world.pages[0]["resource"] == url
    refused = [each for each in script.requests if "authorization" not in each.headers]
    assert len(refused) == 1  # everything after the first has the token


async def test_connect_says_why_there_is_no_getting_in() -> None:
    world, script = World(), Script()
    async with protected(world, script) as url:
        for auth, error in (
            (world.oauth(open_browser=None), LoginRequired),
            (
                ClientCredentials(
                    client_id="c",
                    private_key=None,
                    client_secret="s",
                    issuer="https://other.test",
                    fetching=world.fetching,
                ),
                AuthorizationError,
            ),
        ):
            with trio.fail_after(TIME_LIMIT), pytest.raises(error):
                async with connect(url, http=HttpOptions(auth=auth, trust_env=False)):
                    raise AssertionError


async def test_without_a_way_in_the_refusal_is_said() -> None:
    world, script = World(), Script()
    async with protected(world, script) as url:
        with trio.fail_after(TIME_LIMIT), pytest.raises(Unauthorized):
            async with connect(url, http=HttpOptions(trust_env=False)):
                raise AssertionError


def test_two_cannot_send_authorization() -> None:
    with pytest.raises(ValueError, match="auth sends Authorization"):
        HttpOptions(auth=httpx2.Auth(), headers={"authorization": "Bearer secret"})


def test_a_server_imports_nothing_of_it() -> None:
    program = (
        "import sys, trio_mcp; from trio_mcp import Registry, serve, connect, HttpOptions; "
        "print(*[each for each in sys.modules if each.startswith("
        "('trio_mcp.auth', 'httpx2', 'joserfc', 'cryptography', 'keyring'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
