"""What lets browsers' pages use a server of another origin (CORS).

It follows from the check of the `Origin` in `guard`: a page that may use the server gets these
headers, and no other does. There are no cookies here, so credentials never come along
unasked: a page that needs a token has to know one.
"""

from __future__ import annotations

import re
from typing import Final

from trio_mcp.transports.http.request import Header, HttpRequest

_METHOD: Final = b"access-control-request-method"
_HEADERS: Final = b"access-control-request-headers"
_NAMES: Final = re.compile(
    rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+([ \t]*,[ \t]*[A-Za-z0-9!#$%&'*+.^_`|~-]+)*"
)
_EXPOSED: Final = b"mcp-session-id, mcp-protocol-version, www-authenticate, retry-after, dpop-nonce"
_SECONDS: Final = b"7200"
"""How long a browser remembers; none does so for longer."""


def allowing(origin: str) -> list[Header]:
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"origin"),
    ]


def is_preflight(http: HttpRequest) -> bool:
    return http.method == "OPTIONS" and b"origin" in http.headers and _METHOD in http.headers


async def answer_preflight(http: HttpRequest) -> None:
    """Allow what is asked for. That the page may use the server was checked before.

    Any header is allowed, because those that mirror arguments (`Mcp-Param-…`) have any name.
    """
    headers: list[Header] = [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-max-age", _SECONDS),
    ]
    asked = http.headers.get(_HEADERS, b"")
    if _NAMES.fullmatch(asked):
        headers.append((b"access-control-allow-headers", asked))
    await http.respond(200, headers=headers)
