"""The options of a server whose people log in at a provider.

Importing this costs next to nothing. What serves the logins is imported when the server starts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Any, TypedDict

from attrs import field, frozen, validators

from trio_mcp.auth.proxy.identity import Allow, Identity
from trio_mcp.auth.proxy.provider import LoginProvider
from trio_mcp.auth.server.resource import OpenedAuth, ResourceServer, is_url
from trio_mcp.auth.urls import origin
from trio_mcp.public import public_in

if TYPE_CHECKING:
    from trio_mcp.auth.fetching import Fetching
    from trio_mcp.store.protocol import Store

_SHORTEST_SECRET = 16

_is_function: Any = validators.optional(validators.is_callable())
_positive: Any = validators.and_(validators.gt(0), validators.lt(inf))


def _secrets(values: Any) -> tuple[str, ...]:
    found = (values,) if isinstance(values, str) else tuple(values or ())
    for secret in found:
        if not isinstance(secret, str) or len(secret) < _SHORTEST_SECRET:
            raise ValueError(f"secrets: each is a text of {_SHORTEST_SECRET} characters at least")
    return found


class ProxyOptions(TypedDict, total=False):
    """The options of `OAuthProxy` beside the provider, as the functions of providers take them."""

    resource: str
    allow: Allow | None
    scopes: Collection[str]
    grant_scopes: Callable[[Identity], Collection[str]] | None
    implied_scopes: Mapping[str, Sequence[str]]
    secrets: Sequence[str] | str
    callback_path: str
    token_ttl: float
    login_ttl: float
    redirect_hosts: Collection[str] | None
    fetching: Fetching | None
    name: str | None
    documentation: str | None


@public_in("trio_mcp.auth")
@frozen(kw_only=True)
class OAuthProxy(ResourceServer):
    """A protected server whose people log in at a provider that knows nothing of MCP.

    GitHub, Google, Entra and most others neither register clients by themselves, nor give out
    tokens that are for your server. So this server is the authorization server of its clients
    (2026-07-28, "Authorization"), and a single registered client of the provider. Clients get
    tokens of its own, for this server alone. The provider's tokens never leave it: they are kept
    in the store, encrypted, and `Context.provider_token` gives one to a handler.

    Register `<origin of resource>/auth/callback` as the redirect URI at the provider.

    Args:
        provider: Where people log in.
        resource: The URL by which clients know the MCP endpoint. By default that of `serve_http` on
            this machine.
        allow: Who may come in, such as `organization("acme")`, or a function of an `Identity`. By
            default, everyone who can log in at the provider.
        scopes: The scopes that every request needs.
        grant_scopes: The scopes that a person may have. By default all that the server knows.
        secrets: Secrets from which the keys are derived that seal what is kept and what travels
            through browsers. The first one seals, all of them open. By default it is the client
            secret of the provider. When it changes, everyone has to log in once more.
        callback_path: The path to which the provider sends browsers back.
        token_ttl: Seconds for which an access token is good. A login that was revoked ends within a
            minute all the same.
        login_ttl: Seconds after which a person has to log in again; a client that does not come
            for a quarter of that has to as well.
        redirect_hosts: Hosts to which clients may have codes sent, beside this machine of the
            person's. By default any, by `https:` or by a scheme of an application's own; the page
            that asks for consent names it.

    Raises:
        ValueError: An option is not usable.
    """

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
        object.__setattr__(self, "issuers", (self.issuer,))
        if not self.secrets:
            object.__setattr__(self, "secrets", _secrets(self.provider.client_secret))
        if not self.callback_path.startswith("/"):
            raise ValueError("callback_path must begin with a slash")

    @property
    def issuer(self) -> str:
        """How this server calls itself as an authorization server."""
        return origin(self.resource)

    @property
    def callback_url(self) -> str:
        """The redirect URI to register at the provider."""
        return self.issuer + self.callback_path

    @asynccontextmanager
    async def opened(
        self, store: Store, title: str, scopes: Callable[[], frozenset[str]]
    ) -> AsyncIterator[OpenedAuth]:
        """Serve logins for the length of the block. The server calls this."""
        from trio_mcp.auth.proxy.serving import serving_logins

        async with serving_logins(self, store, title, scopes) as opened:
            yield opened
