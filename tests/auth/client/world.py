"""A protected server and its authorization server, which do what a test tells them.

They are reached through `httpx2.MockTransport`, so nothing is on the network but the redirect,
which goes to loopback as a browser's would. They check what they are sent as strictly as a real
one would, and note it.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import trio
from attrs import define, field
from joserfc import jwt
from joserfc.jwk import ECKey

from trio_mcp.auth import Fetching, OAuth

SERVER = "https://mcp.test/mcp"
ISSUER = "https://as.test"
TIME_LIMIT = 120

Json = Any
Answer = Callable[[httpx2.Request], Awaitable[httpx2.Response]]


def form_of(request: httpx2.Request) -> dict[str, str]:
    """The form in a request."""
    return dict(parse_qsl(request.content.decode(), keep_blank_values=True))


def thumb(verifier: str) -> str:
    """The challenge that belongs to a verifier, computed anew."""
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


@define(eq=False, repr=False)
class World:
    """All that a client meets.

    Attributes:
        on: Answers in place of the usual ones, by URL.
        resource: The metadata of the server; `None` if it has none.
        server: The metadata of the authorization server; `None` if it has none.
        challenge: What the server says to one without a token.
        needed: The scopes that the server needs, by the request's method.
        requests: What was asked, in order, as method and URL.
        forms: What the token endpoint was sent.
        pages: The pages that the person was shown.
        extra: What is added to a token's answer.
        redirect: What is changed in the redirect.
    """

    issuer: str = ISSUER
    on: dict[str, Answer] = field(factory=dict)
    resource: dict[str, Json] | None = None
    server: dict[str, Json] | None = None
    challenge: str | None = 'Bearer resource_metadata="https://mcp.test/meta", scope="read"'
    needed: dict[str, str] = field(factory=dict)
    requests: list[str] = field(factory=list)
    forms: list[dict[str, str]] = field(factory=list)
    token_headers: list[httpx2.Headers] = field(factory=list)
    registrations: list[dict[str, Json]] = field(factory=list)
    pages: list[dict[str, str]] = field(factory=list)
    extra: dict[str, Json] = field(factory=dict)
    redirect: dict[str, str | None] = field(factory=dict)
    seen: list[httpx2.Headers] = field(factory=list)
    tokens: dict[str, str] = field(factory=dict)
    refresh: set[str] = field(factory=set)
    _codes: dict[str, dict[str, str]] = field(factory=dict)
    _count: int = 0

    def __attrs_post_init__(self) -> None:
        self.resource = {
            "resource": SERVER,
            "authorization_servers": [self.issuer],
            "scopes_supported": ["basic"],
        }
        self.server = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    # -- the network -----------------------------------------------------------------------------

    def client(self, auth: httpx2.Auth | None = None) -> httpx2.AsyncClient:
        """A client that is in this world."""
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self.handle), auth=auth)

    @property
    def fetching(self) -> Fetching:
        """How authorization servers are reached in this world."""
        return Fetching(client_factory=self.client)

    def oauth(self, **options: Any) -> OAuth:
        """A way in, as a person who says yes."""
        return OAuth(**{"fetching": self.fetching, "open_browser": self.agree, **options})

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request."""
        await trio.lowlevel.checkpoint()
        url = str(request.url)
        self.requests.append(f"{request.method} {url}")
        known: dict[str, Answer] = {
            SERVER: self.call,
            "https://mcp.test/meta": self.about_resource,
            f"{self.issuer}/.well-known/oauth-authorization-server": self.about_server,
            f"{self.issuer}/token": self.token,
            f"{self.issuer}/register": self.register,
            **self.on,
        }
        answer = known.get(url)
        return httpx2.Response(404) if answer is None else await answer(request)

    def count(self, what: str) -> int:
        """How often something was asked."""
        return sum(each.endswith(what) for each in self.requests)

    # -- the server ------------------------------------------------------------------------------

    async def call(self, request: httpx2.Request) -> httpx2.Response:
        """Let in who has a token with the scopes that are needed."""
        self.seen.append(request.headers.copy())
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if token not in self.tokens:
            said = {} if self.challenge is None else {"WWW-Authenticate": self.challenge}
            return httpx2.Response(401, headers=said, text="who are you?")
        needed = self.needed.get(request.method, "")
        if not set(needed.split()) <= set(self.tokens[token].split()):
            said = {
                "WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{needed}", '
                'resource_metadata="https://mcp.test/meta"'
            }
            return httpx2.Response(403, headers=said)
        return httpx2.Response(200, text=f"{scheme} in")

    async def about_resource(self, request: httpx2.Request) -> httpx2.Response:
        """Say what the server is."""
        return httpx2.Response(404) if self.resource is None else self.json(self.resource)

    # -- the authorization server ----------------------------------------------------------------

    async def about_server(self, request: httpx2.Request) -> httpx2.Response:
        """Say what the authorization server is."""
        return httpx2.Response(404) if self.server is None else self.json(self.server)

    def json(self, value: Json, status: int = 200, **headers: str) -> httpx2.Response:
        """An answer with JSON."""
        headers = {name.replace("_", "-"): each for name, each in headers.items()}
        return httpx2.Response(status, headers=headers, content=json.dumps(value))

    def refuse(self, error: str, status: int = 400) -> httpx2.Response:
        """A refusal of the token endpoint."""
        return self.json({"error": error, "error_description": "no such luck"}, status)

    async def register(self, request: httpx2.Request) -> httpx2.Response:
        """Register a client."""
        wanted = json.loads(request.content)
        self.registrations.append(wanted)
        return self.json({**wanted, "client_id": f"client-{len(self.registrations)}"}, 201)

    async def agree(self, url: str) -> None:
        """Be the person: look at the page, say yes, and go where it leads."""
        uri, answer = self.page(url)
        await self.browse(uri, answer)

    def page(self, url: str) -> tuple[str, dict[str, str]]:
        """Show the page that asks the person; what comes back, and where to."""
        assert url.startswith(f"{self.issuer}/authorize?")
        asked = dict(parse_qsl(urlsplit(url).query, strict_parsing=True))
        self.pages.append(asked)
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{len(self.pages)}"
        self._codes[code] = asked
        answer: dict[str, str | None] = {
            "code": code,
            "state": asked["state"],
            "iss": self.issuer,
            **self.redirect,
        }
        return asked["redirect_uri"], {k: v for k, v in answer.items() if v is not None}

    async def browse(self, uri: str, answer: dict[str, str]) -> httpx2.Response:
        """Follow the redirect, over a real socket."""
        async with httpx2.AsyncClient(trust_env=False, verify=False) as browser:
            return await browser.get(f"{uri}?{urlencode(answer)}")

    async def token(self, request: httpx2.Request) -> httpx2.Response:
        """Give a token."""
        form = form_of(request)
        self.forms.append(form)
        self.token_headers.append(request.headers)
        match form["grant_type"]:
            case "authorization_code":
                asked = self._codes.pop(form["code"], None)  # a code is good for once
                if asked is None or thumb(form["code_verifier"]) != asked["code_challenge"]:
                    return self.refuse("invalid_grant")
                if form["redirect_uri"] != asked["redirect_uri"]:
                    return self.refuse("invalid_grant")
                scope = asked.get("scope", "")
            case "refresh_token":
                if form["refresh_token"] not in self.refresh:
                    return self.refuse("invalid_grant")
                self.refresh.remove(form["refresh_token"])  # so is a refresh token
                scope = "read"
            case _:
                scope = form.get("scope", "")
        return self.give(scope)

    def give(self, scope: str, **more: Json) -> httpx2.Response:
        """Give a token with scopes."""
        self._count += 1
        access = f"access-secret-{self._count}"
        self.tokens[access] = str(self.extra.get("scope", scope))
        given: dict[str, Json] = {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": 3600,
        }
        given |= {"scope": scope} if scope else {}
        given |= {**self.extra, **more}
        if given.get("refresh_token"):
            given["refresh_token"] = f"refresh-secret-{self._count}"
            self.refresh.add(given["refresh_token"])
        return self.json({name: each for name, each in given.items() if each is not None})


def basic(headers: httpx2.Headers) -> str:
    """The user and password of a request."""
    return b64decode(headers["authorization"].removeprefix("Basic ")).decode()


def claims_of(proof: str) -> tuple[dict[str, Json], dict[str, Json]]:
    """The header and the claims of a proof, whose signature is right."""
    header = json.loads(_decoded(proof.split(".")[0]))
    key = ECKey.import_key(header["jwk"])
    return header, jwt.decode(proof, key, ["ES256"]).claims


def _decoded(part: str) -> bytes:
    from base64 import urlsafe_b64decode

    return urlsafe_b64decode(part + "=" * (-len(part) % 4))
