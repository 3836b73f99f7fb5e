"""Put a token on a request, and read what the response says about it."""

from __future__ import annotations

from typing import Final

import httpx2

from trio_mcp.auth.challenges import INSUFFICIENT_SCOPE, Challenge, parse_challenges
from trio_mcp.auth.client.dpop import DpopKey
from trio_mcp.auth.client.tokens import Token

_OURS: Final = ("bearer", "dpop")


def url_of(request: httpx2.Request) -> str:
    """Return where a request goes, without its query."""
    return str(request.url.copy_with(query=None, fragment=None))


def address_of(response: httpx2.Response) -> str | None:
    """Return the address that a response came from; `None` if it is not known."""
    stream = response.extensions.get("network_stream")
    address = stream.get_extra_info("server_addr") if stream is not None else None
    return str(address[0]).partition("%")[0] if isinstance(address, tuple) else None


def present(request: httpx2.Request, url: str, token: Token | None, key: DpopKey | None) -> None:
    """Put a token on a request, in place of any other."""
    for name in ("Authorization", "DPoP"):
        request.headers.pop(name, None)
    if token is None:
        return
    request.headers["Authorization"] = f"{token.scheme} {token.access_token}"
    if token.scheme == "DPoP" and key is not None:
        request.headers["DPoP"] = key.proof(request.method, url, token.access_token)


def challenge_of(response: httpx2.Response) -> Challenge | None:
    """Return a server's challenge for a token; `None` if there is none."""
    if response.status_code not in (401, 403):
        return None
    found = parse_challenges(response.headers.get_list("www-authenticate"))
    ours = [challenge for challenge in found if challenge.scheme in _OURS]
    if response.status_code == 403:
        return next((item for item in ours if item.error == INSUFFICIENT_SCOPE), None)
    if not found:
        return Challenge("bearer")  # 401 without a word: revisions before 2025-06-18
    # One that says why, or where to go, before one that only names a scheme.
    return max(ours, key=lambda challenge: len(challenge.parameters), default=None)
