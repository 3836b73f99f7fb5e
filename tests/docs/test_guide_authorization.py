"""What the documentation says about authorization: tables, numbers, and the verifiers it shows."""

import json
import logging
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import httpx2
import pytest
import trio

import trio_mcp
import trio_mcp.auth
from tests.auth.client.world import SERVER, World
from tests.auth.server.support import (
    RESOURCE,
    After,
    Issuer,
    call,
    ec_key,
    proof,
    protected,
    resource_server,
)
from tests.docs.pages import blocks_of
from tests.docs.test_readme import table
from tests.support.processes import ROOT
from tests.support.tools import echo, registry_of
from tests.transports.http.support import Host, Response
from trio_mcp import HttpPolicy, Registry, http_app
from trio_mcp import errors as all_errors
from trio_mcp.auth import (
    Authorization,
    ClientCredentials,
    DPoP,
    EnterpriseManaged,
    Fetching,
    OAuth,
    ResourceServer,
    WorkloadIdentity,
    challenges,
    fetching,
)
from trio_mcp.auth.client import flow, redirect, stores, tokens
from trio_mcp.auth.server import dpop, issuer_keys, keys, single_flight
from trio_mcp.auth.server.authenticator import ISSUER_TIMEOUT, MAX_TOKEN

GUIDES = ROOT / "docs" / "guides"
PROTECTING = GUIDES / "authorization.md"
TOKENS = GUIDES / "tokens.md"
LOGIN = GUIDES / "login.md"
SERVERS = GUIDES / "authorization-servers.md"
BAD_INPUT = ROOT / "docs" / "bad-input" / "http.md"
LIMITS = ROOT / "docs" / "limits" / "features.md"

KEY = ec_key()
ISSUER = Issuer()
BOUND = ISSUER.token(cnf={"jkt": KEY.thumbprint()}, exp=After(86400))

Case = Callable[[Host], Any]


# -- protecting a server ------------------------------------------------------------------------


async def by_url(host: Host) -> Response:
    return await host.ask("POST", f"/mcp?access_token={ISSUER.token()}", body=b"{}")


async def proved_twice(host: Host) -> Response:
    proved = {"dpop": proof(KEY, BOUND)}
    await call(host, BOUND, scheme="DPoP", **proved)
    return await call(host, BOUND, scheme="DPoP", **proved)


def bearing(**claims: Any) -> Case:
    return lambda host: call(host, ISSUER.token(**claims))


REFUSED: dict[str, list[Case]] = {
    "no token": [lambda host: call(host, None)],
    "a token that is forged": [
        lambda host: call(host, ISSUER.token(ec_key())),
        bearing(exp=After(-60)),
        bearing(nbf=After(60)),
        bearing(aud="https://other.example.com"),
        bearing(iss="https://other.example.com"),
        lambda host: call(host, "a b"),
        lambda host: call(host, "x" * (MAX_TOKEN + 1)),
    ],
    "a valid token without": [bearing(scope="other")],
    "a token in the URL": [
        by_url,
        lambda host: call(host, f"{ISSUER.token()}, Bearer {ISSUER.token()}"),
    ],
    "a DPoP proof that is missing": [
        lambda host: call(host, BOUND, scheme="DPoP"),
        lambda host: call(host, BOUND, scheme="DPoP", dpop=proof(KEY, "another")),
        proved_twice,
    ],
    "a DPoP proof without a fresh nonce": [
        lambda host: call(host, BOUND, scheme="DPoP", dpop=proof(KEY, BOUND))
    ],
    "a token whose issuer does not answer": [bearing()],
}


@pytest.mark.requirement("J1", "J2")
@pytest.mark.parametrize("row", table(PROTECTING, "The request has"), ids=lambda row: row[0][:40])
async def test_who_is_refused_is_told_what_the_table_says(row: list[str]) -> None:
    what, status, told = row
    (cases,) = (each for name, each in REFUSED.items() if what.startswith(name))
    assert f"longer than {MAX_TOKEN // 1024} KiB" in what or "forged" not in what
    issuers = [] if "does not answer" in what else [ISSUER]
    options = {"issuers": [ISSUER.url], "dpop": DPoP(nonces="nonce" in what)}
    for case in cases:
        async with protected(*issuers, **options) as host:
            answer = await case(host)
            assert answer.status == int(status)
            challenge = answer.headers.get("www-authenticate", "")
            error = re.search(r'error="(\w+)"', challenge)
            assert (f"`{error[1]}`" if error else "none") == told.partition(";")[0]
            if "Retry-After" in told:
                assert "retry-after" in answer.headers


