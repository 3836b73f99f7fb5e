"""One record for each call, whether it ran or was refused (logger `trio_mcp.calls`).

A record tells names, outcomes and times; never arguments or results, and no name that is not one
of the registry's, because a caller may have put anything there.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from trio_mcp.loggers import logger_of
from trio_mcp.wire.jsonrpc import Json

logger: Final = logger_of("trio_mcp.calls")

OUTCOMES: Final = ("ok", "error", "exception", "timeout", "cancelled", "input required")
"""How a call that ran may end."""

INVALID_ARGUMENTS: Final = "invalid arguments"
NOT_FOUND: Final = "not found"
NOT_DECLARED: Final = "not declared"
"""The outcomes of calls that were refused."""


def fields_of(kind: str, name: str | None, context: Any) -> dict[str, Json]:
    """What identifies a call in the log, as attributes of a record."""
    return {
        kind: name,
        "request_id": context.id,
        "connection_id": context.session.connection_id,
    }


def log_call(label: str, outcome: str, duration: float, fields: dict[str, Json]) -> None:
    """Tell how a call ended.

    Args:
        label: What was called.
        outcome: How it ended.
        duration: Seconds.
        fields: As `fields_of` has them.
    """
    fields = {**fields, "outcome": outcome, "duration": duration}
    logger.info("%s: %s in %.1f ms", label, outcome, duration * 1000, extra=fields)


def note_refusal(kind: str, name: str | None, outcome: str, context: Any) -> None:
    """Count and log a call that never got to a handler; without a name if there is none such."""
    if context.server.on_refusal is not None:
        context.server.on_refusal(kind, name, outcome)
    if logger.isEnabledFor(logging.INFO):
        label = f"Unknown {kind}" if name is None else f"{kind.capitalize()} {name}"
        log_call(label, outcome, 0.0, fields_of(kind, name, context))
