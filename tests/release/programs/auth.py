"""`auth`: a server that checks tokens, and clients that get some."""

from plants import registry

from trio_mcp import HttpPolicy, http_app
from trio_mcp.auth import ClientCredentials, OAuth, OAuthProxy, ResourceServer, TokenExchange

server = ResourceServer(
    resource="https://mcp.example.com/mcp", issuers=["https://login.example.com"]
)
http_app(registry, policy=HttpPolicy(auth=server))
assert all((ClientCredentials, OAuth, OAuthProxy, TokenExchange))