NOT_LET_IN: dict[str, Case] = {
    "for a host": lambda host: host.ask("POST", headers={"host": "other.example.com"}),
    "from a page": lambda host: host.ask("POST", headers={"origin": "https://evil.example"}),
    "without a token": REFUSED["no token"][0],
    "with a token that is forged": REFUSED["a token that is forged"][0],
    "with two tokens": REFUSED["a token in the URL"][1],
    "with a token in the URL": by_url,
    "with a DPoP proof": REFUSED["a DPoP proof that is missing"][0],
    "with a token that lacks": bearing(scope="other"),
    "with a token whose issuer": bearing(),
}


@pytest.mark.parametrize("row", table(BAD_INPUT, "The request"), ids=lambda row: row[0][:40])
async def test_requests_that_are_not_let_in_are_told_what_the_table_says(row: list[str]) -> None:
    what, status, text = row
    issuers = [] if "does not answer" in what else [ISSUER]
    rate = {"rate": 1.0, "burst": 1} if "its rate" in what else {}
    options = {"issuers": [ISSUER.url], "dpop": DPoP(), "policy": rate}
    async with protected(*issuers, **options) as host:
        if rate:
            await call(host, None)
            answer = await call(host, None)
        else:
            (case,) = (each for name, each in NOT_LET_IN.items() if what.startswith(name))
            answer = await case(host)
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"], error["message"]) == (int(status), -32600, text)


UNITS = {"s": 1, "h": 3600, "KiB": 1024, "MiB": 1024**2}
FIXED = {
    "an access token, at a server": MAX_TOKEN,
    "a DPoP proof": dpop.MAX_PROOF,
    "metadata, key sets": fetching.MOST_BYTES,
    "keys in a set": keys.MAX_KEYS,
    "keys that are fetched": issuer_keys.MIN_INTERVAL,
    "requests to issuers at a time": single_flight.MAX_FLIGHTS,
    "connections to the port": redirect.MAX_CONNECTIONS,
    "an answer of an issuer": ISSUER_TIMEOUT,
    "redirects that such a request": fetching.MAX_REDIRECTS,
    "a `WWW-Authenticate` header": challenges.MOST_CHARS,
    "logins for one request": flow.MAX_LOGINS,
    "a token before its end": tokens.SOON,
    "the wait for another process": stores.LOCK_PATIENCE,
}


@pytest.mark.parametrize("row", table(LIMITS, "What | Default"), ids=lambda row: row[0])
def test_bounds_are_those_of_the_table(row: list[str]) -> None:
    what, default, where = row
    number, unit = re.search(r"([\d,]+)(?: ([KM]iB|s|h)\b)?", default).groups()  # type: ignore[union-attr]
    told = int(number.replace(",", "")) * UNITS.get(unit or "", 1)
    if where == "fixed":
        (known,) = (each for name, each in FIXED.items() if what.startswith(name))
    else:
        kind, _, name = where.strip("`").partition(".")
        home = trio_mcp.auth if kind in trio_mcp.auth.MODULES else trio_mcp
        known = getattr(attrs.fields(getattr(home, kind)), name).default
    assert told == known


