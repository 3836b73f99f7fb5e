"""A request that goes on from a sealed state: its state is used up before the work begins."""

from __future__ import annotations

from typing import Any

from trio_mcp.layers.call import Call, Handler


def resuming(inner: Handler) -> Handler:
    """Hash what the state has to be good for, and note that the state is used."""

    async def run(call: Call) -> Any:
        exchange = call.exchange
        await exchange.hash_binding()
        if exchange.converses:  # else nothing looks at the state
            await exchange.begin_conversation().consume_state()
        return await inner(call)

    return run
