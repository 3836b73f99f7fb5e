"""The echo tool, served by this project over HTTP; the argument is the port.

With an issuer's keys in the environment, nobody is let in without one of its tokens.
"""

import json
import os
import sys

import httpx2
import trio

from benchmarks.tokens import ENVIRONMENT, ISSUER, RESOURCE
from trio_mcp import HttpLimits, HttpPolicy, Limits, Registry, SessionOptions, serve_http
from trio_mcp.auth import DPoP, Fetching, ResourceServer

registry = Registry("echo", version="1.0")


@registry.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


def protection(keys: str) -> ResourceServer:
    """Let in who has a token, without asking anybody: the keys are here."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        metadata = {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}
        return httpx2.Response(
            200, json=json.loads(keys) if "keys" in str(request.url) else metadata
        )

    return ResourceServer(
        resource=RESOURCE,
        issuers=[ISSUER],
        scopes=["mcp"],
        dpop=DPoP(max_proofs=1_000_000),
        fetching=Fetching(
            client_factory=lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
        ),
    )


async def main() -> None:
    keys = os.environ.get(ENVIRONMENT)
    await serve_http(
        registry,
        port=int(sys.argv[1]),
        policy=HttpPolicy(auth=protection(keys) if keys else None),
        sessions=SessionOptions(max_sessions=20_000),
        limits=Limits(max_subscriptions=5000),
        http_limits=HttpLimits(max_connections=5000, idle_timeout=600),
    )


trio.run(main)
