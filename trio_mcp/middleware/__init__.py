"""Middleware that people ask for: limits, a cache, repetition, records, errors that are shown.

All are async callable objects, and stand in `Registry(middleware=[…])`. Those that say so can go
around requests or around calls, and may also stand in `connect(middleware=[…])`.
"""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import by_name, lazily

if TYPE_CHECKING:
    from trio_mcp.middleware.audit import AuditLog as AuditLog
    from trio_mcp.middleware.audit import SlowCalls as SlowCalls
    from trio_mcp.middleware.caching import Cache as Cache
    from trio_mcp.middleware.rate import RateLimit as RateLimit
    from trio_mcp.middleware.retry import Retry as Retry
    from trio_mcp.middleware.showing import ShowErrors as ShowErrors
    from trio_mcp.middleware.size import ResultSize as ResultSize
    from trio_mcp.registry.middleware import CallNext as CallNext
    from trio_mcp.registry.middleware import McpCall as McpCall
    from trio_mcp.registry.middleware import McpRequest as McpRequest
    from trio_mcp.registry.middleware import RequestNext as RequestNext

MODULES: Final = by_name(
    {
        "middleware.audit": "AuditLog SlowCalls",
        "middleware.caching": "Cache",
        "middleware.rate": "RateLimit",
        "middleware.retry": "Retry",
        "middleware.showing": "ShowErrors",
        "middleware.size": "ResultSize",
        "registry.middleware": "CallNext McpCall McpRequest RequestNext",
    }
)

__all__ = sorted(MODULES)

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(globals(), MODULES)
