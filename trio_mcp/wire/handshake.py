"""What the handshake carries: who the two sides are, and what they speak and can.

A member that is any JSON is one that the other side may get wrong without harm: its type is looked
at where it is used.
"""

from attrs import frozen

from trio_mcp.wire.fields import meta_field
from trio_mcp.wire.jsonrpc import Json


@frozen(eq=False, kw_only=True, repr=False)
class InitializeParams:
    """Parameters of `initialize`."""

    protocol_version: str = ""
    capabilities: Json = None
    client_info: Json = None


@frozen(eq=False, kw_only=True, repr=False)
class InitializeResult:
    """What a server answers to `initialize`."""

    protocol_version: str
    capabilities: dict[str, Json]
    server_info: Json = None
    instructions: Json = None


@frozen(eq=False, kw_only=True, repr=False)
class DiscoverResult:
    """What a server answers to `server/discover`."""

    supported_versions: list[Json]
    capabilities: dict[str, Json]
    ttl_ms: Json = None
    cache_scope: Json = None
    instructions: Json = None
    meta: Json = meta_field()
