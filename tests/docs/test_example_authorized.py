"""The example of a protected server: who gets in, who does not, and what is said to them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
import trio

from tests.support.processes import ENVIRONMENT, EXAMPLES, TIME_LIMIT, python, run
from trio_mcp import HttpOptions, connect
from trio_mcp.auth import ClientCredentials, MemoryStore, OAuth
from trio_mcp.errors import AuthorizationError


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The two modules of the example."""
    monkeypatch.syspath_prepend(EXAMPLES)
    import authorization_server
    import authorized

    monkeypatch.setattr(authorized, "lent", {})
    return SimpleNamespace(servers=authorization_server, library=authorized)


@asynccontextmanager
async def library(example: Any, **options: int) -> AsyncIterator[tuple[str, Any]]:
    """The URL of the library, and its authorization server."""
    with trio.fail_after(TIME_LIMIT), example.servers.authorization_server(**options) as issuer:
        async with example.library.protected_library(issuer.url) as url:
            yield url, issuer


@pytest.mark.long
async def test_all_of_it_runs() -> None:
    done = await run(python(EXAMPLES / "authorized.py"), env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"here: Emma Middlemarch\nEmma is lent to ada\nhere: Middlemarch\n"


@pytest.mark.long
@pytest.mark.requirement("J3", "J5")
async def test_a_person_gets_in_and_steps_up(example: Any) -> None:
    pages: list[dict[str, str]] = []

    async def agree(url: str) -> None:
        pages.append(dict(parse_qsl(urlsplit(url).query)))
        await example.library.agree(url)

    store = MemoryStore()
    async with library(example) as (url, issuer):
        auth = OAuth(open_browser=agree, store=store)
        async with connect(url, http=HttpOptions(auth=auth), tool_timeout=TIME_LIMIT) as client:
            assert [page["scope"] for page in pages] == ["library"]
            lent = await client.call_tool("borrow", {"title": "Emma"}, returns=str)
        assert lent == "Emma is lent to ada"
        assert [set(page["scope"].split()) for page in pages[1:]] == [{"library", "library:borrow"}]
        assert {page["resource"] for page in pages} == {url}
        [login] = await store.load()
        assert (login.issuer, login.resource) == (issuer.url, url)


@pytest.mark.requirement("J1")
async def test_a_stranger_is_told_where_to_go_and_nothing_else(example: Any) -> None:
    async with (
        library(example) as (url, issuer),
        httpx2.AsyncClient(timeout=TIME_LIMIT, trust_env=False, verify=False) as stranger,
    ):
        for headers in ({}, {"Authorization": "Bearer forged"}):
            answer = await stranger.post(url, headers=headers)
            assert answer.status_code == 401
            assert "Middlemarch" not in answer.text
            challenge = answer.headers["www-authenticate"]
            where = challenge.partition('resource_metadata="')[2].partition('"')[0]
            about = (await stranger.get(where)).json()
            assert (about["resource"], about["authorization_servers"]) == (url, [issuer.url])


async def test_a_code_is_for_whoever_asked_for_it_and_good_once(example: Any) -> None:
    with example.servers.authorization_server() as issuer:
        asked = {
            "client_id": "a",
            "redirect_uri": "http://127.0.0.1/callback",
            "state": "s",
            "resource": "http://127.0.0.1/mcp",
            "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",  # RFC 7636, appendix B
        }
        verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
        form = {"grant_type": "authorization_code", "code_verifier": verifier}
        for wrong in (True, False):
            code = dict(parse_qsl(urlsplit(issuer.agree(asked)).query))["code"]
            sent = {**form, "code": code, **({"code_verifier": "another"} if wrong else {})}
            assert (issuer.exchange(sent, None) is None) is wrong
            assert issuer.exchange({**form, "code": code}, None) is None


@pytest.mark.requirement("J6")
@pytest.mark.parametrize("secret", ["only for the example", "a guess"])
async def test_a_program_gets_in_by_its_secret(secret: str, example: Any) -> None:
    async with library(example) as (url, issuer):
        auth = ClientCredentials(client_id="nightly", client_secret=secret, issuer=issuer.url)
        if secret == "a guess":
            with pytest.raises(AuthorizationError, match="invalid_grant"):
                async with connect(url, http=HttpOptions(auth=auth)):
                    raise AssertionError("it got in")
        else:
            async with connect(url, http=HttpOptions(auth=auth)) as client:
                assert "borrow" in client.tools
