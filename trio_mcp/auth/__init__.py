"""OAuth: documents, tokens and proofs; the resource server's side, and the client's flows."""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import lazily

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
    from trio_mcp.auth.server.resource import DPoP as DPoP
    from trio_mcp.auth.server.resource import Introspection as Introspection
    from trio_mcp.auth.server.resource import ReplayStore as ReplayStore
    from trio_mcp.auth.server.resource import ResourceServer as ResourceServer

MODULES: Final = {
    "Authorization": "auth.authorization",
    "ClientCredentials": "auth.client.machines",
    "ClientRegistration": "auth.documents",
    "DPoP": "auth.server.resource",
    "EnterpriseManaged": "auth.client.machines",
    "Fetching": "auth.fetching",
    "FileStore": "auth.client.stores",
    "Introspection": "auth.server.resource",
    "KeyringStore": "auth.client.stores",
    "Login": "auth.client.stores",
    "MemoryStore": "auth.client.stores",
    "OAuth": "auth.client.oauth",
    "ReplayStore": "auth.server.resource",
    "ResourceServer": "auth.server.resource",
    "Token": "auth.client.tokens",
    "TokenStore": "auth.client.stores",
    "WorkloadIdentity": "auth.client.machines",
    "open_in_browser": "auth.client.oauth",
}

_EXTRAS: Final = {
    "auth.client.machines": "auth",
    "auth.client.oauth": "auth",
    "auth.fetching": "auth",
}
"""By the modules that cannot be imported without it, an extra."""

__all__ = sorted(name for name, module in MODULES.items() if module not in _EXTRAS)

if not TYPE_CHECKING:  # or else any name would be one of the package
    __getattr__, __dir__ = lazily(globals(), MODULES, extras=_EXTRAS)
