"""A server with an OAuth proxy, the provider behind it, a client, and a person's browser.

The provider is reached through `httpx2.MockTransport`, the server through ASGI in memory. The
browser keeps cookies and follows redirects as a real one does, and shows what it has met.
"""

from __future__ import annotations

import html
import json
import re
import secrets
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

import httpx2
import trio
from attrs import define, field

from tests.auth.server.support import algorithm_of, ec_key, sign
from tests.transports.http.support import Host, ModernClient, Response, hosting
from trio_mcp import Context, HttpPolicy, Registry
from trio_mcp.auth import Fetching, OAuthProxy, oidc
from trio_mcp.auth.digests import digest_of as challenge_of

SERVER = "https://mcp.test"
RESOURCE = f"{SERVER}/mcp"
PROVIDER = "https://login.test"
CALLBACK = "https://app.test/callback"
CLIENT_SECRET = "the secret of this server at the provider"


@define(eq=False)
class Provider:
    """An OpenID provider that checks what it is sent, and does what a test tells it."""

    url: str = PROVIDER
    claims: dict[str, Any] = field(
        factory=lambda: {
            "sub": "alice-1",
            "name": "Alice",
            "email": "alice@acme.test",
            "email_verified": True,
        }
    )
    """What ID tokens say."""
    expires_in: int | None = 3600
    answers: dict[str, Callable[[httpx2.Request], Any]] = field(factory=dict)
    """In place of its own, by URL."""
    asked: list[str] = field(factory=list)
    forms: list[dict[str, str]] = field(factory=list)
    """What its token endpoint was sent."""
    revoked: list[str] = field(factory=list)
    codes: dict[str, dict[str, str]] = field(factory=dict)
    refresh_tokens: set[str] = field(factory=set)
    key: Any = field(factory=ec_key)
    metadata: dict[str, Any] = field(factory=dict)
    lasting: trio.Event | None = None
    """If there is one, its token endpoint waits for it."""

    def client(self) -> httpx2.AsyncClient:
        """Make a client that reaches it, and nothing else."""
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self.answer))

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request of the server's."""
        await trio.lowlevel.checkpoint()
        url = str(request.url)
        self.asked.append(url)
        known: dict[str, Any] = {
            f"{self.url}/.well-known/openid-configuration": self.about,
            f"{self.url}/jwks": self.keys,
            f"{self.url}/token": self.token,
            f"{self.url}/revoke": self.revoke,
            **self.answers,
        }
        if url not in known:
            return httpx2.Response(404)
        found = known[url](request)
        if isinstance(found, Exception):
            raise found
        return await found if hasattr(found, "__await__") else found

    def about(self, _: httpx2.Request) -> httpx2.Response:
        document = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "revocation_endpoint": f"{self.url}/revoke",
            "jwks_uri": f"{self.url}/jwks",
            **self.metadata,
        }
        return httpx2.Response(200, json=document)

    def keys(self, _: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={"keys": [self.key.as_dict(private=False)]})

    async def token(self, request: httpx2.Request) -> httpx2.Response:
        form = dict(parse_qsl(request.content.decode()))
        self.forms.append(form)
        if self.lasting is not None:
            await self.lasting.wait()
        self._authenticate(request, form)
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self.refresh_tokens:
                return httpx2.Response(400, json={"error": "invalid_grant"})
            self.refresh_tokens.discard(form["refresh_token"])
            return httpx2.Response(200, json=self._tokens(None))
        begun = self.codes.pop(form["code"], None)
        if begun is None or challenge_of(form["code_verifier"]) != begun["code_challenge"]:
            return httpx2.Response(400, json={"error": "invalid_grant"})
        assert form["redirect_uri"] == begun["redirect_uri"] == f"{SERVER}/auth/callback"
        return httpx2.Response(200, json=self._tokens(begun.get("nonce")))

    def _authenticate(self, request: httpx2.Request, form: dict[str, str]) -> None:
        shown = form.get("client_id", ""), form.get("client_secret", "")
        if "authorization" in request.headers:
            pair = b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
            id, _, secret = pair.partition(":")
            shown = unquote_plus(id), unquote_plus(secret)
        assert shown == ("mcp-server", CLIENT_SECRET)

    def _tokens(self, nonce: str | None) -> dict[str, Any]:
        refresh = secrets.token_hex(8)
        self.refresh_tokens.add(refresh)
        found: dict[str, Any] = {
            "access_token": f"provider-{secrets.token_hex(8)}",
            "refresh_token": refresh,
            "token_type": "Bearer",
            "id_token": self.id_token(nonce),
        }
        if self.expires_in is not None:
            found["expires_in"] = self.expires_in
        return found

    def id_token(self, nonce: str | None) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": "mcp-server", "iat": now, "exp": now + 600}
        if nonce is not None:
            claims["nonce"] = nonce
        claims |= self.claims
        return sign(claims, self.key, alg=algorithm_of(self.key), kid=self.key.kid)

    def revoke(self, request: httpx2.Request) -> httpx2.Response:
        self.revoked.append(dict(parse_qsl(request.content.decode()))["token"])
        return httpx2.Response(200)

    def log_in(self, url: str) -> str:
        """Have the person log in at its authorization endpoint; return where it sends them."""
        asked = dict(parse_qsl(urlsplit(url).query))
        code = secrets.token_hex(8)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"


