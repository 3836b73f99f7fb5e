"""Log in by the OAuth proxy at a real provider: `python -m tests.auth.real github`.

It serves a tool on this machine, opens a browser for you to log in, calls the tool, renews the
tokens, and logs out. What it needs to know stands in the environment; it says what is missing, and
what to register at the provider. No token is printed.
"""

from __future__ import annotations

import inspect
import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from typing import Any, Final
from urllib.parse import urljoin

import httpx2
import trio

from trio_mcp import Client, Context, HttpOptions, HttpPolicy, Registry, connect, serve_http
from trio_mcp import auth as presets
from trio_mcp.auth import Fetching, MemoryStore, OAuth, OAuthProxy
from trio_mcp.auth.client.revocation import revoke
from trio_mcp.errors import AuthorizationError

PROVIDERS: Final = ("auth0", "cognito", "entra", "github", "google", "keycloak", "oidc", "okta")
_TOKEN_TTL: Final = 3.0
"""Seconds for which an access token is good, so that it is soon renewed."""


def variables(provider: str) -> dict[str, str]:
    """Return the parameters that a provider's function needs, with their variables."""
    parameters = inspect.signature(getattr(presets, provider)).parameters.values()
    needed = [each for each in parameters if each.default is each.empty and each.name != "options"]
    return {each.name: f"{provider}_{each.name}".upper() for each in needed}


def proxy(provider: str, resource: str) -> OAuthProxy:
    """Make the proxy from what the environment says.

    Raises:
        SystemExit: Something is missing, or cannot be used.
    """
    make: Callable[..., OAuthProxy] = getattr(presets, provider)
    named = variables(provider)
    options: dict[str, Any] = {"resource": resource, "token_ttl": _TOKEN_TTL}
    if provider == "entra":  # which asks who may come in, where anyone could
        options["allow"] = lambda identity: True
    missing = [variable for variable in named.values() if not os.environ.get(variable)]
    if missing:
        sys.exit(
            f"Set {', '.join(missing)} in the environment: the application that you have "
            f"registered at the provider. Its redirect URI is "
            f"{urljoin(resource, '/auth/callback')}; docs/guides/providers/{provider}.md says what "
            "to click."
        )
    try:
        return make(**{name: os.environ[variable] for name, variable in named.items()}, **options)
    except ValueError as error:
        sys.exit(f"{provider}: {error}")


def registry() -> Registry:
    """Make what is protected."""
    registry = Registry("Real logins")

    @registry.tool
    async def whoami(context: Context) -> dict[str, Any]:
        """Say who calls, and how long the provider's token is."""
        caller = context.caller
        assert caller is not None
        return {
            "subject": caller.subject,
            "name": caller.name,
            "email": caller.email,
            "claims": sorted(caller.claims),
            "token": len(await context.provider_token()),
        }

    return registry


async def _whoami(client: Client, title: str) -> None:
    found = await client.call_tool("whoami", returns=dict[str, Any], timeout=60)
    print(f"ok  {title}: " + ", ".join(f"{name} {value}" for name, value in found.items()))


async def try_out(provider: str, port: int) -> None:
    """Log in, call, renew, log out."""
    url = f"http://localhost:{port}/mcp"
    policy = HttpPolicy(auth=proxy(provider, url))
    store = MemoryStore()
    print(f"Redirect URI at the provider: {urljoin(url, '/auth/callback')}")
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_http, registry(), port=port, policy=policy))
        options = HttpOptions(auth=OAuth(store=store))
        async with connect(url, http=options, connect_timeout=60) as client:
            await _whoami(client, "logged in")
            (before,) = await store.load()
            await trio.sleep(_TOKEN_TTL + 1)
            await _whoami(client, "renewed")
            (login,) = await store.load()
            assert before.token != login.token, "the token was not renewed"
        await revoke(login, Fetching())
        await _check_end(url, login.client.client_id, login.token.refresh_token)  # type: ignore[union-attr]
        nursery.cancel_scope.cancel()


async def _check_end(url: str, client: str, token: str | None) -> None:
    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": client}
    async with httpx2.AsyncClient() as http:
        answer = await http.post(urljoin(url, "/token"), data=form)
    assert answer.status_code == 400, f"the login has not ended: {answer.text}"
    print("ok  logged out")


def main() -> None:
    """Try out the provider that the command line names."""
    parser = ArgumentParser(prog="python -m tests.auth.real", description=__doc__)
    parser.add_argument("provider", choices=PROVIDERS)
    parser.add_argument("--port", type=int, default=8000, help="of the server (8000)")
    options = parser.parse_args()
    try:
        trio.run(try_out, options.provider, options.port)
    except* AuthorizationError as group:
        sys.exit(f"Logging in failed: {group.exceptions[0]}; the log above may say more.")


if __name__ == "__main__":
    main()
