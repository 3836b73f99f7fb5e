"""The options of a protected server.

Importing this costs next to nothing. What verifies tokens is imported when the server starts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from attrs import Attribute, field, frozen, validators

from trio_mcp.auth.authorization import Authorization
from trio_mcp.auth.scopes import scopes_of
from trio_mcp.auth.urls import parsed, resource_metadata_url
from trio_mcp.extras import check_extra
from trio_mcp.public import public_in

if TYPE_CHECKING:
    from trio_mcp.auth.fetching import Fetching
    from trio_mcp.auth.proxy.web import Page
    from trio_mcp.store.protocol import Store

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
)
"""The signature algorithms that are known, all of them asymmetric, as JOSE names them (RFC 7518,
RFC 9864). `EdDSA` is an old name that issuers still use."""

Verify = Callable[[str], Awaitable[Authorization | None]]
"""Takes an access token; returns what it allows, or `None` if it is not valid."""

VerifyFor = Callable[[str], Awaitable[tuple[Authorization | None, float]]]
"""Verifies a token; returns what it allows, and for how many seconds that holds."""

_positive: Any = validators.and_(validators.gt(0), validators.lt(inf))


def is_url(_: object, attribute: Attribute[Any], value: Any) -> None:
    _check_url(value, attribute.name)


def _check_url(value: Any, what: str) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a URL, not {value!r:.200}")
    parsed(value, what)
    if "?" in value:
        raise ValueError(f"{what} cannot have a query: {value!r:.200}")


@public_in("trio_mcp.auth")
@frozen(kw_only=True)
class Introspection:
    """Asks the authorization server about each token (RFC 7662), as opaque tokens need.

    Args:
        endpoint: Its introspection endpoint.
        client_id: Our client id there.
        client_secret: Our secret there.
        cache_ttl: Seconds for which an answer is kept, so a revoked token may work that much
            longer; never longer than the token itself.
        require_audience: Refuse answers that do not say whom the token is for. Without it such
            tokens are taken as this server's: only where the authorization server issues tokens for
            no other server.
    """

    endpoint: str = field(validator=is_url)
    client_id: str
    client_secret: str = field(repr=False)
    cache_ttl: float = field(default=60.0, validator=_positive)
    require_audience: bool = True


@public_in("trio_mcp.auth")
class ReplayStore(Protocol):
    """Remembers which proofs were used, for all processes that share it."""

    async def add(self, owner: str, id: str, seconds: float) -> bool:
        """Remember a proof for some seconds.

        Args:
            owner: The thumbprint of its key.
            id: Its `jti`.
            seconds: For how long it could be used.

        Returns:
            Whether it was new, and there was room to remember it.
        """
        ...


@public_in("trio_mcp.auth")
@frozen(kw_only=True)
class DPoP:
    """Tokens that are bound to a key, which every request has to prove to have (RFC 9449).

    Args:
        required: Refuse tokens that are not bound to any key.
        nonces: Ask for a nonce of ours in each proof, so that none can be made in advance.
        nonce_keys: Keys that seal nonces (as `Registry(state_keys=...)`): processes that share
            their clients need the same ones.
        max_age: Seconds for which a proof is good.
        max_proofs: Proofs to remember, so that none is used twice; one key may have a tenth of
            them. Beyond that, proofs are refused until older ones have expired.
        replay_store: Remembers them in place of this process.
    """

    required: bool = False
    nonces: bool = False
    nonce_keys: Sequence[str | bytes] | None = field(default=None, repr=False)
    max_age: float = field(default=60.0, validator=_positive)
    max_proofs: int = field(default=100_000, validator=validators.ge(10))
    replay_store: ReplayStore | None = None


def _issuers(values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise ValueError("issuers must be a list of URLs, even of one: put it in brackets")
    for issuer in values:
        _check_url(issuer, "issuers")
    return tuple(values)


def _implied(values: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    return {broad: scopes_of(narrower, "implied_scopes") for broad, narrower in values.items()}


@frozen
class OpenedAuth:
    """What a `ResourceServer` serves while it is open: pages by path, and what verifies tokens."""

    pages: Mapping[str, Page] = field(factory=dict)
    verify: VerifyFor | None = None
    """`None` where the options say how."""
    provider_tokens: Mapping[str, Callable[[str], Awaitable[str]]] = field(factory=dict)
    """By issuer, what returns the provider's token of a login."""
    logins: Mapping[str, int] = field(factory=dict)
    """How many logins got how far; it goes on counting."""


