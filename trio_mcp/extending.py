"""What extensions of the protocol are written with, for servers and for clients."""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import by_name, lazily

if TYPE_CHECKING:
    from trio_mcp.client.extension import ClientExtension as ClientExtension
    from trio_mcp.client.extension import PendingCall as PendingCall
    from trio_mcp.registry.extension import ExtensionMethod as ExtensionMethod
    from trio_mcp.registry.extension import ExtensionRequest as ExtensionRequest
    from trio_mcp.registry.extension import ExtensionSubscription as ExtensionSubscription
    from trio_mcp.server.background import CallChannel as CallChannel
    from trio_mcp.server.extension import ExtensionServing as ExtensionServing
    from trio_mcp.server.extension import ServerExtension as ServerExtension
    from trio_mcp.threads import offload as offload
    from trio_mcp.wire.methods import Method as Method

MODULES: Final = by_name(
    {
        "client.extension": "ClientExtension PendingCall",
        "registry.extension": "ExtensionMethod ExtensionRequest ExtensionSubscription",
        "server.background": "CallChannel",
        "server.extension": "ExtensionServing ServerExtension",
        "threads": "offload",
        "wire.methods": "Method",
    }
)

__all__ = sorted(MODULES)

if not TYPE_CHECKING:  # or else any name would be one of the package
    __getattr__, __dir__ = lazily(globals(), MODULES)
