"""What notifications carry, apart from a handshake: cancellations, changes, and reports.

No server needs them before its first call, so they are imported when they are.
"""

from attrs import frozen

from trio_mcp.wire.fields import meta_field, optional, since
from trio_mcp.wire.jsonrpc import Id, Json
from trio_mcp.wire.payloads import LoggingLevel
from trio_mcp.wire.revisions import FIRST


@frozen
class CancelledParams:
    """Parameters of `notifications/cancelled`; a reason that is not text is none."""

    request_id: Id
    reason: Json = optional()


@frozen(kw_only=True)
class ListChangedParams:
    """Parameters of `notifications/tools/list_changed`, and of the others of that kind."""

    meta: Json = meta_field(FIRST)


@frozen(kw_only=True)
class ResourceUpdatedParams:
    """Parameters of `notifications/resources/updated`."""

    meta: Json = meta_field(FIRST)
    uri: str


@frozen(kw_only=True)
class AcknowledgedParams:
    """Parameters of `notifications/subscriptions/acknowledged`."""

    meta: Json = meta_field(FIRST)
    notifications: Json = None


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
