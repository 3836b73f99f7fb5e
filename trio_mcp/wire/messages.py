"""What requests and results carry, beside payloads: the handshake, and subscriptions.

A member that is any JSON is one that the other side may get wrong without harm: its type is looked
at where it is used.
"""

from attrs import frozen

from trio_mcp.wire.fields import meta_field, since, unwritten
from trio_mcp.wire.jsonrpc import Json


@frozen(kw_only=True)
class InitializeParams:
    """Parameters of `initialize`."""

    protocol_version: str = ""
    capabilities: Json = None
    client_info: Json = None


@frozen(kw_only=True)
class InitializeResult:
    """What a server answers to `initialize`."""

    protocol_version: str
    capabilities: dict[str, Json]
    server_info: Json = None
    instructions: Json = None


@frozen(kw_only=True)
class DiscoverResult:
    """What a server answers to `server/discover`."""

    supported_versions: list[Json]
    capabilities: dict[str, Json]
    ttl_ms: Json = None
    cache_scope: Json = None
    instructions: Json = None
    meta: Json = meta_field()


@frozen
class ListParams:
    """Parameters of what lists something."""

    cursor: str | None = None


@frozen(kw_only=True)
class ListResult:
    """What one page of a list has besides its items: those are payloads, converted one by one."""

    next_cursor: str | None = None
    ttl_ms: Json = since("2026-07-28")
    cache_scope: Json = since("2026-07-28")


@frozen
class SetLevelParams:
    """Parameters of `logging/setLevel`."""

    level: str


@frozen(kw_only=True)
class SubscriptionFilter:
    """What a client wants to hear of; extensions have more, under keys of their own."""

    tools_list_changed: bool = unwritten(False)
    prompts_list_changed: bool = unwritten(False)
    resources_list_changed: bool = unwritten(False)
    resource_subscriptions: list[str] = unwritten(factory=list)


@frozen
class ListenParams:
    """Parameters of `subscriptions/listen`."""

    notifications: SubscriptionFilter
