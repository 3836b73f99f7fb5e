"""What requests, results and notifications carry, beside payloads: the handshake, and reports.

A member that is any JSON is one that the other side may get wrong without harm: its type is looked
at where it is used.
"""

from attrs import field, frozen

from trio_mcp.wire.fields import meta_field, optional, since
from trio_mcp.wire.jsonrpc import Id, Json
from trio_mcp.wire.payloads import LoggingLevel


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
class SetLevelParams:
    """Parameters of `logging/setLevel`."""

    level: str


@frozen(kw_only=True)
class SubscriptionFilter:
    """What a client wants to hear of; extensions have more, under keys of their own."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: list[str] = field(factory=list)


@frozen
class ListenParams:
    """Parameters of `subscriptions/listen`."""

    notifications: SubscriptionFilter


@frozen
class ProgressParams:
    """Parameters of `notifications/progress`."""

    progress_token: Id
    progress: float
    total: float | None = optional()
    message: str | None = since("2025-03-26")


@frozen
class LogParams:
    """Parameters of `notifications/message`."""

    level: LoggingLevel
    data: Json
    logger: str | None = optional()


@frozen
class ElicitationCompleteParams:
    """Parameters of `notifications/elicitation/complete`."""

    elicitation_id: str
