"""Many servers: connected side by side, passed on as registries, gathered into one; and APIs."""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import by_name, lazily

if TYPE_CHECKING:
    from trio_mcp.compose.gateway import Gateway as Gateway
    from trio_mcp.compose.gateway import GatewayOptions as GatewayOptions
    from trio_mcp.compose.gateway import RemoteOptions as RemoteOptions
    from trio_mcp.compose.gateway import open_gateway as open_gateway
    from trio_mcp.compose.gateway import open_proxy as open_proxy
    from trio_mcp.compose.search.searchable import searchable as searchable
    from trio_mcp.compose.supervised import Backoff as Backoff
    from trio_mcp.registry.forwarding import ArgumentRef as ArgumentRef
    from trio_mcp.registry.forwarding import forwarded_entry as forwarded_entry
    from trio_mcp.registry.provider import Provider as Provider

MODULES: Final = by_name(
    {
        "compose.gateway": "Gateway GatewayOptions RemoteOptions open_gateway open_proxy",
        "compose.search.searchable": "searchable",
        "compose.supervised": "Backoff",
        "registry.forwarding": "ArgumentRef forwarded_entry",
        "registry.provider": "Provider",
    }
)

__all__ = sorted(MODULES)

if not TYPE_CHECKING:  # or else any name would be one of the package
    __getattr__, __dir__ = lazily(globals(), MODULES)
