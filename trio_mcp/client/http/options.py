"""How to reach a server over HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from attrs import Attribute, field, fields, frozen, validators

from trio_mcp.checks import is_a, is_function
from trio_mcp.public import public
from trio_mcp.wire.bounds import COUNT, COUNT_OR_ZERO, POSITIVE

if TYPE_CHECKING:
    import ssl

    import httpx2


_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"[\t -~]*")
_PROXY_SCHEMES: Final = ("http://", "https://", "socks5://", "socks5h://")


def _sendable(_: object, attribute: Attribute[Any], headers: Any) -> None:
    """Refuse what is not a header, without repeating a value that may be a secret."""
    if not isinstance(headers, Mapping):
        found = type(headers).__name__
        raise TypeError(f"{attribute.name} must be a dict of names and values, not {found}")
    for name, value in headers.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{attribute.name}: {name!r:.80} is not the name of a header")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise ValueError(f"{attribute.name}: {name} has characters that no header may have")


def _is_proxy(_: object, attribute: Attribute[Any], value: str | None) -> None:
    """Refuse what is not a URL of a proxy, without repeating it: it may have a password."""
    if value is not None and not _names_proxy(value):
        raise ValueError(
            f"{attribute.name} must be a URL such as 'http://proxy:3128', with http, https, socks5 "
            "or socks5h; in a password, write / ? # as %2F %3F %23"
        )


def _names_proxy(url: str) -> bool:
    if not (url.lower().startswith(_PROXY_SCHEMES) and url.isprintable()):
        return False
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # whose text may have a part of the password, in place of a port
        return False


def _trusts(_: object, attribute: Attribute[Any], value: ssl.SSLContext | bool) -> None:
    """Refuse what is neither a context nor a bool."""
    if not isinstance(value, bool):
        import ssl  # only where there is such a context

        is_a(ssl.SSLContext, bool)(_, attribute, value)


def _lets_in(_: object, attribute: Attribute[Any], value: httpx2.Auth | None) -> None:
    """Refuse what does not log in. If it does, `httpx2` is imported, and need not be here."""
    if value is not None and not hasattr(value, "async_auth_flow"):
        found = type(value).__name__
        raise TypeError(f"{attribute.name} must be OAuth(...) or another httpx2.Auth, not {found}")


def _alone(options: HttpOptions, attribute: Attribute[Any], _: object) -> None:
    """Refuse options beside a client factory, whose client decides them."""
    for name in ("proxy", "verify", "trust_env", "unix_socket"):
        if getattr(options, name) != getattr(fields(HttpOptions), name).default:
            raise ValueError(f"{name} is for the client that {attribute.name} makes")


def _direct(options: HttpOptions, attribute: Attribute[Any], _: object) -> None:
    """Refuse a proxy beside a socket of this machine."""
    if options.proxy is not None:
        raise ValueError(f"{attribute.name} is on this machine, and proxy would lead elsewhere")


def _is_path(_: object, attribute: Attribute[Any], path: str | None) -> None:
    """Refuse an empty path, which a variable that is not set leaves."""
    if path == "":
        raise ValueError(f"{attribute.name} must be the path of a socket, or None")


def _only(options: HttpOptions, attribute: Attribute[Any], _: object) -> None:
    """Refuse an `Authorization` header beside `auth`, which sends one."""
    if any(name.lower() == "authorization" for name in options.headers):
        raise ValueError(f"headers: {attribute.name} sends Authorization")


@public
@frozen(kw_only=True)
class HttpOptions:
    """How to reach a server over HTTP.

    As on any transport, `Limits.max_message_bytes` bounds how long an answer may be.

    Args:
        headers: Headers of every request, such as `Authorization`. They never appear in messages
            or logs.
        proxy: The URL of a proxy; without it, those of the environment (`HTTPS_PROXY` and so on).
        verify: An `ssl.SSLContext` for TLS; `False` to trust any certificate.
        trust_env: Whether to use the proxies and certificates of the environment.
        auth: How to log in where the server wants to know who calls: `OAuth(...)`,
            `ClientCredentials(...)`, or any other `httpx2.Auth`.
        unix_socket: The path of a Unix socket, where the server is whatever the host of its URL.
        client_factory: Makes the `httpx2.AsyncClient`, with its own proxy, TLS and connections. It
            is closed with the connection.

    Example:
        >>> HttpOptions(headers={"Authorization": "Bearer secret"}).max_connections
        100
    """

    headers: Mapping[str, str] = field(factory=dict, repr=False, validator=_sendable)
    proxy: str | None = field(default=None, repr=False, validator=[is_a(str, NoneType), _is_proxy])
    verify: ssl.SSLContext | bool = field(default=True, validator=_trusts)
    trust_env: bool = field(default=True, validator=is_a(bool))
    unix_socket: str | None = field(
        default=None, validator=[is_a(str, NoneType), _is_path, validators.optional(_direct)]
    )
    client_factory: Callable[[], httpx2.AsyncClient] | None = field(
        default=None, validator=[is_function, validators.optional(_alone)]
    )

    auth: httpx2.Auth | None = field(default=None, validator=[_lets_in, validators.optional(_only)])
    max_connections: int = field(default=100, validator=COUNT)
    """Connections at a time; further requests wait for one. A subscription, and in legacy
    revisions the stream of the server's own messages, have one each."""

    keep_alive: float = field(default=60.0, validator=POSITIVE)
    """Seconds that a connection is kept between two requests, unless the server closes it."""

    connect_timeout: float = field(default=10.0, validator=POSITIVE)
    """Seconds to connect, TLS included."""

    listen: bool = field(default=True, validator=is_a(bool))
    """Whether to ask a legacy server for a stream of its own messages. Without it, the server
    cannot announce changes."""

    reconnect_delay: float = field(default=1.0, validator=POSITIVE)
    """Seconds before coming back to a legacy stream that broke, unless the server says otherwise.
    They double with each failure, up to 30 s or the server's own time."""

    reconnect_attempts: int = field(default=5, validator=COUNT_OR_ZERO)
    """Failures in a row after which the client gives up a legacy stream."""