@public_in("trio_mcp.auth")
@frozen(kw_only=True)
class ResourceServer:
    """An OAuth 2.1 resource server (2026-07-28): who may use a protected server.

    It says where to get tokens (RFC 9728), challenges requests without one, and lets in those with
    a token that one of the issuers has given for this server. What is begun with a token (sessions,
    streams, subscriptions, sealed states) belongs to its owner, and ends when the token does.

    Args:
        resource: The URL by which clients know the MCP endpoint. Tokens must be for it.
        issuers: The authorization servers, exactly as they call themselves.
        scopes: Those that every request needs. Tools, resources and prompts may need more.
        verifier: How tokens are checked. By default they are JWTs (RFC 9068), signed by keys that
            the issuer publishes. Otherwise, an `Introspection` that asks the issuer, or an async
            function that returns an `Authorization`, or `None`; it has to check itself that the
            token is for this server.
        audiences: What tokens may be for instead, where an issuer does not know resources by URL.
        implied_scopes: Broad scopes, and the narrower ones that they imply.
        dpop: Whether and how tokens are bound to keys; without it, bound tokens are refused.
        lenient_tokens: Whether to take JWTs that are not quite what RFC 9068 requires, as many
            issuers write them: of the type `JWT` or of none, or without `sub`, `client_id`, `iat`
            or `jti`. An issuer must then give out no other JWTs for this server's audience, such as
            ID tokens, because they could pass for access tokens.

    Raises:
        ValueError: A URL is not one of `https:` (or on loopback), or a scope is none.
        ModuleNotFoundError: The extra `auth` is missing.

    Example:
        >>> server = ResourceServer(
        ...     resource="https://mcp.example.com/mcp",
        ...     issuers=["https://login.example.com"],
        ...     scopes=["mcp"],
        ... )
        >>> server.metadata_url
        'https://mcp.example.com/.well-known/oauth-protected-resource/mcp'
    """

    resource: str = field(validator=is_url)
    issuers: Sequence[str] = field(converter=_issuers)
    scopes: frozenset[str] = field(default=frozenset(), converter=scopes_of)
    verifier: Introspection | Verify | None = field(default=None, repr=False)
    audiences: Sequence[str] = field(default=())
    implied_scopes: Mapping[str, frozenset[str]] = field(factory=dict, converter=_implied)
    dpop: DPoP | None = None
    lenient_tokens: bool = False

    algorithms: Sequence[str] = field(default=ALGORITHMS)
    """The signatures that are accepted. Only asymmetric ones are known."""

    leeway: float = field(default=30.0, validator=validators.ge(0))
    """Seconds by which clocks may differ."""

    keys_ttl: float = field(default=3600.0, validator=_positive)
    """Seconds for which an issuer's keys are kept, unless it says something shorter."""

    max_cached_tokens: int = field(default=10_000, validator=validators.ge(1))
    """Verified tokens that are remembered by their hash until they expire."""

    fetching: Fetching | None = field(default=None, repr=False)
    """How issuers are reached; by default each has 10 s to answer."""

    name: str | None = None
    """What people should see; otherwise the registry's title or name."""

    documentation: str | None = field(default=None, validator=validators.optional(is_url))
    """A page for developers."""

    @algorithms.validator
    def _check_algorithms(self, attribute: Attribute[Any], value: Sequence[str]) -> None:
        if isinstance(value, str) or not value or not all(name in ALGORITHMS for name in value):
            some = f"algorithms must be a list of one or more of {', '.join(ALGORITHMS)}"
            raise ValueError(f"{some}, not {value!r:.200}")

    @audiences.validator
    def _check_audiences(self, attribute: Attribute[Any], value: Sequence[str]) -> None:
        if isinstance(value, str) or not all(isinstance(name, str) and name for name in value):
            raise ValueError("audiences must be a list of texts that are not empty")

    def __attrs_post_init__(self) -> None:
        is_known = self.verifier is None or isinstance(self.verifier, Introspection)
        if not is_known and not callable(self.verifier):
            raise ValueError("verifier must be an Introspection or an async function")
        if self.verifier is None:  # said here, and not with the first request
            check_extra("joserfc", "a protected server", "auth")

    @property
    def metadata_url(self) -> str:
        """The URL of the metadata, as challenges have it."""
        return resource_metadata_url(self.resource)

    @property
    def metadata_path(self) -> str:
        """Its path, where a proxy or an outer application may have to route it from."""
        return urlsplit(self.metadata_url).path

    @property
    def page_paths(self) -> frozenset[str]:
        """The paths of the pages that it serves, beside its metadata."""
        return frozenset()

    @asynccontextmanager
    async def opened(
        self, store: Store, title: str, scopes: Callable[[], frozenset[str]]
    ) -> AsyncIterator[OpenedAuth]:
        """Open what it serves, for the length of the block. The server calls this.

        Args:
            store: What the instances of the server share.
            title: What people know the server as.
            scopes: Returns all scopes that it knows.
        """
        yield OpenedAuth()
