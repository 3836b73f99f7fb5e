"""The echo tool behind logins, over HTTP; the argument is the port.

The provider is in this process, and believes everyone: who logs in is what the code says. The tool
`counted` tells how many operations of the store, and requests to the provider, there were.
"""

import sys
from typing import Any
from urllib.parse import parse_qs

import httpx2
import trio

from trio_mcp import HttpLimits, HttpPolicy, Registry, serve_http
from trio_mcp.auth import Fetching, Identity, LoginProvider, OAuthProxy
from trio_mcp.store.opening import open_store

PROVIDER = "https://login.example.com"

registry = Registry("echo", version="1.0")
counts = {"store": 0, "provider": 0}


class Counting:
    """A store whose operations are counted."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        counts["store"] += 1
        return getattr(self._store, name)


@registry.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@registry.tool
async def counted() -> dict[str, int]:
    """Count what there was."""
    return counts


def answer(request: httpx2.Request) -> httpx2.Response:
    """Answer as the provider's token endpoint."""
    counts["provider"] += 1
    form = parse_qs(request.content.decode())
    who = form.get("code", form.get("refresh_token", ["-"]))[0]
    return httpx2.Response(200, json={"access_token": who, "refresh_token": who, "expires_in": 60})


async def identify(claims: Any, get: Any) -> Identity:
    """Name a person who has logged in: another one each time."""
    counts["people"] = counts.get("people", 0) + 1
    return Identity(subject=f"person-{counts['people']}")


async def main() -> None:
    port = int(sys.argv[1])
    provider = LoginProvider(
        title="Provider",
        client_id="benchmark",
        client_secret="the secret of a benchmark",
        authorization_endpoint=f"{PROVIDER}/authorize",
        token_endpoint=f"{PROVIDER}/token",
        identify=identify,
    )
    auth = OAuthProxy(
        provider=provider,
        resource=f"http://127.0.0.1:{port}/mcp",
        fetching=Fetching(
            client_factory=lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
        ),
    )
    async with open_store("memory:") as store:
        await serve_http(
            registry,
            port=port,
            policy=HttpPolicy(auth=auth),
            store=Counting(store),
            http_limits=HttpLimits(max_connections=5000),
        )


trio.run(main)
