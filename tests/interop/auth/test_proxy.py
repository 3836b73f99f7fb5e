"""Clients that are not ours log in by our OAuth proxy, before a certified OpenID provider."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.interop.auth import test_typescript as typescript
from tests.interop.auth.person import Person
from tests.interop.auth.support import (
    FETCHING,
    HERE,
    connected,
    provider_for,
    proxied,
    whoami,
)
from tests.interop.auth.test_fastmcp import report_of
from tests.interop.auth.test_python_sdk import Storage, both_eras, log_in, said_by, their_client
from tests.store.redis_server import free_port, redis_server
from tests.support.processes import ENVIRONMENT, python
from trio_mcp.auth import Identity, OAuth
from trio_mcp.errors import AuthorizationError

pytestmark = [
    pytest.mark.needs("node"),
    pytest.mark.requirement("P1", "P4"),
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]


@pytest.mark.needs("sdk-server")
@both_eras
async def test_the_official_sdk_logs_in_calls_and_renews(npm: Path, mode: str) -> None:
    person, storage = Person(), Storage()
    async with proxied(npm) as url:
        auth = log_in(url, person, storage)
        async with their_client(url, mode, auth) as client:
            assert (await said_by(client))["subject"] == "alice"
            assert storage.tokens is not None
            before = storage.tokens.access_token
            auth.context.token_expiry_time = 1.0
            assert (await said_by(client))["subject"] == "alice"
            assert storage.tokens.access_token != before
    assert len(person.asked) == 1


@pytest.mark.needs("sdk-server")
@both_eras
async def test_the_official_sdk_steps_up(npm: Path, mode: str) -> None:
    person, storage = Person(), Storage()
    async with proxied(npm) as url:
        async with their_client(url, mode, log_in(url, person, storage)) as client:
            assert "mcp" in (await said_by(client))["scopes"]
            result = await client.call_tool("write")
            assert not result.is_error, result


@pytest.mark.needs("fastmcp")
async def test_fastmcp_logs_in(npm: Path) -> None:
    async with proxied(npm) as url:
        report = await report_of(url)
    for mode in ("legacy", "auto"):
        assert report[mode]["subject"] == "alice"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_typescript_sdk_logs_in_and_steps_up(npm: Path, mode: str) -> None:
    async with proxied(npm) as url:
        report = await typescript.report_of(npm, url=url, mode=mode)
    assert report["before"]["subject"] == "alice"
    assert report["written"] == "written"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_our_client_logs_in(npm: Path, era: Any) -> None:
    async with (
        proxied(npm) as url,
        connected(url, OAuth(open_browser=Person(), fetching=FETCHING), era=era) as client,
    ):
        assert (await whoami(client))["subject"] == "alice"


async def test_a_person_whom_the_author_does_not_let_in_is_told_so(npm: Path) -> None:
    def allow(identity: Identity) -> bool:
        return identity.subject != "alice"

    async with proxied(npm, allow=allow) as url:
        with pytest.raises(AuthorizationError, match="Your account may not use vault"):
            async with connected(url, OAuth(open_browser=Person(), fetching=FETCHING)):
                pass


class Restarted:
    """A server that is killed, and started again on the same port."""

    def __init__(self, *arguments: str) -> None:
        self.starts = 0
        self._command = python(HERE / "proxied_server.py", *arguments)
        self._process: trio.Process | None = None

    async def start(self) -> None:
        """Start it, after it was killed if it runs."""
        await self.kill()
        self.starts += 1
        pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = await trio.lowlevel.open_process(
            self._command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, **pipes
        )
        self._process, said = process, b""
        assert process.stderr is not None
        while b"listening!" not in said:
            piece = await process.stderr.receive_some()
            assert piece, said.decode()
            said += piece

    async def kill(self) -> None:
        """Kill it, as nothing else would."""
        process, self._process = self._process, None
        if process is None:
            return
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()
            for stream in (process.stdin, process.stderr):
                assert stream is not None
                await stream.aclose()


class Interrupted(Person):
    """A person who has something happen before the answer to each page."""

    def __init__(self, happens: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._happens = happens

    async def _answer(self, browser: Any, page: Any) -> Any:
        await self._happens()
        return await super()._answer(browser, page)


@pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("redis", marks=pytest.mark.needs("redis-server"))]
)
@pytest.mark.requirement("P2", "M4")
async def test_a_login_goes_on_although_the_server_is_killed_after_each_page(
    npm: Path, tmp_path: Path, kind: str
) -> None:
    port = free_port()
    url, store = f"http://127.0.0.1:{port}/mcp", f"sqlite:///{tmp_path / 'logins.db'}"
    async with provider_for(npm, url) as issuer:
        with redis_server(tmp_path) if kind == "redis" else nullcontext() as redis:
            server = Restarted(str(port), issuer, store if redis is None else redis.url)
            try:
                await server.start()
                auth = OAuth(open_browser=Interrupted(server.start), fetching=FETCHING)
                async with connected(url, auth) as client:
                    assert (await whoami(client))["subject"] == "alice"
                    await server.start()
                    assert (await whoami(client))["subject"] == "alice"
            finally:
                await server.kill()
    assert server.starts >= 4
