"""The checks that come before anything else: host, origin, token, rate.

A web page that a user happens to visit can send requests to servers on the user's own machine,
under any name that its author makes resolve there. So the `Host` has to be one that the server
is meant to be reached by, and the `Origin`, which browsers add, one whose pages may use it.
"""

from __future__ import annotations

import hmac
import math
from collections import OrderedDict
from typing import Final
from urllib.parse import urlsplit

import trio

from trio_mcp.transports.http.policy import HttpPolicy
from trio_mcp.transports.http.request import HttpRequest, Refusal
from trio_mcp.wire.bucket import TokenBucket

_ANY: Final = "*"


class Guard:
    """Refuses requests that the policy does not allow."""

    def __init__(self, policy: HttpPolicy) -> None:
        self._policy = policy
        self._hosts = {each.lower() for each in policy.allowed_hosts}
        self._origins = {each.lower().rstrip("/") for each in policy.allowed_origins}
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    async def check(self, request: HttpRequest) -> None:
        """Let a request pass, and note whose it is.

        Raises:
            Refusal: It is not allowed: 403 (host, origin), 401 (token), or 429 (rate).
        """
        self._check_host(request)
        self._check_origin(request)
        request.principal = await self._principal_of(request)
        self._check_rate(request)

    def _check_host(self, request: HttpRequest) -> None:
        host = _without_port((request.header(b"host") or "").lower())
        if _ANY not in self._hosts and host not in self._hosts:
            raise Refusal(403, "This server is not meant to be reached by that Host name.")

    def _check_origin(self, request: HttpRequest) -> None:
        origin = request.header(b"origin")
        if origin is None or _ANY in self._origins or origin.lower() in self._origins:
            return
        try:
            parts = urlsplit(origin.lower())
            host = _without_port(parts.netloc)
        except ValueError:
            host = ""
        if not host or parts.scheme not in ("http", "https") or host not in self._hosts:
            raise Refusal(403, "Pages of that Origin may not use this server.")

    async def _principal_of(self, request: HttpRequest) -> str | None:
        policy = self._policy
        if policy.verify is None and not policy.tokens:
            return None
        kind, _, token = (request.header(b"authorization") or "").partition(" ")
        token = token.strip()
        if kind.lower() != "bearer" or not token:
            raise self._unauthorized("A bearer token is needed.", "")
        principal = await policy.verify(token) if policy.verify else self._owner_of(token)
        if principal is None:
            raise self._unauthorized("The bearer token is not valid.", ', error="invalid_token"')
        return principal

    def _owner_of(self, token: str) -> str | None:
        """Look a token up in a time that does not tell how much of it was right."""
        owner = None
        for known, principal in self._policy.tokens.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                owner = principal
        return owner

    def _unauthorized(self, message: str, details: str) -> Refusal:
        challenge = f'Bearer realm="{self._policy.realm}"{details}'
        return Refusal(401, message, [(b"www-authenticate", challenge.encode())])

    def _check_rate(self, request: HttpRequest) -> None:
        policy = self._policy
        if policy.rate is None:
            return
        bucket = self._buckets.get(request.client)
        if bucket is None:
            bucket = self._buckets[request.client] = TokenBucket(policy.rate, policy.burst)
            if len(self._buckets) > policy.max_clients:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(request.client)
        seconds = bucket.wait(trio.current_time())
        if seconds:
            after = b"%d" % math.ceil(seconds)
            raise Refusal(429, "Too many requests; wait a little.", [(b"retry-after", after)])


def _without_port(host: str) -> str:
    """`example.com:80` without `:80`; an IPv6 address is in brackets."""
    if host.startswith("["):
        return host[: host.find("]") + 1]
    return host.partition(":")[0]
