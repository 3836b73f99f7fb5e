"""How a token is presented with a request, and what the response says about it."""

from __future__ import annotations

from typing import Final

import httpx2

from trio_mcp.auth.challenges import INSUFFICIENT_SCOPE, Challenge, parse_challenges
from trio_mcp.auth.client.dpop import DpopKey
from trio_mcp.auth.client.tokens import Token

_OURS: Final = ("bearer", "dpop")


def url_of(request: httpx2.Request) -> str:
    """Where a request really goes, without its query."""
    url = request.url
    target = request.extensions.get("target")
    if isinstance(target, bytes):
        url = url.copy_with(raw_path=target)
    return str(url.copy_with(query=None, fragment=None))


def address_of(response: httpx2.Response) -> str | None:
    """Where a response really came from; `None` where there is no network, or no telling."""
    stream = response.extensions.get("network_stream")
    address = stream.get_extra_info("server_addr") if stream is not None else None
    return str(address[0]).partition("%")[0] if isinstance(address, tuple) else None


def present(request: httpx2.Request, url: str, token: Token | None, key: DpopKey | None) -> None:
    """Put a token on a request, in place of the one that was there."""
    for name in ("Authorization", "DPoP"):
        request.headers.pop(name, None)
    if token is None:
        return
    request.headers["Authorization"] = f"{token.scheme} {token.access_token}"
    if token.scheme == "DPoP" and key is not None:
        request.headers["DPoP"] = key.proof(request.method, url, token.access_token)


def challenge_of(response: httpx2.Response) -> Challenge | None:
    """What a server wants; `None` if that is no token, or nothing."""
    if response.status_code not in (401, 403):
        return None
    found = parse_challenges(response.headers.get_list("www-authenticate"))
    ours = [each for each in found if each.scheme in _OURS]
    if response.status_code == 403:
        return next((each for each in ours if each.error == INSUFFICIENT_SCOPE), None)
    if not found:
        return Challenge("bearer")  # 401 without a word: revisions before 2025-06-18
    # One that says why, or where to go, before one that only names a scheme.
    return max(ours, key=lambda each: len(each.parameters), default=None)
