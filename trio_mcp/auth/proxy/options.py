"""The options of a server whose people log in at a provider.

Importing this costs next to nothing. What serves the logins is imported when the server starts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypedDict

from attrs import frozen

from trio_mcp.auth.proxy.identity import Allow, Identity
from trio_mcp.auth.proxy.settings import ProxySettings
from trio_mcp.auth.server.resource import OpenedAuth
from trio_mcp.public import public_in

if TYPE_CHECKING:
    from trio_mcp.auth.fetching import Fetching
    from trio_mcp.store.protocol import Store


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
class OAuthProxy(ProxySettings):
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
            secret of the provider. When it changes, everyone has to log in again.
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
        ModuleNotFoundError: The extra `auth` is missing.
    """

    @asynccontextmanager
    async def opened(
        self, store: Store, title: str, scopes: Callable[[], frozenset[str]]
    ) -> AsyncIterator[OpenedAuth]:
        """Serve logins for the length of the block. The server calls this."""
        from trio_mcp.auth.proxy.serving import serving_logins

        async with serving_logins(self, store, title, scopes) as opened:
            yield opened
