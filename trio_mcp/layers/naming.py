"""Says in every line of the log which call it was written in, where the log wants to know.

That is what an author's function logs, by whatever logger. Our own records of calls say it anyway.
"""

from __future__ import annotations

import logging
from typing import Any

from trio_mcp.layers.call import Call, Handler
from trio_mcp.loggers import running_call


def is_wanted() -> bool:
    """Whether a handler of the log has a formatter that shows what `current_call` returns."""
    return any(
        getattr(handler.formatter, "names_calls", False) for handler in logging.root.handlers
    )


def naming(inner: Handler) -> Handler:
    """Have what is logged within a call know it."""

    async def run(call: Call) -> Any:
        token = running_call.set(call.exchange.log_fields)
        try:
            return await inner(call)
        finally:
            running_call.reset(token)

    return run
