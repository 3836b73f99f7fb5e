"""URLs: which may be used, how they are compared, and where metadata may be. No I/O.

Revision 2026-07-28, "Authorization Server Discovery"; RFC 9728, section 3; RFC 8414, section 3.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

_MOST_CHARS: Final = 8192
_MOST_HOST_CHARS: Final = 253  # (RFC 1035, section 2.3.4)
_PORTS: Final = {"http": 80, "https": 443}
RESOURCE_METADATA: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"


class BadUrl(ValueError):
    """A URL that must not be used. The message shows its origin, and no more of it."""


def parsed(url: str, what: str) -> SplitResult:
    """Split a URL that a request may go to; messages call it `what`.

    Raises:
        BadUrl: It is not a URL of HTTP, has a user, a password or a fragment, or is plain HTTP to
            anything but this machine.
    """
    if len(url) > _MOST_CHARS:
        raise BadUrl(f"{what:.200} is too long for a URL")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadUrl(f"{what} is not a URL") from None
    host = parts.hostname or ""
    sound = url.isascii() and 0 < len(host) <= _MOST_HOST_CHARS and port != 0
    if parts.scheme not in _PORTS or not sound:
        raise BadUrl(f"{what} is not a URL with https://")
    if parts.username is not None or parts.password is not None:
        raise BadUrl(f"{what} has a user or a password in its URL")
    if "#" in url or any(char <= " " or char in '"<>\\^`{|}\x7f' for char in url):
        raise BadUrl(f"{what} has characters in its URL that do not belong there")
    if parts.scheme == "http" and not is_loopback(host):
        raise BadUrl(f"{what} is plain http ({origin(url)}), which may only lead to this machine")
    return parts


def check_endpoint(url: str, issuer: str, what: str) -> None:
    """Refuse an endpoint to which an issuer must not send us, or a browser.

    Raises:
        BadUrl: As for `parsed`; or it is on this machine, and the issuer is not.
    """
    if parsed(url, what).scheme == "http" and urlsplit(issuer).scheme != "http":
        raise BadUrl(f"{what} is plain http, where {origin(issuer)} must not send anybody")


def origin(url: str) -> str:
    """Return scheme, host and port of a URL, as they are compared and shown; or raise `BadUrl`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadUrl("what was named as a URL is not one") from None
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    is_default = port in (None, _PORTS.get(parts.scheme))
    return f"{parts.scheme}://{host}" + ("" if is_default else f":{port}")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address or a name."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def canonical(url: str) -> str:
    """The resource that a server's URL stands for (RFC 8707, section 2; RFC 9728, section 1.2)."""
    return origin(url) + urlsplit(url).path.rstrip("/")


def covers(resource: str, url: str) -> bool:
    """Whether a resource is a server, or contains it: same origin, and the path or a parent."""
    inner, outer = canonical(url), canonical(resource)
    return inner == outer or inner.startswith(f"{outer}/")


def resource_metadata_url(url: str) -> str:
    """Where the metadata of a resource belongs (RFC 9728, section 3.1)."""
    return origin(url) + RESOURCE_METADATA + urlsplit(url).path.rstrip("/")


def resource_metadata_urls(url: str) -> tuple[str, ...]:
    """Where a server may keep the metadata that it does not point to, in the order to ask."""
    return tuple(dict.fromkeys((resource_metadata_url(url), origin(url) + RESOURCE_METADATA)))


def server_metadata_urls(issuer: str) -> tuple[str, ...]:
    """Where an authorization server may keep its metadata, in the order to ask."""
    path = urlsplit(issuer).path.rstrip("/")
    root = origin(issuer)
    if not path:
        return root + _OAUTH, root + _OPENID
    return root + _OAUTH + path, root + _OPENID + path, root + path + _OPENID
