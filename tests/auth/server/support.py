"""An authorization server in memory, and requests with the tokens that it issues."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import httpx2
import trio
from attrs import frozen
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jwt
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from tests.support.tools import echo, registry_of
from tests.transports.http.support import Host, ModernClient, Response, hosting
from trio_mcp import HttpPolicy, Limits, Registry
from trio_mcp.auth import Fetching, ResourceServer

ISSUER = "https://login.example.com"
OTHER = "https://other.example.com/tenant"
RESOURCE = "https://mcp.example.com/mcp"
METADATA = "/.well-known/oauth-protected-resource"

Answer = Callable[[httpx2.Request], Any]


def ec_key(kid: str | None = "ec", curve: str = "P-256") -> ECKey:
    """Make a key."""
    return ECKey.generate_key(curve, {} if kid is None else {"kid": kid})


@cache
def private_rsa_key() -> rsa.RSAPrivateKey:
    """The only RSA key that there is: to make one takes 50 ms, and to check its numbers 30."""
    return rsa.generate_private_key(65537, 2048)


def rsa_key(kid: str = "rsa") -> RSAKey:
    """The RSA key, by whatever id."""
    return RSAKey.import_key(private_rsa_key(), {"kid": kid})


def ed_key(kid: str = "ed") -> OKPKey:
    """Make a key."""
    return OKPKey.generate_key("Ed25519", {"kid": kid})


_ANY = [*JWSRegistry.algorithms]


def sign(claims: Any, key: Key | OctKey | None, **header: Any) -> str:
    """Sign whatever claims with whatever header."""
    registry = JWSRegistry(algorithms=_ANY, strict_check_header=False)
    registry.max_header_length = 100_000
    given = {name: value for name, value in header.items() if value is not None}
    return jwt.encode(given, claims, key, algorithms=_ANY, registry=registry, default_type=None)  # type: ignore[arg-type]


def unsigned(header: Any, claims: Any, signature: bytes = b"") -> str:
    """Write a JWT by hand, with any signature."""

    def part(value: Any) -> str:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    return f"{part(header)}.{part(claims)}.{part(signature)}"


def by_hmac(header: Any, claims: Any, secret: bytes) -> str:
    """Write a JWT by hand whose signature is an HMAC, by whatever secret."""
    signed = unsigned(header, claims).removesuffix(".")
    digest = hmac.digest(secret, signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


@frozen
class After:
    """A time as many seconds after the one when a token or a proof is made."""

    seconds: float


def _made(claims: dict[str, Any]) -> dict[str, Any]:
    """Put in the times, and leave out what is `None`."""
    now = int(time.time())
    return {
        name: now + value.seconds if isinstance(value, After) else value
        for name, value in claims.items()
        if value is not None
    }


class Issuer:
    """An authorization server."""

    def __init__(self, url: str = ISSUER, *keys: Key) -> None:
        self.url = url
        self.keys: list[Key] = list(keys) or [ec_key()]
        self.metadata: dict[str, Any] = {"issuer": url, "jwks_uri": f"{url}/keys"}
        self.jwks: Any = None
        """In place of the keys."""
        self.answers: dict[str, Answer] = {}
        """Who answers at a URL, in place of us."""
        self.asked: list[str] = []
        """The URLs that were asked for."""
        self.introspected: dict[str, Any] = {}
        self.headers: dict[str, str] = {}

    def claims(self, **changes: Any) -> dict[str, Any]:
        """The claims of a good token; `None` takes one away."""
        claims = {
            "iss": self.url,
            "aud": RESOURCE,
            "sub": "alice",
            "client_id": "app",
            "scope": "mcp",
            "iat": After(0),
            "exp": After(600),
            "jti": "1",
            **changes,
        }
        return _made(claims)

    def token(self, key: Key | None = None, **changes: Any) -> str:
        """Issue a token."""
        key = key or self.keys[0]
        header = {"alg": algorithm_of(key), "typ": "at+jwt", "kid": key.kid}
        return sign(self.claims(**changes), key, **header)

    async def answer(self, request: httpx2.Request) -> Any:
        """Answer a request."""
        url = str(request.url)
        self.asked.append(url)
        if url in self.answers:
            found = self.answers[url](request)
            return await found if hasattr(found, "__await__") else found
        if url == f"{self.url}/keys":
            keys = self.jwks or {"keys": [each.as_dict(private=False) for each in self.keys]}
            return httpx2.Response(200, json=keys, headers=self.headers)
        if url == f"{self.url}/introspect":
            form = parse_qs(request.content.decode())
            found = self.introspected.get(form["token"][0], {"active": False})
            return httpx2.Response(200, json=found)
        if "oauth-authorization-server" in url:
            return httpx2.Response(200, json=self.metadata)
        return httpx2.Response(404)


def algorithm_of(key: Key) -> str:
    """What a key signs with."""
    if isinstance(key, ECKey):
        return {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}[key.curve_name]
    return "RS256" if isinstance(key, RSAKey) else "Ed25519"


def client_of(*issuers: Issuer) -> Callable[[], httpx2.AsyncClient]:
    """Make clients that reach these and nobody else."""

    async def answer(request: httpx2.Request) -> Any:
        await trio.lowlevel.checkpoint()
        for each in issuers:
            if str(request.url).startswith("/".join(each.url.split("/")[:3]) + "/"):
                return await each.answer(request)
        raise httpx2.ConnectError("nobody is there")

    return lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(answer))


def resource_server(*issuers: Issuer, **changes: Any) -> ResourceServer:
    """Protect something with these issuers."""
    options: dict[str, Any] = {
        "resource": RESOURCE,
        "issuers": [each.url for each in issuers],
        "scopes": ["mcp"],
        "fetching": Fetching(client_factory=client_of(*issuers), timeout=10),
    }
    return ResourceServer(**{**options, **changes})


@asynccontextmanager
async def protected(
    *issuers: Issuer,
    registry: Registry | None = None,
    policy: dict[str, Any] | None = None,
    sse_path: str | None = None,
    limits: Limits | None = None,
    **changes: Any,
) -> AsyncIterator[Host]:
    """Serve a protected registry in memory, to anybody who guesses as well."""
    policy = {"guess_rate": None, **(policy or {})}
    whole = HttpPolicy(auth=resource_server(*issuers, **changes), **policy)
    async with hosting(registry or registry_of(echo), whole, limits, sse_path=sse_path) as host:
        yield host


async def call(
    host: Host, token: str | None, name: str = "echo", *, scheme: str = "Bearer", **more: Any
) -> Response:
    """Call a tool with a token."""
    headers = {} if token is None else {"authorization": f"{scheme} {token}"}
    client = ModernClient(host, {**headers, **more})
    client.judging = False
    arguments: dict[str, Any] = {"text": "hi"} if name == "echo" else {}
    return await client.begin_call(name, **arguments).end()


_ids = itertools.count()


def proof(
    key: Key,
    token: str,
    *,
    header: dict[str, Any] | None = None,
    signed_by: Key | None = None,
    **changes: Any,
) -> str:
    """Make a DPoP proof for a POST to the resource; `None` takes a claim away."""
    digest = hashlib.sha256(token.encode()).digest()
    claims = {
        "htm": "POST",
        "htu": RESOURCE,
        "iat": After(0),
        "jti": f"proof-{next(_ids)}",
        "ath": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        **changes,
    }
    usual = {
        "alg": algorithm_of(key),
        "typ": "dpop+jwt",
        "jwk": {k: v for k, v in key.as_dict(private=False).items() if k != "kid"},
    }
    return sign(_made(claims), signed_by or key, **{**usual, **(header or {})})
