"""What requests and results of lists, logging and subscriptions carry, beside payloads.

No server needs them before its first list, so they are imported when they are.
"""

from attrs import frozen

from trio_mcp.wire.fields import since, unwritten
from trio_mcp.wire.jsonrpc import Json


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
