"""The page on which people look at a server and try it out: one file, which asks no other server.

The page speaks MCP itself, over the same endpoint as any client, so there is no second way in: it
can do what its user can. It holds nothing secret, and is given to all who may know that the
server is there. What servers send is text to it: the content security policy lets no script and no
style run but those of the file, by their hashes, and no other server be asked.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from trio_mcp.auth.urls import is_loopback
from trio_mcp.transports.http.policy import LOOPBACK, HttpPolicy
from trio_mcp.transports.http.request import Header, HttpRequest, Refusal
from trio_mcp.wire.jsonrpc import Json, encode

_FILE: Final = Path(__file__).with_name("explorer.html")
_SETTINGS: Final = re.compile(
    rb'(<script id="settings" type="application/json">).*?(</script>)', re.S
)
_SCRIPT: Final = re.compile(rb'<script type="module">(.*?)</script>', re.S)
_STYLE: Final = re.compile(rb"<style>(.*?)</style>", re.S)
_HTML: Final = b"text/html; charset=utf-8"
_HEADERS: Final[list[Header]] = [
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]
_POLICY: Final = (
    "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; "
    "img-src data:; media-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_UNPROTECTED: Final = (
    "explorer=True lets anyone who reaches the server call its tools from a page: "
    "protect it with HttpPolicy(auth=...) or HttpPolicy(tokens=...), or serve this machine only"
)


@frozen
class ExplorerPage:
    """The page for one server."""

    html: bytes
    headers: list[Header]

    @classmethod
    def load(cls, settings: Mapping[str, Json]) -> ExplorerPage:
        # In a script element, nothing but "<" could be taken for the end of it.
        told = encode(dict(settings))[:-1].replace(b"<", b"\\u003c")
        html = _SETTINGS.sub(lambda found: found[1] + told + found[2], _FILE.read_bytes())
        policy = _POLICY.format(script=_hash(_SCRIPT, html), style=_hash(_STYLE, html))
        return cls(html, [*_HEADERS, (b"content-security-policy", policy.encode())])

    async def serve(self, http: HttpRequest, policy: HttpPolicy | None = None) -> None:
        """Send the page to who is on this machine, or needs a token by the policy (else 403)."""
        is_open = policy is not None and not policy.asks_for_tokens
        if is_open and http.peer is not None and not is_loopback(http.peer):
            raise Refusal(403, "Without tokens, this page is for the machine of the server only.")
        await http.respond(200, self.html, _HTML, self.headers)


def _hash(element: re.Pattern[bytes], html: bytes) -> str:
    (content,) = element.findall(html)
    return f"'sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}'"


def check_protected(policy: HttpPolicy, host: str | None = None) -> None:
    """Refuse to show the page to others than this machine and those who have a token.

    Raises:
        ValueError: It listens beyond this machine or is meant to be reached by another name, and
            asks for no token.
    """
    is_local = set(policy.allowed_hosts) <= set(LOOPBACK) and (host is None or is_loopback(host))
    if not is_local and not policy.asks_for_tokens:
        raise ValueError(_UNPROTECTED)
