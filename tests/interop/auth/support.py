"""A certified authorization server, and servers of ours that it protects, or our proxy before it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlencode, urljoin, urlsplit

import httpx2
import trio

from tests.interop.auth.person import Person
from tests.support.processes import run, running
from trio_mcp import Client, Context, HttpOptions, HttpPolicy, Registry, connect, serve_http
from trio_mcp.auth import Fetching, Introspection, OAuthProxy, ResourceServer, oidc
from trio_mcp.auth.client.redirect import Pkce

HERE = Path(__file__).parent
TIME_LIMIT = 600  # seconds, for all that a test does with several processes
SECRET = "s3cret+/ %:" * 4
"""Of every client that has one: what has to be encoded wherever it is sent."""
FETCHING = Fetching(trust_env=False, timeout=TIME_LIMIT)


@asynccontextmanager
async def peer(*command: str) -> AsyncIterator[str]:
    """Run a server that says which port it has. Yields its origin."""
    async with running(list(command), time_limit=TIME_LIMIT, stdout=subprocess.DEVNULL) as server:
        await server.said(b"!\n")
        port = int(server.stderr.rpartition(b"port ")[2].partition(b"!")[0])
        yield f"http://127.0.0.1:{port}"


def beside(npm: Path, script: str) -> str:
    """Put a script beside the packages from npm, where it finds them. Returns its path."""
    return str(shutil.copy(HERE / script, npm))


def oidc_provider(npm: Path, **options: Any) -> AbstractAsyncContextManager[str]:
    """Run the authorization server. Yields its issuer.

    Args:
        npm: Where its package is.
        options: What the script takes.
    """
    return peer("node", beside(npm, "oidc_provider.mjs"), json.dumps(options))


def credentials_of(client_id: str, **changes: Any) -> dict[str, Any]:
    """What the authorization server knows of a program; `None` takes something away."""
    known = {
        "client_id": client_id,
        "client_secret": SECRET,
        "token_endpoint_auth_method": "client_secret_basic",
        "grant_types": ["client_credentials"],
        "response_types": [],
        "redirect_uris": [],
        **changes,
    }
    return {name: value for name, value in known.items() if value is not None}


VERIFIER = credentials_of("verifier")
"""What a resource server is to the authorization server."""


def introspection(issuer: str, **options: Any) -> Introspection:
    """How our server asks it about opaque tokens."""
    return Introspection(
        endpoint=f"{issuer}/token/introspection",
        client_id="verifier",
        client_secret=SECRET,
        **options,
    )


async def token_request(issuer: str, path: str = "/token", **form: Any) -> dict[str, Any]:
    """Post a form to the authorization server, as the program of the test. Returns its answer."""
    headers = form.pop("headers", {})
    known = form.pop("client_id", "nightly")
    auth = httpx2.BasicAuth(quote_plus(known), quote_plus(SECRET))
    async with httpx2.AsyncClient(timeout=TIME_LIMIT, trust_env=False) as client:
        answer = await client.post(f"{issuer}{path}", data=form, headers=headers, auth=auth)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()) if answer.content else {}


async def log_in_at(issuer: str, client_id: str, redirect_uri: str, **more: str) -> dict[str, Any]:
    """Have the authorization server give a person's tokens to a client: all kinds of them."""
    pkce = Pkce()
    asked = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "code_challenge": pkce.challenge,
        "code_challenge_method": "S256",
        "scope": "openid offline_access mcp",
        "prompt": "consent",
        **more,
    }
    back = await Person().sent_back(f"{issuer}/auth?{urlencode(asked)}")
    (code,) = parse_qs(urlsplit(back).query)["code"]
    return await token_request(
        issuer,
        client_id=client_id,
        grant_type="authorization_code",
        code=code,
        redirect_uri=redirect_uri,
        code_verifier=pkce.verifier,
        **more,
    )


