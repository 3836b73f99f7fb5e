"""A record of who did what, and a warning about what takes long."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import trio
from attrs import define, field

from trio_mcp.checks import is_a, is_function
from trio_mcp.loggers import harmless, logger_of
from trio_mcp.public import public_in
from trio_mcp.registry.middleware import Around, McpCall, McpRequest, is_around
from trio_mcp.wire.bounds import AT_LEAST_ZERO
from trio_mcp.wire.errors import McpError, ToolError
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.methods import METHODS

_SLOW: Final = logger_of("trio_mcp.slow")


Given = McpRequest | McpCall


@public_in("trio_mcp.middleware")
@define(eq=False)
class AuditLog:
    """Writes a record of each request, or call, when it has ended (around both, and in a client).

    A record says who, what, how it ended and how long it took. The same stands in its attributes:
    `caller` (whose token it was), `client` (who it says it is), `method`, `target`, `outcome`
    (`ok`, `error`, `exception`, `input required` or `cancelled`), `duration` in seconds,
    `request_id` and `connection_id`. Arguments and results are not recorded, nor URIs that were
    made from a template, nor names that are not the registry's.

    Args:
        logger: The name of the logger.
        level: The level of the records.
        around: In a registry, `requests` or `calls`.
        redact: Makes what may be recorded of the arguments, as the attribute `arguments`: gets the
            `McpRequest` or the `McpCall`.

    Example:
        >>> registry = Registry("bank", middleware=[AuditLog()])
    """

    logger: str = field(default="trio_mcp.audit", kw_only=True, validator=is_a(str))
    level: int = field(default=logging.INFO, kw_only=True, validator=is_a(int))
    around: Around = field(default="requests", kw_only=True, validator=is_around)
    redact: Callable[[Any], Json] | None = field(default=None, kw_only=True, validator=is_function)

    async def __call__(self, given: Any, call_next: Callable[[Any], Any]) -> Any:
        """Pass the request on, and record how it ended."""
        started = trio.current_time()
        outcome = "cancelled"
        try:
            result = await call_next(given)
            outcome = _outcome_of(result)
        except (McpError, ToolError):
            outcome = "error"
            raise
        except Exception:
            outcome = "exception"
            raise
        finally:
            if logging.getLogger(self.logger).isEnabledFor(self.level):
                self._write(given, outcome, trio.current_time() - started)
        return result

    def _write(self, given: Given, outcome: str, duration: float) -> None:
        caller = given.context
        fields: dict[str, Any] = {
            "caller": None if caller is None else caller.principal,
            "client": None if caller is None or caller.client is None else caller.client.name,
            "method": _method_of(given),
            "target": target_of(given),
            "outcome": outcome,
            "duration": duration,
            "request_id": None if caller is None else caller.request_id,
            "connection_id": None if caller is None else caller.connection_id,
        }
        if self.redact is not None:
            fields["arguments"] = self.redact(given)
        logging.getLogger(self.logger).log(
            self.level,
            "%s: %s %s: %s in %.1f ms",
            harmless(fields["caller"] or "(anonymous)"),
            harmless(fields["method"]),
            harmless(fields["target"] or ""),
            outcome,
            duration * 1000,
            extra=fields,
        )


@public_in("trio_mcp.middleware")
@define(eq=False)
class SlowCalls:
    """Logs a warning about what takes long (around requests, around calls, and in a client).

    The warnings are of the logger ``trio_mcp.slow``. How long everything takes is in the log of
    ``trio_mcp.calls``, and in the metrics.

    Args:
        seconds: What is long.
        around: In a registry, `calls` or `requests`.

    Example:
        >>> registry = Registry("reports", middleware=[SlowCalls(2.0)])
    """

    seconds: float = field(default=1.0, validator=AT_LEAST_ZERO)
    around: Around = field(default="calls", kw_only=True, validator=is_around)

    async def __call__(self, given: Any, call_next: Callable[[Any], Any]) -> Any:
        """Pass the request on, and warn if it took long."""
        started = trio.current_time()
        try:
            return await call_next(given)
        finally:
            duration = trio.current_time() - started
            if duration >= self.seconds:
                target = target_of(given)
                about = {"method": _method_of(given), "target": target, "duration": duration}
                message = "%s %s took %.1f s"
                _SLOW.warning(message, about["method"], target or "", duration, extra=about)


def _outcome_of(result: Any) -> str:
    if not isinstance(result, dict):
        return "error" if getattr(result, "is_error", False) is True else "ok"
    if result.get("resultType") == "input_required":
        return "input required"
    return "error" if result.get("isError") is True else "ok"


def _method_of(given: Given) -> str:
    """Return the method, escaped and cut if it is unknown: any client may have chosen it."""
    known = given.method in METHODS or isinstance(given, McpCall)
    return given.method if known else given.method[:100].encode("unicode_escape").decode()


def target_of(given: Given) -> str | None:
    """Return what the registry calls the target of a request; for a URI, its template."""
    if isinstance(given, McpCall):
        return given.name
    shown = given.description
    found = (getattr(shown, name, None) for name in ("uri_template", "uri", "name"))
    return next((value for value in found if isinstance(value, str)), None)