def next_of(hosts: list[Host]) -> Host:
    """Return the first of some hosts, whose turn comes again after all others."""
    hosts.append(hosts.pop(0))
    return hosts[-1]


class Browser:
    """The browser of a person who says yes, unless a test says otherwise."""

    def __init__(self, host: Host, provider: Provider) -> None:
        self.hosts = [host]
        """The instances that requests reach in turn."""
        self._provider = provider
        self.cookies: dict[str, str] = {}
        self.set_cookies: list[str] = []
        self.pages: list[str] = []
        """The pages that were shown."""
        self.visited: list[str] = []
        self.answer = "allow"

    async def send(
        self, method: str, path: str, form: dict[str, str] | None = None, **headers: str | None
    ) -> Response:
        """Send a request to the server, with the cookies that there are."""
        sent: dict[str, str | bytes | None] = {"host": "mcp.test", **headers}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if form is not None:
            sent["content-type"] = "application/x-www-form-urlencoded"
        body = b"" if form is None else urlencode(form).encode()
        response = await next_of(self.hosts).send(method, path, sent, body).end()
        cookie = response.headers.get("set-cookie")
        if cookie is not None:
            self.set_cookies.append(cookie)
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        return response

    async def visit(self, url: str) -> Response | str:
        """Go to a URL; return the last page of the server's, or the URL that left it for good."""
        while True:
            self.visited.append(url)
            if url.startswith(f"{PROVIDER}/authorize"):
                url = self._provider.log_in(url)
                continue
            if not url.startswith(f"{SERVER}/"):
                return url
            response = await self.send("GET", url.removeprefix(SERVER))
            if response.status == 200 and 'name="ticket"' in response.body.decode():
                self.pages.append(response.body.decode())
                response = await self.consent(response)
            if response.status != 303:
                self.pages.append(response.body.decode())
                return response
            url = response.headers["location"]

    async def consent(self, page: Response) -> Response:
        """Send the form of the page that asks for consent."""
        found = re.search(r'name="ticket" value="([^"]+)"', page.body.decode())
        assert found is not None
        form = {"ticket": html.unescape(found[1]), "answer": self.answer}
        return await self.send("POST", "/consent", form)