def registry() -> Registry:
    """What is protected."""
    registry = Registry("vault")

    @registry.tool
    async def whoami(context: Context) -> dict[str, Any]:
        """Say who calls."""
        found = context.authorization
        assert found is not None
        return {
            "subject": found.subject,
            "client_id": found.client_id,
            "scopes": sorted(found.scopes),
            "issuer": found.issuer,
            "tenant": found.claims.get("tenant"),
            "bound": found.key_thumbprint is not None,
        }

    @registry.tool(scopes=["files:write"])
    async def write() -> str:
        """Do what needs more."""
        return "written"

    return registry


async def listening() -> tuple[list[trio.SocketListener], str]:
    """Take a port for a server of ours. Returns it, and the server's URL."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    return listeners, f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp"


@asynccontextmanager
async def serving(
    listeners: list[trio.SocketListener], auth: ResourceServer
) -> AsyncIterator[None]:
    """Serve what is protected, for those whom `auth` lets in."""
    failure: BaseException | None = None
    with trio.fail_after(TIME_LIMIT):
        async with trio.open_nursery() as nursery:
            policy = HttpPolicy(auth=auth)
            await nursery.start(partial(serve_http, registry(), listeners=listeners, policy=policy))
            try:
                yield
            except BaseException as error:  # raised again below, outside of any exception group
                failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@asynccontextmanager
async def protected(issuer: str, **options: Any) -> AsyncIterator[str]:
    """Serve it for those whom the issuer lets in. Yields the URL."""
    listeners, url = await listening()
    resource = ResourceServer(resource=url, issuers=[issuer], scopes=["mcp"], **options)
    async with serving(listeners, resource):
        yield url


def provider_for(npm: Path, url: str) -> AbstractAsyncContextManager[str]:
    """Run a provider that knows our server at a URL. Yields its issuer."""
    client = credentials_of(
        "our-server",
        token_endpoint_auth_method="client_secret_post",
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        redirect_uris=[urljoin(url, "/auth/callback")],
    )
    methods = ["none", "client_secret_basic", "client_secret_post"]
    return oidc_provider(npm, clients=[client], methods=methods)


def our_proxy(url: str, issuer: str, **options: Any) -> OAuthProxy:
    """Return our proxy in front of that provider, for our server at a URL."""
    return oidc(
        issuer,
        client_id="our-server",
        client_secret=SECRET,
        resource=url,
        scopes=["mcp"],
        fetching=FETCHING,
        **options,
    )


@asynccontextmanager
async def proxied(npm: Path, **options: Any) -> AsyncIterator[str]:
    """Serve it for those who log in by our proxy, at a provider. Yields the URL."""
    listeners, url = await listening()
    async with (
        provider_for(npm, url) as issuer,
        serving(listeners, our_proxy(url, issuer, **options)),
    ):
        yield url


class Chromium:
    """A person with a real browser, who says yes."""

    def __init__(self, npm: Path) -> None:
        self.command = ["node", beside(npm, "chromium.mjs"), str(shutil.which("chromium"))]
        self.pages: list[str] = []
        """The last page of each visit."""

    async def __call__(self, url: str) -> None:
        """Go to a page, and on to wherever it leads in the end."""
        done = await run([*self.command, url])
        assert done.returncode == 0, done.stderr.decode()
        self.pages.append(done.stdout.decode())


@asynccontextmanager
async def connected(url: str, auth: Any, **options: Any) -> AsyncIterator[Client]:
    """Get in with our client."""
    http = HttpOptions(auth=auth, trust_env=False)
    patient = {"connect_timeout": TIME_LIMIT, "tool_timeout": TIME_LIMIT, **options}
    async with connect(url, http=http, **patient) as client:
        yield client


async def whoami(client: Client) -> dict[str, Any]:
    """Whom the server takes the client for."""
    result = await client.call_tool("whoami", returns=dict[str, Any])
    return dict(result)
