"""Metrics: an observer counts each call, and measures how long it takes."""

from __future__ import annotations

from typing import Any, Protocol

from trio_mcp.layers.answering import internal_error
from trio_mcp.layers.call import Call, Handler, Layer


class Observer(Protocol):
    """Counts calls, and measures how long they take."""

    def begin(self) -> float:
        """Count a call that begins. Returns the time, by the observer's own clock."""

    def end(self, request: Any, began: float) -> None:
        """Count a call that has ended: the request, and what `begin` returned for it."""


def observing(observer: Observer) -> Layer:
    """Make the layer that has each call observed."""

    def layer(inner: Handler) -> Handler:
        async def run(call: Call) -> Any:
            try:
                began = observer.begin()
                try:
                    return await inner(call)
                finally:
                    observer.end(call.exchange, began)
            except Exception as error:  # of the observer: within, all exceptions are answered
                call.exchange.log_error("%s failed in its layer observing", error)
                return internal_error(call.entry)

        return run

    return layer
