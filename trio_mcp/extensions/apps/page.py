"""What a page is and what it may do, for servers and for hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

UI: Final = "io.modelcontextprotocol/ui"
MIME_TYPE: Final = "text/html;profile=mcp-app"
SCHEME: Final = "ui://"
LARGEST: Final = 10 * 1024 * 1024
"""Bytes of the largest page."""

CSP: Final = MappingProxyType(
    {
        "connect": "connectDomains",
        "resources": "resourceDomains",
        "frames": "frameDomains",
        "base_uris": "baseUriDomains",
    }
)
"""What a page may reach, by our names, with the names on the wire."""

PERMISSIONS: Final = MappingProxyType(
    {
        "camera": "camera",
        "microphone": "microphone",
        "geolocation": "geolocation",
        "clipboardWrite": "clipboard-write",
    }
)
"""What a page may ask for, with the names that browsers have for it."""

_LONGEST_ORIGIN: Final = 300
"""Characters: a name in the DNS has 253 at most."""
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_ORIGIN: Final = re.compile(
    rf"(?:https?|wss?)://(?:\*\.)?{_LABEL}(?:\.{_LABEL})*(?::[0-9]{{1,5}})?", re.IGNORECASE
)
_DOCUMENT: Final = re.compile(r"\ufeff?(?:\s|<!--.*?-->)*+<!doctype html\b", re.I | re.S)


def check_origin(origin: Any) -> str:
    """Return an origin that may stand in a content security policy.

    Raises:
        ValueError: It may not: with anything more in it, it could allow more than was meant.

    Example:
        >>> check_origin("https://*.example.com")
        'https://*.example.com'
    """
    if isinstance(origin, str) and len(origin) <= _LONGEST_ORIGIN and _ORIGIN.fullmatch(origin):
        return origin
    raise ValueError(
        f"{origin!r:.100} is not an origin: it needs a scheme and a host and nothing else, as in "
        '"https://api.example.com" or "https://*.example.com"'
    )


def check_html(html: str) -> None:
    """Refuse what is not a page, or too large, with a `ValueError`."""
    if len(html) > LARGEST or len(html.encode()) > LARGEST:
        raise ValueError(f"a page has {LARGEST >> 20} MiB at most")
    if not _DOCUMENT.match(html):
        raise ValueError('a page begins with "<!doctype html>"')


def policy_of(csp: Mapping[str, tuple[str, ...]]) -> str:
    """Write the content security policy of a page."""
    resources = csp.get("resources", ())

    def directive(name: str, *allowed: str) -> str:
        return " ".join((name, *(allowed or ("'none'",))))

    return "; ".join(
        (
            directive("default-src"),
            directive("script-src", "'self'", "'unsafe-inline'", *resources),
            directive("style-src", "'self'", "'unsafe-inline'", *resources),
            directive("img-src", "'self'", "data:", *resources),
            directive("font-src", "'self'", *resources),
            directive("media-src", "'self'", "data:", *resources),
            directive("connect-src", *csp.get("connect", ())),
            directive("frame-src", *csp.get("frames", ())),
            directive("object-src"),
            directive("base-uri", *(csp.get("base_uris", ()) or ("'self'",))),
        )
    )
