"""State that lasts from call to call: read before the function runs, and kept once it returns."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from trio_mcp.layers.call import Call, Handler, Layer


def keeping(entry: Any) -> Layer:
    """Make the layer of an entry that keeps state for a session, a caller or a handle."""

    def layer(inner: Handler) -> Handler:
        async def run(call: Call) -> Any:
            keeper = call.exchange.state_keeper(call.provider)
            kept = await keeper.open(entry.label, entry.state, call.arguments)
            context = evolve(call.make_context(), state=kept.state)
            result = await inner(call.with_arguments(call.arguments, lambda: context))
            await kept.save()
            return result

        return run

    return layer
