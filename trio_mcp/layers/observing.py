"""Metrics: a context manager around a call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from trio_mcp.layers.answering import internal_error
from trio_mcp.layers.call import Call, Handler, Layer

Observe = Callable[[Any], AbstractContextManager[None]]
"""Entered around each call; its argument is the request that is answered."""


def observing(observe: Observe) -> Layer:
    """Make the layer that enters a context manager around each call."""

    def layer(inner: Handler) -> Handler:
        async def run(call: Call) -> Any:
            try:
                with observe(call.exchange):
                    return await inner(call)
            except Exception as error:  # of `observe`: within, all exceptions are answered
                call.exchange.log_error("%s failed in its layer observing", error)
                return internal_error(call.entry)

        return run

    return layer
