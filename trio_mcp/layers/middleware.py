"""What authors run around calls: functions that get the call and `call_next`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from trio_mcp.layers.call import Call, Handler, Layer


def middleware(entry: Any, function: Callable[[Any, Any], Awaitable[Any]]) -> Layer:
    """Make the layer of one function.

    Args:
        entry: Whose calls it runs around: it says what the function gets of a call (`shown`), and
            makes a call of what the function hands on (`handed_on`).
        function: The author's.
    """

    def layer(inner: Handler) -> Handler:
        def call_next(call: Call, shown: Any) -> Awaitable[Any]:
            return inner(entry.handed_on(call, shown))

        return lambda call: function(entry.shown(call), partial(call_next, call))

    return layer
