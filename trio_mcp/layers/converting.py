"""What the function returned becomes the result that its caller gets; large values in a thread."""

from __future__ import annotations

from typing import Any, Final

from trio_mcp.layers.call import Call, Handler, Layer
from trio_mcp.threads import LONG_TEXT, convert, in_thread, is_large
from trio_mcp.wire.answers import Result
from trio_mcp.wire.errors import McpError

_PLAIN: Final = frozenset({int, float, bool, type(None)})


def converting(entry: Any) -> Layer:
    """Make the layer that converts what an entry's function returns, by its `to_result`."""
    to_result = entry.to_result

    def layer(inner: Handler) -> Handler:
        async def run(call: Call) -> Result:
            value = await inner(call)
            kind, exchange = value.__class__, call.exchange
            if kind is str:
                large, aside = len(value) > LONG_TEXT, False
            elif kind in _PLAIN:
                large = aside = False
            elif isinstance(value, Result):
                return value
            else:
                large = is_large(value)
                aside = large or entry.reads_files(value)
            try:
                if aside:
                    run_aside = convert if large else in_thread
                    members = await run_aside(to_result, value, call.name, exchange.revision)
                else:
                    members = to_result(value, call.name, exchange.revision)
            except McpError as error:
                exchange.log_unsendable(error)
                raise
            return Result(members, kind is str, large, exchange.unsendable, value)

        return run

    return layer
