"""OAuth: documents, tokens and proofs; the resource server's side, and the client's flows."""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import by_name, lazily

if TYPE_CHECKING:
    from trio_mcp.auth.authorization import Authorization as Authorization
    from trio_mcp.auth.client.machines import ClientCredentials as ClientCredentials
    from trio_mcp.auth.client.machines import EnterpriseManaged as EnterpriseManaged
    from trio_mcp.auth.client.machines import WorkloadIdentity as WorkloadIdentity
    from trio_mcp.auth.client.oauth import OAuth as OAuth
    from trio_mcp.auth.client.oauth import open_in_browser as open_in_browser
    from trio_mcp.auth.client.stores import FileStore as FileStore
    from trio_mcp.auth.client.stores import KeyringStore as KeyringStore
    from trio_mcp.auth.client.stores import Login as Login
    from trio_mcp.auth.client.stores import MemoryStore as MemoryStore
    from trio_mcp.auth.client.stores import TokenStore as TokenStore
    from trio_mcp.auth.client.tokens import Token as Token
    from trio_mcp.auth.documents import ClientRegistration as ClientRegistration
    from trio_mcp.auth.fetching import Fetching as Fetching
    from trio_mcp.auth.proxy.exchange import OnBehalfOf as OnBehalfOf
    from trio_mcp.auth.proxy.exchange import TokenExchange as TokenExchange
    from trio_mcp.auth.proxy.exchange import provider_token as provider_token
    from trio_mcp.auth.proxy.identity import Identity as Identity
    from trio_mcp.auth.proxy.identity import Member as Member
    from trio_mcp.auth.proxy.identity import domain as domain
    from trio_mcp.auth.proxy.identity import group as group
    from trio_mcp.auth.proxy.identity import organization as organization
    from trio_mcp.auth.proxy.options import OAuthProxy as OAuthProxy
    from trio_mcp.auth.proxy.presets import auth0 as auth0
    from trio_mcp.auth.proxy.presets import cognito as cognito
    from trio_mcp.auth.proxy.presets import entra as entra
    from trio_mcp.auth.proxy.presets import github as github
    from trio_mcp.auth.proxy.presets import google as google
    from trio_mcp.auth.proxy.presets import keycloak as keycloak
    from trio_mcp.auth.proxy.presets import oidc as oidc
    from trio_mcp.auth.proxy.presets import okta as okta
    from trio_mcp.auth.proxy.provider import LoginProvider as LoginProvider
    from trio_mcp.auth.server.resource import DPoP as DPoP
    from trio_mcp.auth.server.resource import Introspection as Introspection
    from trio_mcp.auth.server.resource import ReplayStore as ReplayStore
    from trio_mcp.auth.server.resource import ResourceServer as ResourceServer

MODULES: Final = by_name(
    {
        "auth.authorization": "Authorization",
        "auth.client.machines": "ClientCredentials EnterpriseManaged WorkloadIdentity",
        "auth.client.oauth": "OAuth open_in_browser",
        "auth.client.stores": "FileStore KeyringStore Login MemoryStore TokenStore",
        "auth.client.tokens": "Token",
        "auth.documents": "ClientRegistration",
        "auth.fetching": "Fetching",
        "auth.proxy.exchange": "OnBehalfOf TokenExchange provider_token",
        "auth.proxy.identity": "Identity Member domain group organization",
        "auth.proxy.options": "OAuthProxy",
        "auth.proxy.presets": "auth0 cognito entra github google keycloak oidc okta",
        "auth.proxy.provider": "LoginProvider",
        "auth.server.resource": "DPoP Introspection ReplayStore ResourceServer",
    }
)

_EXTRAS: Final = {
    "auth.client.machines": "auth",
    "auth.client.oauth": "auth",
    "auth.fetching": "auth",
    "auth.proxy.exchange": "auth",
}
"""By the modules that cannot be imported without it, an extra."""

__all__ = sorted(name for name, module in MODULES.items() if module not in _EXTRAS)

if not TYPE_CHECKING:  # or else any name would be one of the package
    __getattr__, __dir__ = lazily(globals(), MODULES, extras=_EXTRAS)
