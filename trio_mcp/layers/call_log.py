"""One record for each call, whether it ran or was refused (logger `trio_mcp.calls`).

A record tells names, outcomes and times; never arguments or results. Of a name that the registry
does not have, it shows the beginning, harmlessly; of a URI nothing, as it may hold a secret.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from trio_mcp.loggers import harmless, logger_of
from trio_mcp.wire.jsonrpc import Json

logger: Final = logger_of("trio_mcp.calls")

_LONGEST_NAME: Final = 128
"""Characters that a tool's name may have."""

OUTCOMES: Final = ("ok", "error", "exception", "timeout", "cancelled", "input required")
"""How a call that ran may end."""

INVALID_ARGUMENTS: Final = "invalid arguments"
NOT_FOUND: Final = "not found"
NOT_DECLARED: Final = "not declared"
"""The outcomes of calls that were refused."""


def fields_of(kind: str, name: str | None, context: Any) -> dict[str, Json]:
    """What identifies a call in the log, and who has made it, as attributes of a record."""
    session, about = context.session, context.caller.client_info
    client = about.get("name") if isinstance(about, dict) else None
    return {
        kind: name,
        "request_id": context.id,
        "connection_id": session.connection_id or session.http_request_id,
        "principal": session.principal,
        "client": harmless(client[:_LONGEST_NAME]) if isinstance(client, str) else None,
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


def note_refusal(
    kind: str, name: str | None, outcome: str, context: Any, asked: Json = None
) -> None:
    """Count and log a call that never got to a handler.

    Args:
        kind: What was to be called.
        name: Its name in the registry; `None` if there is nothing that was asked for.
        outcome: Why it was refused.
        context: The request.
        asked: The name that is not there. It is logged, but counts have no such names: there could
            be any number of them.
    """
    if context.server.on_refusal is not None:
        context.server.on_refusal(kind, name, outcome)
    if logger.isEnabledFor(logging.INFO):
        label = f"Unknown {kind}" if name is None else f"{kind.capitalize()} {name}"
        if isinstance(asked, str):
            name = harmless(asked[:_LONGEST_NAME])
            label = f"{label} {name}"
        log_call(label, outcome, 0.0, fields_of(kind, name, context))