class Client:
    """An MCP client that logs in."""

    def __init__(self, host: Host, browser: Browser) -> None:
        self.hosts = [host]
        """The instances that requests reach in turn."""
        self.browser = browser
        self.id = ""
        self.secret: str | None = None
        self.redirect = CALLBACK
        self.verifier = secrets.token_urlsafe(32)
        self.state = secrets.token_urlsafe(16)
        self.tokens: dict[str, Any] = {}

    async def register(self, **metadata: Any) -> dict[str, Any]:
        """Register at the server; return what it answers."""
        document = {
            "client_name": "A test client",
            "redirect_uris": [self.redirect],
            "token_endpoint_auth_method": "none",
            **metadata,
        }
        response = (
            await next_of(self.hosts)
            .send(
                "POST",
                "/register",
                {"host": "mcp.test", "content-type": "application/json"},
                json.dumps(document).encode(),
            )
            .end()
        )
        answer: dict[str, Any] = response.json()
        if response.status == 201:
            self.id, self.secret = answer["client_id"], answer.get("client_secret")
        return {"status": response.status, **answer}

    def authorization_url(self, **changes: str | None) -> str:
        """Return where the person is to go."""
        asked = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": self.redirect,
            "code_challenge": challenge_of(self.verifier),
            "code_challenge_method": "S256",
            "state": self.state,
            "resource": RESOURCE,
            **changes,
        }
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        return f"{SERVER}/authorize?{query}"

    async def authorize(self, **changes: str | None) -> dict[str, str]:
        """Have the person log in; return what the client is sent."""
        end = await self.browser.visit(self.authorization_url(**changes))
        assert isinstance(end, str), end.body.decode()
        assert end.startswith(self.redirect)
        return dict(parse_qsl(urlsplit(end).query))

    async def post(self, path: str, form: dict[str, str | None]) -> Response:
        """Send a form to an endpoint, as this client."""
        headers: dict[str, str | bytes | None] = {
            "host": "mcp.test",
            "content-type": "application/x-www-form-urlencoded",
        }
        if self.secret is not None:
            pair = b64encode(f"{self.id}:{self.secret}".encode()).decode()
            headers["authorization"] = f"Basic {pair}"
        given = {"client_id": self.id, **form}
        sent = {name: value for name, value in given.items() if value is not None}
        return await next_of(self.hosts).send("POST", path, headers, urlencode(sent).encode()).end()

    async def redeem(self, code: str, **changes: str | None) -> Response:
        """Send a code to the token endpoint."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect,
            "code_verifier": self.verifier,
            "resource": RESOURCE,
            **changes,
        }
        return await self.post("/token", form)

    async def refresh(self, token: str | None = None, **changes: str | None) -> Response:
        """Send a refresh token to the token endpoint."""
        token = token or self.tokens["refresh_token"]
        form = {"grant_type": "refresh_token", "refresh_token": token, **changes}
        return await self.post("/token", form)

    async def log_in(self, **changes: str | None) -> dict[str, Any]:
        """Go all the way, and keep the tokens."""
        if not self.id:
            await self.register()
        answer = await self.authorize(**changes)
        response = await self.redeem(answer["code"])
        assert response.status == 200, response.body
        self.tokens = response.json()
        return self.tokens

    async def request(self, method: str, params: dict[str, Any], token: str | None = None) -> Any:
        """Send a request with the access token; return the result, or the status of a refusal."""
        token = token or self.tokens["access_token"]
        headers = {"host": "mcp.test", "authorization": f"Bearer {token}"}
        client = ModernClient(next_of(self.hosts), headers)
        response = await client.begin(method, params).end()
        return response.json()["result"] if response.status == 200 else response.status

    async def call(self, tool: str, token: str | None = None) -> Any:
        """Call a tool with the access token."""
        return await self.request("tools/call", {"name": tool, "arguments": {}}, token)


@define(eq=False)
class World:
    """All of them."""

    host: Host
    provider: Provider
    browser: Browser
    client: Client

    def new_client(self) -> Client:
        """Return another client, with another person's browser."""
        return Client(self.host, Browser(self.host, self.provider))


def registry_of_callers() -> Registry:
    """Make a registry whose tools tell who calls."""
    registry = Registry("Callers")

    @registry.tool
    async def who(context: Context) -> dict[str, Any]:
        caller = context.caller
        assert caller is not None
        return {
            "subject": caller.subject,
            "name": caller.name,
            "email": caller.email,
            "client": caller.client_id,
            "scopes": sorted(caller.scopes),
        }

    @registry.tool
    async def upstream(context: Context) -> str:
        return await context.provider_token()

    @registry.tool(scopes=["files:write"])
    async def write() -> str:
        return "written"

    return registry


@asynccontextmanager
async def world(
    provider: Provider | None = None,
    *,
    proxy: OAuthProxy | None = None,
    registry: Registry | None = None,
    store: Any = None,
    **options: Any,
) -> AsyncIterator[World]:
    """Serve a registry with a proxy in memory."""
    provider = provider or Provider()
    given: dict[str, Any] = {
        "resource": RESOURCE,
        "fetching": Fetching(client_factory=provider.client, timeout=10),
        **options,
    }
    proxy = proxy or oidc(
        PROVIDER, client_id="mcp-server", client_secret=CLIENT_SECRET, title="Login Ltd.", **given
    )
    policy = HttpPolicy(auth=proxy, guess_rate=None)
    async with hosting(registry or registry_of_callers(), policy=policy, store=store) as host:
        browser = Browser(host, provider)
        yield World(host, provider, browser, Client(host, browser))
