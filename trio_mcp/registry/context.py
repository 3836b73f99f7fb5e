"""What a handler may ask of its caller."""

from typing import Any

from attrs import frozen

from trio_mcp.wire.jsonrpc import Id
from trio_mcp.wire.payloads import Implementation


@frozen(kw_only=True)
class Context:
    """The request that a handler is serving.

    A handler gets one by having a parameter annotated with this class; callers do not see that
    parameter.

    Example:
        >>> async def whoami(context: Context) -> str:
        ...     return context.client.name if context.client else "unknown"
    """

    tool: str
    """The name of the tool that was called."""

    state: Any = None
    """What the registry's lifespan yielded."""

    request_id: Id | None = None
    """The request's id; `None` when the tool was run by `Registry.call`."""

    connection_id: str | None = None
    """Names the connection in the log; `None` when there is none."""

    revision: str | None = None
    """The protocol revision that the caller speaks."""

    client: Implementation | None = None
    """Who the caller says it is. It is not verified, so nothing should depend on it."""

    meta: dict[str, Any] | None = None
    """The `_meta` of the request, with whatever extensions put there."""