@pytest.mark.requirement("J2")
async def test_what_is_logged_is_in_the_table(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trio_mcp.auth")
    token = ISSUER.token(exp=After(-60))
    async with protected(ISSUER, dpop=DPoP(), registry=registry_of(echo)) as host:
        await call(host, token)
        await by_url(host)
        await call(host, f"{token}, Bearer {token}")
        elsewhere = proof(KEY, BOUND, htu="https://other.example.com")
        await call(host, BOUND, scheme="DPoP", dpop=elsewhere)
        await call(host, ISSUER.token(scope="other"))
    async with protected(issuers=[ISSUER.url]) as host:
        await call(host, ISSUER.token())
    told = [
        (text.partition("`")[2].partition("`")[0].removesuffix("…"), level)
        for text, level in table(TOKENS, "Message")
    ]
    logged = [
        (each.getMessage(), each.levelname.lower())
        for each in caplog.records
        if each.name == "trio_mcp.auth"
    ]
    for message, level in told:
        message = message.replace("https://login.example.com", ISSUER.url)
        assert any(text.startswith(message) and level == name for text, name in logged), message
    assert not any(token in text or "alice" in text for text, _ in logged)


def test_what_a_handler_sees_is_all_told() -> None:
    told = {row[0].strip("`") for row in table(PROTECTING, "Attribute")}
    assert told == {each.name for each in attrs.fields(Authorization)} - {"deadline"}


async def test_a_verifier_that_raises_lets_nobody_in() -> None:
    async def fail(token: str) -> Authorization:
        raise RuntimeError("the database is gone")

    app = http_app(
        registry_of(echo), policy=HttpPolicy(auth=resource_server(ISSUER, verifier=fail))
    )
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with app.running(), httpx2.AsyncClient(transport=transport) as client:
        answer = await client.post(RESOURCE, headers={"Authorization": "Bearer x"})
    assert (answer.status_code, answer.text) == (500, "")


@pytest.mark.requirement("J3")
async def test_a_call_is_cut_off_when_its_token_expires(autojump_clock: Any) -> None:
    (row,) = (row for row in table(TOKENS, "What | Belongs to") if row[0] == "a call")
    assert "when that token expires, at the latest" in row[2]
    registry = Registry("slow")

    @registry.tool(timeout=1000)
    async def wait() -> str:
        await trio.sleep(500)
        return "done"

    async with protected(ISSUER, registry=registry) as host:
        answer = await call(host, ISSUER.token(exp=After(60)), "wait")
    assert (answer.status, answer.json()["error"]["message"]) == (200, "Request cancelled")


async def test_a_registry_needs_what_its_deployment_needs() -> None:
    """Scopes of both are needed, and a prompt's, a resource's for what is about them."""
    registry = Registry("library", scopes=["library"])
    registry.add_tool(echo)
    async with protected(ISSUER, registry=registry) as host:
        assert (await call(host, ISSUER.token(scope="mcp"))).status == 403
        assert (await call(host, ISSUER.token(scope="mcp library"))).status == 200


# -- getting in ----------------------------------------------------------------------------------


def test_errors_that_are_named_exist() -> None:
    for raised, _ in table(LOGIN, "Raised"):
        first, *others = re.findall(r"`(\w+)`", raised)
        assert all(issubclass(getattr(all_errors, first), getattr(all_errors, o)) for o in others)


def server_says(**changes: Any) -> World:
    """A world whose authorization server says something else about itself."""
    world = World()
    assert world.server is not None
    world.server |= changes
    return world


def resource_says(**changes: Any) -> World:
    """A world whose server says something else about itself."""
    world = World()
    assert world.resource is not None
    world.resource |= changes
    return world


async def elsewhere(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(302, headers={"location": "https://other.test/"})


async def endless(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, content=bytes(2 * fetching.MOST_BYTES))


METADATA = "https://as.test/.well-known/oauth-authorization-server"
IN_THE_WAY: dict[str, tuple[World, dict[str, Any]]] = {
    "about another resource": (resource_says(resource="https://other.test"), {}),
    "names no authorization server": (resource_says(authorization_servers=[]), {}),
    "names another issuer": (server_says(issuer="https://other.test"), {}),
    "knows PKCE": (server_says(code_challenge_methods_supported=["plain"]), {}),
    "does not register": (server_says(registration_endpoint=None), {}),
    "plain http": (resource_says(authorization_servers=["http://as.test"]), {}),
    "redirect is not from": (World(redirect={"iss": "https://other.test"}), {}),
    "redirect does not say": (World(redirect={"iss": None}), {}),
    "access_denied": (World(redirect={"error": "access_denied"}), {}),
    "not from the issuer": (World(), {"issuer": "https://other.test"}),
    "needs the scopes": (World(needed={"GET": "write"}, extra={"scope": "read"}), {}),
    "is not followed": (World(on={METADATA: elsewhere}), {}),
    "1048576": (World(on={METADATA: endless}), {}),
}


def said_of(words: str) -> str:
    """The pattern of what the table says where something is in the way."""
    rows = table(LOGIN, "`AuthorizationError` says")
    (said,) = (row[0] for row in rows if words in row[0])
    return f"^{'.*'.join(map(re.escape, said.split('…')))}$"


@pytest.mark.requirement("J5")
@pytest.mark.parametrize("words", IN_THE_WAY)
async def test_what_is_in_the_way_is_said_in_these_words(words: str) -> None:
    world, options = IN_THE_WAY[words]
    async with world.client(world.oauth(**options)) as client:
        with pytest.raises(all_errors.AuthorizationError, match=said_of(words)):
            await client.get(SERVER)


async def test_that_nobody_logged_in_is_said_in_these_words(autojump_clock: Any) -> None:
    world = World()
    auth = world.oauth(open_browser=lambda url: trio.sleep(0), timeout=7)
    async with world.client(auth) as client:
        with pytest.raises(all_errors.AuthorizationError, match=said_of("no login within")):
            await client.get(SERVER)


async def test_that_a_server_leads_nearer_is_said_in_these_words() -> None:
    with pytest.raises(all_errors.AuthorizationError, match=said_of("must not send us")):
        await Fetching().get("http://127.0.0.1/", near="https://192.0.2.1/")


def test_all_that_can_be_in_the_way_was() -> None:
    assert len(table(LOGIN, "`AuthorizationError` says")) == len(IN_THE_WAY) + 2


@pytest.mark.parametrize("page", sorted(GUIDES.glob("*.md")), ids=lambda page: page.stem)
def test_options_that_are_named_exist(page: Any) -> None:
    """Also where they stand in a sentence or a table, and in no program."""
    kinds = (ResourceServer, DPoP, OAuth, ClientCredentials, EnterpriseManaged, WorkloadIdentity)
    for kind in (*kinds, Fetching):
        known = {each.alias for each in attrs.fields(kind) if each.init}
        for given in re.findall(rf"\b{kind.__name__}\(([^()]*)\)", page.read_text()):
            assert set(re.findall(r"(\w+)=(?!=)", given)) <= known, given


# -- authorization servers -----------------------------------------------------------------------


def verifier_of(file: str) -> Any:
    """The function that a block of the page shows."""
    (block,) = (each for each in blocks_of(SERVERS) if each.file == file)
    names: dict[str, Any] = {}
    exec(compile(block.text, block.place, "exec", dont_inherit=True), names)
    return names


@pytest.mark.parametrize(
    ("status", "client", "is_known"),
    [(200, "1234", True), (200, "somebody-elses", False), (400, "1234", False)],
)
async def test_tokens_of_google(status: int, client: str, is_known: bool) -> None:
    def tokeninfo(request: httpx2.Request) -> httpx2.Response:
        assert (str(request.url), request.content) == (
            "https://oauth2.googleapis.com/tokeninfo",
            b"access_token=ya29",
        )
        about = {
            "aud": f"{client}.apps.googleusercontent.com",
            "sub": "7",
            "scope": "openid email",
            "expires_in": "3599",
        }
        return httpx2.Response(status, json=about)

    verify = verifier_of("google.py")["verify"]
    found = await verify("ya29", transport=httpx2.MockTransport(tokeninfo))
    assert (found is not None) is is_known
    if found is not None:
        assert (found.subject, found.scopes) == ("7", {"openid", "email"})
        assert 3500 < found.expires_at - time.time() < 3700


@pytest.mark.parametrize("status", [200, 404])
async def test_tokens_of_github(status: int) -> None:
    def check(request: httpx2.Request) -> httpx2.Response:
        assert str(request.url) == "https://api.github.com/applications/app/token"
        assert request.content == b'{"access_token":"gho"}'
        assert request.headers["authorization"].startswith("Basic ")
        about = {"user": {"id": 7, "login": "ada"}, "scopes": ["read:user"]}
        return httpx2.Response(status, json=about)

    verify = partial(verifier_of("github.py")["verify"], app=("app", "secret"))
    found = await verify("gho", transport=httpx2.MockTransport(check))
    assert (found is not None) is (status == 200)
    if found is not None:
        assert (found.subject, found.claims) == ("7", {"login": "ada"})
