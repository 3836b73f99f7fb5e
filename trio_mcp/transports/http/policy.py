"""Who may use an HTTP server, and how much of it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import Attribute, evolve, field, frozen, validators

from trio_mcp.checks import is_a, is_function, option, tell_apart
from trio_mcp.public import public
from trio_mcp.transports.http.proxies import Proxies
from trio_mcp.transports.http.session_options import SessionOptions
from trio_mcp.wire.bounds import COUNT, bound
from trio_mcp.wire.safe_repr import safe_repr

if TYPE_CHECKING:
    from trio_mcp.auth.authorization import Authorization
    from trio_mcp.auth.server.resource import ResourceServer

_rate_if_any: Any = validators.optional(bound(finite=True))

Verify = Callable[[str], Awaitable["str | Authorization | None"]]
"""Takes a bearer token; returns whose it is, or what it allows; `None` if it is not valid."""

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


_HOST: Final = re.compile(r"\*|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+")
_ORIGIN: Final = re.compile(r"\*|null|[A-Za-z][A-Za-z0-9+.-]*://[^/@?#\s]+/?")


def _all_are(form: re.Pattern[str], how: str) -> Any:
    def check(policy: HttpPolicy, attribute: Attribute[Any], values: Any) -> None:
        is_list = isinstance(values, Collection) and not isinstance(values, str)
        for value in values if is_list else [values]:
            if not (is_list and isinstance(value, str) and form.fullmatch(value)):
                name, found = attribute.name, safe_repr(value)
                raise ValueError(f"{name} cannot have {found}: give a list of {how}")

    return check


def _are_addresses(policy: HttpPolicy, attribute: Attribute[Any], values: Any) -> None:
    is_list = isinstance(values, Collection) and not isinstance(values, str)
    if not (is_list and all(isinstance(value, str) for value in values)):
        raise ValueError(f"{attribute.name} must be a list of strings, such as ['10.0.0.0/8']")
    try:
        Proxies(values)
    except ValueError as error:
        raise ValueError(f"{attribute.name}: {error}") from None


def _are_tokens(policy: HttpPolicy, attribute: Attribute[Any], tokens: Any) -> None:
    """Refuse what are not tokens, without repeating what may be a secret."""
    if not isinstance(tokens, Mapping):
        found = type(tokens).__name__
        raise TypeError(f"{attribute.name} must be a dict of tokens and principals, not {found}")
    if not all(isinstance(text, str) and text for pair in tokens.items() for text in pair):
        raise ValueError(f"{attribute.name}: tokens and principals are strings, and not empty")


def _is_printable(policy: HttpPolicy, attribute: Attribute[Any], value: str) -> None:
    if not value.isprintable():
        raise ValueError(
            f"{attribute.name} stands in a header: it must not have control characters"
        )


def _is_resource_server(
    policy: HttpPolicy, attribute: Attribute[Any], value: ResourceServer | None
) -> None:
    if value is None:
        return
    from trio_mcp.auth.server.resource import ResourceServer  # only where there is one

    is_a(ResourceServer)(policy, attribute, value)


@public
@frozen(kw_only=True)
class HttpPolicy:
    """Who may use an HTTP server, and how much of it.

    By default, only clients on this machine are served.

    Args:
        allowed_hosts: Values of the `Host` header to serve, without port; `*` for any.
        allowed_origins: Values of the `Origin` header to serve, such as `https://example.com`; `*`
            for any. Pages of the allowed hosts are always allowed. Browsers learn it (CORS), so
            such a page can be a client.
        tokens: Bearer tokens, each with the principal that it belongs to.
        verify: Returns whose a bearer token is, or `None`; for tokens that are not in a list.
        auth: Lets in whom authorization servers have given a token (OAuth), instead of both. The
            host of its resource is allowed without being listed.
        realm: What `WWW-Authenticate` tells clients that they need a token for.

    Example:
        >>> HttpPolicy(allowed_hosts=["mcp.example.com"], rate=10.0).burst
        100
    """

    allowed_hosts: Sequence[str] = field(
        default=LOOPBACK,
        validator=_all_are(_HOST, "names without scheme and port, IPv6 addresses in brackets"),
    )
    allowed_origins: Sequence[str] = field(
        default=(), validator=_all_are(_ORIGIN, "origins like 'https://example.com'")
    )
    tokens: Mapping[str, str] = field(factory=dict, repr=False, validator=_are_tokens)
    verify: Verify | None = field(default=None, repr=False, validator=is_function)
    auth: ResourceServer | None = field(default=None, validator=_is_resource_server)
    realm: str = field(default="mcp", validator=[is_a(str), _is_printable])

    trusted_proxies: Sequence[str] = field(default=(), validator=_are_addresses)
    """Addresses or networks of proxies, or `unix` for connections through a Unix socket. Their
    `X-Forwarded-For` is believed, so that `rate` counts for the client behind them."""

    rate: float | None = field(default=None, validator=_rate_if_any)
    """Requests per second of one client, in the long run; `None` for any number.

    With tokens, a client is a principal, wherever it is. Requests without a valid token count for
    their address; when that has used up its rate, no token from there is looked at.
    Otherwise a client is an address. An IPv6 address counts as its network of 64 bits. Instances
    that share a store count together.
    """

    guess_rate: float | None = field(default=10.0, validator=_rate_if_any)
    """Wrong tokens per second from one address, in the long run; `None` for any number.

    When there were more, no token from there is looked at (429) but those that an authorization
    server has issued and that were let in before. So name your proxies in `trusted_proxies`.
    """

    burst: int = field(default=100, validator=bound(whole=True, finite=True))
    """Requests of one client, and wrong tokens from one address, at once."""

    max_clients: int = field(default=10_000, validator=COUNT)
    """Addresses, and principals, whose rate is remembered, the last ones seen."""

    max_concurrent: int = field(default=1024, validator=COUNT)
    """Calls that run at the same time for all clients together; further ones wait. A call that
    waits for an answer of its client is none of these meanwhile."""

    max_concurrent_each: int = field(default=768, validator=COUNT)
    """Calls of one client that run, or wait for an answer of its, at the same time; further ones
    wait. Of its requests, as many may be open, those of streams and subscriptions too; further
    ones are refused (429). A client is a principal, or without tokens an address, as for `rate`."""

    max_received_bytes: int = field(default=256 * 1024 * 1024, validator=COUNT)
    """Bytes of all bodies that are longer than 64 KiB, until they have been answered. One client
    may have three quarters. Where there is no room for another, the client who has most of them
    loses one that has not come to its end; else the new one is refused (429). Over HTTP+SSE, where
    a POST ends before its call, short ones count as well, with 16 KiB more for each."""

    keep_alive: float = field(default=15.0, validator=bound())
    """Seconds between the comments that keep a quiet stream open."""

    def __attrs_post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.tokens and self.verify is not None:
            raise ValueError("tokens and verify exclude each other: verify is to know the tokens")
        if self.auth is not None and self.asks_for_tokens_of_its_own:
            raise ValueError("auth excludes tokens and verify: give it a verifier for its tokens")

    @property
    def asks_for_tokens_of_its_own(self) -> bool:
        """Whether there are tokens that no authorization server has to do with."""
        return bool(self.tokens) or self.verify is not None

    @property
    def asks_for_tokens(self) -> bool:
        """Whether every client needs a token."""
        return self.auth is not None or self.asks_for_tokens_of_its_own


tell_apart(policy=HttpPolicy, sessions=SessionOptions)


def policy_with(auth: ResourceServer | None, policy: HttpPolicy | None) -> HttpPolicy:
    """Return a policy, the default one if there is none, that lets in by `auth`.

    Raises:
        ValueError: The policy has another way to let people in.
        TypeError: One of them is of another type.
    """
    policy = option("policy", policy, HttpPolicy)
    if auth is None:
        return policy
    if policy.auth is not None:
        raise ValueError("give auth= or HttpPolicy(auth=...), not both")
    return evolve(policy, auth=auth)
