"""The settings of a server whose people log in at a provider, as what serves logins knows it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from attrs import field, frozen, validators

from trio_mcp.auth.proxy.identity import Allow, Identity
from trio_mcp.auth.proxy.provider import LoginProvider
from trio_mcp.auth.server.resource import ResourceServer, is_url
from trio_mcp.auth.urls import origin

PATHS: Final = (
    "/authorize",
    "/consent",
    "/register",
    "/token",
    "/revoke",
    "/.well-known/jwks.json",
)
ABOUT: Final = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")

_SHORTEST_SECRET = 16

_is_function: Any = validators.optional(validators.is_callable())
_positive: Any = validators.and_(validators.gt(0), validators.lt(inf))


def _secrets(values: Any) -> tuple[str, ...]:
    found = (values,) if isinstance(values, str) else tuple(values or ())
    for secret in found:
        if not isinstance(secret, str) or len(secret) < _SHORTEST_SECRET:
            raise ValueError(f"secrets: each is a text of {_SHORTEST_SECRET} characters at least")
    return found


@frozen(kw_only=True)
class ProxySettings(ResourceServer):
    """The settings of an `OAuthProxy`, which says what each is."""

    provider: LoginProvider
    resource: str = field(default="http://localhost:8000/mcp", validator=is_url)
    issuers: Sequence[str] = field(init=False, default=())
    verifier: None = field(init=False, default=None, repr=False)
    dpop: None = field(init=False, default=None)
    allow: Allow | None = field(default=None, validator=_is_function)
    grant_scopes: Callable[[Identity], Collection[str]] | None = None
    secrets: Sequence[str] = field(default=(), converter=_secrets, repr=False)
    callback_path: str = "/auth/callback"
    token_ttl: float = field(default=900.0, validator=_positive)
    login_ttl: float = field(default=30 * 86_400.0, validator=_positive)
    redirect_hosts: Collection[str] | None = None

    def __attrs_post_init__(self) -> None:
        """Name the issuer, which is this server, and what seals by default."""
        super().__attrs_post_init__()
        object.__setattr__(self, "issuers", (self.issuer,))
        if not self.secrets:
            object.__setattr__(self, "secrets", _secrets(self.provider.client_secret))
        path = self.callback_path
        if not path.startswith("/") or path != quote(unquote(path)):
            raise ValueError("callback_path must begin with a slash, and be just a path")
        if path in PATHS or path.startswith("/.well-known/"):
            raise ValueError(f"{path} is another page of the logins; take another callback_path")

    @property
    def issuer(self) -> str:
        """How this server calls itself as an authorization server."""
        return origin(self.resource)

    @property
    def page_paths(self) -> frozenset[str]:
        """The paths of the pages by which people and clients log in."""
        suffix = urlsplit(self.resource).path.rstrip("/")
        about = {f"{document}{end}" for document in ABOUT for end in ("", suffix)}
        return frozenset((*PATHS, *about, self.callback_path))

    @property
    def callback_url(self) -> str:
        """The redirect URI to register at the provider."""
        return self.issuer + self.callback_path
